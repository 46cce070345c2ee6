//! Phases of requests: in virtual time, to the nanosecond.

use std::collections::BTreeMap;
use std::time::Duration;

use dtyp::NtStatus;
use object::ObjectOp;
use proto::Effect;
use testkit::request::RELATED;
use testkit::{Create, Login, Peer, World};
use trace::{Operation, Phase, Reason, Tracer};
use wire::echo::EchoRequest;
use wire::{Command, Dialect, OplockLevel};

const STEP: Duration = Duration::from_millis(3);
const STEP_NS: u64 = 3_000_000;

fn ready(world: &World) -> Peer {
    Peer::ready(world, Dialect::SMB_3_1_1)
}

fn is_read(effect: &Effect) -> bool {
    matches!(effect, Effect::Object { op: ObjectOp::Read { .. }, .. })
}

/// A request that has ended.
#[derive(Debug, Default, Eq, PartialEq)]
struct Ended {
    mid: u64,
    operation: u64,
    status: u32,
    total: u64,
    phases: BTreeMap<u64, u64>,
}

impl Ended {
    /// Returns the request's time in one phase; it must have spent none in any other.
    #[track_caller]
    fn only(&self, phase: Phase) -> u64 {
        let phases: Vec<_> = self.phases.keys().copied().collect();
        assert_eq!(phases, [phase.number()], "{self:?}");
        self.phases[&phase.number()]
    }
}

/// Returns the finished requests, in the order of their ends.
#[track_caller]
fn ended(tracer: &Tracer) -> Vec<Ended> {
    let mut phases: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
    let mut ended = Vec::new();
    let mut started = 0;
    for event in tracer.recorded() {
        match (event.name, &event.arguments[..]) {
            ("request_start", _) => started += 1,
            ("request_phase", &[request, phase, ns]) => {
                assert_eq!(phases.entry(request).or_default().insert(phase, ns), None);
            }
            ("request_end", &[mid, operation, status, request, _, total]) => ended.push(Ended {
                mid,
                operation,
                status: u32::try_from(status).expect("32 bits"),
                total,
                phases: phases.remove(&request).unwrap_or_default(),
            }),
            _ => {}
        }
    }
    assert_eq!(started, ended.len(), "what was begun has ended");
    for request in &ended {
        assert_eq!(request.phases.values().sum::<u64>(), request.total, "{request:?}");
    }
    ended
}

#[test]
fn a_delay_of_the_store_is_time_in_the_store_and_nowhere_else() {
    let world = World::new();
    world.add_file("data", "file", &[7; 100]);
    let mut peer = ready(&world);
    let file_id = peer.create(&Create::open("file")).file_id;
    let tracer = world.trace();
    world.delay_replies(is_read);
    let message_id = peer.send(peer.read_request(file_id, 0, 10));
    world.advance(STEP);
    world.release_all();
    let ended = ended(&tracer);
    assert_eq!(ended.len(), 1);
    assert_eq!((ended[0].mid, ended[0].operation), (message_id, Operation::Read.number()));
    assert_eq!(ended[0].only(Phase::Storage), STEP_NS);
}

#[test]
fn a_request_that_waits_for_an_oplock_break_has_the_phase_break() {
    let world = World::new();
    world.add_file("data", "file", &[]);
    let mut holder = ready(&world);
    let held = holder.try_create(&Create::open_if("file").oplock(OplockLevel::BATCH));
    assert_eq!(held.outcome(), NtStatus::SUCCESS);
    let held: wire::create::CreateResponse<'_> = held.body();
    let mut waiter = ready(&world);
    let tracer = world.trace();
    waiter.send(waiter.request(Command::CREATE, &Create::open("file")));
    world.advance(STEP);
    assert_eq!(holder.receive().len(), 1, "the break");
    assert_eq!(holder.close(held.file_id).outcome(), NtStatus::SUCCESS);
    let ended = ended(&tracer);
    let create = ended.iter().find(|it| it.operation == Operation::Create.number());
    assert_eq!(create.expect("it was answered").only(Phase::Break), STEP_NS);
}

