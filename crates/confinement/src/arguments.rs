//! Conditions on the arguments of a call. A filter sees numbers only, never memory behind them.

/// A condition on one argument, by its position from 0.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Argument {
    /// The lower half of the argument is this number.
    Is(u8, u32),
    /// The lower half is this number or a higher one.
    AtLeast(u8, u32),
    /// These bits of the lower half have these values: position, bits, values.
    Bits(u8, u32, u32),
    /// The whole argument is zero, such as a pointer to nothing.
    Null(u8),
    /// The lower half is the id of the process that the filter is loaded into.
    OwnProcess(u8),
}

/// Stands in a program for the id of the process that it will be loaded into: no process has this.
pub(crate) const OWN_PROCESS: u32 = 0xffff_fff0;

/// Conditions, all of which have to hold.
pub(crate) type Alternative = &'static [Argument];

/// Alternatives, of which one has to hold. None at all means any arguments.
pub(crate) type Arguments = &'static [Alternative];

use Argument::{AtLeast, Bits, Is, Null, OwnProcess};

pub(crate) const ANY: Arguments = &[];

/// Converts a constant of the C library.
const fn of(number: libc::c_int) -> u32 {
    number.cast_unsigned()
}

const UNIX: u32 = of(libc::AF_UNIX);
const INET: u32 = of(libc::AF_INET);
const INET6: u32 = of(libc::AF_INET6);
const NETLINK: u32 = of(libc::AF_NETLINK);
const STREAM: u32 = of(libc::SOCK_STREAM);
const DGRAM: u32 = of(libc::SOCK_DGRAM);

/// The type of a socket without its flags.
const TYPE: u32 = 0xf;

/// Lists of interfaces, and their speeds.
const ROUTE: u32 = of(libc::NETLINK_ROUTE);
const GENERIC: u32 = of(libc::NETLINK_GENERIC);

/// Sockets of this machine: messages of the server, questions to its processes, log.
pub(crate) const SOCKETS_OF_THE_MACHINE: Arguments = &[&[Is(0, UNIX)]];

/// Those, TCP, UDP, and properties of interfaces. No raw sockets, and none of other families.
pub(crate) const SOCKETS: Arguments = &[
    &[Is(0, UNIX)],
    &[Is(0, INET), Bits(1, TYPE, STREAM)],
    &[Is(0, INET), Bits(1, TYPE, DGRAM)],
    &[Is(0, INET6), Bits(1, TYPE, STREAM)],
    &[Is(0, INET6), Bits(1, TYPE, DGRAM)],
    &[Is(0, NETLINK), Is(2, ROUTE)],
    &[Is(0, NETLINK), Is(2, GENERIC)],
];

/// Sockets for properties of interfaces, and no others.
pub(crate) const SOCKETS_OF_INTERFACES: Arguments =
    &[&[Is(0, NETLINK), Is(2, ROUTE)], &[Is(0, NETLINK), Is(2, GENERIC)]];

const WRITE: u32 = of(libc::PROT_WRITE);
const EXEC: u32 = of(libc::PROT_EXEC);

/// Memory that holds no code.
pub(crate) const MEMORY: Arguments = &[&[Bits(2, EXEC, 0)]];

/// Memory that is never both writable and code, for processes that open libraries later.
pub(crate) const MEMORY_OF_LIBRARIES: Arguments = &[&[Bits(2, EXEC, 0)], &[Bits(2, WRITE, 0)]];

const THREAD: u32 = of(libc::CLONE_THREAD);
const NAMESPACES: u32 = of(libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWUTS);

/// A thread of this process; no process of its own, and no namespace.
pub(crate) const THREADS: Arguments = &[&[Bits(0, THREAD | NAMESPACES, THREAD)]];

/// A working directory and umask of the thread's own; no namespace.
pub(crate) const OWN_DIRECTORY: Arguments = &[&[Is(0, of(libc::CLONE_FS))]];

/// Limits are read, not set.
pub(crate) const LIMITS_READ: Arguments = &[&[Null(2)]];

/// Policies of programs that are not real-time ones.
pub(crate) const POLICIES: Arguments = &[
    &[Is(1, of(libc::SCHED_OTHER))],
    &[Is(1, of(libc::SCHED_BATCH))],
    &[Is(1, of(libc::SCHED_IDLE))],
];

/// The first real-time signal: those of the C library, and that of messages by TDB.
const REAL_TIME: u32 = 32;

/// Signals to threads of the process itself; the process is argument 0.
pub(crate) const OWN_THREADS: Arguments = &[&[OwnProcess(0)]];

/// Real-time signals to any thread; the signal is argument 2.
pub(crate) const REAL_TIME_SIGNALS: Arguments = &[&[AtLeast(2, REAL_TIME)]];

