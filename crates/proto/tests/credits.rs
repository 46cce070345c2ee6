//! Credits: [MS-SMB2] 3.3.1.2, 3.3.4.1.2 and 3.3.5.2.5. The peer itself checks after every frame
//! that the window is never wider than the server allows and never shut for good.

use dtyp::NtStatus;
use testkit::{Create, Outcome, Peer, World};
use trace::Reason;
use wire::echo::EchoRequest;
use wire::read::ReadRequest;
use wire::{Command, Dialect};

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
    world.hold(|effect| matches!(effect, proto::Effect::Object { .. }));
    let reads = peer.credits();
    for _ in 0..reads {
        let request = peer.read_request(file, 0, 4);
        peer.send(request);
    }
    assert_eq!((peer.credits(), world.held()), (0, 64));
    assert!(peer.receive().is_empty());
    // In reverse order, which makes no difference.
    while world.held() > 0 {
        world.release(world.held() - 1);
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
