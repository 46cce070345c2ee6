//! Where records of files are kept.

use std::fmt::Debug;
use std::time::Duration;

use dtyp::Guid;

use crate::file_record::{FileRecord, FileWord};
use crate::open::OpenEntry;
use crate::standing::Standing;

/// A file on the server, whatever its names and streams.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FileKey {
    /// The file system.
    pub device: u64,
    /// The file in it.
    pub inode: u64,
}

/// Where a disconnected open is, and by what it is looked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Disconnected {
    /// FileId.Persistent.
    pub persistent: u64,
    /// The file.
    pub file: FileKey,
    /// The client, and `Open.CreateGuid`, which is zeros if the open has none.
    pub create_guid: (Guid, Guid),
    /// Who the user is: `Open.DurableOwner`.
    pub owner: String,
}

impl Disconnected {
    /// Where an open of a file is.
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

/// Keeps the records of all files that are open, for all workers of the server.
///
/// This is memory that the workers share: it is read and changed under a short lock and never
/// waited for, which is why the engine may do so itself without a question to the world.
pub trait FileRecords: Debug {
    /// Gives `decide` the record of a file, an empty one if there is none, and keeps what it left
    /// there if it says that it changed it. The record is locked meanwhile.
    ///
    /// # Errors
    /// If the record could not be read or kept; nothing is changed then.
    fn change(
        &self,
        key: FileKey,
        decide: &mut dyn FnMut(&mut FileRecord) -> bool,
    ) -> Result<(), RecordsError>;

    /// Shows `see` the record of a file, an empty one if there is none.
    ///
    /// # Errors
    /// If the record could not be read.
    fn view(&self, key: FileKey, see: &mut dyn FnMut(&FileRecord)) -> Result<(), RecordsError> {
        self.change(key, &mut |record| {
            see(record);
            false
        })
    }

    /// Whether the client of this process may have one more open, among those of all clients.
    fn has_room(&self, standing: Standing) -> bool;

    /// What the shared word of a file says: never less than is true, and maybe more, since files
    /// share words.
    fn word(&self, key: FileKey) -> FileWord;

    /// How many files were deleted so far. A file that was opened by its name may be deleted before
    /// it is in its record: whoever sees this number move meanwhile looks again.
    fn deletions(&self) -> u32;

    /// A file is deleted. To be said before its record forgets that it was to be.
    fn count_deletion(&self);

    /// Notes where a disconnected open is, and until when it is kept, on the clock of the machine.
    ///
    /// # Errors
    /// If it could not be noted, or its user has left too many already. It cannot be kept then.
    fn put_disconnected(&self, at: &Disconnected, until: Duration) -> Result<(), RecordsError>;

    /// Forgets a disconnected open.
    fn remove_disconnected(&self, at: &Disconnected);

    /// Where a disconnected open is.
    fn find_disconnected(&self, persistent: u64) -> Option<FileKey>;

    /// The disconnected open of a client's CreateGuid, and where it is; it may be there no more.
    fn find_create_guid(&self, client: Guid, create_guid: Guid) -> Option<(u64, FileKey)>;

    /// Shows all records, without a lock.
    ///
    /// # Errors
    /// If they could not be read.
    fn for_each(&self, visit: &mut dyn FnMut(FileKey, FileRecord)) -> Result<(), RecordsError>;
}

/// A record that could not be read or kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RecordsError {
    /// There is no room for it.
    Full,
    /// It is damaged, or the table is.
    Damaged,
}
