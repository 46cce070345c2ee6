//! Confinement of the server's processes: they have it, and a violation ends one client's process.
//!
//! No process of the server makes a forbidden call by itself, and none has a command for it. So
//! these tests do as an attacker would who has taken a process over: as a debugger, they let it
//! make the call.

mod harness;

use std::fs;

use bench::client::Protection;
use confinement::{Observed, ProcessKind, kept_capabilities, unavailable};
use dtyp::AccessMask;
use harness::choro::{children, signal_process, wait_until};
use harness::session::Session;
use harness::smbtorture::progress;
use harness::{PASSWORD, Setup, TestServer, USER};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use rustix::process::Signal;
use tables::ViolationPage;
use wire::create::{CreateDisposition, CreateOptions};

/// A module of audits, so that all helpers that need no domain run.
const AUDITED: &str = "vfs objects = full_audit\nfull_audit:success = create_file";

fn of_name(server: &TestServer, kind: ProcessKind) -> Vec<u32> {
    let name = format!("choro-{}", kind.name());
    let is_named = |pid: &u32| {
        let found = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        !found.is_empty() && name.starts_with(found.trim_end())
    };
    children(server.server().pid()).into_iter().filter(is_named).collect()
}

/// The one process of a kind, once it is confined.
#[track_caller]
fn confined(server: &TestServer, kind: ProcessKind) -> u32 {
    let found = || {
        let mut pids = of_name(server, kind).into_iter();
        pids.find(|pid| has_list(server, *pid))
    };
    wait_until(|| found().is_some(), || format!("no {}: {}", kind.name(), server.log()));
    found().expect("it was there")
}

fn has_list(server: &TestServer, pid: u32) -> bool {
    let filters = |pid| Observed::of(pid).map(|it| (it.is_filtered, it.filters));
    filters(pid).is_ok_and(|own| own.0)
        && filters(pid).ok().map(|it| it.1) != filters(server.server().pid()).ok().map(|it| it.1)
}

fn write(session: &mut Session, name: &str) {
    let (disposition, options) = (CreateDisposition::OPEN_IF, CreateOptions::default());
    let file = session.open(name, AccessMask::FILE_ALL, disposition, options);
    let file = file.expect("it may write");
    session.write(file, b"text");
    assert_eq!(session.read(file), b"text");
    session.close(file);
}

fn has_filters() -> bool {
    let unavailable = unavailable();
    if let Some(why) = &unavailable {
        progress(why);
    }
    unavailable.is_none()
}

/// Lets a process that waits in the kernel make this system call, without arguments, instead of
/// going on. Returns false if this test may not trace it.
fn take_over(pid: u32, call: i64) -> bool {
    let pid = Pid::from_raw(i32::try_from(pid).expect("it is a pid"));
    match ptrace::attach(pid) {
        Err(Errno::EPERM) => return false,
        attached => attached.expect("it lives"),
    }
    waitpid(pid, Some(WaitPidFlag::__WALL)).expect("it stops");
    let mut registers = ptrace::getregs(pid).expect("it has stopped");
    let call = u64::try_from(call).expect("numbers are positive");
    #[cfg(target_arch = "x86_64")]
    {
        // Back to the instruction of the call that it waits in, which is not to be begun again.
        registers.rip -= 2;
        registers.orig_rax = u64::MAX;
        registers.rax = call;
        (registers.rdi, registers.rsi, registers.rdx) = (0, 0, 0);
    }
    #[cfg(target_arch = "aarch64")]
    {
        // The kernel has gone back to the instruction already.
        registers.regs[8] = call;
        registers.regs[..3].fill(0);
    }
    ptrace::setregs(pid, registers).expect("it has stopped");
    ptrace::detach(pid, None).expect("it has stopped");
    true
}

fn violations(server: &TestServer, kind: ProcessKind) -> u64 {
    let page = ViolationPage::join(&server.site().path("lock")).expect("the server has made it");
    page.counts().into_iter().find(|it| it.0 == kind).map_or(0, |it| it.1)
}

