//! `persistent_opens.tdb`: persistent opens as they must come back after the server was stopped, by
//! their FileId.
//!
//! Unlike the other tables it lies in the state directory and is never emptied. It is changed under
//! the lock of the file's record, wherever that is changed and by whom, so no holder of a persistent
//! open has to think of it; a record without such opens never comes here.

use std::time::Duration;

use arbitration::records::Disconnected;
use arbitration::{FileKey, FileRecord};
use tdb::Change;

use super::codec::{self, KEY_BYTES};
use super::disconnected::Limits;
use super::{FileTable, Judged};
use crate::table::{Table, TableError};

/// The file in the state directory.
pub(super) const PERSISTENT: &str = "persistent_opens.tdb";

/// Hash chains: there are few such opens. A prime.
pub(super) const PERSISTENT_HASH_SIZE: u16 = 251;

/// What came back.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Restored {
    /// Opens that wait for their clients.
    pub opens: u64,
    /// Records that made no sense, and parts of the table that could not be read. They are gone.
    pub damaged: u64,
    /// The table was left in disorder, and is written anew.
    pub was_mended: bool,
}

/// Persistent opens of one file, each as the bytes that are kept of it.
pub(super) type Parts = Vec<(u64, Vec<u8>)>;

/// What of a record is to be kept.
pub(super) fn parts(key: FileKey, record: &FileRecord) -> Parts {
    // Nearly all records have none, and are done here.
    if !record.opens.iter().any(arbitration::OpenEntry::is_persistent) {
        return Parts::new();
    }
    let parts = record.persistent_parts().into_iter();
    let bytes = parts.filter_map(|(id, part)| Some((id, codec::encode(&part).ok()?)));
    bytes.map(|(id, part)| (id, [&codec::key_of(key)[..], &part].concat())).collect()
}

/// Keeps what is new, and forgets what is gone. Whether anything has to reach the disk: an open that
/// comes back though it was closed is given up in time.
pub(super) fn update<T: Table>(
    table: &T,
    before: &Parts,
    after: &Parts,
) -> Result<bool, TableError> {
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
    /// Brings the persistent opens of the last run of the server back, disconnected: for the
    /// supervisor, before there are clients.
    ///
    /// # Errors
    /// What stopped it.
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
            if self.judge(file, put_back, Judged::AsKept)?.is_err() {
                restored.damaged += 1;
                continue;
            }
            for entry in &entries {
                restored.opens += 1;
                let until = now + entry.durability.as_ref().map_or(Duration::ZERO, |it| it.timeout);
                let at = Disconnected::of(entry, file);
                // One that is not noted is found all the same, by a longer search.
                let _ = self.note_disconnected(&at, until, Limits::Ignore);
            }
        }
        Ok(restored)
    }
}
