//! Answers to READ whose data do not pass through memory: [MS-SMB2] 3.3.5.12.

use dtyp::NtStatus;
use testkit::request::RELATED;
use testkit::{Create, Peer, World};
use wire::read::ReadResponse;
use wire::{Command, Dialect};

/// A store that pipes what it may, and a client.
fn ready() -> (World, Peer) {
    let world = World::new();
    world.add_file("data", "file", b"0123456789");
    world.store().pipe_reads();
    let peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    (world, peer)
}

#[test]
fn what_is_neither_signed_nor_sealed_is_piped_and_counts_as_part_of_its_frame() {
    let (world, mut peer) = ready();
    let file = peer.create(&Create::open("file")).file_id;
    let read = |peer: &mut Peer, offset, length| {
        let request = peer.read_request(file, offset, length).unsigned();
        peer.call(request).ok().body::<ReadResponse<'_>>().data.to_vec()
    };
    assert_eq!(read(&mut peer, 2, 5), b"23456");
    assert_eq!(world.store().piped_count(), 1);
    assert_eq!(read(&mut peer, 8, 100), b"89", "the file ends there");
    let past = peer.read_request(file, 10, 1).unsigned();
    assert_eq!(peer.call(past).status(), NtStatus::END_OF_FILE);
    let too_few = wire::read::ReadRequest {
        file_id: file,
        offset: 8,
        length: 4,
        minimum_count: 3,
        ..Default::default()
    };
    let too_few = peer.request(Command::READ, &too_few).unsigned();
    assert_eq!(peer.call(too_few).status(), NtStatus::END_OF_FILE);
    assert_eq!(world.store().piped_count(), 3, "what was piped in vain is dropped");
}

#[test]
fn what_is_signed_or_sealed_comes_into_memory() {
    let (world, mut peer) = ready();
    let file = peer.create(&Create::open("file")).file_id;
    let signed = peer.read_request(file, 0, 10).signed();
    assert_eq!(peer.call(signed).ok().body::<ReadResponse<'_>>().data, b"0123456789");
    peer.seals = true;
    assert_eq!(peer.read(file, 0, 10), b"0123456789");
    assert_eq!(world.store().piped_count(), 0);
}

#[test]
fn the_last_answer_of_a_compound_may_be_piped_and_no_other() {
    let (world, mut peer) = ready();
    let create = peer.request(Command::CREATE, &Create::open("file"));
    let read = peer.read_request(RELATED, 0, 10).related().unsigned();
    let responses = peer.call_all([create, read]);
    assert_eq!(responses[1].body::<ReadResponse<'_>>().data, b"0123456789");
    assert_eq!(world.store().piped_count(), 1);
    let create = peer.request(Command::CREATE, &Create::open("file"));
    let read = peer.read_request(RELATED, 0, 10).related().unsigned();
    let close = peer.close_request(RELATED).related();
    let responses = peer.call_all([create, read, close]);
    assert_eq!(responses[1].body::<ReadResponse<'_>>().data, b"0123456789");
    assert_eq!(world.store().piped_count(), 1);
}
