//! A clustered database: its file on this node, which ctdbd and all clients share.
//!
//! No access waits. ctdbd locks all chains of a file during a recovery, and those of single records
//! for a migration; a node that was stopped finds all of them locked until it continues.

use std::io;

use tdb::{Change, Tdb, TdbError};

use crate::attachment::Attached;
use crate::database_kind::DatabaseKind;
use crate::record::{RECORD_HEADER_BYTES, Record, RecordHeader};

/// A database of the cluster, open in this process once.
#[derive(Debug)]
pub struct Database {
    number: u32,
    kind: DatabaseKind,
    own_number: u32,
    file: Tdb,
}

/// Change to a record that is on this node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RecordChange {
    /// Deletes the value. The header stays until ctdbd removes it from all nodes.
    Delete,
    /// Leaves the record as it is.
    Keep,
    /// Replaces the value, or adds it; an empty one is the same as none.
    Store(Vec<u8>),
}

/// Result of an attempt to use a record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Access<R> {
    /// The chain is locked by another process, or ctdbd has frozen the database: try again later.
    Busy,
    /// Another node has the record, or nobody knows of it on this node: [`crate::Call`] it.
    Elsewhere,
    /// The record is on this node.
    Here {
        /// Result of the caller's function.
        result: R,
        /// Header of a record without a value, by [`RecordChange::Delete`]: ctdbd is to be told
        /// of it by [`crate::Control::ScheduleForDeletion`], now or some time later.
        deleted: Option<RecordHeader>,
    },
}

impl Database {
    /// Opens an attached database on the node `own_number`. To be called soon: without a ctdbd
    /// that has the file open, libtdb empties that of a database that is not persistent.
    ///
    /// # Errors
    /// Those of the file system and of libtdb; `ResourceBusy` if this process has it open already.
    pub fn open(attached: &Attached, own_number: u32) -> io::Result<Self> {
        let file = Tdb::managed(&attached.path, attached.flags)?;
        Ok(Self { number: attached.database, kind: attached.kind, own_number, file })
    }

    /// Number of the database, for calls and controls.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Reads a record, if it is on this node; those of persistent and replicated databases are.
    /// The value is `None` if there is none.
    ///
    /// `parse` runs with the record locked and must be short: ctdbd starts a process to wait for
    /// a lock that it does not get at once.
    ///
    /// # Errors
    /// The file is damaged or cannot be read.
    pub fn read<R>(
        &self,
        key: &[u8],
        parse: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<Access<R>, TdbError> {
        self.access(key, |record| match (self.kind, record) {
            (DatabaseKind::Volatile, Some(record)) if record.header.dmaster == self.own_number => {
                (Change::Keep, here(parse(record.value)))
            }
            (DatabaseKind::Volatile, _) => (Change::Keep, Access::Elsewhere),
            (_, record) => (Change::Keep, here(parse(record.and_then(|record| record.value)))),
        })
    }

    /// Calls `decide` with a record's value, and carries out the change that it returns, if the
    /// record is on this node. Under the rules of [`Database::read`].
    ///
    /// # Errors
    /// The file is damaged or full; the record is unchanged then. [`TdbError::ReadOnly`] for a
    /// persistent or replicated database, which transactions change.
    pub fn change<R>(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<&[u8]>) -> (RecordChange, R),
    ) -> Result<Access<R>, TdbError> {
        if self.kind != DatabaseKind::Volatile {
            return Err(TdbError::ReadOnly);
        }
        self.access(key, |record| {
            let here = record.filter(|record| record.header.is_at(self.own_number));
            let Some(Record { header, value }) = here else {
                return (Change::Keep, Access::Elsewhere);
            };
            let (change, result) = decide(value);
            match change {
                RecordChange::Keep => (Change::Keep, Access::Here { result, deleted: None }),
                RecordChange::Store(value) => {
                    (store(header, &value), Access::Here { result, deleted: None })
                }
                RecordChange::Delete => {
                    let change = if value.is_some() { store(header, &[]) } else { Change::Keep };
                    (change, Access::Here { result, deleted: Some(header) })
                }
            }
        })
    }

    fn access<R>(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<Record<'_>>) -> (Change, Access<R>),
    ) -> Result<Access<R>, TdbError> {
        // A record that is shorter than its header is as none: fetching it writes it anew.
        let decoded =
            |stored: Option<&[u8]>| decide(stored.and_then(|stored| Record::decode(stored).ok()));
        match self.file.try_with_record(key, decoded) {
            Err(TdbError::Busy) => Ok(Access::Busy),
            result => result,
        }
    }
}

fn here<R>(result: R) -> Access<R> {
    Access::Here { result, deleted: None }
}

/// Returns the record with its header as it was: ctdbd alone changes that.
fn store(header: RecordHeader, value: &[u8]) -> Change {
    let mut record = Vec::with_capacity(RECORD_HEADER_BYTES + value.len());
    header.encode(&mut record);
    record.extend(value);
    Change::Store(record)
}
