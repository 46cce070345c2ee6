//! Each kind of process is stopped at calls outside its list, and goes on with those on it.
//!
//! A process cannot get rid of its filters, so each case runs in one of its own: this program with
//! a variable that names the case.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use confinement::{Mode, ProcessKind, Signals, filter_calls, known_call_name, unavailable};
use libc::{c_int, c_long};

/// Names of a kind, a mode and a case, for the process of one case.
const CASE: &str = "CHORO_TEST_CONFINED_CASE";

/// The test that is the process of a case.
const PROCESS: &str = "the_process_of_one_case";

/// A call with its arguments, by the name of the call that the report has.
struct Forbidden {
    name: &'static str,
    number: c_long,
    arguments: [c_int; 3],
}

const fn forbidden(name: &'static str, number: c_long, arguments: [c_int; 3]) -> Forbidden {
    Forbidden { name, number, arguments }
}

/// Calls that no kind of process may make: by a name, or by their arguments alone.
const BY_ALL: &[Forbidden] = &[
    forbidden("execve", libc::SYS_execve, [0; 3]),
    forbidden("execveat", libc::SYS_execveat, [-1, 0, 0]),
    forbidden("ptrace", libc::SYS_ptrace, [0; 3]),
    forbidden("process_vm_readv", libc::SYS_process_vm_readv, [0; 3]),
    forbidden("mount", libc::SYS_mount, [0; 3]),
    forbidden("umount2", libc::SYS_umount2, [0; 3]),
    forbidden("move_mount", libc::SYS_move_mount, [-1, 0, -1]),
    forbidden("pivot_root", libc::SYS_pivot_root, [0; 3]),
    forbidden("chroot", libc::SYS_chroot, [0; 3]),
    forbidden("setns", libc::SYS_setns, [-1, 0, 0]),
    forbidden("kexec_load", libc::SYS_kexec_load, [0; 3]),
    forbidden("init_module", libc::SYS_init_module, [0; 3]),
    forbidden("finit_module", libc::SYS_finit_module, [-1, 0, 0]),
    forbidden("bpf", libc::SYS_bpf, [-1, 0, 0]),
    forbidden("perf_event_open", libc::SYS_perf_event_open, [0; 3]),
    forbidden("userfaultfd", libc::SYS_userfaultfd, [-1, 0, 0]),
    forbidden("personality", libc::SYS_personality, [-1, 0, 0]),
    forbidden("mknodat", libc::SYS_mknodat, [-1, 0, 0]),
    forbidden("seccomp", libc::SYS_seccomp, [-1, 0, 0]),
    forbidden("setuid", libc::SYS_setuid, [-1, 0, 0]),
    forbidden("reboot", libc::SYS_reboot, [0; 3]),
    // A process of its own, and namespaces.
    forbidden("clone", libc::SYS_clone, [libc::SIGCHLD, 0, 0]),
    forbidden("clone", libc::SYS_clone, [libc::CLONE_THREAD | libc::CLONE_NEWUSER, 0, 0]),
    forbidden("unshare", libc::SYS_unshare, [libc::CLONE_NEWNS, 0, 0]),
    // Raw packets, and other families.
    forbidden("socket", libc::SYS_socket, [libc::AF_INET, libc::SOCK_RAW, 0]),
    forbidden("socket", libc::SYS_socket, [libc::AF_PACKET, libc::SOCK_DGRAM, 0]),
    forbidden("socket", libc::SYS_socket, [libc::AF_ALG, libc::SOCK_SEQPACKET, 0]),
    forbidden("socket", libc::SYS_socket, [libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_AUDIT]),
    // Code that was written.
    forbidden("mmap", libc::SYS_mmap, [0, 4_096, libc::PROT_WRITE | libc::PROT_EXEC]),
    forbidden("mprotect", libc::SYS_mprotect, [0, 4_096, libc::PROT_WRITE | libc::PROT_EXEC]),
    // To be traced by another process of the user, and signals to others.
    forbidden("prctl", libc::SYS_prctl, [libc::PR_SET_DUMPABLE, 1, 0]),
    forbidden("kill", libc::SYS_kill, [i32::MAX, libc::SIGKILL, 0]),
    forbidden("tgkill", libc::SYS_tgkill, [i32::MAX, i32::MAX, libc::SIGABRT]),
    forbidden("tgkill", libc::SYS_tgkill, [i32::MAX, i32::MAX, 40]),
    forbidden("fcntl", libc::SYS_fcntl, [-1, libc::F_SETOWN, i32::MAX]),
    // F_SETSIG and F_SETOWN_EX.
    forbidden("fcntl", libc::SYS_fcntl, [-1, 10, libc::SIGKILL]),
    forbidden("fcntl", libc::SYS_fcntl, [-1, 15, 0]),
    // Typing for a terminal.
    forbidden("ioctl", libc::SYS_ioctl, [-1, 0x5412, 0]),
];