#[test]
fn every_process_of_the_server_has_its_list_and_the_capabilities_that_it_needs() {
    if !has_filters() {
        return;
    }
    let server = Setup::new().share("data", AUDITED).start();
    let mut session = Session::new(server.site().address(), "data", USER, PASSWORD);
    write(&mut session, "file");
    for kind in [ProcessKind::Worker, ProcessKind::Notifyd, ProcessKind::Auditd] {
        confined(&server, kind);
        for pid in of_name(&server, kind) {
            let observed = || Observed::of(pid).expect("it lives");
            // Idle workers may be starting.
            wait_until(
                || has_list(&server, pid),
                || format!("{observed:?}", observed = observed()),
            );
            assert!(observed().no_new_privileges, "{}", kind.name());
            let more = observed().capabilities & !kept_capabilities(kind);
            assert_eq!(more, 0, "{}: {:?}", kind.name(), observed());
        }
    }
    let shown = server.site().run(&["status", "--confinement"]).succeeds();
    for name in ["supervisor", "worker", "notifyd", "auditd"] {
        let line = shown.lines().find(|line| line.contains(name)).expect("it is listed");
        assert_eq!(line.contains("its list"), name != "supervisor", "{shown}");
    }
    assert!(!shown.contains("not confined"), "{shown}");
    let shown = server.site().run(&["status", "--confinement", "--json"]).succeeds();
    assert!(shown.contains("\"process\": \"notifyd\""), "{shown}");
    server.stop();
}

#[test]
fn a_worker_that_makes_a_forbidden_call_ends_and_its_client_comes_back() {
    if !has_filters() {
        return;
    }
    let server = Setup::new().share("data", "").start();
    let client = server.connect("data", Protection::Signed);
    let pid = server.worker_of(&client);
    if !take_over(pid, libc::SYS_execve) {
        return progress("tracing a process of the server is forbidden here");
    }
    let ended = format!("worker {pid} was ended: it has made the system call execve");
    server.server().wait_for_log(&ended);
    assert_eq!(violations(&server, ProcessKind::Worker), 1);
    drop(client);
    let mut session = Session::new(server.site().address(), "data", USER, PASSWORD);
    write(&mut session, "file");
    assert_eq!(violations(&server, ProcessKind::Worker), 1);
    server.stop();
}

#[test]
fn a_helper_that_makes_a_forbidden_call_is_started_again() {
    if !has_filters() {
        return;
    }
    let server = Setup::new().share("data", "").start();
    let pid = confined(&server, ProcessKind::Notifyd);
    if !take_over(pid, libc::SYS_ptrace) {
        return progress("tracing a process of the server is forbidden here");
    }
    let ended = format!("notifyd {pid} was ended: it has made the system call ptrace");
    server.server().wait_for_log(&ended);
    wait_until(
        || of_name(&server, ProcessKind::Notifyd).iter().any(|it| *it != pid),
        || server.log(),
    );
    assert_ne!(confined(&server, ProcessKind::Notifyd), pid);
    assert_eq!(violations(&server, ProcessKind::Notifyd), 1);
    server.stop();
}

#[test]
fn without_confinement_processes_keep_all_rights_and_the_reason_is_shown() {
    let setup = Setup::new().global("choro:confinement = no\n");
    let server = setup.share("data", "").start();
    let mut session = Session::new(server.site().address(), "data", USER, PASSWORD);
    write(&mut session, "file");
    for pid in of_name(&server, ProcessKind::Worker) {
        assert!(!has_list(&server, pid));
    }
    let shown = server.site().run(&["status", "--confinement"]).succeeds();
    assert!(shown.contains("worker: not confined: choro:confinement = no"), "{shown}");
    server.stop();
}

#[test]
fn workers_that_log_forbidden_calls_serve_and_say_so() {
    if !has_filters() {
        return;
    }
    let setup = Setup::new().global("choro:confinement = log\n");
    let server = setup.share("data", "").start();
    let mut session = Session::new(server.site().address(), "data", USER, PASSWORD);
    write(&mut session, "file");
    confined(&server, ProcessKind::Worker);
    let checked = server.site().run(&["check"]).error();
    assert!(checked.contains("the kernel logs their calls"), "{checked}");
    server.stop();
}

#[test]
fn commands_of_shares_are_run_by_a_process_for_them_and_workers_stay_confined() {
    if !has_filters() {
        return;
    }
    let commands = "preexec = echo \"$PPID\" > %FOLDER/parent\npreexec close = yes";
    let server = Setup::new().share("data", commands).start();
    let mut session = Session::new(server.site().address(), "data", USER, PASSWORD);
    write(&mut session, "file");
    let parent = || {
        let text = fs::read_to_string(server.share_path("data").join("parent"));
        text.expect("it has run").trim().parse::<u32>().expect("a pid")
    };
    let first = parent();
    let name = fs::read_to_string(format!("/proc/{first}/comm")).expect("it lives");
    assert_eq!(name.trim_end(), "choro-commandd");
    // The next command waits for its successor.
    signal_process(first, Signal::KILL);
    let mut session = Session::new(server.site().address(), "data", USER, PASSWORD);
    write(&mut session, "another");
    assert_ne!(parent(), first);
    confined(&server, ProcessKind::Worker);
    let shown = server.site().run(&["status", "--confinement"]).succeeds();
    assert!(shown.contains("commandd") && !shown.contains("not confined"), "{shown}");
    server.stop();
}
