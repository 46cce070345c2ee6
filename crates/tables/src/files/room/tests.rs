use std::time::Duration;

use arbitration::{
    ByteRange, ByteRangeLock, Deleter, DeletionProgress, FILE_BYTES_MAX, FileKey, FileRecord,
    FileRecords, OpenId, RequestedCaching, Requester, Standing, WorkersToNotify,
};

use super::super::tests::{KEY, OTHER, WORKER, ask, durability, remove_worker};
use super::super::{FileTable, codec};
use crate::MemoryFiles;
use crate::memory::MemoryTable;
use crate::table::Table;

/// Opens different files as long as there is room. Returns their number.
fn open_many<T: Table + std::fmt::Debug>(
    files: &FileTable<T>,
    device: u64,
    standing: Standing,
) -> u64 {
    let enter = &mut |record: &mut FileRecord| {
        record.admit(
            &mut ask(WORKER, 1, RequestedCaching::Nothing),
            None,
            &mut WorkersToNotify::default(),
        );
        true
    };
    let mut opened = 0;
    while files.permits_open(standing) {
        opened += 1;
        files.change(FileKey { device, inode: opened }, enter).expect("room");
    }
    opened
}

fn close_all(files: &FileTable<MemoryTable>) {
    let mut keys = Vec::new();
    files.for_each(&mut |key, _| keys.push(key)).expect("readable");
    let close = &mut |record: &mut FileRecord| {
        record.close(
            OpenId { worker: WORKER, number: 1 },
            false,
            None,
            &mut WorkersToNotify::default(),
        );
        true
    };
    keys.into_iter().for_each(|key| files.change(key, close).expect("room"));
}

#[test]
fn clients_at_their_limit_leave_room_for_later_clients() {
    let tables = MemoryFiles::default();
    tables.room.set_max(1 << 20);
    let opened: Vec<u64> = (0..8)
        .map(|client| {
            let standing = if client == 0 { Standing::Guest } else { Standing::User };
            open_many(&tables.handle(), client, standing)
        })
        .collect();
    assert!(opened[0] * 3 < opened[1], "a guest has a quarter: {opened:?}");
    assert!(opened.iter().all(|it| *it > 20), "{opened:?}");
    assert!(opened[1..].is_sorted_by(|before, after| before > after), "{opened:?}");
    assert!(tables.room.bytes() < 1 << 20);
}

#[test]
fn a_closed_open_returns_its_bytes_and_a_disconnected_one_does_not() {
    let tables = MemoryFiles::default();
    tables.room.set_max(1 << 20);
    let files = tables.handle();
    let opened = open_many(&files, 1, Standing::User);
    close_all(&files);
    assert_eq!(tables.room.bytes(), 0);
    assert_eq!(open_many(&files, 1, Standing::User), opened);
    let leave = &mut |record: &mut FileRecord| {
        record.opens[0].durability = Some(durability());
        true
    };
    for inode in 1..=opened {
        files.change(FileKey { device: 1, inode }, leave).expect("room");
    }
    let taken = tables.room.bytes();
    remove_worker(&files, WORKER, OTHER, Duration::ZERO).expect("readable");
    assert!(tables.room.bytes() >= taken, "it outlives its worker");
    let after = open_many(&tables.handle(), 2, Standing::User);
    assert!(after < opened, "another client finds less: {after}");
}

#[test]
fn a_record_that_is_not_kept_takes_no_room_and_leaves_its_word() {
    let tables = MemoryFiles::default();
    let files = tables.handle();
    let open = &mut |record: &mut FileRecord| {
        record.admit(
            &mut ask(WORKER, 1, RequestedCaching::Nothing),
            None,
            &mut WorkersToNotify::default(),
        );
        true
    };
    files.change(KEY, open).expect("room");
    let before = (tables.room.bytes(), files.word(KEY));
    let deleter = Deleter {
        mark: 7,
        worker: OTHER,
        progress: DeletionProgress::Delegated,
        requester: Requester { path: "x".repeat(8_000), ..Requester::default() },
    };
    let grow = &mut |record: &mut FileRecord| {
        let open = OpenId { worker: WORKER, number: 1 };
        let range = ByteRange { offset: 0, length: 1 };
        let lock = ByteRangeLock { open, stream: 0, range, exclusive: true };
        record.acquire_locks(&[lock], Standing::User).expect("nothing is locked");
        record.deleters = vec![deleter.clone(); tdb::RECORD_BYTES_MAX / 8_000 + 1];
        true
    };
    files.change(KEY, grow).expect_err("it is longer than a record may be");
    assert_eq!((tables.room.bytes(), files.word(KEY)), before);
}

/// A record with opens of one file by one long path.
fn opens_by(path: &str, count: u64) -> FileRecord {
    let mut record = FileRecord::default();
    record.admit(
        &mut ask(WORKER, 1, RequestedCaching::Nothing),
        None,
        &mut WorkersToNotify::default(),
    );
    let mut entry = record.opens.remove(0);
    entry.facts.path = path.to_owned();
    for number in 0..count {
        entry.id.number = number;
        record.opens.push(entry.clone());
    }
    record
}

#[test]
fn the_path_of_thousands_of_opens_is_kept_once() {
    let record = opens_by(&"x".repeat(4_000), 4_096);
    let bytes = codec::encode(&record).expect("short enough");
    assert!(bytes.len() < 1 << 20, "{} bytes", bytes.len());
    assert_eq!(codec::decode(&bytes), Ok(record));
}

#[test]
fn a_record_has_no_more_opens_than_it_can_change_with_later() {
    let files = MemoryFiles::default().handle();
    let mut record = opens_by("", 1);
    while codec::encode(&record).expect("short enough").len() <= FILE_BYTES_MAX {
        // Each by another path than the previous one.
        for number in 0..64_u64 {
            let mut entry = record.opens[0].clone();
            entry.id.number = record.opens.len() as u64;
            entry.facts.path = format!("{number}{}", "x".repeat(4_000));
            record.opens.push(entry);
        }
    }
    let more = &mut |kept: &mut FileRecord| {
        *kept = record.clone();
        true
    };
    files.change(KEY, more).expect_err("it has too many opens");
    record.opens.truncate(record.opens.len() / 2);
    let half = &mut |kept: &mut FileRecord| {
        *kept = record.clone();
        true
    };
    files.change(KEY, half).expect("room");
    let grow = &mut |kept: &mut FileRecord| {
        kept.opens.iter_mut().for_each(|it| it.durability = Some(durability()));
        true
    };
    files.change(KEY, grow).expect("one that is there can always change");
}

#[test]
fn a_record_that_was_never_counted_takes_nobodys_room_when_it_goes() {
    let tables = MemoryFiles::default();
    // Its worker was killed between storing the record and counting it.
    tables.room.clone().add(-400);
    assert_eq!(tables.room.bytes(), 0);
    assert!(tables.handle().permits_open(Standing::User));
}