/// Calls that only a worker may make.
const BY_HELPERS: &[Forbidden] = &[
    forbidden("io_uring_setup", libc::SYS_io_uring_setup, [0; 3]),
    forbidden("setresuid", libc::SYS_setresuid, [-1, -1, -1]),
    forbidden("fchownat", libc::SYS_fchownat, [-1, 0, -1]),
    forbidden("setxattr", libc::SYS_setxattr, [0; 3]),
    forbidden("splice", libc::SYS_splice, [-1, 0, -1]),
];

/// Calls that a worker may not make, beside those above: libraries and sockets to other machines
/// are for `logond`.
const BY_WORKERS: &[Forbidden] = &[
    forbidden("socket", libc::SYS_socket, [libc::AF_INET, libc::SOCK_STREAM, 0]),
    forbidden("socket", libc::SYS_socket, [libc::AF_INET, libc::SOCK_DGRAM, 0]),
    forbidden("socket", libc::SYS_socket, [libc::AF_INET6, libc::SOCK_STREAM, 0]),
    forbidden("socket", libc::SYS_socket, [libc::AF_INET6, libc::SOCK_DGRAM, 0]),
    forbidden("mmap", libc::SYS_mmap, [0, 4_096, libc::PROT_READ | libc::PROT_EXEC]),
    forbidden("mprotect", libc::SYS_mprotect, [0, 4_096, libc::PROT_EXEC]),
];

/// Calls that strangers' readers may not make, beside those above.
const BY_READERS: &[Forbidden] = &[
    forbidden("openat", libc::SYS_openat, [libc::AT_FDCWD, 0, libc::O_RDWR]),
    forbidden("openat", libc::SYS_openat, [libc::AT_FDCWD, 0, libc::O_CREAT]),
    forbidden("unlinkat", libc::SYS_unlinkat, [-1, 0, 0]),
    forbidden("renameat2", libc::SYS_renameat2, [-1, 0, -1]),
    forbidden("mprotect", libc::SYS_mprotect, [0, 4_096, libc::PROT_EXEC]),
];

fn forbidden_to(kind: ProcessKind) -> impl Iterator<Item = &'static Forbidden> {
    let is_reader = matches!(kind, ProcessKind::Discoveryd | ProcessKind::MetricsWeb);
    let by_helpers = BY_HELPERS.iter().filter(move |_| kind != ProcessKind::Worker);
    let by_workers = BY_WORKERS.iter().filter(move |_| kind == ProcessKind::Worker);
    let by_readers = BY_READERS.iter().filter(move |_| is_reader);
    BY_ALL.iter().chain(by_helpers).chain(by_workers).chain(by_readers)
}

fn call(it: &Forbidden) -> c_long {
    let [first, second, third] = it.arguments.map(c_long::from);
    // SAFETY: null pointers and invalid descriptors; in the worst case, without a filter, a process
    // that exists for this call alone gets a copy.
    unsafe { libc::syscall(it.number, first, second, third, 0, 0, 0) }
}

/// Prints the name of the call that ends the process.
fn report(number: u32) {
    let name = known_call_name(number).unwrap_or("an unknown one");
    let _ = rustix::io::write(rustix::stdio::stderr(), name.as_bytes());
}

