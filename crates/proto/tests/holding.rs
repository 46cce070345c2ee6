//! Requests over a limit of their classes are delayed, and no others.

use std::sync::Arc;
use std::time::Duration;

use dtyp::NtStatus;
use dtyp::ServerId;
use object::ObjectOp;
use proto::Effect;
use qos::class::{InterimResponses, Limits, Match};
use qos::gate::THROTTLED_REQUESTS_MAX;
use qos::{Class, Membership, Meter, Slots, Subject};
use testkit::accounts::{ALICE, BOB};
use testkit::class_slot::membership_of_alice;
use testkit::{ClassSlot, Create, Login, Peer, Request, World};
use wire::echo::EchoRequest;
use wire::ioctl::{
    CopyChunk, CopyChunkCopy, FsctlCode, IoctlFlags, IoctlRequest, IoctlResponse,
    RequestResumeKeyResponse, ResumeKey,
};
use wire::logoff::LogoffRequest;
use wire::tree_disconnect::TreeDisconnectRequest;
use wire::{Command, Dialect, FileId, OplockLevel};

/// Number of bytes of each request. The limit is one request a second.
const BLOCK: u32 = 64 * 1024;

const SECOND: Duration = Duration::from_secs(1);

/// A client with a file open on a limited share, beside another share without a limit.
fn limited(interim_responses: InterimResponses) -> (World, Peer, FileId, ClassSlot) {
    let mut limits = Limits::default();
    limits.numbers[Meter::Bandwidth as usize] = Some(u64::from(BLOCK));
    let class = Class {
        name: "slow".to_owned(),
        matches: vec![Match::default()],
        limits,
        interim_responses,
    };
    let slots = ClassSlot::new(&limits);
    let world = World::new();
    world.set_slots(Box::new(slots.clone()));
    let membership = membership_of_alice(&class, "slow");
    world.add_share("slow", |share| share.classes = membership);
    world.add_file("data", "other", b"at once");
    world.add_file("slow", "file", &vec![7; 16 * BLOCK as usize]);
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    peer.credit_request = 64;
    peer.echo().ok();
    peer.credit_request = 1;
    peer.tree("slow");
    let file_id = peer.create(&Create::open("file")).file_id;
    (world, peer, file_id, slots)
}

/// Sends `count` READs, the first of which is within the limit.
fn read(peer: &mut Peer, file_id: FileId, count: u64) -> Vec<u64> {
    let at = |index| peer.read_request(file_id, index * u64::from(BLOCK), BLOCK);
    let requests: Vec<_> = (0..count).map(at).collect();
    requests.into_iter().map(|request| peer.send(request)).collect()
}

#[track_caller]
fn statuses(peer: &mut Peer) -> Vec<NtStatus> {
    peer.receive().iter().map(|response| response.status()).collect()
}

/// Cancels the second of three READs, the first of which is within the limit.
#[track_caller]
fn cancel_the_second_of_three(world: &World, peer: &mut Peer, ids: &[u64], slots: &ClassSlot) {
    assert_eq!(statuses(peer), [NtStatus::SUCCESS]);
    peer.send(peer.request(Command::CANCEL, &EchoRequest).message_id(ids[1]));
    assert_eq!(statuses(peer), [NtStatus::CANCELLED]);
    // The capacity of the canceled request goes to the next one.
    world.advance(SECOND);
    assert_eq!(statuses(peer), [NtStatus::SUCCESS]);
    assert_eq!(slots.slot().figures().waiting, 0);
}

#[test]
fn a_limit_lets_one_begin_after_the_other() {
    let (world, mut peer, file_id, _) = limited(InterimResponses::No);
    read(&mut peer, file_id, 4);
    assert_eq!(statuses(&mut peer), [NtStatus::SUCCESS]);
    for _ in 0..3 {
        world.advance(SECOND);
        assert_eq!(statuses(&mut peer), [NtStatus::SUCCESS]);
    }
    world.advance(10 * SECOND);
    assert_eq!(statuses(&mut peer), []);
}

