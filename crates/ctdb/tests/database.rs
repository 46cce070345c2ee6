//! Records in a file as ctdbd keeps it, without a ctdbd.

use std::sync::mpsc;
use std::thread;

use ctdb::{Access, Attached, Database, DatabaseKind, RecordChange, RecordHeader};
use tdb::{Change, Tdb, TdbError};
use tempfile::TempDir;

const OWN: u32 = 2;

/// Flags of a volatile database of ctdbd, but without the one that empties the file and the
/// mutexes that need it: here no ctdbd has it open.
const FLAGS: u32 = 0x0C40;

/// A database with records that a test has put into it. Removed when dropped.
struct Site {
    attached: Attached,
    _directory: TempDir,
}

impl Site {
    fn new(kind: DatabaseKind, records: &[(&[u8], Vec<u8>)]) -> Self {
        let directory = tempfile::tempdir().expect("there is space");
        let path = directory.path().join("x.tdb.2");
        let file = Tdb::stable(&path, 7).expect("it is new");
        for (key, value) in records {
            file.insert(key, value).expect("there is room");
        }
        let attached = Attached { database: 9, kind, path, flags: FLAGS };
        Self { attached, _directory: directory }
    }

    fn open(&self) -> Database {
        Database::open(&self.attached, OWN).expect("it is a database")
    }

    /// The record as it is in the file.
    fn stored(&self, key: &[u8]) -> Option<Vec<u8>> {
        let file = Tdb::managed(&self.attached.path, FLAGS).expect("it is closed");
        file.get(key, <[u8]>::to_vec).expect("it is whole")
    }
}

fn record(dmaster: u32, flags: u32, value: &[u8]) -> Vec<u8> {
    let mut record = 5u64.to_ne_bytes().to_vec();
    for field in [dmaster, 0, flags, 0] {
        record.extend(field.to_ne_bytes());
    }
    record.extend(value);
    record
}

fn value(found: Option<&[u8]>) -> Option<Vec<u8>> {
    found.map(<[u8]>::to_vec)
}

#[track_caller]
fn assert_here<R: PartialEq + std::fmt::Debug>(access: Result<Access<R>, TdbError>, want: R) {
    assert_eq!(access, Ok(Access::Here { result: want, deleted: None }));
}

#[test]
fn a_record_is_here_if_its_header_says_so() {
    let records = [
        (&b"here"[..], record(OWN, 0x0001_0000, b"v")),
        (b"tombstone", record(OWN, 0, b"")),
        (b"moved", record(1, 0, b"v")),
        (b"delegated", record(OWN, 0x0100_0000, b"v")),
        (b"damaged", vec![0; 7]),
    ];
    let site = Site::new(DatabaseKind::Volatile, &records);
    let database = site.open();
    let keep = |key| database.change(key, |found| (RecordChange::Keep, value(found)));
    assert_here(keep(b"here"), Some(b"v".to_vec()));
    assert_here(keep(b"tombstone"), None);
    for key in [&b"moved"[..], b"delegated", b"damaged", b"unknown"] {
        assert_eq!(keep(key), Ok(Access::Elsewhere));
        let stored = database.change(key, |_| (RecordChange::Store(b"new".to_vec()), ()));
        assert_eq!(stored, Ok(Access::Elsewhere), "nothing may be stored");
    }
    // To read, a copy will do that others may read as well.
    assert_here(database.read(b"delegated", value), Some(b"v".to_vec()));
    assert_eq!(database.read(b"moved", value), Ok(Access::Elsewhere));
    drop(database);
    assert_eq!(site.stored(b"moved"), Some(record(1, 0, b"v")));
    assert_eq!(site.stored(b"unknown"), None);
}

#[test]
fn a_record_is_stored_with_its_header_as_it_was() {
    let site = Site::new(DatabaseKind::Volatile, &[(b"k", record(OWN, 0x0001_0000, b"old"))]);
    let database = site.open();
    let stored = database.change(b"k", |_| (RecordChange::Store(b"newer".to_vec()), 7));
    assert_here(stored, 7);
    assert_here(database.read(b"k", value), Some(b"newer".to_vec()));
    drop(database);
    assert_eq!(site.stored(b"k"), Some(record(OWN, 0x0001_0000, b"newer")));
}

