//! The end of a connection by either side: [MS-SMB2] 3.3.7.1. No state of it is left.

use dtyp::NtStatus;
use proto::{Disconnect, Effect};
use testkit::entropy::Random;
use testkit::{Create, Outcome, Peer, Response, World};
use trace::Reason;
use wire::echo::EchoRequest;
use wire::lock::LockFlags;
use wire::{Command, Dialect, FileId};

fn ready(world: &World) -> Peer {
    Peer::ready(world, Dialect::SMB_3_1_1)
}

fn watch(peer: &mut Peer) {
    let directory = peer.create(&Create::directory("dir")).file_id;
    let request = peer.watch_request(directory);
    peer.send(request);
    assert!(peer.receive().iter().any(Response::is_interim));
}

fn lock(peer: &mut Peer, file_id: FileId) {
    let request = peer.lock_request(file_id, LockFlags::EXCLUSIVE_LOCK, 0);
    peer.send(request);
}

#[test]
fn everything_of_a_connection_goes_with_it() {
    let world = World::new();
    let mut peer = ready(&world);
    for index in 0..20 {
        peer.create(&Create::new(&format!("file {index}")));
    }
    peer.create(&Create::new("file 0:stream"));
    peer.tree("readonly");
    peer.tree("IPC$");
    peer.create(&Create::open("wkssvc"));
    peer.session_id = 0;
    peer.login(testkit::accounts::BOB.0, testkit::accounts::BOB.1);
    peer.tree("data");
    peer.create(&Create::open("file 1"));
    peer.disconnect();
    world.assert_nothing_left();
}

#[test]
fn a_rule_that_is_broken_ends_everything_as_well() {
    let world = World::new();
    let mut peer = ready(&world);
    peer.create(&Create::new("file"));
    watch(&mut peer);
    let request = peer.request(Command::ECHO, &EchoRequest).message_id(0);
    peer.send(request);
    assert!(matches!(peer.closed(), Some(Disconnect::Sequence(_))));
    world.assert_nothing_left();
}

/// Its padding would stay in memory while its credits are free again: a few thousand such requests
/// fill any memory.
#[test]
fn a_request_that_is_padded_does_not_wait_without_an_end() {
    let world = World::new();
    let mut peer = ready(&world);
    let directory = peer.create(&Create::directory("dir")).file_id;
    let (refused, waits) = (Outcome::Refused(Reason::TooLongToWait), NtStatus::PENDING.into());
    for (len, want) in [(1 << 20, refused), (1_000, waits)] {
        let request = peer.watch_request(directory);
        peer.send(request.body(|body| body.resize(len, 0)));
        let outcomes: Vec<_> = peer.receive().iter().map(Response::outcome).collect();
        assert_eq!(outcomes, [want], "{len} bytes");
    }
    peer.disconnect();
    world.assert_nothing_left();
}

#[test]
fn requests_that_wait_for_ever_end_with_their_connection() {
    let world = World::new();
    let mut peer = ready(&world);
    watch(&mut peer);
    let file = peer.create(&Create::new("file")).file_id;
    lock(&mut peer, file);
    assert!(peer.receive()[0].status().is_success());
    let other = peer.create(&Create::open("file")).file_id;
    lock(&mut peer, other);
    assert!(peer.receive()[0].is_interim());
    assert_eq!(peer.outstanding(), 2);
    peer.disconnect();
    world.assert_nothing_left();
}

#[test]
fn a_lock_that_goes_with_its_connection_lets_others_in() {
    let world = World::new();
    let mut holder = ready(&world);
    let file = holder.create(&Create::new("file")).file_id;
    lock(&mut holder, file);
    holder.receive();
    let mut waiter = ready(&world);
    let file = waiter.create(&Create::open("file")).file_id;
    lock(&mut waiter, file);
    assert!(waiter.receive().iter().all(Response::is_interim));
    holder.disconnect();
    let granted = waiter.receive();
    assert_eq!(granted.len(), 1);
    assert!(granted[0].status().is_success());
}