/// No signal at all (a question for a thread), the end of a process, and real-time signals; the
/// signal is argument 1, and the process is not named.
#[cfg(not(target_env = "gnu"))]
pub(crate) const SIGNALS: Arguments = &[
    &[Is(1, 0)],
    &[Is(1, of(libc::SIGABRT))],
    &[Is(1, of(libc::SIGSYS))],
    &[AtLeast(1, REAL_TIME)],
];

/// Copies of descriptors, their flags and locks: F_DUPFD to F_SETLKW, F_GETOWN, locks of open
/// files (F_OFD_GETLK to F_OFD_SETLKW), and what Linux has beyond POSIX (F_SETLEASE to
/// F_SET_FILE_RW_HINT). The commands left out have the kernel signal other processes.
pub(crate) const COMMANDS: Arguments = &[
    &[Bits(1, !7, 0)],
    &[Is(1, 9)],
    &[Is(1, 36)],
    &[Is(1, 37)],
    &[Is(1, 38)],
    &[Bits(1, !15, 1_024)],
];

/// F_SETOWN: the kernel signals this process.
pub(crate) const OWN_SIGNALS: Arguments = &[&[Is(1, 8), OwnProcess(2)]];

/// Names of threads and of memory, and questions. A process that traces may not be allowed again.
pub(crate) const PROPERTIES: Arguments = &[
    &[Is(0, of(libc::PR_CAPBSET_READ))],
    &[Is(0, of(libc::PR_GET_DUMPABLE))],
    &[Is(0, of(libc::PR_GET_KEEPCAPS))],
    &[Is(0, of(libc::PR_GET_NAME))],
    &[Is(0, of(libc::PR_GET_NO_NEW_PRIVS))],
    &[Is(0, of(libc::PR_GET_SECCOMP))],
    &[Is(0, of(libc::PR_GET_SECUREBITS))],
    &[Is(0, of(libc::PR_GET_TIMERSLACK))],
    &[Is(0, of(libc::PR_SET_DUMPABLE)), Is(1, 0)],
    &[Is(0, of(libc::PR_SET_NAME))],
    &[Is(0, of(libc::PR_SET_VMA))],
];

/// Registrations that a ring is made with: IORING_REGISTER_PROBE, RESTRICTIONS, ENABLE_RINGS and
/// IOWQ_MAX_WORKERS of linux/io_uring.h.
pub(crate) const RING_REGISTRATIONS: Arguments =
    &[&[Is(1, 8)], &[Is(1, 11)], &[Is(1, 12)], &[Is(1, 19)]];

const CHANGES: u32 = of(libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND);

/// Files are opened to read them; the flags are argument 2.
pub(crate) const READ_ONLY: Arguments = &[&[Bits(2, CHANGES, of(libc::O_RDONLY))]];

/// The same where the flags are argument 1.
pub(crate) const READ_ONLY_BY_PATH: Arguments = &[&[Bits(1, CHANGES, of(libc::O_RDONLY))]];

/// Quotas of users, by their numbers in linux/quota.h: Q_GETQUOTA, Q_SETQUOTA, Q_GETNEXTQUOTA and
/// Q_XGETQSTAT. They are never turned on or off, and those of groups and projects stay unseen.
pub(crate) const QUOTAS: Arguments =
    &[&[Is(1, 0x8000_0700)], &[Is(1, 0x8000_0800)], &[Is(1, 0x8000_0900)], &[Is(1, 0x0058_0500)]];

/// TCGETS, FIONBIO, FIONREAD, FIOCLEX and FIONCLEX: whether something is a terminal, and properties
/// of descriptors.
pub(crate) const CONTROLS: Arguments =
    &[&[Is(1, 0x5401)], &[Is(1, 0x5421)], &[Is(1, 0x541b)], &[Is(1, 0x5451)], &[Is(1, 0x5450)]];

/// SIOCOUTQ, SIOCGIFNAME and SIOCGIFINDEX: what a peer has not confirmed, names of interfaces.
pub(crate) const CONTROLS_OF_NETWORKS: Arguments =
    &[&[Is(1, 0x5411)], &[Is(1, 0x8910)], &[Is(1, 0x8933)]];

/// SIOCOUTQ: bytes that a peer has not confirmed.
pub(crate) const UNCONFIRMED: Arguments = &[&[Is(1, 0x5411)]];

/// FICLONE, FICLONERANGE, FS_IOC_GETFLAGS, FS_IOC_SETFLAGS and XFS_IOC_FSGEOMETRY_V1.
pub(crate) const CONTROLS_OF_FILES: Arguments = &[
    &[Is(1, 0x4004_9409)],
    &[Is(1, 0x4020_940d)],
    &[Is(1, 0x8008_6601)],
    &[Is(1, 0x4008_6602)],
    &[Is(1, 0x8070_5864)],
];
