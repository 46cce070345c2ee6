//! What a process leaves of a table's file that was killed in the middle of changing it.
//!
//! libtdb changes a file in several steps. The locks of the dead are free, so that nobody waits for
//! them, but what they were at stays half done: space that belongs to nobody, or to two. Such space is
//! found by looking through the whole file, and mended by writing all records anew.

use std::collections::HashSet;
use std::ffi::c_uint;

use super::collect::Collected;
use super::{Tdb, TdbError, ffi};

/// What became of a table that was looked through.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Mended {
    /// It had to be written anew.
    pub was_damaged: bool,
    /// Hash chains of which not all could be read. What was in the rest of them is lost.
    pub chains_lost: u64,
    /// Records that were read and could not be written again.
    pub records_lost: u64,
}

impl Tdb {
    /// Looks through the whole file, and writes it anew if it is not as it must be. Others wait
    /// meanwhile. To be done when a process has died that may have been changing it.
    ///
    /// # Errors
    /// If the file could not be locked or written; what was in it may be lost then.
    pub fn mend(&self) -> Result<Mended, TdbError> {
        // SAFETY: the context is open, no lock of it is held, and no callback is given.
        if unsafe { ffi::tdb_check(self.context.as_ptr(), None, std::ptr::null_mut()) } == 0 {
            return Ok(Mended::default());
        }
        // SAFETY: the context is open.
        if unsafe { ffi::tdb_lockall(self.context.as_ptr()) } != 0 {
            return Err(TdbError::Lock);
        }
        let mended = self.write_anew();
        // SAFETY: the context is open, and was locked above.
        unsafe { ffi::tdb_unlockall(self.context.as_ptr()) };
        mended
    }

    /// With the whole table locked.
    fn write_anew(&self) -> Result<Mended, TdbError> {
        let mut mended = Mended { was_damaged: true, ..Mended::default() };
        let mut collected = Collected::default();
        let mut records: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut keys = HashSet::new();
        // SAFETY: the context is open.
        let chains = unsafe { ffi::tdb_hash_size(self.context.as_ptr()) };
        for chain in 0..c_uint::try_from(chains).unwrap_or(0) {
            mended.chains_lost += u64::from(self.collect_chain(chain, &mut collected).is_err());
            for (key, value) in collected.records() {
                // Where two chains have become one, records are met twice.
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
            // Those behind it are worth no less.
            mended.records_lost += u64::from(self.store(&key, &value, ffi::TDB_INSERT).is_err());
        }
        self.sync()?;
        Ok(mended)
    }
}

#[cfg(test)]
mod tests;
