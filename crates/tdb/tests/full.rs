//! A table on a file system without room keeps its records.

use std::ffi::{CStr, CString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tdb::{Change, Mapping, Tdb, TdbError};

/// Libtdb itself deletes the record first and looks for room then.
#[test]
fn a_record_that_finds_no_room_to_grow_stays_as_it_was() {
    // A thread of its own: the mounts below are seen by it alone, and end with it.
    let thread = std::thread::spawn(|| {
        let dir = tempfile::tempdir().expect("a folder");
        if let Err(error) = mount_small(dir.path()) {
            // To the terminal: the test's own output is not shown if it passes.
            let _ = writeln!(io::stderr(), "skipped, no file system of its own: {error}");
            return;
        }
        for mapping in [Mapping::Mapped, Mapping::Unmapped] {
            let table = Tdb::shared(&dir.path().join("table.tdb"), 7, mapping).expect("open");
            grow(&table, 1_000).expect("there is room");
            let filler = dir.path().join("filler");
            let mut file = fs::File::create(&filler).expect("there is room");
            for size in [1 << 20, 4_096, 1] {
                while file.write_all(&vec![0; size]).is_ok() {}
            }
            drop(file);
            // Twice: the first attempt leaves a file that differs from the one it found.
            for _ in 0..2 {
                assert_eq!(grow(&table, 200_000), Err(TdbError::Full));
                assert_eq!(table.get(b"key", <[u8]>::to_vec), Ok(Some(vec![b'x'; 1_000])));
            }
            assert_eq!(table.insert(b"other", &[0; 200_000]), Err(TdbError::Full));
            assert_eq!(table.get(b"other", <[u8]>::to_vec), Ok(None));
            fs::remove_file(&filler).expect("it is ours");
            grow(&table, 200_000).expect("there is room again");
            assert_eq!(table.get(b"key", <[u8]>::len), Ok(Some(200_000)));
            drop(table);
            fs::remove_file(dir.path().join("table.tdb")).expect("it is ours");
        }
        unmount(dir.path()).expect("it is mounted");
    });
    thread.join().expect("as above");
}

fn grow(table: &Tdb, len: usize) -> Result<(), TdbError> {
    table.with_record(b"key", |_| (Change::Store(vec![b'x'; len]), ()))
}

/// Mounts a small file system, visible to this thread only.
fn mount_small(on: &Path) -> io::Result<()> {
    // SAFETY: concerns this thread alone, which uses absolute paths.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount(c"none", c"/", libc::MS_PRIVATE | libc::MS_REC, c"")?;
    mount(c"tmpfs", &c_path(on), 0, c"size=32M,mode=700")
}

fn mount(kind: &CStr, on: &CStr, flags: libc::c_ulong, options: &CStr) -> io::Result<()> {
    let (kind, options) = (kind.as_ptr(), options.as_ptr());
    // SAFETY: all are strings that outlive the call, and the kernel only reads them.
    check(unsafe { libc::mount(kind, on.as_ptr(), kind, flags, options.cast()) })
}

fn unmount(from: &Path) -> io::Result<()> {
    // SAFETY: the path is a string that outlives the call.
    check(unsafe { libc::umount2(c_path(from).as_ptr(), libc::MNT_DETACH) })
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no NUL")
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
