//! The files that this client has open: sharing, deletion, locks.
//!
//! One record a file, as `GlobalOpenTable` with [MS-FSA]'s per-file state. The record decides by
//! the functions of `arbitration`; where it is kept is this module's affair alone, so that it can
//! be shared between workers without a change elsewhere.

use std::collections::HashMap;

use arbitration::ShareMode;
use object::FileIdentity;

use crate::reject::Reject;
use crate::request::RequestId;

/// All files with an open.
#[derive(Debug, Default)]
pub struct FileTable {
    files: HashMap<FileIdentity, FileRecord>,
}

/// One file with an open.
#[derive(Debug, Default)]
pub struct FileRecord {
    opens: Vec<(u64, ShareMode)>,
    /// The name goes with the last open.
    pub delete_pending: bool,
    /// Byte-range locks.
    pub locks: arbitration::LockList,
    /// Requests that wait for a lock.
    pub lock_waiters: Vec<RequestId>,
}

/// What closing an open leads to.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Closed {
    /// The name must be removed.
    pub unlink: bool,
    /// Who may go on.
    pub wakes: Vec<RequestId>,
}

impl FileTable {
    /// Whether one more open of a file is compatible with those that there are.
    ///
    /// # Errors
    /// If the file is to be deleted, or another open excludes this one.
    pub fn verify_sharing(&self, identity: FileIdentity, mode: ShareMode) -> Result<(), Reject> {
        let Some(record) = self.files.get(&identity) else { return Ok(()) };
        if record.delete_pending {
            return Err(Reject::DeletePending);
        }
        if record.opens.iter().any(|(_, other)| arbitration::conflict(*other, mode)) {
            return Err(Reject::SharingViolation);
        }
        Ok(())
    }

    /// Enters an open.
    pub fn open(&mut self, identity: FileIdentity, volatile: u64, mode: ShareMode) {
        self.files.entry(identity).or_default().opens.push((volatile, mode));
    }

    /// Takes an open out. With `delete_on_close` the file is marked for deletion first.
    pub fn close(
        &mut self,
        identity: FileIdentity,
        volatile: u64,
        delete_on_close: bool,
    ) -> Closed {
        let Some(record) = self.files.get_mut(&identity) else { return Closed::default() };
        record.opens.retain(|(open, _)| *open != volatile);
        record.delete_pending |= delete_on_close;
        record.locks.release_all(volatile);
        let wakes = std::mem::take(&mut record.lock_waiters);
        if !record.opens.is_empty() {
            return Closed { unlink: false, wakes };
        }
        let unlink = record.delete_pending;
        self.files.remove(&identity);
        Closed { unlink, wakes }
    }

    /// The record of a file that is open.
    #[must_use]
    pub fn get(&self, identity: FileIdentity) -> Option<&FileRecord> {
        self.files.get(&identity)
    }

    /// The record of a file that is open, to change it.
    pub fn get_mut(&mut self, identity: FileIdentity) -> Option<&mut FileRecord> {
        self.files.get_mut(&identity)
    }

    /// Whether the file is to be deleted when it is closed.
    #[must_use]
    pub fn is_delete_pending(&self, identity: FileIdentity) -> bool {
        self.get(identity).is_some_and(|record| record.delete_pending)
    }

    /// Refuses a READ or WRITE that meets another open's lock: [MS-FSA] 2.1.4.10.
    ///
    /// # Errors
    /// If a lock is in the way.
    pub fn verify_unlocked(
        &self,
        identity: FileIdentity,
        access: arbitration::RangeAccess,
    ) -> Result<(), Reject> {
        match self.files.get(&identity) {
            Some(record) if record.locks.blocks(access) => Err(Reject::FileLockConflict),
            _ => Ok(()),
        }
    }
}

impl FileRecord {
    /// How many opens there are.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.opens.len()
    }

    /// Whether an open other than `volatile` would disturb, or be disturbed by, this use.
    #[must_use]
    pub fn conflicts(&self, volatile: u64, mode: ShareMode) -> bool {
        self.opens
            .iter()
            .any(|(open, other)| *open != volatile && arbitration::conflict(*other, mode))
    }
}