#[test]
fn answers_to_requests_of_a_connection_that_is_gone_go_nowhere() {
    let world = World::new();
    let mut peer = ready(&world);
    let file = peer.create(&Create::new("file")).file_id;
    peer.write(file, 0, b"data").ok();
    let closing = peer.create(&Create::open("file")).file_id;
    world.delay_replies(|effect| matches!(effect, Effect::Object { .. }));
    let requests = [
        peer.read_request(file, 0, 4),
        peer.write_request(file, 0, b"more"),
        peer.write_request(file, 100, b"end"),
        peer.request(Command::CREATE, &Create::new("other")),
        peer.close_request(closing),
        // This one waits for those before it.
        peer.close_request(file),
    ];
    for request in requests {
        peer.send(request);
    }
    peer.receive();
    assert_eq!(world.delayed_replies(), 5);
    peer.disconnect();
    assert!(!world.is_idle(), "answers are still to come");
    world.release_all();
    assert!(peer.receive().is_empty());
    world.assert_nothing_left();
}

#[test]
fn a_file_that_was_to_be_deleted_is_deleted() {
    let world = World::new();
    let mut peer = ready(&world);
    peer.create(&Create::new("file").delete_on_close());
    assert!(world.exists("data", "file"));
    peer.disconnect();
    assert!(!world.exists("data", "file"));
}

#[test]
fn a_file_of_a_lost_exclusive_open_can_be_opened_again() {
    let world = World::new();
    let mut first = ready(&world);
    let exclusive = Create::open_if("file").share(wire::create::ShareAccess::empty());
    first.create(&exclusive);
    let mut second = ready(&world);
    let violation = Reason::SharingViolation;
    assert_eq!(second.try_create(&exclusive).outcome(), violation);
    first.disconnect();
    second.create(&exclusive);
}

#[test]
fn other_connections_go_on() {
    let world = World::new();
    let mut peers = [ready(&world), ready(&world), ready(&world)];
    let files = peers.each_mut().map(|peer| peer.create(&Create::open_if("file")).file_id);
    peers[1].disconnect();
    peers[0].write(files[0], 0, b"0").ok();
    peers[2].write(files[2], 1, b"2").ok();
    assert_eq!(world.contents("data", "file").as_deref(), Some(&b"02"[..]));
    peers[0].disconnect();
    peers[2].disconnect();
    world.assert_nothing_left();
}

#[test]
fn a_frame_that_was_on_its_way_when_the_connection_ended_is_ignored() {
    let world = World::new();
    let mut peer = ready(&world);
    let request = peer.request(Command::CREATE, &Create::new("late"));
    let (frame, _) = peer.lay_out([request]);
    peer.disconnect();
    peer.send_frame(&frame);
    peer.disconnect();
    assert!(!world.exists("data", "late"));
    world.assert_nothing_left();
}

/// The connection is cut at each point of a long conversation, with late replies of the store.
#[test]
fn a_connection_may_be_cut_anywhere() {
    for cut in 0..40 {
        let world = World::new();
        let mut random = Random::new(cut);
        let mut peer = ready(&world);
        let mut files = Vec::new();
        world.delay_replies(|effect| matches!(effect, Effect::Object { .. }));
        for step in 0..cut {
            let name = format!("file {}", random.below(4));
            let file = files.get(random.below(files.len().max(1))).copied();
            let request = match (random.below(5), file) {
                (0, _) | (_, None) => {
                    let create = Create::open_if(&name);
                    let create =
                        if random.below(2) == 0 { create.delete_on_close() } else { create };
                    peer.request(Command::CREATE, &create)
                }
                (1, Some(file)) => peer.read_request(file, step, 100),
                (2, Some(file)) => peer.write_request(file, step, b"data"),
                (3, Some(file)) => peer.close_request(file),
                (_, Some(_)) => peer.request(Command::ECHO, &EchoRequest),
            };
            peer.send(request);
            if world.delayed_replies() > 0 && random.below(2) == 0 {
                world.release(random.below(world.delayed_replies()));
            }
            for response in peer.receive() {
                if response.header.command == Command::CREATE && response.status().is_success() {
                    files.push(response.body::<wire::create::CreateResponse<'_>>().file_id);
                }
            }
        }
        peer.disconnect();
        world.release_all();
        world.assert_nothing_left();
    }
}