#[test]
fn an_interim_response_gives_the_credits_back() {
    for (policy, interim) in [(InterimResponses::Auto, true), (InterimResponses::No, false)] {
        let (world, mut peer, file_id, _) = limited(policy);
        let before = peer.credits();
        read(&mut peer, file_id, 3);
        let expected = if interim { vec![NtStatus::PENDING; 2] } else { Vec::new() };
        let pending: Vec<NtStatus> =
            statuses(&mut peer).into_iter().filter(|it| *it == NtStatus::PENDING).collect();
        assert_eq!(pending, expected);
        // The first was answered, and its credits are back.
        assert_eq!(peer.credits(), before - if interim { 0 } else { 2 });
        world.advance(10 * SECOND);
        assert_eq!(statuses(&mut peer), [NtStatus::SUCCESS; 2]);
    }
}

#[test]
fn other_requests_of_the_connection_do_not_wait() {
    let (world, mut peer, file_id, _) = limited(InterimResponses::Auto);
    read(&mut peer, file_id, 8);
    peer.receive();
    peer.echo().ok();
    let slow = peer.tree_id;
    peer.tree("data");
    let other = peer.create(&Create::open("other")).file_id;
    assert_eq!(peer.read(other, 0, 100), b"at once");
    peer.tree_id = slow;
    world.advance(10 * SECOND);
    assert_eq!(statuses(&mut peer), [NtStatus::SUCCESS; 7]);
}

#[test]
fn a_request_that_is_held_can_be_cancelled() {
    let (world, mut peer, file_id, slots) = limited(InterimResponses::No);
    let ids = read(&mut peer, file_id, 3);
    cancel_the_second_of_three(&world, &mut peer, &ids, &slots);
}

#[test]
fn data_in_pipes_are_charged_and_held_and_given_up_like_others() {
    let (world, mut peer, file_id, slots) = limited(InterimResponses::No);
    world.pipe_writes_behind(0);
    let block = usize::try_from(BLOCK).expect("small");
    let write = |peer: &mut Peer, byte: u8| {
        let place = u64::from(byte) * u64::from(BLOCK);
        peer.send(peer.write_request(file_id, place, &vec![byte; block]).unsigned())
    };
    let ids: Vec<u64> = (0..3).map(|byte| write(&mut peer, byte)).collect();
    assert_eq!(world.piped_writes(), 3);
    cancel_the_second_of_three(&world, &mut peer, &ids, &slots);
    world.advance(10 * SECOND);
    let first_bytes = [0, 1, 2].map(|block| {
        let bytes = peer.read(file_id, block * u64::from(BLOCK), 1);
        world.advance(10 * SECOND);
        bytes[0]
    });
    assert_eq!(first_bytes, [0, 7, 2]);
}

#[test]
fn throttled_requests_end_when_their_file_is_closed() {
    let (_, mut peer, file_id, slots) = limited(InterimResponses::No);
    read(&mut peer, file_id, 4);
    assert_eq!(statuses(&mut peer), [NtStatus::SUCCESS]);
    peer.send(peer.close_request(file_id));
    let statuses = statuses(&mut peer);
    assert_eq!(statuses.len(), 4, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|it| it.is_error()).count(), 3, "{statuses:?}");
    assert_eq!(slots.slot().figures().waiting, 0);
}

#[test]
fn throttled_requests_end_with_their_session() {
    let logoff = |peer: &mut Peer| {
        peer.send(peer.request(Command::LOGOFF, &LogoffRequest).tree(0));
        let statuses = statuses(peer);
        assert_eq!(statuses.len(), 4, "{statuses:?}");
        assert!(statuses.contains(&NtStatus::USER_SESSION_DELETED), "{statuses:?}");
    };
    for leaves in [logoff, |peer: &mut Peer| peer.disconnect()] {
        let (world, mut peer, file_id, slots) = limited(InterimResponses::No);
        read(&mut peer, file_id, 4);
        peer.receive();
        leaves(&mut peer);
        assert_eq!(slots.slot().figures().waiting, 0);
        peer.disconnect();
        // The buffers for its responses are kept a little longer.
        world.advance(2 * SECOND);
        world.assert_nothing_left();
        assert!(world.is_idle());
    }
}

