//! Interface between the registry and its tables.

use tdb::{Change, Mended, Tdb, TdbError};

use crate::codec::RecordError;

/// Hash chains of a part of a table: about a hundredth of the records of all files.
const CHAINS_PER_PART: u32 = 256;

/// Keys and values of bytes, shared by all processes of the server.
///
/// A change is read, decide, write under the lock of that one record: [`Table::with_record`].
pub trait Table {
    /// Calls `decide` with the record of `key`, and carries out the change that it returns, with
    /// the record locked.
    ///
    /// Other processes wait for the lock meanwhile: `decide` must be short and must not touch this
    /// table again.
    ///
    /// # Errors
    /// [`TableError`]; the record is unchanged then.
    fn with_record<R>(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<&[u8]>) -> (Change, R),
    ) -> Result<R, TableError>;

    /// Calls `parse` with the record of `key`, if there is one, under the rules that
    /// [`Table::with_record`] has for `decide`.
    ///
    /// # Errors
    /// [`TableError`], without a call of `parse`.
    fn get<R>(&self, key: &[u8], parse: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, TableError>;

    /// Adds a record under a new key, in one step.
    ///
    /// # Errors
    /// [`TableError::Exists`] if the key is taken; else any other [`TableError`].
    fn insert(&self, key: &[u8], value: &[u8]) -> Result<(), TableError>;

    /// Removes the record of `key`. Returns whether there was one.
    ///
    /// # Errors
    /// Any [`TableError`] of a lock or of the file.
    fn delete(&self, key: &[u8]) -> Result<bool, TableError>;

    /// Waits until all changes are on stable storage, if the table is of a kind that lies there.
    ///
    /// # Errors
    /// [`TableError::Storage`] if the write failed.
    fn sync(&self) -> Result<(), TableError> {
        Ok(())
    }

    /// Checks the table, and rewrites it if a killed process has left it damaged: [`Tdb::mend`].
    ///
    /// # Errors
    /// Those of [`Tdb::mend`].
    fn mend(&self) -> Result<Mended, TableError> {
        Ok(Mended::default())
    }

    /// Calls `visit` with every record, as `(key, value)`, in no order.
    ///
    /// `visit` sees copies and runs without a lock, so it may change the table. A record that is
    /// added or removed meanwhile may or may not be seen; no other is missed or seen twice.
    ///
    /// Returns the number of places that are damaged and could not be read.
    ///
    /// # Errors
    /// [`TableError::Lock`] if a part of the table could not be locked.
    fn for_each(&self, visit: impl FnMut(&[u8], &[u8])) -> Result<u64, TableError>;

    /// As [`Table::for_each`], for one part of the table, of parts that count from zero: so that
    /// the caller can do other things in between. Returns true if there is a further part.
    ///
    /// # Errors
    /// As [`Table::for_each`].
    fn for_each_of_part(
        &self,
        part: u32,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<bool, TableError>;
}

impl Table for Tdb {
    fn with_record<R>(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<&[u8]>) -> (Change, R),
    ) -> Result<R, TableError> {
        Ok(Self::with_record(self, key, decide)?)
    }

    fn get<R>(&self, key: &[u8], parse: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, TableError> {
        Ok(Self::get(self, key, parse)?)
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<(), TableError> {
        Ok(Self::insert(self, key, value)?)
    }

    fn delete(&self, key: &[u8]) -> Result<bool, TableError> {
        Ok(Self::delete(self, key)?)
    }

    fn sync(&self) -> Result<(), TableError> {
        Ok(Self::sync(self)?)
    }

    fn mend(&self) -> Result<Mended, TableError> {
        Ok(Self::mend(self)?)
    }

    fn for_each(&self, visit: impl FnMut(&[u8], &[u8])) -> Result<u64, TableError> {
        Ok(Self::for_each(self, visit)?)
    }

    fn for_each_of_part(
        &self,
        part: u32,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<bool, TableError> {
        let start = part.saturating_mul(CHAINS_PER_PART);
        let end = start.saturating_add(CHAINS_PER_PART);
        self.for_each_of(start..end, visit)?;
        Ok(end < self.chains())
    }
}

/// A table's file, and the result of its repair.
pub type TableMended = (&'static str, Result<Mended, TableError>);

/// Reason why a table could not carry out a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TableError {
    /// The record exists and is malformed.
    #[error("damaged record: {0}")]
    Damaged(#[from] RecordError),
    /// A record with this key exists already.
    #[error("a record with this key exists")]
    Exists,
    /// No room is left: on the disk, in memory, below the highest size of the file, or in the share
    /// of this process.
    #[error("the table is full")]
    Full,
    /// The lock of the record could not be taken.
    #[error("the record could not be locked")]
    Lock,
    /// The table was opened for reading only.
    #[error("the table is open for reading only")]
    ReadOnly,
    /// The value is larger than [`tdb::RECORD_BYTES_MAX`].
    #[error("a record of {0} bytes is too large")]
    RecordTooLarge(usize),
    /// The table's file is damaged or could not be read or written.
    #[error("the table's file is damaged or unreadable")]
    Storage,
}

impl From<TdbError> for TableError {
    fn from(error: TdbError) -> Self {
        match error {
            TdbError::Exists => Self::Exists,
            TdbError::Full => Self::Full,
            TdbError::Busy | TdbError::Lock => Self::Lock,
            TdbError::ReadOnly => Self::ReadOnly,
            TdbError::RecordTooLarge(len) => Self::RecordTooLarge(len),
            TdbError::Storage => Self::Storage,
        }
    }
}

#[cfg(test)]
mod tests;
