//! Page of a worker on a file system without room.

use std::ffi::{CStr, CString};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use trace::{Answered, Came, Clock, PartyId, Phase, Tracer};

const PID: u32 = 7;

/// A store to a mapped file without room in the file system kills the process.
#[test]
fn a_page_without_room_is_refused_and_one_that_is_there_counts_on_without_room_for_more_users() {
    // In a thread, because its mounts are private and end with it.
    let thread = std::thread::spawn(|| {
        let dir = tempfile::tempdir().expect("a folder");
        if let Err(error) = mount_small(dir.path()) {
            // Writes to the terminal, because a passing test's own output is hidden.
            let _ = writeln!(io::stderr(), "skipped, no file system of its own: {error}");
            return;
        }
        let path = dir.path();
        trace::prepare(path).expect("there is room");
        let clock = Clock::measure();
        let tracer = Tracer::create(path, PID, 1, clock).expect("there is room");
        let known = tracer.party("share", "first");
        fill(&path.join("filler"));
        let refused = Tracer::create(path, PID, 2, clock).expect_err("there is no room");
        assert_eq!(refused.kind(), ErrorKind::StorageFull);
        assert_eq!(trace::workers(path).expect("readable"), [(PID, 1)], "a part of one is left");
        assert_eq!(tracer.party("share", "first"), known);
        let counted = count_all(tracer, known);
        assert!(counted < u64::from(COMMANDS), "there is no room for the times of all: {counted}");
        assert_eq!(tracer.party("share", "second"), Default::default(), "counted with all others");
        fs::remove_file(path.join("filler")).expect("it is ours");
        assert_ne!(tracer.party("share", "second"), Default::default());
        assert_eq!(count_all(tracer, known), counted + u64::from(COMMANDS), "there is room again");
        unmount(path).expect("it is mounted");
    });
    thread.join().expect("as above");
}

/// Number of commands of the protocol.
const COMMANDS: u16 = 19;

/// Answers a request of each command, and returns the number of requests that were counted so far.
fn count_all(tracer: Tracer, party: PartyId) -> u64 {
    for command in 0..COMMANDS {
        let request = tracer.begin(Came::default(), Phase::Parsing);
        request.identify(1, command);
        request.belongs_to(party);
        request.answer(0, None, &mut Answered::default());
    }
    tracer.figures().events.request_end.iter().map(|it| it.count).sum()
}

/// Fills the file system completely.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).expect("there is room");
    for size in [65_536, 4_096, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}

/// Mounts a small file system, visible to this thread only.
fn mount_small(on: &Path) -> io::Result<()> {
    // SAFETY: affects only this thread, which uses absolute paths.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount(c"none", c"/", libc::MS_PRIVATE | libc::MS_REC, c"")?;
    mount(c"tmpfs", &c_path(on), 0, c"size=1M,mode=700")
}

fn mount(kind: &CStr, on: &CStr, flags: libc::c_ulong, options: &CStr) -> io::Result<()> {
    let (kind, options) = (kind.as_ptr(), options.as_ptr());
    // SAFETY: all are valid strings, and the kernel only reads them.
    check(unsafe { libc::mount(kind, on.as_ptr(), kind, flags, options.cast()) })
}

fn unmount(from: &Path) -> io::Result<()> {
    // SAFETY: the path is a valid string.
    check(unsafe { libc::umount2(c_path(from).as_ptr(), libc::MNT_DETACH) })
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no NUL")
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
