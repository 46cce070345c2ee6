//! The system calls of each kind of process: the one list that all filters are made of.
//!
//! A family has the calls that a C library may use for the same thing, those of older and newer
//! kernels included. A name that a processor does not have is left out there.

#[cfg(not(target_env = "gnu"))]
use crate::arguments::SIGNALS;
use crate::arguments::{
    ANY, Arguments, COMMANDS, CONTROLS, CONTROLS_OF_FILES, CONTROLS_OF_NETWORKS, LIMITS_READ,
    MEMORY, MEMORY_OF_LIBRARIES, OWN_DIRECTORY, OWN_SIGNALS, OWN_THREADS, POLICIES, PROPERTIES,
    QUOTAS, READ_ONLY, READ_ONLY_BY_PATH, REAL_TIME_SIGNALS, RING_REGISTRATIONS, SOCKETS,
    SOCKETS_OF_INTERFACES, SOCKETS_OF_THE_MACHINE, THREADS, UNCONFIRMED,
};
use crate::process_kind::ProcessKind::{
    self, Auditd, Discoveryd, Logond, MetricsWeb, Notifyd, Worker,
};

/// Calls that are allowed for one reason.
#[derive(Debug)]
pub(crate) struct Family {
    /// Use of the calls, for the reader of the list.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers, and a test"))]
    pub(crate) reason: &'static str,
    /// Kinds of processes that may make them.
    pub(crate) kinds: &'static [ProcessKind],
    /// Names of calls, between spaces.
    pub(crate) calls: &'static str,
    pub(crate) arguments: Arguments,
}

/// Calls that fail instead of ending the process: libraries try them, and do without.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Reason why they are tried, and not allowed.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers, and a test"))]
    pub(crate) reason: &'static str,
    pub(crate) kinds: &'static [ProcessKind],
    /// Names of calls, between spaces.
    pub(crate) calls: &'static str,
    pub(crate) errno: libc::c_int,
}

const EVERY: &[ProcessKind] = &ProcessKind::ALL;

/// Those that take part in the server's messages, and read the configuration again.
const MEMBERS: &[ProcessKind] = &[Auditd, Logond, Notifyd, Worker];

/// Those that open libraries later: modules of the name service, plugins of Kerberos.
const OPENING_LIBRARIES: &[ProcessKind] = &[Logond];

/// All other kinds, which open none.
const WITHOUT_LIBRARIES: &[ProcessKind] = &[Auditd, Discoveryd, MetricsWeb, Notifyd, Worker];

/// Processes that make sockets to other machines.
const NETWORKED: &[ProcessKind] = &[Discoveryd, Logond];

/// Those that open files to read them only.
const READERS: &[ProcessKind] = &[Discoveryd, MetricsWeb];

const fn family(
    reason: &'static str,
    kinds: &'static [ProcessKind],
    calls: &'static str,
    arguments: Arguments,
) -> Family {
    Family { reason, kinds, calls, arguments }
}