/// The store reuses the root of a closed share for the next one: delayed requests must not reach
/// another share by it.
#[test]
fn throttled_requests_of_a_tree_connect_end_with_it_and_never_reach_the_store() {
    let (world, mut peer, _, slots) = limited(InterimResponses::No);
    let mut limits = Limits::default();
    limits.numbers[Meter::Iops as usize] = Some(1);
    slots.slot().configure(&limits);
    for index in 0..3 {
        let create = Create::open_if(&format!("new{index}"));
        peer.send(peer.request(Command::CREATE, &create));
    }
    let begun = statuses(&mut peer).len();
    assert!(begun < 3, "some are held");
    peer.send(peer.request(Command::TREE_DISCONNECT, &TreeDisconnectRequest));
    let ended = statuses(&mut peer);
    let gone = ended.iter().filter(|it| **it == NtStatus::NETWORK_NAME_DELETED).count();
    assert_eq!(begun + gone, 3, "{ended:?}");
    world.advance(10 * SECOND);
    assert_eq!(statuses(&mut peer), []);
    assert!(!world.exists("slow", "new2"));
    assert_eq!(slots.slot().figures().waiting, 0);
}

fn of_credits(limit: u64) -> Limits {
    let mut limits = Limits::default();
    limits.numbers[Meter::Credits as usize] = Some(limit);
    limits
}

/// Credits that a client has once it has used those of before, and requested as many as it may.
fn settled_credits(peer: &mut Peer) -> u32 {
    peer.credit_request = 500;
    // Credits that the client had before stay valid until used.
    for _ in 0..peer.credits() + 10 {
        peer.echo().ok();
    }
    peer.credits()
}

/// A client, Alice, in the share `data`, with a class that limits her credits and nobody else's.
fn limited_credits(limit: u64) -> (World, Peer, ClassSlot) {
    let slots = ClassSlot::new(&of_credits(limit));
    let world = World::with(|settings| settings.credits_max = 512);
    world.set_slots(Box::new(slots.clone()));
    let peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    let class = of_user("alice", of_credits(limit));
    world.set_classes(move |user, _| membership(&class, user));
    (world, peer, slots)
}

/// One more connection of the client of `first`, bound to its session.
fn further_channel(world: &World, first: &Peer) -> Peer {
    let mut channel = world.connect();
    channel.negotiate([Dialect::SMB_3_1_1]);
    channel.bind(first, &Login::user(ALICE.0, ALICE.1)).ok();
    channel
}

#[test]
fn a_class_limits_the_credits_of_its_clients() {
    let class = of_user("alice", of_credits(64));
    let slots = ClassSlot::new(&class.limits);
    let world = World::new();
    world.set_slots(Box::new(slots));
    world.add_share("small", |share| share.classes = Arc::new(membership(&class, "alice")));
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    assert!(settled_credits(&mut peer) > 64);
    let other = peer.tree_id;
    let small = peer.tree("small");
    assert_eq!(settled_credits(&mut peer), 64);
    // As long as the client uses the share, whatever else it uses.
    peer.tree_id = other;
    assert_eq!(settled_credits(&mut peer), 64);
    peer.tree_id = small;
    peer.call(peer.request(Command::TREE_DISCONNECT, &TreeDisconnectRequest)).ok();
    assert!(settled_credits(&mut peer) > 64);
}

#[test]
fn the_channels_of_a_client_share_its_credits() {
    let (world, mut first, _slots) = limited_credits(400);
    assert_eq!(settled_credits(&mut first), 400);
    let mut second = further_channel(&world, &first);
    assert_eq!([&mut first, &mut second].map(settled_credits), [200, 200]);
    // A connection without a session is perhaps a stranger's, and takes nothing from them.
    let mut stranger = world.connect();
    stranger.negotiate([Dialect::SMB_3_1_1]);
    assert_eq!([&mut first, &mut second].map(settled_credits), [200, 200]);
    let third = further_channel(&world, &first);
    let fourth = further_channel(&world, &first);
    assert_eq!([&mut first, &mut second].map(settled_credits), [100, 100]);
    for channel in [third, fourth, second] {
        channel.disconnect();
    }
    assert_eq!(settled_credits(&mut first), 400);
}

