//! A table of one kind of record.

use std::cell::Cell;
use std::marker::PhantomData;

use dtyp::ServerId;
use tdb::{Change, Mended};

use crate::codec::{self, RecordError};
use crate::record::{Key, Record};
use crate::table::{Table, TableError};

/// Highest number of records of one table that one process may own.
///
/// It limits the file, which grows with the records that live at once, at some 300 bytes each, and
/// does not shrink. At the limit a new record is refused with [`TableError::Full`].
pub const RECORDS_PER_PROCESS_MAX: u64 = 262_144;

/// All readable records of a table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listing<R> {
    /// The records, in no order.
    pub records: Vec<R>,
    /// Number of records and hash chains that could not be read.
    pub damaged: u64,
}

/// A table of records `R` in `T`.
#[derive(Debug)]
pub(crate) struct TypedTable<T, R> {
    table: T,
    owned: Cell<u64>,
    records: PhantomData<fn() -> R>,
}

impl<T: Table, R: Record> TypedTable<T, R> {
    pub(crate) fn new(table: T) -> Self {
        Self { table, owned: Cell::new(0), records: PhantomData }
    }

    /// Returns the table of bytes underneath.
    pub(crate) fn into_table(self) -> T {
        self.table
    }

    pub(crate) fn table(&self) -> &T {
        &self.table
    }

    /// Adds a record or replaces the one with its key.
    pub(crate) fn put(&self, record: &R) -> Result<(), TableError> {
        let mut value = Vec::new();
        record.encode(&mut value)?;
        let full = self.owned.get() >= RECORDS_PER_PROCESS_MAX;
        let owner = record.owner();
        let added = self.table.with_record(record.key().as_ref(), |found| {
            let ours = found.and_then(codec::owner) == Some(owner);
            match !ours && full {
                true => (Change::Keep, Err(TableError::Full)),
                false => (Change::Store(value), Ok(!ours)),
            }
        })??;
        self.owned.set(self.owned.get() + u64::from(added));
        Ok(())
    }

    /// Adds a record unless another process has one with its key, which is returned then. A record
    /// of `instead_of` is replaced, and so is a damaged one, or one that is `weaker`.
    pub(crate) fn claim(
        &self,
        record: &R,
        instead_of: Option<ServerId>,
        weaker: impl Fn(&R) -> bool,
    ) -> Result<Option<ServerId>, TableError> {
        let mut value = Vec::new();
        record.encode(&mut value)?;
        let full = self.owned.get() >= RECORDS_PER_PROCESS_MAX;
        let owner = record.owner();
        let (added, other) = self.table.with_record(record.key().as_ref(), |found| {
            let is_weaker = found.and_then(|it| R::decode(it).ok()).is_some_and(|it| weaker(&it));
            match found.and_then(codec::owner) {
                Some(other) if other != owner && Some(other) != instead_of && !is_weaker => {
                    (Change::Keep, Ok((false, Some(other))))
                }
                Some(other) if other == owner => (Change::Store(value), Ok((false, None))),
                _ if full => (Change::Keep, Err(TableError::Full)),
                _ => (Change::Store(value), Ok((true, None))),
            }
        })??;
        self.owned.set(self.owned.get() + u64::from(added));
        Ok(other)
    }

    /// Repairs the table, as [`Table::mend`].
    pub(crate) fn mend(&self) -> Result<Mended, TableError> {
        self.table.mend()
    }

    /// Removes a record of this process. Returns whether it existed.
    pub(crate) fn remove(&self, key: Key) -> Result<bool, TableError> {
        let removed = self.table.delete(key.as_ref())?;
        self.owned.set(self.owned.get().saturating_sub(u64::from(removed)));
        Ok(removed)
    }

    /// Removes the record if `owner` has it. Returns whether it did.
    pub(crate) fn remove_if_owned(&self, key: &[u8], owner: ServerId) -> Result<bool, TableError> {
        self.table.with_record(key, |found| match found.and_then(codec::owner) == Some(owner) {
            true => (Change::Delete, true),
            false => (Change::Keep, false),
        })
    }

    /// As [`TypedTable::remove_if_owned`], for a record of this process.
    pub(crate) fn remove_owned(&self, key: Key, owner: ServerId) -> Result<bool, TableError> {
        let removed = self.remove_if_owned(key.as_ref(), owner)?;
        self.owned.set(self.owned.get().saturating_sub(u64::from(removed)));
        Ok(removed)
    }

    pub(crate) fn find(&self, key: Key) -> Result<Option<R>, TableError> {
        let found = self.table.get(key.as_ref(), |value| decode::<R>(key.as_ref(), value))?;
        Ok(found.transpose()?)
    }

    pub(crate) fn list(&self) -> Result<Listing<R>, TableError> {
        let mut records = Vec::new();
        let mut damaged = 0;
        let chains = self.table.for_each(|key, value| match decode(key, value) {
            Ok(record) => records.push(record),
            Err(_) => damaged += 1,
        })?;
        Ok(Listing { records, damaged: damaged + chains })
    }

    /// Removes every record of one of `owners`, damaged ones too. Returns their number.
    ///
    /// One pass over the table, a chain at a time; other records are only read.
    pub(crate) fn remove_all_of(&self, owners: &[ServerId]) -> Result<u64, TableError> {
        let mut removed = 0;
        let mut result = Ok(());
        self.table.for_each(|key, value| {
            let owner = codec::owner(value).filter(|owner| owners.contains(owner));
            let Some(owner) = owner else { return };
            // Checked again under the lock: another process may have taken the record over.
            match self.remove_if_owned(key, owner) {
                Ok(gone) => removed += u64::from(gone),
                Err(error) => result = Err(error),
            }
        })?;
        result.map(|()| removed)
    }
}

fn decode<R: Record>(key: &[u8], value: &[u8]) -> Result<R, RecordError> {
    let record = R::decode(value)?;
    match record.key().as_ref() == key {
        true => Ok(record),
        false => Err(RecordError::KeyMismatch),
    }
}