pub(crate) const FAMILIES: &[Family] = &[
    // Every process.
    family(
        "memory",
        EVERY,
        "brk munmap mremap madvise msync mincore mlock mlock2 munlock membarrier mseal \
         map_shadow_stack",
        ANY,
    ),
    family("memory without code", WITHOUT_LIBRARIES, "mmap mprotect", MEMORY),
    family("libraries", OPENING_LIBRARIES, "mmap mprotect", MEMORY_OF_LIBRARIES),
    family(
        "locks of threads",
        EVERY,
        "futex futex_waitv futex_wait futex_wake futex_requeue set_robust_list get_robust_list \
         set_tid_address rseq sched_yield sched_getaffinity gettid arch_prctl getcpu",
        ANY,
    ),
    family("threads", EVERY, "clone", THREADS),
    family(
        "clocks and timers",
        EVERY,
        "clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time \
         times timer_create timer_settime timer_gettime timer_getoverrun timer_delete \
         timerfd_create timerfd_settime timerfd_gettime alarm getitimer setitimer",
        ANY,
    ),
    family(
        "signals that arrive",
        EVERY,
        "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend \
         sigaltstack signalfd signalfd4 pause restart_syscall",
        ANY,
    ),
    family("the end by a signal of its own", EVERY, "tgkill", OWN_THREADS),
    #[cfg(not(target_env = "gnu"))]
    family("the same by other C libraries", EVERY, "tkill", SIGNALS),
    family("the end", EVERY, "exit exit_group", ANY),
    family(
        "questions about the process and the system",
        EVERY,
        "getpid getppid getuid geteuid getgid getegid getresuid getresgid getgroups getpgid \
         getpgrp getsid getrlimit getrusage sysinfo uname getpriority capget getcwd umask \
         sched_getscheduler sched_getparam sched_get_priority_max sched_get_priority_min getrandom",
        ANY,
    ),
    family("limits", EVERY, "prlimit64", LIMITS_READ),
    family("names of threads", EVERY, "prctl", PROPERTIES),
    family(
        "waiting",
        EVERY,
        "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_wait \
         epoll_wait_old epoll_pwait epoll_pwait2 eventfd eventfd2 pipe pipe2",
        ANY,
    ),
    family(
        "data of open descriptors",
        EVERY,
        "read readv pread64 preadv preadv2 write writev pwrite64 pwritev pwritev2 lseek close \
         close_range dup dup2 dup3",
        ANY,
    ),
    family("flags and locks of descriptors", EVERY, "fcntl", COMMANDS),
    family("terminals, and properties of descriptors", EVERY, "ioctl", CONTROLS),
    family(
        "sockets that are open",
        EVERY,
        "bind connect listen accept accept4 sendto sendmsg sendmmsg recvfrom recvmsg recvmmsg \
         getsockname getpeername getsockopt setsockopt shutdown socketpair",
        ANY,
    ),
    family(
        "questions about files",
        EVERY,
        "stat fstat lstat newfstatat fstatat statx access faccessat faccessat2 readlink readlinkat \
         getdents getdents64 statfs fstatfs fadvise64 readahead",
        ANY,
    ),
    // Some of them.
    family("log, /proc and time zone, to read", READERS, "openat", READ_ONLY),
    family("the same by older C libraries", READERS, "open", READ_ONLY_BY_PATH),
    family(
        "files of the server: configuration, log, tables, messages",
        MEMBERS,
        "open openat openat2 creat unlink unlinkat rename renameat renameat2 mkdir mkdirat rmdir \
         ftruncate truncate fallocate fsync fdatasync sync_file_range fchmod chmod fchmodat \
         fchmodat2 flock",
        ANY,
    ),
    family("messages, and the log of the system", MEMBERS, "socket", SOCKETS_OF_THE_MACHINE),
    family("the end of another process, as a descriptor", MEMBERS, "pidfd_open", ANY),
    family("name service, domain controllers, announcements", NETWORKED, "socket", SOCKETS),
    family("addresses of interfaces", NETWORKED, "ioctl", CONTROLS_OF_NETWORKS),
    family(
        "changes in directories",
        &[Notifyd],
        "fanotify_init fanotify_mark inotify_init inotify_init1 inotify_add_watch inotify_rm_watch \
         name_to_handle_at open_by_handle_at",
        ANY,
    ),
    family("a keytab in memory, with the keys of the machine", &[Logond], "memfd_create", ANY),
    // Workers.
    family(
        "users that it acts for; capabilities can be given up, not taken",
        &[Worker],
        "setresuid setresgid setgroups capset",
        ANY,
    ),
    family("umask and directory of a thread", &[Worker], "unshare", OWN_DIRECTORY),
    family(
        "files of shares",
        &[Worker],
        "link linkat chown lchown fchown fchownat utime utimes futimesat utimensat getxattr \
         lgetxattr fgetxattr getxattrat setxattr lsetxattr fsetxattr setxattrat listxattr \
         llistxattr flistxattr listxattrat removexattr lremovexattr fremovexattr removexattrat \
         name_to_handle_at cachestat file_getattr file_setattr syncfs",
        ANY,
    ),
    family("clones, compression and extents of files", &[Worker], "ioctl", CONTROLS_OF_FILES),
    family("quotas of users, with the rights of each", &[Worker], "quotactl_fd", QUOTAS),
    family(
        "data that does not pass through memory",
        &[Worker],
        "splice tee vmsplice sendfile copy_file_range",
        ANY,
    ),
    family("the rings of its threads", &[Worker], "io_uring_setup io_uring_enter", ANY),
    family("breaks of leases that it has from the kernel", &[Worker], "fcntl", OWN_SIGNALS),
    family("what a ring is made with", &[Worker], "io_uring_register", RING_REGISTRATIONS),
    family("interfaces that are offered to the client", &[Worker], "socket", SOCKETS_OF_INTERFACES),
    family("what the client has not confirmed", &[Worker], "ioctl", UNCONFIRMED),
    family("idle priority, and back", &[Worker], "sched_setscheduler", POLICIES),
];

