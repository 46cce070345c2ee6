//! What the registry asks of a table, whoever keeps it.

use tdb::{Change, Mended, Tdb, TdbError};

use crate::codec::RecordError;

/// Keys and values of bytes, shared by all processes of the server.
///
/// A change is read, decide, write under the lock of that one record: [`Table::with_record`].
pub trait Table {
    /// Gives `decide` the record of `key`, and does what it answers, with the record locked.
    ///
    /// `decide` runs under a lock that other processes wait for: it must be short and must not
    /// touch this table again.
    ///
    /// # Errors
    /// What the table could not do; nothing is changed then.
    fn with_record<R>(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<&[u8]>) -> (Change, R),
    ) -> Result<R, TableError>;

    /// Gives `parse` the record of `key`, if there is one. The rules for `decide` of
    /// [`Table::with_record`] hold for `parse`.
    ///
    /// # Errors
    /// What the table could not do.
    fn get<R>(&self, key: &[u8], parse: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, TableError>;

    /// Adds a record under a key that is new, in one step.
    ///
    /// # Errors
    /// [`TableError::Exists`] if the key is taken, else what the table could not do.
    fn insert(&self, key: &[u8], value: &[u8]) -> Result<(), TableError>;

    /// Removes the record of `key`; whether there was one.
    ///
    /// # Errors
    /// What the table could not do.
    fn delete(&self, key: &[u8]) -> Result<bool, TableError>;

    /// Waits until all that was changed is on stable storage, if the table is of a kind that is ever
    /// there.
    ///
    /// # Errors
    /// What the table could not do.
    fn sync(&self) -> Result<(), TableError> {
        Ok(())
    }

    /// Looks through the table, and writes it anew if a process that was killed has left it in
    /// disorder: [`Tdb::mend`].
    ///
    /// # Errors
    /// What the table could not do.
    fn mend(&self) -> Result<Mended, TableError> {
        Ok(Mended::default())
    }

    /// Shows every record to `visit`, as `(key, value)`, in no order.
    ///
    /// `visit` sees copies and runs without a lock, so it may change the table. A record that is
    /// added or removed meanwhile may or may not be seen; no other is missed or seen twice.
    ///
    /// Returns the number of places where the table itself was damaged and could not be read.
    ///
    /// # Errors
    /// What the table could not do.
    fn for_each(&self, visit: impl FnMut(&[u8], &[u8])) -> Result<u64, TableError>;
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
}

/// A table's file, and what was found when it was looked through.
pub type TableMended = (&'static str, Result<Mended, TableError>);

/// Why a table did not do what was asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TableError {
    /// The record is there and is not one of ours.
    #[error("damaged record: {0}")]
    Damaged(#[from] RecordError),
    /// A record with this key is there already.
    #[error("a record with this key exists")]
    Exists,
    /// There is no room: disk, memory, the size of the file, or the share of this process.
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
