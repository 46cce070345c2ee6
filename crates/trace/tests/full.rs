//! Page of a worker on a file system without room.

use std::ffi::{CStr, CString};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use trace::{Answered, Came, Clock, PartyId, Phase, Reason, SeriesValue, StoreOperation, Tracer};

const PID: u32 = 7;

/// A store to a mapped file without room in the file system kills the process.
#[test]
fn a_page_without_room_is_refused_and_one_that_is_there_counts_on_without_room_for_more_users() {
    count_without_room(|| Ok(()));
}

#[test]
fn kernels_that_cannot_be_asked_for_memory_kill_no_process_either() {
    count_without_room(refuse_to_populate);
}

/// Counts on a page in a full file system, on a kernel that a function prepares.
fn count_without_room(prepare: fn() -> io::Result<()>) {
    // In a thread, because its mounts are private and end with it, and so does its filter.
    let thread = std::thread::spawn(move || {
        let dir = tempfile::tempdir().expect("a folder");
        if let Err(error) = mount_small(dir.path()).and_then(|()| prepare()) {
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
        let stored = store_all(tracer);
        assert!(stored < StoreOperation::ALL.len() as u64, "there is no room for all: {stored}");
        let (refused, others) = refuse_all(tracer);
        assert!(others != 0, "there is room for the counters of all: {refused}");
        assert_eq!(tracer.party("share", "second"), Default::default(), "counted with all others");
        fs::remove_file(path.join("filler")).expect("it is ours");
        assert_ne!(tracer.party("share", "second"), Default::default());
        let counted = count_all(tracer, known);
        assert_eq!(count_all(tracer, known), counted + u64::from(COMMANDS), "there is room again");
        assert_eq!(store_all(tracer), stored + StoreOperation::ALL.len() as u64);
        assert!(refuse_all(tracer).0 > 2 * refused, "there is room for more counters");
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
    sum(&tracer.figures().events.request_end)
}

/// Refuses a request of each command for each reason, and returns the number of refusals with a
/// counter of their reason and of those without.
fn refuse_all(tracer: Tracer) -> (u64, u64) {
    for (command, reason) in (0..COMMANDS).flat_map(|it| Reason::ALL.iter().map(move |to| (it, to)))
    {
        let request = tracer.begin(Came::default(), Phase::Parsing);
        request.identify(1, command);
        request.refuse(*reason, &"a rule");
        request.answer(0, None, &mut Answered::default());
    }
    let figures = tracer.figures();
    (figures.refusals.iter().map(|it| it.count).sum(), figures.other_refusals)
}

/// Does each operation of the store, and returns the number of times that were counted so far.
fn store_all(tracer: Tracer) -> u64 {
    for operation in StoreOperation::ALL {
        let work = tracer.store_begins(*operation, true);
        tracer.store_ends(work, 0, 0);
    }
    sum(&tracer.figures().events.store_end)
}

fn sum(series: &[SeriesValue]) -> u64 {
    series.iter().map(|it| it.count).sum()
}

/// Fills the file system completely.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).expect("there is room");
    for size in [65_536, 4_096, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}

/// Has the kernel know no `MADV_POPULATE_WRITE` on this thread, as before Linux 5.14.
fn refuse_to_populate() -> io::Result<()> {
    // Offsets in `struct seccomp_data`: the number of the call, and the low word of its third
    // argument.
    let (call, advice) = (0, if cfg!(target_endian = "little") { 32 } else { 36 });
    let statement = |code, k| libc::sock_filter { code: number(code), jt: 0, jf: 0, k };
    let unless = |k, jf| {
        let code = number(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
        libc::sock_filter { code, jt: 0, jf, k }
    };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let mut filter = [
        statement(load, call),
        unless(u32::try_from(libc::SYS_madvise).expect("a small number"), 3),
        statement(load, advice),
        unless(libc::MADV_POPULATE_WRITE.unsigned_abs(), 1),
        statement(libc::BPF_RET, libc::SECCOMP_RET_ERRNO | libc::EINVAL.unsigned_abs()),
        statement(libc::BPF_RET, libc::SECCOMP_RET_ALLOW),
    ];
    let len = u16::try_from(filter.len()).expect("a few");
    let program = libc::sock_fprog { len, filter: filter.as_mut_ptr() };
    // SAFETY: both affect only this thread; the kernel copies the filter during the call.
    unsafe {
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        check(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program))
    }
}

fn number(code: u32) -> u16 {
    u16::try_from(code).expect("codes have 16 bits")
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
