//! Storage of the records of files.

use std::fmt::{self, Debug};
use std::time::Duration;

use dtyp::Guid;

use crate::file_record::{FileRecord, FileWord};
use crate::open::OpenEntry;
use crate::standing::Standing;

/// Key of a file on the server, common to its names and streams.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FileKey {
    /// Device number of the file system.
    pub device: u64,
    /// Inode number in that file system.
    pub inode: u64,
}

/// Location of a disconnected open, with the keys to find it by.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Disconnected {
    /// FileId.Persistent of the disconnected open.
    pub persistent: u64,
    /// File that the open belongs to.
    pub file: FileKey,
    /// ClientGuid, and `Open.CreateGuid`, which is zeros if the open has none.
    pub create_guid: (Guid, Guid),
    /// `Open.DurableOwner`: identity of the user.
    pub owner: String,
}

impl Disconnected {
    /// Returns the location of an open.
    #[must_use]
    pub fn of(entry: &OpenEntry, file: FileKey) -> Self {
        let durability = entry.durability.as_ref();
        let create_guid = durability.map_or(Guid::ZERO, |it| it.create_guid);
        Self {
            persistent: entry.facts.persistent,
            file,
            create_guid: (entry.facts.client, create_guid),
            owner: durability.map(|it| it.owner.clone()).unwrap_or_default(),
        }
    }
}

/// Stores the records of all open files, for all workers of the server.
///
/// The workers share this memory and change it under a short lock. The engine calls it directly,
/// not by an effect; a change of a persistent open waits until it is on stable storage.
pub trait FileRecords: Debug {
    /// Passes the record of a file to `decide`, an empty one if there is none, and stores the
    /// result if `decide` returns true. The record is locked during the call, which happens once
    /// at most.
    ///
    /// # Errors
    /// The record could not be read or stored; it is unchanged then.
    fn change(
        &self,
        key: FileKey,
        decide: &mut dyn FnMut(&mut FileRecord) -> bool,
    ) -> Result<(), RecordsError>;

    /// Passes the record of a file to `see`, an empty one if there is none.
    ///
    /// # Errors
    /// The record could not be read.
    fn view(&self, key: FileKey, see: &mut dyn FnMut(&FileRecord)) -> Result<(), RecordsError> {
        self.change(key, &mut |record| {
            see(record);
            false
        })
    }

    /// True if this process's client may have one more open, among those of all clients.
    fn permits_open(&self, standing: Standing) -> bool;

    /// Returns the shared word of a file. Its counts may be too high, since files share words, but
    /// never too low.
    fn word(&self, key: FileKey) -> FileWord;

    /// Number of files that all workers have deleted so far, modulo 2^32. A file that was opened by
    /// its name may be deleted before it is in its record: a changed number means that the caller
    /// has to look the name up again.
    fn deletion_count(&self) -> u32;

    /// Counts a deleted file. Call it before its record loses the mark.
    fn count_deletion(&self);

    /// Has the supervisor pick a worker for the delegated deletions of a file.
    ///
    /// # Errors
    /// There is no room for a note of that.
    fn note_delegated(&self, key: FileKey) -> Result<(), RecordsError>;

    /// Stores the location of a disconnected open, and the time until which it is kept, on the
    /// clock of the machine.
    ///
    /// # Errors
    /// It could not be stored, or its user has too many already. The open cannot be kept then.
    fn put_disconnected(&self, at: &Disconnected, until: Duration) -> Result<(), RecordsError>;

    /// Removes the location of a disconnected open.
    fn remove_disconnected(&self, at: &Disconnected);

    /// Returns the file of a disconnected open.
    fn find_disconnected(&self, persistent: u64) -> Option<FileKey>;

    /// Returns the disconnected open with a client's CreateGuid, and its file, as last stored; it
    /// may be gone.
    fn find_create_guid(&self, client: Guid, create_guid: Guid) -> Option<(u64, FileKey)>;

    /// Passes all records to `visit`, without a lock.
    ///
    /// # Errors
    /// A record could not be read.
    fn for_each(&self, visit: &mut dyn FnMut(FileKey, FileRecord)) -> Result<(), RecordsError>;
}

/// Reason why a record could not be read or stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RecordsError {
    /// The table has no room for it.
    Full,
    /// The record or the table is damaged.
    Damaged,
}

impl fmt::Display for RecordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the table of open files is full",
            Self::Damaged => "the table of open files is damaged",
        })
    }
}
