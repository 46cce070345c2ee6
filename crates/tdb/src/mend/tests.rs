//! The tests damage a file as a killed process leaves it: by a few bytes that contradict the rest.

use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::Mended;
use crate::{Change, RECORD_BYTES_MAX, Tdb, data, ffi};

const RECORDS: u32 = 500;

/// Hash chains of the table, far fewer than its records.
const HASH_SIZE: u16 = 31;

/// `TDB_FREE_MAGIC`, at the beginning of a free record.
const FREE: [u8; 4] = 0xD9FE_E666_u32.to_le_bytes();

fn fill(path: &Path) -> Tdb {
    let table = Tdb::create(path, HASH_SIZE).expect("a table");
    for number in 0..RECORDS {
        let value = vec![7; usize::try_from(number % 90).expect("small")];
        let store = |_: Option<&[u8]>| (Change::Store(value.clone()), ());
        table.with_record(&number.to_le_bytes(), store).expect("room");
    }
    // Leaves free space in many places.
    for number in (0..RECORDS).filter(|number| number % 3 == 0) {
        assert_eq!(table.delete(&number.to_le_bytes()), Ok(true));
    }
    table
}

fn keys(table: &Tdb) -> Vec<u32> {
    let mut keys = Vec::new();
    let read = |key: &[u8], _: &[u8]| {
        keys.push(u32::from_le_bytes(key.try_into().expect("ours")));
    };
    table.for_each(read).expect("readable");
    keys.sort_unstable();
    keys
}

fn break_free_space(path: &Path) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).expect("ours");
    let bytes = std::fs::read(path).expect("ours");
    let free = bytes.windows(4).rposition(|window| window == FREE).expect("some space is free");
    // The fields before the magic: next, rec_len, key_len, data_len, full_hash.
    let rec_len = u64::try_from(free - 16).expect("a small file");
    file.write_all_at(&0x00FF_FFF0_u32.to_le_bytes(), rec_len).expect("ours");
}

#[test]
fn a_table_that_is_whole_stays_as_it_is() {
    let dir = tempfile::tempdir().expect("a folder");
    let table = fill(&dir.path().join("table.tdb"));
    assert_eq!(table.mend(), Ok(Mended::default()));
    let left: Vec<u32> = (0..RECORDS).filter(|number| number % 3 != 0).collect();
    assert_eq!(keys(&table), left);
}

#[test]
fn a_table_with_damaged_free_lists_is_rewritten_and_loses_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("table.tdb");
    let table = fill(&path);
    let left = keys(&table);
    break_free_space(&path);
    let mended = table.mend().expect("it can be written");
    assert_eq!(mended, Mended { was_damaged: true, ..Mended::default() });
    assert_eq!(keys(&table), left);
    assert_eq!(table.mend(), Ok(Mended::default()), "it is whole now");
    let store = |_: Option<&[u8]>| (Change::Store(vec![1; 1_000]), ());
    table.with_record(b"more", store).expect("there is room again");
}

#[test]
fn a_record_that_cannot_be_written_again_takes_no_other_along() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("table.tdb");
    let table = fill(&path);
    let left = keys(&table);
    let (key, value) = (RECORDS.to_le_bytes(), vec![1; RECORD_BYTES_MAX + 1]);
    // SAFETY: the context is open, and key and value outlive the call.
    let stored = unsafe {
        ffi::tdb_store(table.context.as_ptr(), data(&key), data(&value), ffi::TDB_INSERT)
    };
    assert_eq!(stored, 0);
    break_free_space(&path);
    let mended = table.mend().expect("it can be written");
    assert_eq!(mended, Mended { was_damaged: true, records_lost: 1, ..Mended::default() });
    assert_eq!(keys(&table), left);
}
