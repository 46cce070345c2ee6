//! Repairs a table's file after a process was killed while it changed the file.
//!
//! libtdb changes a file in several steps. The locks of a dead process are free, so no other
//! process waits for them, but its change stays half done: space with no owner, or with two.
//! [`Tdb::mend`] finds such space by a look through the whole file, and repairs it by writing all
//! records again.

use std::collections::HashSet;

use super::collect::Collected;
use super::{Tdb, TdbError, ffi};

/// Result of a check and repair by [`Tdb::mend`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Mended {
    /// True if the file was damaged, and all records were written again.
    pub was_damaged: bool,
    /// Hash chains that could not be read to their ends. The records in the unread parts are lost.
    pub chains_lost: u64,
    /// Records that were read and could not be written again.
    pub records_lost: u64,
}

impl Tdb {
    /// Checks the whole file, and rewrites it if it is damaged. Other processes wait meanwhile.
    /// Called after the death of a process that may have been changing the file.
    ///
    /// # Errors
    /// If the file could not be locked or written; records may be lost then.
    pub fn mend(&self) -> Result<Mended, TdbError> {
        // SAFETY: the context is open, no lock of it is held, and no callback is given.
        if unsafe { ffi::tdb_check(self.context.as_ptr(), None, std::ptr::null_mut()) } == 0 {
            return Ok(Mended::default());
        }
        // SAFETY: the context is open.
        if unsafe { ffi::tdb_lockall(self.context.as_ptr()) } != 0 {
            return Err(TdbError::Lock);
        }
        let mended = self.rewrite();
        // SAFETY: the context is open, and was locked above.
        unsafe { ffi::tdb_unlockall(self.context.as_ptr()) };
        mended
    }

    /// Rewrites all records. The caller has locked the whole table.
    fn rewrite(&self) -> Result<Mended, TdbError> {
        let mut mended = Mended { was_damaged: true, ..Mended::default() };
        let mut collected = Collected::default();
        let mut records: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut keys = HashSet::new();
        for chain in 0..self.chains() {
            mended.chains_lost += u64::from(self.collect_chain(chain, &mut collected).is_err());
            for (key, value) in collected.records() {
                // Records are met twice if two chains have become one.
                if keys.insert(key.to_vec()) {
                    records.push((key.to_vec(), value.to_vec()));
                }
            }
        }
        // SAFETY: the context is open, and nothing of its mapping is borrowed.
        if unsafe { ffi::tdb_wipe_all(self.context.as_ptr()) } != 0 {
            return Err(self.error());
        }
        for (key, value) in records {
            // A record that cannot be written does not stop the rest.
            mended.records_lost += u64::from(self.store(&key, &value, ffi::TDB_INSERT).is_err());
        }
        self.sync()?;
        Ok(mended)
    }
}

#[cfg(test)]
mod tests;
