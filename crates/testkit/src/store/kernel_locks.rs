//! Locks of the kernel: those of opens, and of other programs as a test has them.

use dtyp::{AccessMask, NtStatus};
use object::{
    FileIdentity, FileRange, KernelClaim, LocalOpen, ObjectOp, ObjectReply, ObjectResult,
    OpenRequest, RangeLock, RootId,
};

use super::MemoryStore;

/// Locks and leases of all files.
#[derive(Debug, Default)]
pub(super) struct KernelLocks {
    held: Vec<Held>,
    /// Number of locks that others have refused to opens.
    refused: u64,
    /// Files that another program has locked as a whole.
    locked_files: Vec<u64>,
    /// Files that other programs have open, so that nobody gets a lease.
    opened_files: Vec<u64>,
    /// Files of which another program has a lease.
    leased_files: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    inode: u64,
    /// Open that holds it; `None` for another program.
    owner: Option<LocalOpen>,
    lock: RangeLock,
}

impl Held {
    /// True if it refuses an access of `open` that conflicts with shared locks if it is exclusive.
    fn refuses(&self, inode: u64, open: LocalOpen, range: FileRange, exclusive: bool) -> bool {
        let FileRange { offset, length } = self.lock.range;
        let overlaps = offset < range.offset.saturating_add(range.length)
            && range.offset < offset.saturating_add(length);
        self.inode == inode
            && self.owner != Some(open)
            && overlaps
            && (exclusive || self.lock.exclusive)
    }
}

impl KernelLocks {
    /// Releases the locks of an open that is closed.
    pub(super) fn release_all(&mut self, open: LocalOpen) {
        self.held.retain(|it| it.owner != Some(open));
    }
}

impl MemoryStore {
    /// Has another program lock bytes of a file.
    ///
    /// # Panics
    /// If the file does not exist.
    pub fn lock_by_program(&mut self, root: RootId, path: &str, lock: RangeLock) {
        let inode = self.find(root, path).expect("it was put there");
        self.kernel_locks.held.push(Held { inode, owner: None, lock });
    }

    /// Releases the locks of all opens, as the kernel does at the death of their only worker.
    pub(crate) fn release_locks_of_opens(&mut self) {
        self.kernel_locks.held.retain(|it| it.owner.is_none());
    }

    /// Has other programs release all of their locks, and close all files.
    pub fn unlock_by_programs(&mut self) {
        self.kernel_locks.held.retain(|it| it.owner.is_some());
        self.kernel_locks.locked_files.clear();
        self.kernel_locks.opened_files.clear();
        self.kernel_locks.leased_files.clear();
    }

    /// Has another program take a lease of a file.
    ///
    /// # Panics
    /// If the file does not exist.
    pub fn lease_by_program(&mut self, root: RootId, path: &str) {
        let inode = self.find(root, path).expect("it was put there");
        self.kernel_locks.leased_files.push(inode);
    }

    /// Returns the file of an open for its data, if another program has a lease of it.
    pub(super) fn leased(&self, request: &OpenRequest) -> Option<FileIdentity> {
        if !request.desired_access.intersects(AccessMask::READ_DATA | AccessMask::WRITE_DATA) {
            return None;
        }
        let inode = self.locate(request.root, &request.path).ok()?.inode?;
        let is_leased = self.kernel_locks.leased_files.contains(&inode);
        is_leased.then(|| FileIdentity { inode, ..FileIdentity::default() })
    }

    /// Has another program lock a whole file.
    ///
    /// # Panics
    /// If the file does not exist.
    pub fn lock_file_by_program(&mut self, root: RootId, path: &str) {
        let inode = self.find(root, path).expect("it was put there");
        self.kernel_locks.locked_files.push(inode);
    }

    /// Has another program open a file.
    ///
    /// # Panics
    /// If the file does not exist.
    pub fn open_by_program(&mut self, root: RootId, path: &str) {
        let inode = self.find(root, path).expect("it was put there");
        self.kernel_locks.opened_files.push(inode);
    }

    /// Number of byte-range locks that programs see of opens.
    #[must_use]
    pub fn shown_locks(&self) -> usize {
        self.kernel_locks.held.iter().filter(|it| it.owner.is_some()).count()
    }

    /// Number of requests for byte-range locks that were refused so far.
    #[must_use]
    pub fn refused_locks(&self) -> u64 {
        self.kernel_locks.refused
    }

    /// Serves the operations on locks of the kernel.
    pub(super) fn dispatch_kernel_lock(&mut self, op: ObjectOp) -> ObjectResult {
        match op {
            ObjectOp::Claim { open, claim } => self.claim(open, claim),
            ObjectOp::EndLease { open } => self.get(open).map(|_| ObjectReply::Done),
            ObjectOp::Lock { open, locks } => self.lock(open, &locks).map(|()| ObjectReply::Done),
            ObjectOp::Unlock { open, ranges } => {
                self.unlock(open, &ranges).map(|()| ObjectReply::Done)
            }
            other => panic!("{other:?} is not about locks of the kernel"),
        }
    }

    fn lock(&mut self, open: LocalOpen, locks: &[RangeLock]) -> Result<(), NtStatus> {
        let inode = self.get(open)?.inode;
        let is_refused = |lock: &RangeLock| {
            let held = &self.kernel_locks.held;
            held.iter().any(|it| it.refuses(inode, open, lock.range, lock.exclusive))
        };
        if locks.iter().any(is_refused) {
            self.kernel_locks.refused += 1;
            return Err(NtStatus::FILE_LOCK_CONFLICT);
        }
        let held = locks.iter().map(|lock| Held { inode, owner: Some(open), lock: *lock });
        self.kernel_locks.held.extend(held);
        Ok(())
    }

    pub(super) fn unlock(&mut self, open: LocalOpen, ranges: &[FileRange]) -> Result<(), NtStatus> {
        self.get(open)?;
        let held = &mut self.kernel_locks.held;
        for range in ranges {
            let of = |exclusive: bool| {
                let lock = RangeLock { range: *range, exclusive };
                move |it: &Held| (it.owner, it.lock) == (Some(open), lock)
            };
            let at = held.iter().position(of(true));
            let Some(at) = at.or_else(|| held.iter().position(of(false))) else { break };
            held.swap_remove(at);
        }
        Ok(())
    }

    fn claim(&self, open: LocalOpen, claim: KernelClaim) -> ObjectResult {
        let inode = self.get(open)?.inode;
        if claim.lock.is_some() && self.kernel_locks.locked_files.contains(&inode) {
            return Err(NtStatus::SHARING_VIOLATION);
        }
        let leased = claim.lease && !self.kernel_locks.opened_files.contains(&inode);
        Ok(ObjectReply::Claimed { leased })
    }

    /// True if a lock of another program or open refuses an access.
    pub(super) fn is_locked(
        &self,
        open: LocalOpen,
        (offset, length): (u64, u64),
        writes: bool,
    ) -> bool {
        let Ok(inode) = self.get(open).map(|it| it.inode) else { return false };
        let range = FileRange { offset, length };
        self.kernel_locks.held.iter().any(|it| it.refuses(inode, open, range, writes))
    }
}
