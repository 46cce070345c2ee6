//! `persistent_opens.tdb`: persistent opens by their FileId, for their return after a stop of the
//! server.
//!
//! Unlike the other tables it lies in the state directory and is never emptied. Every change of a
//! file's record updates it under the lock of that record, so the owner of a persistent open has
//! nothing to do; a record without such opens never accesses it.

use std::time::Duration;

use arbitration::records::Disconnected;
use arbitration::{FileKey, FileRecord};
use tdb::Change;

use super::codec::{self, KEY_BYTES};
use super::disconnected::Limits;
use super::{FileTable, Persistence};
use crate::table::{Table, TableError};

/// Name of the file in the state directory.
pub(super) const PERSISTENT: &str = "persistent_opens.tdb";

/// Hash chains: the opens are few. A prime.
pub(super) const PERSISTENT_HASH_SIZE: u16 = 251;

/// Result of restoring the persistent opens.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Restored {
    /// Opens that wait for their clients.
    pub opens: u64,
    /// Records and parts of the table that could not be read, and opens that could not be noted for
    /// their clients. They are lost.
    pub damaged: u64,
    /// True if the table was damaged, and was rewritten.
    pub was_mended: bool,
}

/// Persistent opens of one file, each with its encoded record.
pub(super) type Parts = Vec<(u64, Vec<u8>)>;

/// Extracts the persistent part of a record.
#[inline]
pub(super) fn parts(key: FileKey, record: &FileRecord) -> Parts {
    // The early return for nearly all records.
    if !record.opens.iter().any(arbitration::OpenEntry::is_persistent) {
        return Parts::new();
    }
    parts_of_persistent(key, record)
}

fn parts_of_persistent(key: FileKey, record: &FileRecord) -> Parts {
    let parts = record.persistent_parts().into_iter();
    let bytes = parts.filter_map(|(id, part)| Some((id, codec::encode(&part).ok()?)));
    bytes.map(|(id, part)| (id, [&codec::key_of(key)[..], &part].concat())).collect()
}

/// Stores new parts and deletes those that are gone. Returns whether the disk must be synced: a
/// closed open that comes back is abandoned in time, so deletions need no sync.
#[inline]
pub(super) fn update<T: Table>(
    table: &T,
    before: &Parts,
    after: &Parts,
) -> Result<bool, TableError> {
    if before.is_empty() && after.is_empty() {
        return Ok(false);
    }
    let mut stored = false;
    for part in after.iter().filter(|part| !before.contains(part)) {
        let (id, bytes) = part;
        table.with_record(&id.to_le_bytes(), |_| (Change::Store(bytes.clone()), ()))?;
        stored = true;
    }
    for (id, _) in before.iter().filter(|(id, _)| !after.iter().any(|(it, _)| it == id)) {
        table.delete(&id.to_le_bytes())?;
    }
    Ok(stored)
}

fn parse(value: &[u8]) -> Option<(FileKey, FileRecord)> {
    let (key, part) = value.split_at_checked(KEY_BYTES)?;
    Some((codec::key_from(key)?, codec::decode(part).ok()?))
}

impl<T: Table + std::fmt::Debug> FileTable<T> {
    /// Restores the persistent opens of the server's previous run, disconnected: for the
    /// supervisor, before there are clients.
    ///
    /// # Errors
    /// Those of the tables.
    pub fn restore(&self, now: Duration) -> Result<Restored, TableError> {
        let Some(persistent) = &self.persistent else { return Ok(Restored::default()) };
        // The machine may have stopped in the middle of a change.
        let mended = persistent.mend()?;
        let mut restored = Restored {
            opens: 0,
            damaged: mended.chains_lost + mended.records_lost,
            was_mended: mended.was_damaged,
        };
        let mut kept = Vec::new();
        let mut unreadable = Vec::new();
        restored.damaged += persistent.for_each(|key, value| match parse(value) {
            Some(part) => kept.push(part),
            None => unreadable.push(key.to_vec()),
        })?;
        restored.damaged += u64::from(self.is_damaged);
        for key in unreadable {
            restored.damaged += 1;
            persistent.delete(&key)?;
        }
        for (file, part) in kept {
            let entries = part.opens.clone();
            let put_back = &mut |record: &mut FileRecord| {
                record.restore(part.clone(), now);
                true
            };
            if self.decide_under_lock(file, put_back, Persistence::Stored)?.is_err() {
                restored.damaged += 1;
                continue;
            }
            for entry in &entries {
                restored.opens += 1;
                let until = now + entry.durability.as_ref().map_or(Duration::ZERO, |it| it.timeout);
                let at = Disconnected::of(entry, file);
                // An open without a note cannot be reconnected.
                let noted = self.note_disconnected(&at, until, Limits::Ignore);
                restored.damaged += u64::from(noted.is_err());
            }
        }
        Ok(restored)
    }
}
