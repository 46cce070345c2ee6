//! Where records of files are kept.

use std::fmt::Debug;

use crate::file_record::{FileRecord, FileWord};

/// A file on the server, whatever its names and streams.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FileKey {
    /// The file system.
    pub device: u64,
    /// The file in it.
    pub inode: u64,
}

/// Where a disconnected open is, by its persistent FileId.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Disconnected {
    /// FileId.Persistent.
    pub persistent: u64,
    /// The file.
    pub file: FileKey,
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

    /// What the shared word of a file says: never less than is true, and maybe more, since files
    /// share words.
    fn word(&self, key: FileKey) -> FileWord;

    /// How many files were deleted so far. A file that was opened by its name may be deleted before
    /// it is in its record: whoever sees this number move meanwhile looks again.
    fn deletions(&self) -> u32;

    /// A file is deleted. To be said before its record forgets that it was to be.
    fn count_deletion(&self);

    /// Notes where a disconnected open is.
    ///
    /// # Errors
    /// If it could not be noted.
    fn put_disconnected(&self, at: Disconnected) -> Result<(), RecordsError>;

    /// Forgets a disconnected open.
    fn remove_disconnected(&self, persistent: u64);

    /// Where a disconnected open is.
    fn find_disconnected(&self, persistent: u64) -> Option<FileKey>;

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
