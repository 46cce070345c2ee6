//! Files of another program's server, such as ctdbd.

use std::io;

use tdb::{Change, Tdb};

/// Flags of tdb.h: INCOMPATIBLE_HASH and NOSYNC.
const FLAGS: u32 = 0x0840;

#[test]
fn a_managed_file_is_read_and_changed_with_the_flags_of_its_server() {
    let directory = tempfile::tempdir().expect("a folder");
    let path = directory.path().join("x.tdb");
    // Such a table has the same hash.
    let server = Tdb::stable(&path, 7).expect("it is new");
    server.insert(b"k", b"v").expect("there is room");
    drop(server);
    let table = Tdb::managed(&path, FLAGS).expect("it is there");
    let changed = table.try_with_record(b"k", |value| {
        assert_eq!(value, Some(&b"v"[..]));
        (Change::Store(b"w".to_vec()), ())
    });
    assert_eq!(changed, Ok(()));
    assert_eq!(table.get(b"k", <[u8]>::to_vec), Ok(Some(b"w".to_vec())));
}

#[test]
fn a_managed_file_is_never_made_and_takes_no_flags_that_make_another_one() {
    let directory = tempfile::tempdir().expect("a folder");
    let path = directory.path().join("x.tdb");
    let absent = Tdb::managed(&path, FLAGS).expect_err("there is none");
    assert_eq!((absent.kind(), path.exists()), (io::ErrorKind::NotFound, false));
    drop(Tdb::stable(&path, 7).expect("it is new"));
    // INTERNAL: in memory; NOLOCK; CONVERT: the other byte order; and none of tdb.h.
    for flag in [2, 4, 16, 0x8000, 0x8000_0000] {
        let refused = Tdb::managed(&path, FLAGS | flag).expect_err("it is another file");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{flag:#x}");
    }
    drop(Tdb::managed(&path, FLAGS).expect("it is there"));
}