#[test]
fn a_watch_waits_for_an_event_and_ends_when_it_is_cancelled() {
    let (world, tracer, mut peer) = traced();
    let file_id = peer.create(&Create::open("")).file_id;
    let watches = || tracer.figures().events.request_end[Operation::ChangeNotify as usize].count;
    peer.send(peer.watch_request(file_id));
    world.advance(STEP);
    assert_eq!(watches(), 0, "it waits");
    peer.disconnect();
    assert_eq!(watches(), 1);
    let mut ended = ended(&tracer);
    ended.retain(|it| it.operation == Operation::ChangeNotify.number());
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].only(Phase::Event), STEP_NS);
    assert_eq!(ended[0].status, NtStatus::CANCELLED.0, "nobody was there to be answered");
}

#[test]
fn requests_in_a_compound_wait_for_those_around_them() {
    let world = World::new();
    world.add_file("data", "file", &[7; 100]);
    let mut peer = ready(&world);
    let file_id = peer.create(&Create::open("file")).file_id;
    let tracer = world.trace();
    world.delay_replies(is_read);
    world.advance(STEP);
    tracer.enter(Phase::Receiving);
    tracer.frame_came(1, 100, (None, tracer.moment()), Default::default());
    let reads: Vec<_> = (0..2).map(|_| peer.read_request(file_id, 0, 10)).collect();
    peer.send_all(reads);
    for _ in 0..2 {
        world.advance(STEP);
        world.release(0);
    }
    let ended = ended(&tracer);
    assert_eq!(ended.len(), 2);
    for request in ended {
        let expected = [(Phase::Queued.number(), STEP_NS), (Phase::Storage.number(), STEP_NS)];
        assert_eq!(request.phases, BTreeMap::from(expected));
    }
}

#[test]
fn every_request_of_a_session_begins_and_ends_once() {
    let world = World::new();
    let tracer = world.trace();
    let mut peer = ready(&world);
    let created = peer.create(&Create::open_if("file"));
    assert_eq!(peer.write(created.file_id, 0, &[1; 1_000]).status(), NtStatus::SUCCESS);
    assert_eq!(peer.read(created.file_id, 0, 500).len(), 500);
    assert_eq!(peer.close(created.file_id).outcome(), NtStatus::SUCCESS);
    assert_eq!(peer.close(created.file_id).outcome(), Reason::NoSuchOpen);
    assert_eq!(peer.tree_disconnect().outcome(), NtStatus::SUCCESS);
    assert_eq!(peer.logoff().outcome(), NtStatus::SUCCESS);
    let ended = ended(&tracer);
    let operations: Vec<_> = ended.iter().map(|it| it.operation).collect();
    assert_eq!(operations, [0, 1, 1, 3, 5, 9, 8, 6, 6, 4, 2]);
    let figures = tracer.figures();
    let failed = &figures.events.request_failed[Operation::Close as usize];
    assert_eq!(failed.count, 1);
    let by_share: BTreeMap<_, _> =
        figures.shares.iter().map(|(name, it)| (name.as_str(), it.requests())).collect();
    // Requests before a tree connect, and its end, belong to no share.
    assert_eq!(by_share, BTreeMap::from([("data", 6), ("", 5)]));
    assert!(figures.users.iter().any(|(name, it)| name == "alice" && it.requests() == 9));
}

#[test]
fn a_request_that_came_in_pieces_was_received_from_its_first_byte_on() {
    let world = World::new();
    let mut peer = ready(&world);
    let tracer = world.trace();
    let began = tracer.moment();
    world.advance(STEP);
    tracer.enter(Phase::Receiving);
    tracer.frame_came(1, 100, (Some(began), tracer.moment()), Default::default());
    world.advance(STEP);
    peer.echo();
    let ended = ended(&tracer);
    let expected = [(Phase::Receiving.number(), STEP_NS), (Phase::Queued.number(), STEP_NS)];
    assert_eq!(ended[0].phases, BTreeMap::from(expected));
}

