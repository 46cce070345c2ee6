//! Locks and leases of the kernel on an open file: fcntl(2), flock(2).
//!
//! Byte-range locks are those of open file descriptions (F_OFD_SETLK). They belong to one open, and
//! neither another descriptor of the process nor its close touches them.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// Kind of a byte-range lock.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum LockKind {
    /// No lock covers the bytes.
    Unlocked,
    /// Others may have shared locks, too.
    Shared,
    /// No other open has a lock.
    Exclusive,
}

/// First offset that no lock of the kernel covers.
pub(crate) const LOCK_END_MAX: u64 = libc::off_t::MAX as u64;

/// Sets the lock of a range, never waiting: AGAIN or ACCESS if a lock of another program conflicts.
/// The range lies before [`LOCK_END_MAX`], and is not empty.
pub(crate) fn set_lock(
    file: BorrowedFd<'_>,
    (start, length): (u64, u64),
    kind: LockKind,
) -> Result<(), Errno> {
    control(file, libc::F_OFD_SETLK, &mut lock(start, length, kind)?)
}

/// Releases all byte-range locks of the open.
pub(crate) fn release_all(file: BorrowedFd<'_>) -> Result<(), Errno> {
    // A length of zero reaches beyond every offset.
    control(file, libc::F_OFD_SETLK, &mut lock(0, 0, LockKind::Unlocked)?)
}

/// Returns whether another program holds a lock that excludes one of this kind.
pub(crate) fn has_conflict(
    file: BorrowedFd<'_>,
    (start, length): (u64, u64),
    kind: LockKind,
) -> Result<bool, Errno> {
    let mut wanted = lock(start, length, kind)?;
    control(file, libc::F_OFD_GETLK, &mut wanted)?;
    Ok(i32::from(wanted.l_type) != libc::F_UNLCK)
}

/// Locks the whole file, never waiting: AGAIN if a lock of another program conflicts.
pub(crate) fn lock_whole(file: BorrowedFd<'_>, exclusive: bool) -> Result<(), Errno> {
    let operation = match exclusive {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    rustix::io::retry_on_intr(|| rustix::fs::flock(file, operation))
}

/// Takes a lease that any other open of the file breaks, which SIGIO reports to this process: AGAIN
/// if the file is open elsewhere.
pub(crate) fn take_lease(file: BorrowedFd<'_>) -> Result<(), Errno> {
    // By itself the kernel takes this thread for the owner, which may end before the lease does.
    let process = rustix::process::getpid().as_raw_nonzero().get();
    for (command, argument) in [(libc::F_SETOWN, process), (libc::F_SETLEASE, libc::F_WRLCK)] {
        // SAFETY: these calls have a number for an argument, and no effect on memory.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } != 0 {
            return Err(super::system::last_errno());
        }
    }
    Ok(())
}

/// Gives up a lease. Without effect if there is none any more.
pub(crate) fn end_lease(file: BorrowedFd<'_>) {
    // SAFETY: as for `take_lease`.
    let _ = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
}

/// Returns whether a lease is whole: nobody waits for its end, and the kernel has not ended it.
pub(crate) fn has_whole_lease(file: BorrowedFd<'_>) -> bool {
    // SAFETY: the call has no argument, and no effect on memory.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) == libc::F_WRLCK }
}

fn lock(start: u64, length: u64, kind: LockKind) -> Result<libc::flock, Errno> {
    let offset = |it: u64| libc::off_t::try_from(it).map_err(|_| Errno::OVERFLOW);
    let kind = match kind {
        LockKind::Unlocked => libc::F_UNLCK,
        LockKind::Shared => libc::F_RDLCK,
        LockKind::Exclusive => libc::F_WRLCK,
    };
    Ok(libc::flock {
        l_type: libc::c_short::try_from(kind).expect("a small number"),
        l_whence: libc::c_short::try_from(libc::SEEK_SET).expect("a small number"),
        l_start: offset(start)?,
        l_len: offset(length)?,
        // Must be zero for locks of open file descriptions.
        l_pid: 0,
    })
}

fn control(
    file: BorrowedFd<'_>,
    command: libc::c_int,
    lock: &mut libc::flock,
) -> Result<(), Errno> {
    rustix::io::retry_on_intr(|| {
        // SAFETY: `lock` is borrowed mutably for the call, which reads and may write it.
        match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut *lock) } {
            0 => Ok(()),
            _ => Err(super::system::last_errno()),
        }
    })
}
