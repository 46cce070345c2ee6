//! Credits: [MS-SMB2] 3.3.1.2, 3.3.4.1.2 and 3.3.5.2.5. The peer itself checks after every frame
//! that the window is never wider than the server allows and never shut for good.

use std::time::Duration;

use dtyp::NtStatus;
use object::ObjectOp;
use proto::{Effect, StorageLoad};
use testkit::{Create, Outcome, Peer, World};
use trace::Reason;
use wire::cancel::CancelRequest;
use wire::create::CreateDisposition;
use wire::echo::EchoRequest;
use wire::read::ReadRequest;
use wire::{Command, Dialect, FileId};

fn world(credits_max: u32) -> World {
    World::with(|settings| settings.credits_max = credits_max)
}

fn ready(world: &World) -> Peer {
    Peer::ready(world, Dialect::SMB_3_1_1)
}

#[test]
fn requested_credits_are_granted_up_to_the_maximum() {
    let world = world(100);
    let mut peer = ready(&world);
    peer.credit_request = u16::MAX;
    for _ in 0..300 {
        peer.echo().ok();
        assert_eq!(peer.credits(), 100);
    }
}

#[test]
fn a_client_that_asks_for_nothing_keeps_one_credit_for_ever() {
    let world = world(8_192);
    let mut peer = world.connect();
    peer.credit_request = 0;
    peer.negotiate([Dialect::SMB_3_1_1]);
    peer.login_alice();
    peer.tree("data");
    for _ in 0..100 {
        let granted = peer.echo().ok().header.credits;
        assert_eq!((granted, peer.credits()), (1, 1));
    }
}

#[test]
fn a_window_of_one_is_enough_to_work_in() {
    let world = world(1);
    let mut peer = ready(&world);
    peer.credit_request = u16::MAX;
    let file = peer.create(&Create::open_if("file")).file_id;
    for _ in 0..50 {
        peer.write(file, 0, b"x").ok();
        assert_eq!(peer.credits(), 1);
    }
}

#[test]
fn a_refused_request_gives_its_credits_all_the_same() {
    let world = world(64);
    let mut peer = ready(&world);
    peer.credit_request = 1;
    let before = peer.credits();
    for _ in 0..20 {
        peer.tree_id += 1;
        let refused = peer.try_create(&Create::open("file"));
        assert_eq!(refused.outcome(), Reason::NoSuchTreeConnect);
        assert_eq!(peer.credits(), before);
    }
}

#[test]
fn the_whole_window_may_be_in_flight_and_comes_back() {
    let world = world(64);
    let mut peer = ready(&world);
    peer.credit_request = u16::MAX;
    peer.echo().ok();
    let file = peer.create(&Create::open_if("file")).file_id;
    peer.write(file, 0, b"data").ok();
    world.delay_replies(|effect| matches!(effect, Effect::Object { .. }));
    let reads = peer.credits();
    for _ in 0..reads {
        let request = peer.read_request(file, 0, 4);
        peer.send(request);
    }
    assert_eq!((peer.credits(), world.delayed_replies()), (0, 64));
    assert!(peer.receive().is_empty());
    // In reverse order, which makes no difference.
    while world.delayed_replies() > 0 {
        world.release(world.delayed_replies() - 1);
    }
    assert_eq!(peer.receive().len(), 64);
    assert_eq!(peer.credits(), 64);
}

/// The lowest id blocks the window: later ids are not replaced while it is unused.
#[test]
fn a_client_that_skips_an_id_stops_its_own_progress() {
    let world = world(16);
    let mut peer = ready(&world);
    peer.credit_request = u16::MAX;
    peer.echo().ok();
    let skipped = peer.next_message_id();
    for at in 1..16 {
        let request = peer.request(Command::ECHO, &EchoRequest).message_id(skipped + at);
        assert_eq!(peer.call(request).ok().header.credits, 0, "{at}");
    }
    let request = peer.request(Command::ECHO, &EchoRequest).message_id(skipped);
    assert_eq!(peer.call(request).ok().header.credits, 16);
}

#[track_caller]
fn check_read(dialect: Dialect, length: u32, charge: u16, want: impl Into<Outcome>) {
    let want = want.into();
    let world = world(8_192);
    let mut peer = Peer::ready(&world, dialect);
    let file = peer.create(&Create::open_if("file")).file_id;
    peer.write(file, 0, b"data").ok();
    let body = ReadRequest { file_id: file, length, ..ReadRequest::default() };
    let request = peer.request(Command::READ, &body).charge(charge);
    assert_eq!(peer.call(request).outcome(), want, "{length} bytes for {charge}");
}