#[test]
fn a_channel_has_the_credits_that_it_needs_however_many_there_are() {
    let (world, mut first, _slots) = limited_credits(100);
    let mut second = further_channel(&world, &first);
    assert_eq!([&mut first, &mut second].map(settled_credits), [64, 64]);
}

#[test]
fn the_lowest_limit_of_a_clients_sessions_is_for_all_of_them() {
    let (_world, mut peer, _slots) = limited_credits(100);
    let alice = (peer.session_id, peer.tree_id);
    peer.session_id = 0;
    peer.login(BOB.0, BOB.1);
    peer.tree("data");
    assert_eq!(settled_credits(&mut peer), 100);
    let bob = (peer.session_id, peer.tree_id);
    (peer.session_id, peer.tree_id) = alice;
    peer.call(peer.request(Command::LOGOFF, &LogoffRequest)).ok();
    (peer.session_id, peer.tree_id) = bob;
    assert!(settled_credits(&mut peer) > 100, "only Alice was limited");
}

#[test]
fn a_limit_of_credits_that_is_set_holds_for_connected_clients_both_ways() {
    let (world, mut first, slots) = limited_credits(400);
    let mut second = further_channel(&world, &first);
    assert_eq!([&mut first, &mut second].map(settled_credits), [200, 200]);
    for (limit, each) in [(Some(160), 80), (Some(300), 150), (None, 512), (Some(400), 200)] {
        slots.slot().set(Meter::Credits, limit);
        world.advance(SECOND);
        assert_eq!([&mut first, &mut second].map(settled_credits), [each, each], "{limit:?}");
    }
}

#[test]
fn classes_of_a_new_configuration_limit_the_credits_of_connected_clients_both_ways() {
    let (world, mut peer, _slots) = limited_credits(100);
    assert_eq!(settled_credits(&mut peer), 100);
    world.set_classes(|_, _| Membership::default());
    assert!(settled_credits(&mut peer) > 100);
    let class = of_user("alice", of_credits(100));
    world.set_classes(move |user, _| membership(&class, user));
    assert_eq!(settled_credits(&mut peer), 100);
}

/// Makes the class of one user's requests.
fn of_user(name: &str, limits: Limits) -> Class {
    Class {
        name: name.to_owned(),
        matches: vec![Match { users: vec![name.to_owned()], ..Match::default() }],
        limits,
        interim_responses: InterimResponses::Auto,
    }
}

fn membership(class: &Class, user: &str) -> Membership {
    let client = "192.0.2.1".parse().expect("an address");
    Membership::of([(0, class)], Subject { client, user, is_in_group: &|_| false, share: "data" })
}

#[test]
fn of_two_users_on_one_connection_only_the_limited_one_waits() {
    let mut limits = Limits::default();
    limits.numbers[Meter::Bandwidth as usize] = Some(u64::from(BLOCK));
    let class = of_user("alice", limits);
    let world = World::new();
    world.set_slots(Box::new(ClassSlot::new(&limits)));
    world.add_file("data", "file", &vec![7; 16 * BLOCK as usize]);
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    peer.credit_request = 64;
    peer.echo().ok();
    let alice = (peer.session_id, peer.tree("data"));
    let of_alice = peer.create(&Create::open("file")).file_id;
    peer.session_id = 0;
    peer.login(BOB.0, BOB.1);
    let bob = (peer.session_id, peer.tree("data"));
    let of_bob = peer.create(&Create::open("file")).file_id;
    world.set_classes(|user, _| membership(&class, user));
    (peer.session_id, peer.tree_id) = alice;
    read(&mut peer, of_alice, 4);
    let answered = statuses(&mut peer);
    assert_eq!(answered.iter().filter(|it| **it == NtStatus::SUCCESS).count(), 1, "{answered:?}");
    (peer.session_id, peer.tree_id) = bob;
    read(&mut peer, of_bob, 8);
    assert_eq!(statuses(&mut peer), [NtStatus::SUCCESS; 8]);
    (peer.session_id, peer.tree_id) = alice;
    world.advance(3 * SECOND);
    assert_eq!(statuses(&mut peer), [NtStatus::SUCCESS; 3]);
}

