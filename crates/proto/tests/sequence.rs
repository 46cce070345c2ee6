//! The window of message ids: [MS-SMB2] 3.3.5.2.3.

use proto::sequence_window::SequenceError;
use proto::{Disconnect, Effect};
use testkit::{Create, Peer, World};
use wire::echo::EchoRequest;
use wire::{Command, Dialect};

fn ready(world: &World) -> Peer {
    Peer::ready(world, Dialect::SMB_3_1_1)
}

#[track_caller]
fn check(message_id: impl Fn(&Peer) -> u64, charge: u16, want: fn(u64) -> SequenceError) {
    let world = World::with(|settings| settings.credits_max = 64);
    let mut peer = ready(&world);
    let message_id = message_id(&peer);
    let request = peer.request(Command::ECHO, &EchoRequest).charge(charge).message_id(message_id);
    peer.send(request);
    assert_eq!(peer.closed(), Some(Disconnect::Sequence(want(message_id))));
    assert!(peer.receive().is_empty());
    world.assert_nothing_left();
}

fn outside(message_id: u64) -> SequenceError {
    SequenceError::OutsideWindow { message_id }
}

#[test]
fn an_id_that_was_used_ends_the_connection() {
    check(|peer| peer.next_message_id() - 1, 1, outside);
    check(|_| 0, 1, outside);
}

#[test]
fn an_id_that_was_not_granted_ends_the_connection() {
    check(|peer| peer.next_message_id() + u64::from(peer.credits()), 1, outside);
    check(|_| u64::MAX, 1, outside);
    check(|_| u64::MAX, u16::MAX, outside);
}

#[test]
fn a_charge_that_leaves_the_window_ends_the_connection() {
    check(|peer| peer.next_message_id() + u64::from(peer.credits()) - 1, 2, outside);
    check(Peer::next_message_id, u16::MAX, outside);
}

#[test]
fn the_last_id_of_the_window_may_be_used() {
    let world = World::new();
    let mut peer = ready(&world);
    let last = peer.next_message_id() + u64::from(peer.credits()) - 1;
    let request = peer.request(Command::ECHO, &EchoRequest).message_id(last);
    peer.call(request).ok();
    peer.echo().ok();
}

#[test]
fn an_id_above_the_lowest_is_used_once_as_well() {
    let world = World::new();
    let mut peer = ready(&world);
    let id = peer.next_message_id() + 5;
    let request = peer.request(Command::ECHO, &EchoRequest).message_id(id);
    peer.call(request.clone()).ok();
    peer.send(request);
    let want = SequenceError::UsedTwice { message_id: id };
    assert_eq!(peer.closed(), Some(Disconnect::Sequence(want)));
}

#[test]
fn an_id_inside_an_earlier_charge_was_used() {
    let world = World::new();
    let mut peer = ready(&world);
    let id = peer.next_message_id() + 5;
    let request = peer.request(Command::ECHO, &EchoRequest).charge(3).message_id(id);
    peer.call(request).ok();
    let request = peer.request(Command::ECHO, &EchoRequest).message_id(id + 2);
    peer.send(request);
    let want = SequenceError::UsedTwice { message_id: id + 2 };
    assert_eq!(peer.closed(), Some(Disconnect::Sequence(want)));
}

#[test]
fn an_id_is_used_even_while_its_request_is_not_answered() {
    let world = World::new();
    let mut peer = ready(&world);
    world.delay_replies(|effect| matches!(effect, Effect::Object { .. }));
    let request = peer.request(Command::CREATE, &Create::open_if("file"));
    let id = peer.send(request);
    let request = peer.request(Command::ECHO, &EchoRequest).message_id(id);
    peer.send(request);
    assert_eq!(peer.closed(), Some(Disconnect::Sequence(outside(id))));
    world.release_all();
    world.assert_nothing_left();
}

#[test]
fn nothing_of_a_compound_is_served_if_one_id_of_it_is_bad() {
    let world = World::new();
    let mut peer = ready(&world);
    let good = peer.request(Command::CREATE, &Create::new("file"));
    let bad = peer.request(Command::ECHO, &EchoRequest).message_id(0);
    peer.send_all([good, bad]);
    assert_eq!(peer.closed(), Some(Disconnect::Sequence(outside(0))));
    assert!(!world.exists("data", "file"));
}

#[test]
fn cancel_uses_no_id_and_has_no_response() {
    let world = World::new();
    let mut peer = ready(&world);
    let credits = peer.credits();
    for id in [0, 1, peer.next_message_id(), u64::MAX] {
        let request = peer.request(Command::CANCEL, &EchoRequest).message_id(id);
        peer.send(request);
    }
    assert!(peer.receive().is_empty());
    assert_eq!(peer.credits(), credits);
    peer.echo().ok();
}
