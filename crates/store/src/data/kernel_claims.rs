//! Locks and leases of the kernel for opens of clients: `posix locking`, `strict locking`, `kernel
//! share modes`, `kernel oplocks`.
//!
//! The engine has decided between clients already. These calls decide between clients and other
//! programs of this machine, and none of them waits.

use std::time::Duration;

use dtyp::{AccessMask, NtStatus};
use object::{FileRange, KernelClaim, LocalOpen, ObjectReply, RangeLock, WholeFileLock};
use rustix::io::Errno;

use crate::Store;
use crate::errno::{During, Operation};
use crate::model::held_locks::{LockChange, lockable};
use crate::model::opens::Open;
use crate::settings::LockChecks;
use crate::sys::kernel_locks::{self, LOCK_END_MAX, LockKind};
use crate::sys::system;

/// Time for which a file without any lock counts as unlocked, so that a client that reads and
/// writes it without caching does not look again for each request. `strict locking = yes` does.
pub(crate) const LOOK_TIME: Duration = Duration::from_millis(10);

impl Store {
    /// Takes byte-range locks of the kernel, or none of them.
    pub(crate) fn lock(&mut self, open: LocalOpen, locks: &[RangeLock]) -> Result<(), NtStatus> {
        let opened = self.opens.get_mut(open)?;
        if !has_kernel_locks(opened) {
            return Ok(());
        }
        let changes = opened.locks.add(locks);
        for (index, change) in changes.iter().enumerate() {
            if let Err(errno) = set_lock(opened, change, change.to) {
                // Fewer locks never conflict.
                for done in changes[..index].iter().rev() {
                    let _ = set_lock(opened, done, done.from);
                }
                opened.locks.undo(locks.len());
                return Err(errno).during(Operation::Lock);
            }
        }
        Ok(())
    }

    /// Releases byte-range locks of the kernel as far as no other lock of the open covers them.
    pub(crate) fn unlock(&mut self, open: LocalOpen, ranges: &[FileRange]) -> Result<(), NtStatus> {
        let opened = self.opens.get_mut(open)?;
        for change in opened.locks.remove(ranges) {
            set_lock(opened, &change, change.to).during(Operation::Lock)?;
        }
        Ok(())
    }

    /// Claims the file of a new open.
    pub(crate) fn claim(
        &mut self,
        open: LocalOpen,
        claim: KernelClaim,
    ) -> Result<ObjectReply, NtStatus> {
        let opened = self.opens.get(open)?;
        if !has_kernel_locks(opened) {
            return Ok(ObjectReply::Claimed { leased: false });
        }
        if let Some(lock) = claim.lock {
            let exclusive = lock == WholeFileLock::Exclusive;
            match kernel_locks::lock_whole(opened.fd(), exclusive) {
                Err(Errno::AGAIN) => return Err(NtStatus::SHARING_VIOLATION),
                Err(errno) if is_unsupported(errno) => {}
                result => result.during(Operation::Lock)?,
            }
        }
        let leased = claim.lease && self.impersonation.take_lease(opened.fd()).is_ok();
        self.opens.get_mut(open)?.has_lease = leased;
        Ok(ObjectReply::Claimed { leased })
    }

    /// Gives up the lease of an open.
    pub(crate) fn end_lease(&mut self, open: LocalOpen) -> Result<(), NtStatus> {
        let opened = self.opens.get_mut(open)?;
        if std::mem::take(&mut opened.has_lease) {
            self.impersonation.end_lease(opened.fd());
        }
        Ok(())
    }

    /// Returns the opens whose leases other programs break at the moment.
    #[must_use]
    pub fn broken_leases(&self) -> Vec<LocalOpen> {
        let is_broken = |it: &Open| it.has_lease && !kernel_locks::has_whole_lease(it.fd());
        self.opens.iter().filter(|(_, it)| is_broken(it)).map(|(open, _)| open).collect()
    }
}

/// Refuses a READ or WRITE of bytes that another program has locked, as Samba's `strict locking`
/// does. If the file system cannot tell, nothing is locked.
pub(crate) fn verify_unlocked(open: &Open, range: FileRange, writes: bool) -> Result<(), NtStatus> {
    match open.root.settings.lock_checks {
        LockChecks::Recent if !has_any_lock(open) => Ok(()),
        _ => verify_range_unlocked(open, range, writes),
    }
}

/// As [`verify_unlocked`], for a change without a request of its own, if the share has it checked.
pub(crate) fn verify_unlocked_if_strict(
    open: &Open,
    range: FileRange,
    writes: bool,
) -> Result<(), NtStatus> {
    match open.root.settings.lock_checks {
        LockChecks::Never => Ok(()),
        LockChecks::Recent | LockChecks::Always => verify_range_unlocked(open, range, writes),
    }
}

fn verify_range_unlocked(open: &Open, range: FileRange, writes: bool) -> Result<(), NtStatus> {
    let Some((start, end)) = lockable(range) else { return Ok(()) };
    let kind = if writes { LockKind::Exclusive } else { LockKind::Shared };
    match has_conflict(open, (start, end - start), kind) {
        true => Err(NtStatus::FILE_LOCK_CONFLICT),
        false => Ok(()),
    }
}

/// Returns whether anybody else had a lock of the file at the last look, at most [`LOOK_TIME`] ago.
fn has_any_lock(open: &Open) -> bool {
    let now = system::coarse_time();
    if now < open.unlocked_until.get() {
        return false;
    }
    let is_locked = has_conflict(open, (0, LOCK_END_MAX), LockKind::Exclusive);
    if !is_locked {
        open.unlocked_until.set(now + LOOK_TIME);
    }
    is_locked
}

fn has_conflict(open: &Open, range: (u64, u64), kind: LockKind) -> bool {
    has_kernel_locks(open) && kernel_locks::has_conflict(open.fd(), range, kind).unwrap_or(false)
}

/// True if the kernel can lock the data of an open: those of the file itself.
fn has_kernel_locks(open: &Open) -> bool {
    !open.path_only && open.stream.is_none() && !open.is_directory()
}

/// Sets the lock of some bytes. Like Samba, an open that may not write has shared locks for
/// exclusive ones, which the kernel would refuse. One that may not read has no shared locks at all.
fn set_lock(open: &Open, change: &LockChange, kind: LockKind) -> Result<(), Errno> {
    let writes = AccessMask::WRITE_DATA | AccessMask::APPEND_DATA;
    let may_write = open.granted_access.intersects(writes);
    let kind = if may_write { kind } else { kind.min(LockKind::Shared) };
    match kernel_locks::set_lock(open.fd(), (change.start, change.length), kind) {
        Err(Errno::BADF) => Ok(()),
        Err(errno) if is_unsupported(errno) => Ok(()),
        result => result,
    }
}

/// True if a file system has no such locks: those of clients stand alone there.
fn is_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL)
}
