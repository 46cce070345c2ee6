use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tempfile::TempDir;

use tdb::{Change, RECORD_BYTES_MAX, Tdb, TdbError};

use super::{Table, TableError};
use crate::memory::MemoryTable;

fn table() -> (TempDir, Tdb) {
    let dir = tempfile::tempdir().expect("a folder");
    let table = Tdb::create(&dir.path().join("t.tdb"), 7).expect("a table");
    (dir, table)
}

/// Checks a table of any kind.
fn check_table(table: &impl Table) {
    let get = |key: &[u8]| table.get(key, <[u8]>::to_vec).expect("readable");
    assert_eq!(get(b"a"), None);
    assert_eq!(table.insert(b"a", b"1"), Ok(()));
    assert_eq!(table.insert(b"a", b"2"), Err(TableError::Exists));
    assert_eq!(get(b"a"), Some(b"1".to_vec()));

    let append = |found: Option<&[u8]>| {
        let old = found.unwrap_or_default();
        (Change::Store([old, b"+"].concat()), old.len())
    };
    assert_eq!(table.with_record(b"a", append), Ok(1));
    assert_eq!(table.with_record(b"b", append), Ok(0));
    assert_eq!((get(b"a"), get(b"b")), (Some(b"1+".to_vec()), Some(b"+".to_vec())));
    let keep = |found: Option<&[u8]>| (Change::Keep, found.is_some());
    assert_eq!(table.with_record(b"a", keep), Ok(true));
    assert_eq!(table.with_record(b"c", keep), Ok(false));
    assert_eq!(table.with_record(b"b", |_| (Change::Delete, ())), Ok(()));
    assert_eq!(table.with_record(b"b", |_| (Change::Delete, ())), Ok(()));
    assert_eq!(get(b"b"), None);

    let (largest, larger) = (vec![1; RECORD_BYTES_MAX], vec![1; RECORD_BYTES_MAX + 1]);
    assert_eq!(table.insert(b"large", &largest), Ok(()));
    let refused = TableError::RecordTooLarge(larger.len());
    assert_eq!(table.insert(b"larger", &larger), Err(refused));
    assert_eq!(table.with_record(b"a", |_| (Change::Store(larger), ())), Err(refused));
    assert_eq!(table.delete(b"large"), Ok(true));
    assert_eq!(table.delete(b"large"), Ok(false));

    for key in 0..100_u32 {
        table.insert(&key.to_le_bytes(), &[0; 3]).expect("room");
    }
    let mut seen = Vec::new();
    // The table may be changed by the visitor.
    let damaged = table.for_each(|key, value| {
        seen.push((key.to_vec(), value.len()));
        table.delete(key).expect("there");
    });
    assert_eq!(damaged, Ok(0));
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 101);
    assert_eq!(table.for_each(|_, _| panic!("all are deleted")), Ok(0));
}

#[test]
fn a_file_is_a_table() {
    let (_dir, table) = table();
    check_table(&table);
}

#[test]
fn memory_is_a_table() {
    check_table(&MemoryTable::default());
}

/// Closing the second would drop the locks of the first.
#[test]
fn a_file_is_opened_once_in_a_process() {
    let (dir, table) = table();
    let path = dir.path().join("t.tdb");
    let error = Tdb::join(&path).expect_err("open already");
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    let error = Tdb::observe(&path).expect_err("open already");
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    drop(table);
    Tdb::observe(&path).expect("closed");
}

/// The lock of the chain is released, and the panic does not cross libtdb's frames.
#[test]
fn a_panic_under_a_lock_leaves_the_table_usable() {
    let (_dir, table) = table();
    table.insert(b"a", b"1").expect("room");
    let panics = |found: Option<&[u8]>| -> (Change, ()) { panic!("{found:?}") };
    let with_record = || table.with_record(b"a", panics);
    catch_unwind(AssertUnwindSafe(with_record)).expect_err("it panics");
    let get = || table.get(b"a", |_| panic!("in the parser"));
    catch_unwind(AssertUnwindSafe(get)).expect_err("it panics");
    assert_eq!(table.with_record(b"a", |_| (Change::Delete, ())), Ok(()));
    assert_eq!(table.get(b"a", |_| ()), Ok(None));
}

#[test]
fn an_observer_reads_and_changes_nothing() {
    let (dir, table) = table();
    table.insert(b"a", b"1").expect("room");
    drop(table);
    let table = Tdb::observe(&dir.path().join("t.tdb")).expect("a table");
    assert_eq!(table.get(b"a", <[u8]>::to_vec), Ok(Some(b"1".to_vec())));
    assert_eq!(table.get(b"b", <[u8]>::to_vec), Ok(None));
    assert_eq!(table.insert(b"b", b"2"), Err(TdbError::ReadOnly));
    assert_eq!(table.delete(b"a"), Err(TdbError::ReadOnly));
    assert_eq!(table.with_record(b"a", |_| (Change::Keep, ())), Err(TdbError::ReadOnly));
    let mut count = 0;
    assert_eq!(table.for_each(|_, _| count += 1), Ok(0));
    assert_eq!(count, 1);
}

#[test]
fn creating_replaces_an_earlier_table() {
    let (dir, table) = table();
    table.insert(b"a", b"1").expect("room");
    let path = dir.path().join("t.tdb");
    let fresh = Tdb::create(&path, 7).expect("a table");
    assert_eq!(fresh.get(b"a", |_| ()), Ok(None));
    assert_eq!(table.get(b"a", |_| ()), Ok(Some(())));
}

#[test]
fn a_file_that_is_not_a_table_is_an_error() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("t.tdb");
    std::fs::write(&path, b"not a table").expect("written");
    Tdb::observe(&path).expect_err("not a table");
    Tdb::observe(&dir.path().join("absent")).expect_err("absent");
}

/// Offsets beyond the file and cyclic chains are counted, without an endless loop or a crash.
#[test]
fn a_damaged_file_is_read_as_far_as_it_goes() {
    let (dir, table) = table();
    for key in 0..64_u32 {
        table.insert(&key.to_le_bytes(), &[0; 40]).expect("room");
    }
    drop(table);
    let path = dir.path().join("t.tdb");
    let intact = std::fs::read(&path).expect("readable");
    for seed in 0..200_usize {
        let mut bytes = intact.clone();
        // Behind the header and the mutexes, which only decide whether the file is a table.
        for step in 0..64 {
            let at = bytes.len() - 1 - (seed * 7919 + step * 104_729) % 6_000;
            bytes[at] ^= u8::try_from(seed % 255).expect("below 255") + 1;
        }
        std::fs::write(&path, bytes).expect("written");
        let table = Tdb::observe(&path).expect("the header is intact");
        let mut count = 0;
        let damaged = table.for_each(|_, _| count += 1).expect("no lock to fail");
        assert!(count < 64 || damaged == 0, "{count} records, {damaged} damaged");
    }
}
