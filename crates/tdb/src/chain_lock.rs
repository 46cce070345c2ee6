//! The lock of one hash chain.

use super::{Tdb, TdbError, data, ffi};

/// Lock of the chain that a key lies in, released when dropped.
#[derive(Debug)]
pub(super) struct ChainLock<'a> {
    table: &'a Tdb,
    key: &'a [u8],
}

impl<'a> ChainLock<'a> {
    /// Waits for the lock. A process holds it for the time of one change; if the holder died, the
    /// lock is free.
    pub(super) fn take(table: &'a Tdb, key: &'a [u8]) -> Result<Self, TdbError> {
        // SAFETY: the context is open and the key outlives the call.
        match unsafe { ffi::tdb_chainlock(table.context.as_ptr(), data(key)) } {
            0 => Ok(Self { table, key }),
            _ => Err(table.error()),
        }
    }

    /// As [`ChainLock::take`], but never waits.
    pub(super) fn try_take(table: &'a Tdb, key: &'a [u8]) -> Result<Self, TdbError> {
        // SAFETY: as in `take`.
        match unsafe { ffi::tdb_chainlock_nonblock(table.context.as_ptr(), data(key)) } {
            0 => Ok(Self { table, key }),
            // libtdb reports a lock of another process like any other failure to lock.
            _ => match table.error() {
                TdbError::Lock => Err(TdbError::Busy),
                error => Err(error),
            },
        }
    }
}

impl Drop for ChainLock<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is open, and `take` locked the chain of this key in this thread.
        let result = unsafe { ffi::tdb_chainunlock(self.table.context.as_ptr(), data(self.key)) };
        debug_assert_eq!(result, 0, "a lock that is held can be released");
    }
}
