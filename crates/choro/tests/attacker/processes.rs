//! Attacks on other processes, and by programs and code.

use crate::attack::{Attack, Layer, open, stopped};
use crate::scene::Scene;
use crate::taken_over::{Answer, number};

const FILTER: Layer = Layer::Filter;

const WRITE: i32 = libc::O_RDWR;

pub(crate) const ATTACKS: &[Attack] = &[
    stopped("execute a program", FILTER, |scene| {
        let path = scene.worker.put_text("/nowhere/program");
        scene.worker.call(libc::SYS_execve, &[path, 0, 0])
    }),
    stopped("execute a program by a descriptor", FILTER, |scene| {
        scene.worker.call(libc::SYS_execveat, &[u64::MAX, 0, 0, 0, 0x1000])
    }),
    stopped("make a file in memory to execute it", FILTER, |scene| {
        let name = scene.worker.put_text("name");
        scene.worker.call(libc::SYS_memfd_create, &[name, 0])
    }),
    stopped("map memory that is code", FILTER, |scene| {
        let access = number(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC);
        let kind = number(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        scene.worker.call(libc::SYS_mmap, &[0, 4_096, access, kind, u64::MAX, 0])
    }),
    stopped("map a file of a share as code", FILTER, |scene| {
        let path = scene.in_share("data", "file");
        let file = scene.worker.open(&path, libc::O_RDONLY)?;
        let access = number(libc::PROT_READ | libc::PROT_EXEC);
        let kind = number(libc::MAP_PRIVATE);
        scene.worker.call(libc::SYS_mmap, &[0, 4_096, access, kind, file, 0])
    }),
    stopped("make memory code that it has written", FILTER, |scene| {
        let page = scene.worker.reserve_page();
        let access = number(libc::PROT_READ | libc::PROT_EXEC);
        scene.worker.call(libc::SYS_mprotect, &[page, 4_096, access])
    }),
    stopped("start a process of its own", FILTER, |scene| {
        // The flags contradict each other for a kernel without the filter.
        let flags = number(libc::CLONE_FS | libc::CLONE_NEWNS | libc::SIGCHLD);
        scene.worker.call(libc::SYS_clone, &[flags, 0, 0, 0, 0])
    }),
    stopped("trace the supervisor", FILTER, |scene| {
        let supervisor = u64::from(scene.supervisor());
        // PTRACE_SEIZE does not stop it.
        scene.worker.call(libc::SYS_ptrace, &[0x4206, supervisor, 0, 0])
    }),
    stopped("write memory of the supervisor by a call", FILTER, |scene| {
        let supervisor = u64::from(scene.supervisor());
        scene.worker.call(libc::SYS_process_vm_writev, &[supervisor, 0, 0, 0, 0, 0])
    }),
    stopped("open memory of the supervisor", Layer::Memory, |scene| {
        let path = format!("/proc/{}/mem", scene.supervisor());
        scene.worker.open(&path, WRITE)
    }),
    stopped("open memory of logond, with the hashes", Layer::Memory, |scene| {
        let logond = scene.server.server().logond().expect("it runs");
        scene.worker.open(&format!("/proc/{logond}/mem"), libc::O_RDONLY)
    }),
    stopped("open memory of another worker", Layer::Memory, |scene| {
        let path = format!("/proc/{}/mem", scene.other_worker);
        scene.worker.open(&path, WRITE)
    }),
    stopped("open a descriptor of another worker", Layer::Memory, |scene| {
        let path = format!("/proc/{}/fd/0", scene.other_worker);
        scene.worker.open(&path, libc::O_RDONLY)
    }),
    stopped("take another client's socket", FILTER, |scene| {
        let other = u64::from(scene.other_worker);
        let process = scene.worker.call(libc::SYS_pidfd_open, &[other, 0])?;
        scene.worker.call(libc::SYS_pidfd_getfd, &[process, 3, 0])
    }),
    stopped("open memory of a user's program", Layer::Paths, |scene| {
        let program = scene.program.id();
        let user = u64::from(crate::harness::FORCED_USER.1);
        // As its user, but with the way back to root.
        scene.worker.call(libc::SYS_setresgid, &[user, user, 0])?;
        scene.worker.call(libc::SYS_setresuid, &[user, user, 0])?;
        let opened = scene.worker.open(&format!("/proc/{program}/mem"), WRITE);
        scene.worker.call(libc::SYS_setresuid, &[0; 3])?;
        scene.worker.call(libc::SYS_setresgid, &[0; 3])?;
        opened
    }),
    stopped("kill the supervisor", FILTER, |scene| {
        let supervisor = u64::from(scene.supervisor());
        scene.worker.call(libc::SYS_kill, &[supervisor, 0])
    }),
    stopped("abort the supervisor by a signal to its thread", FILTER, |scene| {
        let supervisor = u64::from(scene.supervisor());
        signal_thread(scene, supervisor, libc::SIGABRT)
    }),
    stopped("abort another worker", FILTER, |scene| {
        let other = u64::from(scene.other_worker);
        signal_thread(scene, other, libc::SIGABRT)
    }),
    stopped("end the supervisor by a real-time signal", FILTER, |scene| {
        let supervisor = u64::from(scene.supervisor());
        signal_thread(scene, supervisor, 40)
    }),
    stopped("signal a thread whose process it does not name", FILTER, |scene| {
        scene.worker.call(libc::SYS_tkill, &[NO_THREAD, number(libc::SIGABRT)])
    }),
    stopped("signal the supervisor by a descriptor", FILTER, |scene| {
        let supervisor = u64::from(scene.supervisor());
        let process = scene.worker.call(libc::SYS_pidfd_open, &[supervisor, 0])?;
        scene.worker.call(libc::SYS_pidfd_send_signal, &[process, 0, 0, 0])
    }),
    stopped("queue a signal for the supervisor", FILTER, |scene| {
        let supervisor = u64::from(scene.supervisor());
        scene.worker.call(libc::SYS_rt_sigqueueinfo, &[supervisor, 0, 0])
    }),
    stopped("have the kernel signal the supervisor for a pipe", FILTER, signal_by_pipe),
    stopped("choose the signal of a pipe", FILTER, |scene| {
        let pipe = new_pipe(scene)?;
        scene.worker.call(libc::SYS_fcntl, &[pipe, F_SETSIG, number(libc::SIGKILL)])
    }),
    stopped("set limits of the supervisor", FILTER, |scene| {
        let supervisor = u64::from(scene.supervisor());
        // Of all limits the one that it does without.
        let (core, none) = (u64::from(libc::RLIMIT_CORE), scene.worker.reserve(16));
        scene.worker.call(libc::SYS_prlimit64, &[supervisor, core, none, 0])
    }),
    open("lower the supervisor's priority", "clients wait to be accepted", |scene| {
        let supervisor = u64::from(scene.supervisor());
        // The one that it has: clients of this test do not wait.
        let parameters = scene.worker.reserve(4);
        let policy = number(libc::SCHED_OTHER);
        scene.worker.call(libc::SYS_sched_setscheduler, &[supervisor, policy, parameters])
    }),
];

/// More than the kernel numbers threads with.
const NO_THREAD: u64 = 0x7fff_ffff;

const F_SETSIG: u64 = 10;

/// Signals a thread that the process does not have, so that it goes on where nothing stops that.
fn signal_thread(scene: &mut Scene<'_>, process: u64, signal: i32) -> Answer {
    scene.worker.call(libc::SYS_tgkill, &[process, NO_THREAD, number(signal)])
}

fn new_pipe(scene: &mut Scene<'_>) -> Answer {
    let ends = scene.worker.reserve(8);
    scene.worker.call(libc::SYS_pipe2, &[ends, 0])?;
    Ok(u64::from(scene.worker.read_u32(ends)))
}

fn signal_by_pipe(scene: &mut Scene<'_>) -> Answer {
    let supervisor = u64::from(scene.supervisor());
    let pipe = new_pipe(scene)?;
    scene.worker.call(libc::SYS_fcntl, &[pipe, number(libc::F_SETOWN), supervisor])
}
