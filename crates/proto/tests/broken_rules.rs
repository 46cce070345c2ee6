//! Requests that break rules which the tests of no other file break.

use testkit::{Create, Peer, World};
use trace::Reason;
use wire::create::CreateDisposition;
use wire::create_context::CreateContextName;
use wire::echo::EchoRequest;
use wire::lock::LockFlags;
use wire::{Command, Dialect};

#[track_caller]
fn ready(world: &World) -> Peer {
    Peer::ready(world, Dialect::SMB_3_1_1)
}

#[track_caller]
fn refused(peer: &mut Peer, create: &Create, reason: Reason) {
    peer.try_create(create).expect(reason);
}

#[test]
fn a_create_with_an_impossible_name_disposition_or_context_is_refused() {
    let world = World::new();
    world.add_share("plain", |share| share.named_streams = false);
    let mut peer = ready(&world);
    refused(&mut peer, &Create::open("file:one:two:three"), Reason::StreamNameInvalid);
    let unknown = Create::with_disposition("file", CreateDisposition(6));
    refused(&mut peer, &unknown, Reason::DispositionUnknown);
    let context = Create::open("file").raw_context(CreateContextName(b"abc"), &[]);
    refused(&mut peer, &context, Reason::CreateContextNameTooShort);
    let request = peer.request(Command::CREATE, &Create::new("file")).body(|body| {
        // A surrogate without its other half.
        let name = body.len() - 8;
        body[name..name + 2].copy_from_slice(&[0x00, 0xD8]);
    });
    peer.call(request).expect(Reason::NameNotUnicode);
    peer.tree("plain");
    refused(&mut peer, &Create::new("file:stream"), Reason::StreamsOff);
}

#[test]
fn only_the_last_of_a_compound_waits_for_a_lock() {
    let world = World::new();
    world.add_file("data", "file", b"data");
    let mut peer = ready(&world);
    let files = [(); 2].map(|()| peer.create(&Create::open("file")).file_id);
    peer.call(peer.lock_request(files[0], LockFlags::EXCLUSIVE_LOCK, 0)).ok();
    let waits = peer.lock_request(files[1], LockFlags::EXCLUSIVE_LOCK, 0);
    let echo = peer.request(Command::ECHO, &EchoRequest);
    let responses = peer.call_all([waits, echo]);
    assert_eq!(responses[0].reason, Reason::AsyncInCompound);
    assert_eq!(responses[1].reason, Reason::NotRefused);
}

#[test]
fn a_connection_has_its_limit_of_requests_that_wait() {
    let mut peer = ready(&World::new());
    let directory = peer.create(&Create::directory("dir")).file_id;
    let mut reasons = (0..512).map(|_| {
        peer.send(peer.watch_request(directory));
        peer.receive().remove(0).reason
    });
    assert!(reasons.by_ref().take(511).all(|reason| reason == Reason::NotRefused));
    assert_eq!(reasons.next(), Some(Reason::TooManyAsyncCommands));
}

#[test]
fn a_client_has_its_limit_of_pipes() {
    let mut peer = ready(&World::new());
    peer.tree("IPC$");
    let mut reasons = (0..257).map(|_| peer.try_create(&Create::open("srvsvc")).reason);
    assert!(reasons.by_ref().take(256).all(|reason| reason == Reason::NotRefused));
    assert_eq!(reasons.next(), Some(Reason::TooManyPipes));
}
