//! `disconnected.tdb`: a note for each disconnected open under its FileId, and under its CreateGuid
//! if it has one; and the number of such opens of each user.
//!
//! A note has the deadline of its open, so that [`FileTable::scavenge`] need not read the record of
//! a file before it is due.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use arbitration::records::Disconnected;
use arbitration::{FileKey, FileRecord, FileRecords, OpenEntry, RecordsError, WorkersToNotify};
use dtyp::{Guid, ServerId};
use tdb::Change;

use super::FileTable;
use super::codec::{self, KEY_BYTES};
use crate::table::{Table, TableError};

/// Highest number of disconnected opens of one user. They outlive the worker that counted them
/// among the opens of its client, and a client that reconnects repeatedly could leave more each
/// time.
const DISCONNECTED_OF_USER_MAX: u32 = 1_024;

/// Highest number of disconnected opens of all users. One turn of the supervisor reads all notes.
const DISCONNECTED_MAX: u32 = 65_536;

/// Highest number of due files in one turn. The record of a file can take milliseconds to read, and
/// connecting clients wait meanwhile.
const FILES_PER_TURN_MAX: usize = 16;

/// Result of one turn of [`FileTable::scavenge`].
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Scavenged {
    /// Processes that have to check each file.
    pub to_notify: Vec<(FileKey, Vec<ServerId>)>,
    /// True if more files are due; [`FileTable::scavenge`] must be called again.
    pub has_more: bool,
}

/// Whether the limits on disconnected opens apply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Limits {
    Apply,
    /// The previous run of the server has promised to keep the open.
    Ignore,
}

/// Notes of due opens, by file.
pub(super) type Due = BTreeMap<FileKey, Vec<DueNote>>;

/// A due note and its key, as read.
#[derive(Debug)]
pub(super) struct DueNote {
    key: Vec<u8>,
    note: Note,
}

/// Entry of the table `disconnected.tdb`: a disconnected open, or a file whose delegated deletions
/// must be checked.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Note {
    file: FileKey,
    /// FileId.Persistent; zero for a file with delegated deletions.
    persistent: u64,
    /// Deadline of the open, on the machine's monotonic clock.
    until: Duration,
    /// Name of the open's user.
    owner: String,
}

impl Note {
    fn of(at: &Disconnected, until: Duration) -> Self {
        let Disconnected { persistent, file, .. } = *at;
        Self { file, persistent, until, owner: at.owner.clone() }
    }

    fn encode(&self) -> Vec<u8> {
        let until = u64::try_from(self.until.as_nanos()).unwrap_or(u64::MAX);
        let mut bytes = codec::key_of(self.file).to_vec();
        bytes.extend_from_slice(&self.persistent.to_le_bytes());
        bytes.extend_from_slice(&until.to_le_bytes());
        bytes.extend_from_slice(self.owner.as_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (file, rest) = bytes.split_at_checked(KEY_BYTES)?;
        let (persistent, rest) = rest.split_first_chunk()?;
        let (until, owner) = rest.split_first_chunk()?;
        Some(Self {
            file: codec::key_from(file)?,
            persistent: u64::from_le_bytes(*persistent),
            until: Duration::from_nanos(u64::from_le_bytes(*until)),
            owner: str::from_utf8(owner).ok()?.to_owned(),
        })
    }
}

impl<T: Table + std::fmt::Debug> FileTable<T> {
    /// Closes expired disconnected opens of a bounded number of files. Their pending deletions go
    /// to `deletion_owner`.
    ///
    /// # Errors
    /// Those of the tables.
    pub fn scavenge(
        &self,
        deletion_owner: ServerId,
        now: Duration,
    ) -> Result<Scavenged, TableError> {
        let mut due = self.due.take();
        if due.is_empty() {
            due = self.find_due(now)?;
        }
        let mut to_notify = Vec::new();
        for _ in 0..FILES_PER_TURN_MAX {
            let Some((file, notes)) = due.pop_first() else { break };
            to_notify.push((file, self.scavenge_file(file, notes, deletion_owner, now)?));
        }
        let has_more = !due.is_empty();
        self.due.replace(due);
        Ok(Scavenged { to_notify, has_more })
    }

