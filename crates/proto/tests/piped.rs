//! Data of READ and WRITE that do not pass through memory: [MS-SMB2] 3.3.5.12, 3.3.5.13.

use dtyp::AccessMask;
use testkit::request::RELATED;
use testkit::{Create, Peer, World};
use trace::Reason;
use wire::read::ReadResponse;
use wire::write::WriteResponse;
use wire::{Command, Dialect, FileId};

/// Connects a client of a world in which `pipe` turns pipes on.
fn ready(pipe: impl FnOnce(&World)) -> (World, Peer) {
    let world = World::new();
    world.add_file("data", "file", b"0123456789");
    pipe(&world);
    let peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    (world, peer)
}

#[test]
fn plain_data_are_piped_and_count_as_part_of_their_frame() {
    let (world, mut peer) = ready(reads);
    let file = peer.create(&Create::open("file")).file_id;
    let read = |peer: &mut Peer, offset, length| {
        let request = peer.read_request(file, offset, length).unsigned();
        peer.call(request).ok().body::<ReadResponse<'_>>().data.to_vec()
    };
    assert_eq!(read(&mut peer, 2, 5), b"23456");
    assert_eq!(world.store().piped_count(), 1);
    assert_eq!(read(&mut peer, 8, 100), b"89", "the file ends there");
    let past = peer.read_request(file, 10, 1).unsigned();
    assert_eq!(peer.call(past).outcome(), Reason::MinimumCountNotReached);
    let too_few = wire::read::ReadRequest {
        file_id: file,
        offset: 8,
        length: 4,
        minimum_count: 3,
        ..Default::default()
    };
    let too_few = peer.request(Command::READ, &too_few).unsigned();
    assert_eq!(peer.call(too_few).outcome(), Reason::MinimumCountNotReached);
    assert_eq!(world.store().piped_count(), 3, "what was piped in vain is dropped");
}

#[test]
fn signed_or_sealed_data_come_into_memory() {
    let (world, mut peer) = ready(reads);
    let file = peer.create(&Create::open("file")).file_id;
    let signed = peer.read_request(file, 0, 10).signed();
    assert_eq!(peer.call(signed).ok().body::<ReadResponse<'_>>().data, b"0123456789");
    peer.seals = true;
    assert_eq!(peer.read(file, 0, 10), b"0123456789");
    assert_eq!(world.store().piped_count(), 0);
}

#[test]
fn the_last_answer_of_a_compound_may_be_piped_and_no_other() {
    let (world, mut peer) = ready(reads);
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

/// Pipes the data of WRITEs behind the first two bytes.
fn writes(world: &World) {
    world.pipe_writes_behind(2);
}

/// Pipes the data of READs, where possible.
fn reads(world: &World) {
    world.store().pipe_reads();
}

#[test]
fn data_that_follow_a_write_are_written_behind_those_in_it() {
    let (world, mut peer) = ready(writes);
    let file = peer.create(&Create::open("file")).file_id;
    for (offset, data, piped) in [(3, &b"abcde"[..], 1), (0, b"xy", 1), (20, b"behind", 2)] {
        let write = peer.write_request(file, offset, data).unsigned();
        let count = peer.call(write).ok().body::<WriteResponse>().count;
        assert_eq!(usize::try_from(count), Ok(data.len()));
        assert_eq!(world.piped_writes(), piped);
    }
    assert_eq!(peer.read(file, 0, 100), b"xy2abcde89\0\0\0\0\0\0\0\0\0\0behind");
}

#[test]
fn signed_sealed_or_compounded_data_are_not_piped() {
    let (world, mut peer) = ready(writes);
    let file = peer.create(&Create::open("file")).file_id;
    let signed = peer.write_request(file, 0, b"signed").signed();
    peer.call(signed).ok();
    let create = peer.request(Command::CREATE, &Create::open("file")).unsigned();
    let write = peer.write_request(RELATED, 6, b"related").related().unsigned();
    let responses = peer.call_all([create, write]);
    assert_eq!(responses[1].body::<WriteResponse>().count, 7);
    peer.seals = true;
    peer.write(file, 13, b"sealed");
    assert_eq!(peer.read(file, 0, 100), b"signedrelatedsealed");
    assert_eq!(world.piped_writes(), 0);
}

#[test]
fn data_for_a_named_pipe_or_an_unknown_file_come_into_memory() {
    let (world, mut peer) = ready(writes);
    peer.tree("IPC$");
    let pipe = peer.create(&Create::open("srvsvc")).file_id;
    let write = peer.write_request(pipe, 0, b"no PDU at all, whatever").unsigned();
    assert_eq!(peer.call(write).outcome(), Reason::PipeBroken, "it was looked at");
    let closed = FileId { persistent: 77, volatile: 77 };
    let write = peer.write_request(closed, 0, b"nothing").unsigned();
    assert_eq!(peer.call(write).outcome(), Reason::NoSuchOpen);
    assert_eq!(world.piped_writes(), 0);
}

#[test]
fn piped_data_of_a_write_that_is_refused_are_dropped() {
    let (world, mut peer) = ready(writes);
    let reader = peer.create(&Create::open("file").access(AccessMask::READ_DATA)).file_id;
    let write = peer.write_request(reader, 0, b"refused").unsigned();
    assert_eq!(peer.call(write).outcome(), Reason::AccessNotGranted);
    let file = peer.create(&Create::open("file")).file_id;
    let beyond = peer.write_request(file, u64::MAX - 3, b"beyond").unsigned();
    assert_eq!(peer.call(beyond).outcome(), Reason::RangeBeyondMax);
    assert_eq!(world.piped_writes(), 2);
    assert_eq!(peer.read(file, 0, 100), b"0123456789");
}