#[test]
fn a_slow_request_has_its_path_after_its_open_is_closed() {
    let world = World::new();
    world.add_file("data", "file", &[]);
    let mut peer = ready(&world);
    let file_id = peer.create(&Create::open("file")).file_id;
    let tracer = world.trace();
    tracer.set_slow_threshold(STEP_NS);
    world.delay_replies(|effect| {
        matches!(effect, Effect::Object { op: ObjectOp::Close { .. } | ObjectOp::Open(_), .. })
    });
    peer.send(peer.close_request(file_id));
    peer.send(peer.request(Command::CREATE, &Create::open("nobody\\has\\this")));
    world.advance(STEP);
    world.release_all();
    let (slow, _) = tracer.take_slow().expect("it was asked for");
    let slow: Vec<_> = slow.iter().map(|it| (it.operation, it.path.as_deref())).collect();
    let expected =
        [(Operation::Close, Some("file")), (Operation::Create, Some("nobody\\has\\this"))];
    assert_eq!(slow, expected);
}

/// Makes a server that is traced from its beginning, and a client.
fn traced() -> (World, Tracer, Peer) {
    let world = World::new();
    let tracer = world.trace();
    let peer = ready(&world);
    (world, tracer, peer)
}

/// Returns the numbers of requests of a share and of a user.
fn counted(tracer: &Tracer, share: &str, user: &str) -> (u64, u64) {
    let figures = tracer.figures();
    let of = |rows: &[(String, trace::PartyValue)], name: &str| {
        rows.iter().find(|row| row.0 == name).map_or(0, |row| row.1.requests())
    };
    (of(&figures.shares, share), of(&figures.users, user))
}

#[test]
fn requests_related_to_a_failed_create_are_counted_in_its_share() {
    let (_world, tracer, mut peer) = traced();
    let before = counted(&tracer, "data", "alice");
    let requests = [
        peer.request(Command::CREATE, &Create::open("missing")),
        peer.read_request(RELATED, 0, 10).related(),
        peer.close_request(RELATED).related(),
    ];
    peer.call_all(requests);
    assert_eq!(counted(&tracer, "data", "alice"), (before.0 + 3, before.1 + 3));
}

#[test]
fn a_malformed_request_is_counted_in_its_share() {
    let (_world, tracer, mut peer) = traced();
    let before = counted(&tracer, "data", "alice");
    let request = peer.request(Command::READ, &EchoRequest);
    assert_eq!(peer.call(request).outcome(), Reason::Malformed);
    assert_eq!(counted(&tracer, "data", "alice"), (before.0 + 1, before.1 + 1));
}

#[test]
fn all_steps_of_reauthentication_are_the_users() {
    let (_world, tracer, mut peer) = traced();
    let (user, password) = testkit::accounts::ALICE;
    for (password, name) in [(password, "right"), ("wrong", "wrong")] {
        let before = counted(&tracer, "data", "alice").1;
        let session_id = peer.session_id;
        peer.authenticate(&Login::user(user, password).again(session_id));
        assert_eq!(counted(&tracer, "data", "alice").1, before + 2, "{name}");
    }
}

#[test]
fn binding_a_connection_is_counted_for_the_sessions_user() {
    let (world, tracer, first) = traced();
    let mut second = world.connect();
    second.negotiate([Dialect::SMB_3_1_1]);
    let before = counted(&tracer, "data", "alice").1;
    let (user, password) = testkit::accounts::ALICE;
    second.bind(&first, &Login::user(user, password)).ok();
    assert_eq!(counted(&tracer, "data", "alice").1, before + 2);
}

#[test]
fn an_echo_with_a_tree_connect_is_counted_there() {
    let (_world, tracer, mut peer) = traced();
    let before = counted(&tracer, "data", "alice");
    peer.echo();
    assert_eq!(counted(&tracer, "data", "alice"), (before.0 + 1, before.1 + 1));
}