#[test]
fn a_request_waits_for_its_turn_at_the_storage_and_keeps_its_credits() {
    let mut limits = Limits::default();
    limits.numbers[Meter::Weight as usize] = Some(8);
    let class = of_user("alice", limits);
    let slots = ClassSlot::new(&limits);
    let device = qos::device::place(slots.devices(), slots.slots(), 7);
    let world = World::new();
    world.set_slots(Box::new(slots.clone()));
    world.add_file("data", "file", &vec![7; 16 * BLOCK as usize]);
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    peer.credit_request = 64;
    peer.echo().ok();
    peer.credit_request = 1;
    let file_id = peer.create(&Create::open("file")).file_id;
    world.set_classes(|user, _| membership(&class, user).on(device));
    let before = peer.credits();
    world
        .delay_replies(|effect| matches!(effect, Effect::Object { op: ObjectOp::Read { .. }, .. }));
    let ids = read(&mut peer, file_id, 4);
    // The storage's capacity is still unknown, so it gets one request at a time.
    assert_eq!(
        (world.delayed_replies(), slots.devices()[0].in_flight(), slots.devices()[0].waiting()),
        (1, 1, 3)
    );
    assert_eq!(peer.credits(), before - 4);
    for held in [2, 1] {
        world.release(0);
        assert_eq!(statuses(&mut peer), [NtStatus::SUCCESS]);
        assert_eq!((world.delayed_replies(), slots.devices()[0].waiting()), (1, held));
    }
    // A waiting request can be canceled, and the end of its client frees its place.
    peer.send(peer.request(Command::CANCEL, &EchoRequest).message_id(ids[3]));
    assert_eq!(statuses(&mut peer), [NtStatus::CANCELLED]);
    assert_eq!(slots.devices()[0].waiting(), 0);
    peer.disconnect();
    world.release_all();
    assert_eq!(slots.devices()[0].in_flight(), 0);
}

#[test]
fn credits_of_all_clients_together_are_divided_between_them() {
    let world = World::with(|settings| settings.credits_total = 1_000);
    world.set_slots(Box::new(ClassSlot::new(&Limits::default())));
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    peer.credit_request = u16::MAX;
    for _ in 0..300 {
        peer.echo().ok();
        // Four clients share the credits, one of which is this.
        assert!(peer.credits() <= 250, "{}", peer.credits());
    }
    assert_eq!(peer.credits(), 250);
    // No client gets fewer credits than it needs.
    world.change_settings(|settings| settings.credits_total = 100);
    for _ in 0..300 {
        peer.echo().ok();
    }
    assert_eq!(peer.credits(), 64);
}

#[test]
fn a_read_is_charged_for_the_bytes_it_returned() {
    let (world, mut peer, file_id, slots) = limited(InterimResponses::No);
    let end = 16 * u64::from(BLOCK);
    // Four reads begin at the end of the file, and four more a byte before it.
    for _ in 0..4 {
        peer.send(peer.read_request(file_id, end, BLOCK));
    }
    assert_eq!(statuses(&mut peer), [NtStatus::END_OF_FILE; 4]);
    for _ in 0..4 {
        peer.send(peer.read_request(file_id, end - 1, BLOCK));
    }
    assert_eq!(statuses(&mut peer), [NtStatus::SUCCESS; 4]);
    assert_eq!(slots.slot().figures().read_bytes, 4);
    // Unused capacity is free for others, and no more than that.
    read(&mut peer, file_id, 3);
    assert_eq!(statuses(&mut peer), [NtStatus::SUCCESS]);
    world.advance(SECOND);
    assert_eq!(statuses(&mut peer), [NtStatus::SUCCESS]);
}

