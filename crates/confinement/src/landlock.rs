//! The system calls of Landlock: rules about files and sockets that a thread keeps for good.
//!
//! Rules hold for what a thread opens itself and for what its rings open. What is open already
//! stays as it is, and threads that it starts later have the same rules.

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Version of Landlock from which on renames and links across directories can be allowed. Before
/// it, rules about files would forbid all of them (Linux 5.19).
pub(crate) const RENAMES: u32 = 2;

/// Version that knows rules about truncation (Linux 6.2).
pub(crate) const TRUNCATION: u32 = 3;

/// Version that knows rules about TCP (Linux 6.7).
pub(crate) const TCP: u32 = 4;

/// Version that knows rules about the control of devices (Linux 6.10).
pub(crate) const DEVICES: u32 = 5;

/// Version that keeps a process from signals and abstract sockets of others (Linux 6.12).
pub(crate) const SCOPES: u32 = 6;

/// Flag for the question of the version: `LANDLOCK_CREATE_RULESET_VERSION` of linux/landlock.h.
const VERSION: u32 = 1;

/// Type of a rule for a directory: `LANDLOCK_RULE_PATH_BENEATH` of linux/landlock.h.
const PATH_BENEATH: u32 = 1;

/// `struct landlock_ruleset_attr` of linux/landlock.h: what is forbidden without a rule.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub(crate) struct Handled {
    pub(crate) files: u64,
    pub(crate) sockets: u64,
    pub(crate) scopes: u64,
}

impl Handled {
    /// Bytes of it that a version knows. Others than zeros beyond them would be refused.
    fn len(self) -> usize {
        let all = [self.files, self.sockets, self.scopes];
        let last = all.iter().rposition(|it| *it != 0).unwrap_or(0);
        (last + 1) * size_of::<u64>()
    }
}

/// Rule for a directory: `struct landlock_path_beneath_attr` of linux/landlock.h.
#[derive(Debug)]
#[repr(C, packed)]
struct PathBeneath {
    allowed: u64,
    directory: RawFd,
}

/// Returns the version of the kernel's Landlock.
///
/// # Errors
/// The kernel has none, or it is switched off at its start.
pub(crate) fn version() -> io::Result<u32> {
    let nothing = std::ptr::null::<Handled>();
    // SAFETY: the kernel reads no memory, and answers with a number.
    let answer = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0, VERSION) };
    u32::try_from(answer).map_err(|_| io::Error::last_os_error())
}

/// Makes a ruleset.
///
/// # Errors
/// The kernel does not know a right, or no descriptors are left.
pub(crate) fn create(handled: Handled) -> io::Result<OwnedFd> {
    let (address, flags) = (&raw const handled, 0);
    // SAFETY: the kernel reads as many bytes as the value has at most.
    let answer =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, address, handled.len(), flags) };
    let descriptor = RawFd::try_from(result(answer)?).map_err(io::Error::other)?;
    // SAFETY: the kernel has just opened it for this value alone. It closes on exec.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Allows these rights in a directory and everywhere below it, or for a file.
///
/// # Errors
/// The ruleset does not handle a right, or a file cannot have it.
pub(crate) fn allow(
    ruleset: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    allowed: u64,
) -> io::Result<()> {
    let rule = PathBeneath { allowed, directory: directory.as_raw_fd() };
    let (number, ruleset) = (libc::SYS_landlock_add_rule, ruleset.as_raw_fd());
    // SAFETY: the kernel reads the rule while the call lasts.
    result(unsafe { libc::syscall(number, ruleset, PATH_BENEATH, &raw const rule, 0) }).map(drop)
}

/// Has this thread, and all that it starts later, keep to a ruleset for good.
///
/// # Errors
/// It could get rights from programs, or there are too many rulesets around it.
pub(crate) fn restrict(ruleset: BorrowedFd<'_>) -> io::Result<()> {
    let number = libc::SYS_landlock_restrict_self;
    // SAFETY: the kernel reads no memory.
    result(unsafe { libc::syscall(number, ruleset.as_raw_fd(), 0) }).map(drop)
}

fn result(answer: c_long) -> io::Result<c_long> {
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}