#[test]
fn one_credit_pays_for_64_kib() {
    check_read(Dialect::SMB_3_1_1, 65_536, 1, NtStatus::SUCCESS);
    check_read(Dialect::SMB_3_1_1, 65_537, 1, Reason::CreditChargeTooSmall);
    check_read(Dialect::SMB_2_1, 65_537, 2, NtStatus::SUCCESS);
    check_read(Dialect::SMB_2_1, 0x10_0000, 15, Reason::CreditChargeTooSmall);
    check_read(Dialect::SMB_2_1, 0x10_0000, 16, NtStatus::SUCCESS);
    // A charge of zero counts as one.
    check_read(Dialect::SMB_3_0, 65_536, 0, NtStatus::SUCCESS);
    check_read(Dialect::SMB_3_0, 65_537, 0, Reason::CreditChargeTooSmall);
}

#[test]
fn a_charge_means_nothing_in_2_0_2() {
    let world = world(8_192);
    let mut peer = Peer::ready(&world, Dialect::SMB_2_0_2);
    let before = peer.next_message_id();
    let request = peer.request(Command::ECHO, &EchoRequest).charge(0x7777);
    peer.call(request).ok();
    assert_eq!(peer.next_message_id(), before + 1);
    peer.echo().ok();
}

#[test]
fn a_write_pays_for_its_data() {
    let world = world(8_192);
    let mut peer = ready(&world);
    let file = peer.create(&Create::open_if("file")).file_id;
    let data = vec![1; 65_537];
    let request = peer.write_request(file, 0, &data).charge(1);
    assert_eq!(peer.call(request).outcome(), Reason::CreditChargeTooSmall);
    let request = peer.write_request(file, 0, &data).charge(2);
    peer.call(request).ok();
}

/// Bytes and credits of a WRITE for slow storage.
const LONG: (usize, u32) = (1 << 20, 16);

/// A client with a file whose WRITEs wait, while others of its requests hold much.
fn slow() -> (World, Peer, FileId, StorageLoad) {
    // No more than the reserve, so that nothing has to be taken back.
    let world = world(64);
    let mut peer = ready(&world);
    let file = peer.create(&Create::open_if("file")).file_id;
    let load = world.storage_load();
    load.set_has_threads(true);
    load.hold(1 << 30);
    let is_write = |op: &ObjectOp| matches!(op, ObjectOp::Write { .. });
    world.delay_replies(move |effect| matches!(effect, Effect::Object { op, .. } if is_write(op)));
    (world, peer, file, load)
}

/// Lets all requests go on, ends the client, and checks that nothing of it is left.
fn end(world: &World, mut peer: Peer, load: &StorageLoad) {
    world.release_all();
    peer.receive();
    load.release(1 << 30);
    peer.disconnect();
    world.assert_nothing_left();
}

/// The interim response that returns the client's last credit is there.
#[track_caller]
fn returns_the_last_credit(peer: &mut Peer) {
    let interim = peer.receive();
    assert_eq!((interim.len(), interim[0].status()), (1, NtStatus::PENDING));
    assert_eq!((interim[0].header.credits, peer.credits()), (1, 1));
}

fn write_long(peer: &mut Peer, file: FileId) -> u64 {
    let id = peer.next_message_id();
    let request = peer.write_request(file, 0, &vec![7; LONG.0]);
    peer.send(request);
    id
}

#[test]
fn requests_for_slow_storage_keep_their_credits_until_they_end() {
    let (world, mut peer, file, load) = slow();
    let before = peer.credits();
    write_long(&mut peer, file);
    assert_eq!(world.report_slow(), 1);
    assert_eq!(peer.receive().len(), 0, "there is no interim response");
    // Others return as many as they cost.
    assert_eq!(peer.echo().ok().header.credits, 1);
    assert_eq!(peer.credits(), before - LONG.1);
    world.release_all();
    let ended = peer.receive();
    assert_eq!((ended.len(), ended[0].status()), (1, NtStatus::SUCCESS));
    assert_eq!((ended[0].header.async_id, peer.credits()), (None, before));
    // With room, the client has its whole window again.
    load.release(1 << 30);
    load.set_has_threads(false);
    peer.credit_request = u16::MAX;
    peer.echo().ok();
    assert_eq!(peer.credits(), 64);
    peer.disconnect();
    world.assert_nothing_left();
}

#[test]
fn a_request_that_keeps_its_credits_for_long_has_an_interim_response_without_any() {
    let (world, mut peer, file, load) = slow();
    let before = peer.credits();
    write_long(&mut peer, file);
    assert_eq!([world.report_slow(), world.report_slow()], [1, 1], "it is too early");
    world.advance(Duration::from_secs(30));
    assert_eq!([world.report_slow(), world.report_slow()], [0, 0]);
    let interim = peer.receive();
    assert_eq!((interim.len(), interim[0].status()), (1, NtStatus::PENDING));
    assert_eq!(interim[0].header.credits, 0);
    world.release_all();
    assert_eq!(peer.receive().len(), 1);
    assert_eq!(peer.credits(), before - LONG.1);
    // Later responses bring what the client asks for.
    load.release(1 << 30);
    peer.echo().ok();
    assert_eq!(peer.credits(), before);
    peer.disconnect();
    world.assert_nothing_left();
}