#[test]
fn a_deleted_record_keeps_its_header_which_ctdbd_is_to_be_told() {
    let header = RecordHeader { sequence: 5, dmaster: OWN, flags: 0x0001_0000 };
    let site = Site::new(DatabaseKind::Volatile, &[(b"k", record(OWN, 0x0001_0000, b"old"))]);
    let database = site.open();
    for _ in 0..2 {
        let deleted = database.change(b"k", |_| (RecordChange::Delete, ()));
        assert_eq!(deleted, Ok(Access::Here { result: (), deleted: Some(header) }));
    }
    assert_here(database.read(b"k", value), None);
    drop(database);
    assert_eq!(site.stored(b"k"), Some(record(OWN, 0x0001_0000, b"")));
}

#[test]
fn persistent_databases_are_read_here_and_changed_by_transactions_alone() {
    let site = Site::new(DatabaseKind::Persistent, &[(b"k", record(1, 0, b"v"))]);
    let database = site.open();
    assert_here(database.read(b"k", value), Some(b"v".to_vec()));
    assert_here(database.read(b"unknown", value), None);
    let stored = database.change(b"k", |_| (RecordChange::Store(Vec::new()), ()));
    assert_eq!(stored, Err(TdbError::ReadOnly));
}

/// A recovery locks all chains, for seconds or longer.
#[test]
fn a_locked_record_is_busy_and_nobody_waits_for_it() {
    let site = Site::new(DatabaseKind::Volatile, &[(b"k", record(OWN, 0, b"v"))]);
    // Locks of one process do not exclude each other, and this one is in another.
    let mut holder = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "holder_of_a_lock", "--nocapture"])
        .env("CHORO_HOLDER_OF", &site.attached.path)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("this program runs");
    let output = holder.stdout.take().expect("it is piped");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(output));
    assert!(lines.any(|line| line.is_ok_and(|line| line.ends_with("locked"))));
    let database = site.open();
    assert_eq!(database.read(b"k", value), Ok(Access::Busy));
    let stored = database.change(b"k", |_| (RecordChange::Store(b"new".to_vec()), ()));
    assert_eq!(stored, Ok(Access::Busy));
    drop(holder.stdin.take());
    assert!(holder.wait().expect("it ends").success());
    assert_here(database.read(b"k", value), Some(b"v".to_vec()));
}

/// Part of the test above, as another process; alone it has nothing to do.
#[test]
fn holder_of_a_lock() {
    let Some(path) = std::env::var_os("CHORO_HOLDER_OF") else { return };
    let file = Tdb::managed(path.as_ref(), FLAGS).expect("it is a database");
    let (locked, is_locked) = mpsc::channel();
    let speaker = thread::spawn(move || {
        is_locked.recv().expect("it is locked soon");
        let mut output = std::io::stdout();
        std::io::Write::write_all(&mut output, b"locked\n").expect("the test reads");
    });
    let held = file.with_record(b"k", |_| {
        locked.send(()).expect("the speaker waits");
        // Until the test closes its end.
        let rest = std::io::read_to_string(std::io::stdin()).expect("it is a pipe");
        (Change::Keep, rest.len())
    });
    assert_eq!(held, Ok(0));
    speaker.join().expect("it has spoken");
}

#[test]
fn flags_that_ctdbd_never_tells_are_refused() {
    let site = Site::new(DatabaseKind::Volatile, &[]);
    for flags in [FLAGS | 2, FLAGS | 4, FLAGS | 0x2000, u32::MAX] {
        let attached = Attached { flags, ..site.attached.clone() };
        let refused = Database::open(&attached, OWN).expect_err("it would be another file");
        assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput, "{flags:#x}");
    }
}

#[test]
fn a_database_that_does_not_exist_is_not_made() {
    let site = Site::new(DatabaseKind::Volatile, &[]);
    let path = site.attached.path.with_extension("absent");
    let attached = Attached { path: path.clone(), ..site.attached.clone() };
    let absent = Database::open(&attached, OWN).expect_err("there is none");
    assert_eq!(absent.kind(), std::io::ErrorKind::NotFound);
    assert!(!path.exists());
}