/// What [`Signals::OfMessages`](crate::Signals) allows in addition.
pub(crate) const MESSAGES_BY_SIGNALS: Family =
    family("messages by TDB", MEMBERS, "tgkill", REAL_TIME_SIGNALS);

pub(crate) const REFUSALS: &[Refusal] = &[
    Refusal {
        reason: "its flags are in memory; the C library then takes clone, whose flags can be seen",
        kinds: EVERY,
        calls: "clone3",
        errno: libc::ENOSYS,
    },
    Refusal {
        reason: "its flags are in memory; openat does for those who only read",
        kinds: READERS,
        calls: "openat2",
        errno: libc::ENOSYS,
    },
    Refusal {
        reason: "Kerberos looks for caches of tickets in keyrings; none is used here",
        kinds: &[Logond],
        calls: "add_key keyctl request_key",
        errno: libc::ENOSYS,
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::str::FromStr;

    use super::{FAMILIES, REFUSALS};
    use crate::process_kind::ProcessKind;

    fn allowed(kind: ProcessKind) -> BTreeSet<&'static str> {
        let of_kind = FAMILIES.iter().filter(|it| it.kinds.contains(&kind));
        of_kind.flat_map(|it| it.calls.split_whitespace()).collect()
    }

    #[test]
    fn every_name_is_that_of_a_system_call() {
        let refused = REFUSALS.iter().map(|it| it.calls);
        for name in
            FAMILIES.iter().map(|it| it.calls).chain(refused).flat_map(str::split_whitespace)
        {
            let is_known = syscalls::x86_64::Sysno::from_str(name).is_ok()
                || syscalls::aarch64::Sysno::from_str(name).is_ok();
            assert!(is_known, "{name}");
        }
    }

    #[test]
    fn every_family_has_a_reason_and_somebody_it_is_for() {
        for family in FAMILIES {
            assert!(!family.reason.is_empty() && !family.kinds.is_empty(), "{family:?}");
        }
        for refusal in REFUSALS {
            assert!(!refusal.reason.is_empty() && !refusal.kinds.is_empty(), "{refusal:?}");
        }
    }

    #[test]
    fn no_process_may_run_programs_or_change_the_kernel() {
        for kind in ProcessKind::ALL {
            let allowed = allowed(kind);
            for call in [
                "execve",
                "execveat",
                "fork",
                "vfork",
                "ptrace",
                "process_vm_readv",
                "mount",
                "umount2",
                "pivot_root",
                "chroot",
                "setns",
                "bpf",
                "perf_event_open",
                "kexec_load",
                "init_module",
                "finit_module",
                "userfaultfd",
                "mknod",
                "mknodat",
                "reboot",
                "swapon",
                "iopl",
                "personality",
                "seccomp",
                "setuid",
                "setfsuid",
                "symlink",
            ] {
                assert!(!allowed.contains(call), "{call} of {}", kind.name());
            }
        }
    }

    /// The older call names a device by its path, which a filter cannot see.
    #[test]
    fn only_a_worker_sees_quotas() {
        for kind in ProcessKind::ALL {
            let allowed = allowed(kind);
            assert!(!allowed.contains("quotactl"), "{}", kind.name());
            let is_worker = kind == ProcessKind::Worker;
            assert_eq!(allowed.contains("quotactl_fd"), is_worker, "{}", kind.name());
        }
    }

    /// Code of others would read what clients send. `tests/stopped.rs` tries it.
    #[test]
    fn only_logond_opens_libraries_and_no_worker_makes_sockets_to_other_machines() {
        for kind in ProcessKind::ALL {
            let has = |reason: &str| {
                FAMILIES.iter().any(|it| it.reason == reason && it.kinds.contains(&kind))
            };
            assert_eq!(has("libraries"), kind == ProcessKind::Logond, "{}", kind.name());
            let is_networked = has("name service, domain controllers, announcements");
            let want = matches!(kind, ProcessKind::Logond | ProcessKind::Discoveryd);
            assert_eq!(is_networked, want, "{}", kind.name());
        }
    }

    #[test]
    fn only_a_worker_makes_rings_and_becomes_users() {
        for kind in ProcessKind::ALL {
            for call in ["io_uring_setup", "setresuid", "fchownat", "setxattr"] {
                let is_worker = kind == ProcessKind::Worker;
                assert_eq!(allowed(kind).contains(call), is_worker, "{call} of {}", kind.name());
            }
        }
    }
}