fn run(kind: ProcessKind, mode: Mode, case: &str) -> (ExitStatus, String) {
    let mut program = Command::new(std::env::current_exe().expect("it runs"));
    program.args(["--exact", PROCESS, "--nocapture", "--quiet"]);
    let output = program.env(CASE, format!("{} {} {case}", kind.name(), mode.word())).output();
    let output = output.expect("it starts");
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn the_process_of_one_case() {
    let Ok(case) = std::env::var(CASE) else { return };
    let mut words = case.split(' ');
    let kind = words.next().and_then(ProcessKind::of_name).expect("a kind");
    let mode = words.next().and_then(Mode::parse).expect("a mode");
    let case = words.next().expect("a case");
    filter_calls(kind, mode, Signals::ToItself, report).expect("the kernel has filters");
    match case {
        "allowed" => make_allowed_calls(kind),
        place => {
            let place: usize = place.parse().expect("a number");
            let forbidden = forbidden_to(kind).nth(place).expect("it is one of them");
            call(forbidden);
        }
    }
    std::io::stderr().flush().expect("it is open");
    // SAFETY: ends the process, which is this test's own.
    unsafe { libc::_exit(7) };
}

/// Makes calls that every process makes, and some that libraries try.
fn make_allowed_calls(kind: ProcessKind) {
    let sum = std::thread::spawn(|| vec![1_u8; 1 << 20].iter().map(|it| u64::from(*it)).sum());
    assert_eq!(sum.join().ok(), Some(1_u64 << 20));
    std::fs::read("/proc/self/status").expect("it may be read");
    let (one, other) = std::os::unix::net::UnixStream::pair().expect("a pair");
    (&one).write_all(b"x").expect("the other is open");
    drop((one, other));
    std::thread::sleep(std::time::Duration::from_millis(1));
    let fails = |number: c_long, errno: c_int| {
        let call = forbidden("", number, [-1; 3]);
        let failed = self::call(&call) == -1;
        let error = std::io::Error::last_os_error().raw_os_error();
        assert!(failed && error == Some(errno), "{number}: {error:?}");
    };
    fails(libc::SYS_clone3, libc::ENOSYS);
    // A call of a later kernel.
    fails(4_000, libc::ENOSYS);
    if kind == ProcessKind::Logond {
        fails(libc::SYS_keyctl, libc::ENOSYS);
    }
}

fn has_filters() -> bool {
    let unavailable = unavailable();
    if let Some(why) = &unavailable {
        let _ = writeln!(std::io::stderr(), "{why}: not tested");
    }
    unavailable.is_none()
}

#[test]
fn each_kind_is_ended_by_every_call_that_it_may_not_make_and_the_call_is_named() {
    if !has_filters() {
        return;
    }
    for kind in ProcessKind::ALL {
        for (place, forbidden) in forbidden_to(kind).enumerate() {
            let (status, printed) = run(kind, Mode::On, &place.to_string());
            let (kind, name) = (kind.name(), forbidden.name);
            let arguments = forbidden.arguments;
            assert_eq!(status.signal(), Some(libc::SIGSYS), "{kind}: {name} {arguments:?}");
            assert_eq!(printed, name, "{kind}: {arguments:?}");
        }
    }
}

#[test]
fn each_kind_goes_on_with_its_calls_and_with_those_that_libraries_try() {
    if !has_filters() {
        return;
    }
    for kind in ProcessKind::ALL {
        let (status, printed) = run(kind, Mode::On, "allowed");
        assert_eq!(status.code(), Some(7), "{}: {status} {printed}", kind.name());
    }
}

#[test]
fn in_the_mode_that_logs_a_forbidden_call_is_made() {
    if !has_filters() {
        return;
    }
    let is_harmless = |name: &str| name == "mknodat" || name == "bpf";
    for (place, forbidden) in forbidden_to(ProcessKind::Worker).enumerate() {
        if is_harmless(forbidden.name) {
            let (status, printed) = run(ProcessKind::Worker, Mode::Log, &place.to_string());
            assert_eq!((status.code(), printed.as_str()), (Some(7), ""), "{}", forbidden.name);
        }
    }
}