#[test]
fn a_client_with_too_many_throttled_requests_gets_no_more_credits_and_can_cancel() {
    let (world, mut peer, file_id, slots) = limited(InterimResponses::Auto);
    let mut limits = Limits::default();
    limits.numbers[Meter::Iops as usize] = Some(1);
    slots.slot().configure(&limits);
    let mut first = None;
    peer.credit_request = 64;
    while slots.slot().figures().waiting < THROTTLED_REQUESTS_MAX as u64 {
        assert!(peer.credits() > 2, "{} wait", slots.slot().figures().waiting);
        let id = peer.send(peer.read_request(file_id, 0, 1));
        first.get_or_insert(id);
        peer.receive();
    }
    let had = peer.credits();
    peer.credit_request = u16::MAX;
    peer.echo().ok();
    assert_eq!(peer.credits(), had - 1, "none are granted");
    let second = first.expect("it was sent") + 1;
    peer.send(peer.request(Command::CANCEL, &EchoRequest).message_id(second));
    assert_eq!(statuses(&mut peer), [NtStatus::CANCELLED]);
    let before = slots.slot().figures().waiting;
    peer.send(peer.close_request(file_id));
    let ended = statuses(&mut peer);
    assert_eq!(ended.len() as u64, before + 1);
    assert_eq!(slots.slot().figures().waiting, 0);
    // And the client gets them again.
    peer.echo().ok();
    peer.echo().ok();
    assert!(peer.credits() > had, "{} and {had}", peer.credits());
    world.advance(SECOND);
}

/// Such a request got an interim response and its credits when it was delayed, and may be as long
/// as a frame.
#[test]
fn a_request_that_was_held_is_not_kept_in_full_when_it_waits_without_an_end() {
    let (world, mut peer, _, slots) = limited(InterimResponses::Auto);
    world.add_file("slow", "busy", b"");
    let mut holder = Peer::ready(&world, Dialect::SMB_3_1_1);
    holder.tree("slow");
    holder.create(&Create::open("busy").oplock(OplockLevel::BATCH));
    let mut limits = Limits::default();
    limits.numbers[Meter::Iops as usize] = Some(1);
    slots.slot().configure(&limits);
    for (len, status) in [(1 << 20, NtStatus::INSUFFICIENT_RESOURCES), (1_000, NtStatus::PENDING)] {
        peer.send(peer.request(Command::CREATE, &Create::open("other")));
        let request = peer.request(Command::CREATE, &Create::open("busy"));
        peer.send(request.body(|body| body.resize(len, 0)));
        let held = statuses(&mut peer);
        assert_eq!(held.last(), Some(&NtStatus::PENDING), "{held:?}");
        world.advance(10 * SECOND);
        let went_on = statuses(&mut peer);
        let is_refused = went_on.contains(&NtStatus::INSUFFICIENT_RESOURCES);
        assert_eq!(is_refused, status.is_error(), "{len} bytes: {went_on:?}");
    }
}

#[test]
fn a_saturated_storage_leaves_clients_with_fewer_credits_for_as_long_as_it_is() {
    let mut limits = Limits::default();
    limits.numbers[Meter::Weight as usize] = Some(8);
    let slots = ClassSlot::new(&limits);
    let device = qos::device::place(slots.devices(), slots.slots(), 7);
    let world = World::new();
    world.set_slots(Box::new(slots.clone()));
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    let fill = |peer: &mut Peer| {
        peer.credit_request = 500;
        // Credits that the client had before stay valid until used.
        for _ in 0..9_000 {
            peer.echo().ok();
        }
        peer.credits()
    };
    let all = fill(&mut peer);
    // A hundred other requests wait for storage that serves one at a time.
    let classes = qos::Classes { ids: [0].into(), device };
    let mut gate = qos::Gate::new(Box::new(slots.clone()), ServerId { pid: 9, unique_id: 9 });
    let mut now = u64::try_from(world.now().monotonic.as_nanos()).expect("it began lately");
    let cost = qos::Cost { kind: qos::Kind::Read, bytes: 4096, kept: 0 };
    for what in 0..100 {
        let _ = gate.admit(now, &classes, cost, what);
    }
    for what in 0..1_000 {
        now += 5_000_000;
        gate.end(now, what, u64::MAX);
        let _ = gate.admit(now, &classes, cost, what + 100);
        while gate.release(now).is_some() {}
    }
    let figures = slots.devices()[0].controller.credits(now);
    assert!(figures < qos::controller::ONE / 2, "{figures}");
    world.advance(Duration::from_nanos(now) - world.now().monotonic);
    let lowered = fill(&mut peer);
    assert!(lowered < all / 2 && lowered >= 64, "{lowered} of {all}");
    drop(gate);
    world.advance(2 * SECOND);
    assert_eq!(fill(&mut peer), all);
}

