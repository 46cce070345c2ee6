//! READ, WRITE and FLUSH: [MS-SMB2] 3.3.5.11 to 3.3.5.13, [MS-FSA] 2.1.5.3 to 2.1.5.7.

use dtyp::{AccessMask, NtStatus};
use proto::Effect;
use testkit::store::OpKind;
use testkit::{Create, Peer, World};
use trace::Reason;
use wire::create::{CreateAction, CreateOptions};
use wire::read::{Channel, ReadRequest, ReadResponse};
use wire::write::{WriteRequest, WriteResponse};
use wire::{Command, Dialect, FileId};

/// Makes a file of the ten digits, and an open of it.
fn digits(world: &World) -> (Peer, FileId) {
    world.add_file("data", "file", b"0123456789");
    let mut peer = Peer::ready(world, Dialect::SMB_3_1_1);
    let file = peer.create(&Create::open("file")).file_id;
    (peer, file)
}

#[track_caller]
fn check_read(offset: u64, length: u32, minimum_count: u32, want: Result<&[u8], Reason>) {
    let (mut peer, file_id) = digits(&World::new());
    let body = ReadRequest { file_id, offset, length, minimum_count, ..ReadRequest::default() };
    let request = peer.request(Command::READ, &body).charge(16);
    let response = peer.call(request);
    let got = match response.reason {
        Reason::NotRefused => Ok(response.body::<ReadResponse<'_>>().data),
        reason => Err(reason),
    };
    assert_eq!(got, want, "{length} at {offset}, {minimum_count} at least");
}

#[test]
fn a_read_returns_the_data_up_to_the_end() {
    check_read(0, 10, 0, Ok(b"0123456789"));
    check_read(3, 4, 0, Ok(b"3456"));
    check_read(8, 100, 0, Ok(b"89"));
    check_read(9, 1, 0, Ok(b"9"));
}

#[test]
fn a_read_at_the_end_or_past_it_is_end_of_file() {
    check_read(10, 1, 0, Err(Reason::MinimumCountNotReached));
    check_read(11, 1, 0, Err(Reason::MinimumCountNotReached));
    check_read(0x7FFF_FFFF_FFFF_FFF0, 1, 0, Err(Reason::MinimumCountNotReached));
}

#[test]
fn a_read_of_nothing_succeeds_everywhere() {
    for offset in [0, 9, 10, 11, 0x7FFF_FFFF_FFFF_FFFF] {
        check_read(offset, 0, 0, Ok(b""));
    }
}

#[test]
fn a_read_below_the_minimum_count_is_end_of_file() {
    check_read(8, 10, 2, Ok(b"89"));
    check_read(8, 10, 3, Err(Reason::MinimumCountNotReached));
    check_read(0, 10, u32::MAX, Err(Reason::MinimumCountNotReached));
    check_read(0, 0, 1, Err(Reason::MinimumCountNotReached));
}

#[test]
fn a_read_beyond_the_greatest_offset_is_invalid() {
    check_read(0x7FFF_FFFF_FFFF_FFFF, 1, 0, Err(Reason::RangeBeyondMax));
    check_read(0x8000_0000_0000_0000, 1, 0, Err(Reason::RangeBeyondMax));
    check_read(u64::MAX, 1, 0, Err(Reason::RangeBeyondMax));
    check_read(u64::MAX, 0, 0, Err(Reason::RangeBeyondMax));
}

#[test]
fn a_read_keeps_to_max_read_size() {
    check_read(0, 0x10_0000, 0, Ok(b"0123456789"));
    check_read(0, 0x10_0001, 0, Err(Reason::LengthAboveMax));
    check_read(0, u32::MAX, 0, Err(Reason::LengthAboveMax));
}

#[test]
fn remote_memory_is_not_read_into() {
    let (mut peer, file_id) = digits(&World::new());
    let channel = Channel::RDMA_V1;
    let body = ReadRequest { file_id, length: 1, channel, ..ReadRequest::default() };
    let request = peer.request(Command::READ, &body);
    assert_eq!(peer.call(request).outcome(), Reason::RdmaNotOffered);
}

/// [MS-SMB2] 2.2.19, 2.2.21: the field has no meaning before 3.0, and some clients leave arbitrary
/// values in it.
#[test]
fn a_channel_that_is_none_is_passed_over() {
    for (dialect, channel) in [
        (Dialect::SMB_2_1, Channel::RDMA_V1),
        (Dialect::SMB_3_1_1, Channel(4)),
        (Dialect::SMB_3_1_1, Channel(u32::MAX)),
    ] {
        let world = World::new();
        world.add_file("data", "file", b"0123456789");
        let mut peer = Peer::ready(&world, dialect);
        let file_id = peer.create(&Create::open("file")).file_id;
        let body = ReadRequest { file_id, length: 2, channel, ..ReadRequest::default() };
        let request = peer.request(Command::READ, &body);
        assert_eq!(peer.call(request).ok().body::<ReadResponse<'_>>().data, b"01");
        let mut body = WriteRequest::new(file_id, 0, b"x");
        body.channel = channel;
        let request = peer.request(Command::WRITE, &body);
        peer.call(request).ok();
    }
}

#[track_caller]
fn check_access(access: AccessMask, reads: bool, writes: bool) {
    let world = World::new();
    world.add_file("data", "file", b"data");
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    let file = peer.create(&Create::open("file").access(access)).file_id;
    let request = peer.read_request(file, 0, 1);
    let want = |may| if may { Reason::NotRefused } else { Reason::AccessNotGranted };
    assert_eq!(peer.call(request).reason, want(reads), "reading with {access:?}");
    assert_eq!(peer.write(file, 4, b"x").reason, want(writes), "writing with {access:?}");
    assert_eq!(peer.flush(file).reason, want(writes), "flushing with {access:?}");
}

#[test]
fn each_right_permits_its_own_operation_only() {
    check_access(AccessMask::READ_DATA, true, false);
    check_access(AccessMask::EXECUTE, true, false);
    check_access(AccessMask::WRITE_DATA, false, true);
    check_access(AccessMask::APPEND_DATA, false, true);
    check_access(AccessMask::READ_ATTRIBUTES, false, false);
    check_access(AccessMask::GENERIC_READ, true, false);
    check_access(AccessMask::GENERIC_WRITE, false, true);
}

#[track_caller]
fn check_write(offset: u64, data: &[u8], want: Result<&[u8], Reason>) {
    let world = World::new();
    let (mut peer, file) = digits(&world);
    let response = peer.write(file, offset, data);
    match want {
        Ok(contents) => {
            let count = response.ok().body::<WriteResponse>().count;
            assert_eq!(usize::try_from(count), Ok(data.len()));
            assert_eq!(world.contents("data", "file").as_deref(), Some(contents));
        }
        Err(reason) => {
            assert_eq!(response.outcome(), reason, "{} at {offset}", data.len());
            assert_eq!(world.contents("data", "file").as_deref(), Some(&b"0123456789"[..]));
        }
    }
}

#[test]
fn a_write_lands_at_its_offset() {
    check_write(0, b"ab", Ok(b"ab23456789"));
    check_write(9, b"ab", Ok(b"012345678ab"));
    check_write(12, b"ab", Ok(b"0123456789\0\0ab"));
    check_write(5, b"", Ok(b"0123456789"));
    check_write(50, b"", Ok(b"0123456789"));
}

#[test]
fn a_write_beyond_the_greatest_offset_is_invalid() {
    for offset in [0x7FFF_FFFF_FFFF_FFFF, 0x8000_0000_0000_0000, u64::MAX] {
        check_write(offset, b"ab", Err(Reason::RangeBeyondMax));
    }
    check_write(u64::MAX - 1, b"", Err(Reason::RangeBeyondMax));
}

#[test]
fn a_write_keeps_to_max_write_size() {
    let world = World::with(|settings| settings.max_write_size = 65_536);
    let (mut peer, file) = digits(&world);
    peer.write(file, 0, &vec![1; 65_536]).ok();
    assert_eq!(peer.write(file, 0, &vec![1; 65_537]).status(), NtStatus::INVALID_PARAMETER);
}

/// DataOffset may leave room behind the fixed part, up to 0x100.
#[test]
fn a_write_names_its_data_within_reason() {
    for (data_offset, want) in
        [(0x100_u16, Reason::NotRefused), (0x108, Reason::DataOffsetTooLarge)]
    {
        let world = World::new();
        let (mut peer, file) = digits(&world);
        let padding = usize::from(data_offset - WriteRequest::DATA_OFFSET);
        let request = peer.write_request(file, 0, b"ab").body(|body| {
            body[2..4].copy_from_slice(&data_offset.to_le_bytes());
            let at = body.len() - 2;
            body.splice(at..at, vec![0; padding]);
        });
        assert_eq!(peer.call(request).reason, want, "{data_offset:#x}");
    }
}

#[test]
fn a_write_without_its_data_is_invalid() {
    for length in [3_u32, 0x1000, u32::MAX] {
        let (mut peer, file) = digits(&World::new());
        let request = peer
            .write_request(file, 0, b"ab")
            .body(|body| body[4..8].copy_from_slice(&length.to_le_bytes()));
        assert_eq!(peer.call(request).outcome(), Reason::Malformed, "{length}");
    }
}

#[test]
fn a_directory_has_no_data() {
    let mut peer = Peer::ready(&World::new(), Dialect::SMB_3_1_1);
    let created = peer.create(&Create::directory("dir"));
    assert_eq!(created.action, CreateAction::CREATED);
    let request = peer.read_request(created.file_id, 0, 1);
    assert_eq!(peer.call(request).outcome(), Reason::DirectoryHasNoData);
    let refused = peer.write(created.file_id, 0, b"x");
    assert_eq!(refused.outcome(), Reason::DirectoryHasNoData);
    peer.flush(created.file_id).ok();
}

#[test]
fn a_read_or_write_refused_by_the_store_has_its_status() {
    let world = World::new();
    let (mut peer, file) = digits(&world);
    world.store().fail_nth_of(OpKind::Write, 0, NtStatus::DISK_FULL);
    assert_eq!(peer.write(file, 0, b"x").outcome(), NtStatus::DISK_FULL);
    world.store().fail_nth_of(OpKind::Read, 0, NtStatus::UNEXPECTED_IO_ERROR);
    let request = peer.read_request(file, 0, 1);
    assert_eq!(peer.call(request).outcome(), NtStatus::UNEXPECTED_IO_ERROR);
    world.store().fail_nth_of(OpKind::Flush, 0, NtStatus::UNEXPECTED_IO_ERROR);
    assert_eq!(peer.flush(file).outcome(), NtStatus::UNEXPECTED_IO_ERROR);
}

/// Returns whether the next WRITE reaches the store with write-through.
fn writes_through(world: &World, peer: &mut Peer, file: FileId) -> bool {
    let seen = std::rc::Rc::new(std::cell::Cell::new(None));
    let through = std::rc::Rc::clone(&seen);
    world.delay_replies(move |effect| {
        if let Effect::Object { op: object::ObjectOp::Write { write_through, .. }, .. } = effect {
            through.set(Some(*write_through));
        }
        false
    });
    peer.write(file, 0, b"x").ok();
    world.stop_delaying();
    seen.get().expect("something was written")
}

#[test]
fn a_write_reaches_stable_storage_if_the_open_or_the_share_demands_it() {
    let world = World::new();
    world.add_share("careful", |share| share.sync_always = true);
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    let file = peer.create(&Create::open_if("file")).file_id;
    assert!(!writes_through(&world, &mut peer, file));
    let through = Create::open_if("file").options(CreateOptions::WRITE_THROUGH);
    let file = peer.create(&through).file_id;
    assert!(writes_through(&world, &mut peer, file));
    peer.tree("careful");
    let file = peer.create(&Create::open_if("file")).file_id;
    assert!(writes_through(&world, &mut peer, file));
}

#[test]
fn each_reply_goes_to_its_own_read_in_any_order() {
    let world = World::new();
    let (mut peer, file) = digits(&world);
    world.delay_replies(|effect| matches!(effect, Effect::Object { .. }));
    let first = peer.next_message_id();
    for offset in 0..10 {
        let request = peer.read_request(file, offset, 1);
        peer.send(request);
    }
    for index in [9, 0, 4, 4, 1, 0, 2, 0, 1, 0] {
        world.release(index);
    }
    let responses = peer.receive();
    assert_eq!(responses.len(), 10);
    for response in responses {
        let digit = u8::try_from(response.header.message_id - first).expect("one of ten");
        assert_eq!(response.ok().body::<ReadResponse<'_>>().data, [b'0' + digit]);
    }
}

#[test]
fn a_file_as_large_as_an_offset_can_name_is_written_and_read_at_its_end() {
    let world = World::new();
    let (mut peer, file) = digits(&world);
    let last = 0x7FFF_FFFF_FFFF_FFFE;
    peer.write(file, last, b"x").ok();
    assert_eq!(peer.read(file, last, 1), b"x");
    let refused = peer.write(file, u64::MAX, b"y");
    assert_eq!(refused.outcome(), Reason::RangeBeyondMax);
}

#[test]
fn a_pipe_is_written_and_read_without_the_store() {
    let world = World::new();
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    peer.tree("IPC$");
    let pipe = peer.create(&Create::open("srvsvc")).file_id;
    let request = peer.read_request(pipe, 0, 100);
    assert_eq!(peer.call(request).outcome(), Reason::PipeEmpty);
    assert_eq!(peer.write(pipe, 0, b"no PDU at all, whatever").outcome(), Reason::PipeBroken);
    peer.flush(pipe).ok();
    peer.close(pipe).ok();
    assert_eq!(world.store().op_count(OpKind::Write), 0);
}