    /// Searches the notes for due ones. Since every note is read, it also corrects the counts of
    /// opens, which a killed worker may have left wrong.
    fn find_due(&self, now: Duration) -> Result<Due, TableError> {
        let mut due = Due::new();
        let mut counted: HashMap<Vec<u8>, u32> = HashMap::new();
        let mut stored: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
        self.disconnected.for_each(|key, value| {
            if key.len() >= COUNT_KEY_BYTES_MIN {
                stored.insert(key.to_vec(), value.to_vec());
                return;
            }
            let Some(note) = Note::decode(value) else { return };
            if is_file_id(key) {
                for key in [count_key_of_all(), count_key(&note.owner)] {
                    *counted.entry(key).or_default() += 1;
                }
            }
            if note.until <= now {
                let key = key.to_vec();
                due.entry(note.file).or_default().push(DueNote { key, note });
            }
        })?;
        for (key, before) in stored {
            let change = match counted.get(&key) {
                None => Change::Delete,
                Some(count) => Change::Store(count.to_le_bytes().to_vec()),
            };
            self.change_if_same(&key, &before, change)?;
        }
        Ok(due)
    }

    /// Returns the processes that have to check the file.
    fn scavenge_file(
        &self,
        file: FileKey,
        notes: Vec<DueNote>,
        deletion_owner: ServerId,
        now: Duration,
    ) -> Result<Vec<ServerId>, TableError> {
        let mut notify = WorkersToNotify::default();
        let mut kept = BTreeMap::new();
        let mut has_delegated = false;
        let changed = self.change(file, &mut |record| {
            notify = WorkersToNotify::default();
            let gone = record.scavenge(now, deletion_owner, &mut notify);
            kept = deadlines(record);
            has_delegated = record.has_delegated();
            !gone.is_empty() || has_delegated
        });
        if changed == Err(RecordsError::Full) {
            // The next search of the table tries it again.
            return Ok(Vec::new());
        }
        for DueNote { key, note } in notes {
            self.settle(&key, &note, kept.get(&note.persistent).copied())?;
        }
        if has_delegated {
            self.note_delegated_deletions(file)?;
        }
        Ok(notify.into_workers())
    }

    /// Corrects the note of an open to its deadline, or removes it with its open. A note that has
    /// changed meanwhile is left alone.
    fn settle(
        &self,
        key: &[u8],
        seen: &Note,
        expires_at: Option<Duration>,
    ) -> Result<(), TableError> {
        let change = match expires_at {
            Some(until) => Change::Store(Note { until, ..seen.clone() }.encode()),
            None => Change::Delete,
        };
        let is_changed = self.change_if_same(key, &seen.encode(), change)?;
        if is_changed && expires_at.is_none() && is_file_id(key) {
            self.discount(&seen.owner);
        }
        Ok(())
    }

    /// Changes an entry of the table unless another process has changed it. Returns whether it did.
    fn change_if_same(
        &self,
        key: &[u8],
        before: &[u8],
        change: Change,
    ) -> Result<bool, TableError> {
        self.disconnected.with_record(key, |found| match found == Some(before) {
            true => (change, true),
            false => (Change::Keep, false),
        })
    }

    /// Makes the next [`FileTable::scavenge`] check that pending deletions were carried out.
    pub(super) fn note_delegated_deletions(&self, file: FileKey) -> Result<(), TableError> {
        let note = Note { file, persistent: 0, until: Duration::ZERO, owner: String::new() };
        let key = codec::key_of(file);
        self.disconnected.with_record(&key, |_| (Change::Store(note.encode()), ()))
    }

    /// Records a disconnected open, if its user's limit permits one more.
    pub(super) fn note_disconnected(
        &self,
        at: &Disconnected,
        until: Duration,
        limits: Limits,
    ) -> Result<(), TableError> {
        let note = Note::of(at, until).encode();
        let key = at.persistent.to_le_bytes();
        let store = |found: Option<&[u8]>| (Change::Store(note.clone()), found.is_none());
        if self.disconnected.with_record(&key, store)?
            && let Err(error) = self.count(&at.owner, limits)
        {
            self.disconnected.delete(&key)?;
            return Err(error);
        }
        if let Some(key) = create_guid_key(at.create_guid)
            && let Err(error) = self.disconnected.with_record(&key, store)
        {
            self.forget_disconnected(at);
            return Err(error);
        }
        Ok(())
    }