/// Sends an FSCTL of an open.
fn fsctl(peer: &Peer, ctl_code: FsctlCode, file_id: FileId, input: &[u8]) -> Request {
    let (flags, max_output_response) = (IoctlFlags::IS_FSCTL, 64);
    let rest = IoctlRequest::default();
    let body = IoctlRequest { ctl_code, file_id, input, max_output_response, flags, ..rest };
    peer.request(Command::IOCTL, &body)
}

fn moved_bytes(slots: &ClassSlot) -> u64 {
    let figures = slots.slot().figures();
    figures.read_bytes + figures.written_bytes
}

fn resume_key(peer: &mut Peer, source: FileId) -> ResumeKey {
    let request = fsctl(peer, FsctlCode::SRV_REQUEST_RESUME_KEY, source, &[]);
    let response = peer.call(request).ok();
    let key = RequestResumeKeyResponse::decode(response.body::<IoctlResponse<'_>>().output);
    key.expect("it is whole").resume_key
}

/// Sends a copy of this many blocks to an open.
fn send_copy(peer: &mut Peer, key: ResumeKey, target: FileId, blocks: u64) {
    let at = |block: u64| block * u64::from(BLOCK);
    let chunk =
        |block| CopyChunk { source_offset: at(block), target_offset: at(block), length: BLOCK };
    let chunks: Vec<_> = (0..blocks).map(chunk).collect();
    let mut input = Vec::new();
    CopyChunkCopy::encode(key, &chunks, &mut input);
    peer.send(fsctl(peer, FsctlCode::SRV_COPYCHUNK_WRITE, target, &input));
}

#[test]
fn a_copy_by_the_server_is_charged_to_the_classes_of_both_files() {
    // Out of the limited share, into it, and both.
    for (source, target, seconds) in [("slow", "data", 3), ("data", "slow", 3), ("slow", "slow", 7)]
    {
        let (world, mut peer, _, slots) = limited(InterimResponses::No);
        let slow = peer.tree_id;
        world.add_file("data", "file", &vec![7; 16 * BLOCK as usize]);
        peer.tree("data");
        let data = peer.tree_id;
        let tree = |share: &str| if share == "slow" { slow } else { data };
        peer.tree_id = tree(source);
        let from = peer.create(&Create::open("file")).file_id;
        let key = resume_key(&mut peer, from);
        peer.tree_id = tree(target);
        let to = peer.create(&Create::open_if("copy")).file_id;
        let moved = moved_bytes(&slots);
        send_copy(&mut peer, key, to, 4);
        for _ in 0..seconds {
            let mut statuses = statuses(&mut peer);
            statuses.retain(|it| *it != NtStatus::PENDING);
            assert_eq!(statuses, [], "{source} to {target}");
            world.advance(SECOND);
        }
        assert_eq!(statuses(&mut peer), [NtStatus::SUCCESS], "{source} to {target}");
        assert_eq!(moved_bytes(&slots) - moved, (seconds + 1) * u64::from(BLOCK));
        assert_eq!(world.contents(target, "copy"), Some(vec![7; 4 * BLOCK as usize]));
        assert_eq!(slots.slot().figures().waiting, 0);
    }
}

#[test]
fn a_copy_that_waits_can_be_cancelled_and_ends_with_its_file() {
    let (world, mut peer, file_id, slots) = limited(InterimResponses::Auto);
    let copy = peer.create(&Create::open_if("copy")).file_id;
    let key = resume_key(&mut peer, file_id);
    send_copy(&mut peer, key, copy, 8);
    assert_eq!(statuses(&mut peer), [NtStatus::PENDING]);
    world.advance(2 * SECOND);
    peer.send(peer.close_request(copy));
    let statuses = statuses(&mut peer);
    assert_eq!(statuses.iter().filter(|it| it.is_error()).count(), 1, "{statuses:?}");
    assert_eq!(slots.slot().figures().waiting, 0);
}