#[test]
fn the_waits_of_a_create_have_one_time_together_until_its_interim_response() {
    let (world, mut peer, _, load) = slow();
    let is_of_create = |op: &ObjectOp| matches!(op, ObjectOp::Open(_) | ObjectOp::Overwrite { .. });
    world.delay_replies(
        move |effect| matches!(effect, Effect::Object { op, .. } if is_of_create(op)),
    );
    let create = Create::with_disposition("file", CreateDisposition::OVERWRITE);
    let request = peer.request(Command::CREATE, &create);
    peer.send(request);
    assert_eq!(world.report_slow(), 1);
    world.advance(Duration::from_secs(20));
    world.release(0);
    assert_eq!(
        (world.delayed_replies(), world.report_slow()),
        (1, 1),
        "it overwrites the file now"
    );
    world.advance(Duration::from_secs(10));
    assert_eq!(world.report_slow(), 0);
    let interim = peer.receive();
    assert_eq!((interim.len(), interim[0].status()), (1, NtStatus::PENDING));
    end(&world, peer, &load);
}

#[test]
fn an_interim_response_returns_the_credits_while_little_waits() {
    let (world, mut peer, file, load) = slow();
    load.release(1 << 30);
    write_long(&mut peer, file);
    assert_eq!(world.report_slow(), 0);
    let interim = peer.receive();
    assert_eq!((interim.len(), interim[0].status()), (1, NtStatus::PENDING));
    assert!(u32::from(interim[0].header.credits) >= LONG.1);
    world.release_all();
    assert_eq!(peer.receive().len(), 1);
    peer.disconnect();
    world.assert_nothing_left();
}

#[test]
fn a_request_that_keeps_its_credits_is_canceled_by_its_message_id() {
    let (world, mut peer, file, load) = slow();
    let before = peer.credits();
    let id = write_long(&mut peer, file);
    assert_eq!(world.report_slow(), 1);
    peer.send(peer.request(Command::CANCEL, &CancelRequest).message_id(id));
    let ended = peer.receive();
    assert_eq!((ended.len(), ended[0].status()), (1, NtStatus::CANCELLED));
    assert_eq!(peer.credits(), before);
    world.release_all();
    assert_eq!(peer.receive().len(), 0, "it is answered once");
    load.release(1 << 30);
    peer.disconnect();
    world.assert_nothing_left();
}

/// [MS-SMB2] 3.3.1.2: a client without any credit could never ask for more.
#[test]
fn an_interim_response_without_credits_leaves_no_client_without_any() {
    let (world, mut peer, file, load) = slow();
    peer.credit_request = 1;
    while peer.credits() > 2 {
        peer.send(peer.write_request(file, 0, b"x"));
    }
    assert!(world.report_slow() > 1);
    // Their interim responses come while the client has one credit, and then none.
    peer.send(peer.write_request(file, 0, b"x"));
    world.advance(Duration::from_secs(30));
    world.report_slow();
    let granted = |peer: &mut Peer| -> u16 {
        peer.receive().iter().map(|interim| interim.header.credits).sum()
    };
    assert_eq!((granted(&mut peer), peer.credits()), (0, 1));
    peer.send(peer.write_request(file, 0, b"x"));
    assert_eq!(peer.credits(), 0);
    world.report_slow();
    assert_eq!((granted(&mut peer), peer.credits()), (1, 1));
    peer.echo().ok();
    end(&world, peer, &load);
}

#[test]
fn a_last_credit_comes_back_from_requests_that_are_expected_to_be_short() {
    let (world, mut peer, file, load) = slow();
    let is_query = |op: &ObjectOp| matches!(op, ObjectOp::QueryMetadata { .. });
    world.delay_replies(move |effect| matches!(effect, Effect::Object { op, .. } if is_query(op)));
    peer.credit_request = 1;
    peer.send(peer.query_request(file));
    assert_eq!(world.report_slow(), 0);
    assert_eq!(peer.receive().len(), 0, "clients expect no interim response");
    while peer.credits() > 0 {
        peer.send(peer.query_request(file));
    }
    assert_eq!(world.report_slow(), 0);
    returns_the_last_credit(&mut peer);
    peer.echo().ok();
    end(&world, peer, &load);
}

#[test]
fn a_last_credit_that_slow_storage_has_comes_back_at_once() {
    let (world, mut peer, file, load) = slow();
    peer.credit_request = 1;
    while peer.credits() > 0 {
        let request = peer.write_request(file, 0, b"x");
        peer.send(request);
    }
    assert!(world.report_slow() > 1);
    returns_the_last_credit(&mut peer);
    // Other shares go on.
    peer.echo().ok();
    end(&world, peer, &load);
}