    /// Removes the notes on a disconnected open. A stale note is detected by its reader.
    pub(super) fn forget_disconnected(&self, at: &Disconnected) {
        if self.disconnected.delete(&at.persistent.to_le_bytes()) == Ok(true) {
            self.discount(&at.owner);
        }
        if let Some(key) = create_guid_key(at.create_guid) {
            let _ = self.disconnected.delete(&key);
        }
    }

    /// FileId.Persistent and file of the note under a FileId.
    pub(super) fn find_note(&self, persistent: u64) -> Option<(u64, FileKey)> {
        self.read_note(&persistent.to_le_bytes())
    }

    /// FileId.Persistent and file of the note under a client's CreateGuid.
    pub(super) fn find_note_by_create_guid(
        &self,
        create_guid: (Guid, Guid),
    ) -> Option<(u64, FileKey)> {
        self.read_note(&create_guid_key(create_guid)?)
    }

    fn read_note(&self, key: &[u8]) -> Option<(u64, FileKey)> {
        let note = self.disconnected.get(key, Note::decode).ok().flatten().flatten()?;
        Some((note.persistent, note.file))
    }

    /// Counts one more open of a user.
    fn count(&self, owner: &str, limits: Limits) -> Result<(), TableError> {
        let [all_max, own_max] = match limits {
            Limits::Apply => [DISCONNECTED_MAX, DISCONNECTED_OF_USER_MAX],
            Limits::Ignore => [u32::MAX; 2],
        };
        self.count_up(&count_key_of_all(), all_max)?;
        let counted = self.count_up(&count_key(owner), own_max);
        if counted.is_err() {
            self.count_down(&count_key_of_all());
        }
        counted
    }

    /// Counts one open of a user less.
    fn discount(&self, owner: &str) {
        self.count_down(&count_key_of_all());
        self.count_down(&count_key(owner));
    }

    fn count_up(&self, key: &[u8], max: u32) -> Result<(), TableError> {
        self.disconnected.with_record(key, |found| match found.map_or(0, number) {
            count if count >= max => (Change::Keep, Err(TableError::Full)),
            count => (Change::Store((count + 1).to_le_bytes().to_vec()), Ok(())),
        })?
    }

    /// Decrements a count. A failure is corrected by the next search of the table.
    fn count_down(&self, key: &[u8]) {
        let _ = self.disconnected.with_record(key, |found| match found.map_or(0, number) {
            0 | 1 => (Change::Delete, ()),
            count => (Change::Store((count - 1).to_le_bytes().to_vec()), ()),
        });
    }
}

/// Deadlines of the disconnected opens of a file, by FileId.Persistent.
fn deadlines(record: &FileRecord) -> BTreeMap<u64, Duration> {
    let deadline = |it: &OpenEntry| Some((it.facts.persistent, it.expires_at()?));
    record.opens.iter().filter_map(deadline).collect()
}

/// True for a note under a FileId, of which each open has one.
fn is_file_id(key: &[u8]) -> bool {
    key.len() == size_of::<u64>()
}

/// Bytes of a key with a CreateGuid: the ClientGuid and the CreateGuid, which the client chooses.
const CREATE_GUID_KEY_BYTES: usize = 32;

/// Longer than the key of any note, so no client can choose the key of a count.
const COUNT_KEY_BYTES_MIN: usize = CREATE_GUID_KEY_BYTES + 1;

/// Key of the note under a client's CreateGuid.
fn create_guid_key((client, create_guid): (Guid, Guid)) -> Option<[u8; CREATE_GUID_KEY_BYTES]> {
    let mut key = [0; CREATE_GUID_KEY_BYTES];
    key[..16].copy_from_slice(&client.0);
    key[16..].copy_from_slice(&create_guid.0);
    (!create_guid.is_zero()).then_some(key)
}

/// Key of the number of all disconnected opens.
fn count_key_of_all() -> Vec<u8> {
    vec![0; COUNT_KEY_BYTES_MIN]
}

/// Key of the number of a user's disconnected opens.
fn count_key(owner: &str) -> Vec<u8> {
    [&[1; COUNT_KEY_BYTES_MIN], owner.as_bytes()].concat()
}

fn number(value: &[u8]) -> u32 {
    value.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests;
