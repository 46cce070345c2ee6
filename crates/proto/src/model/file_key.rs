//! Keys of a file in the tables of workers.

use std::hash::{Hash, Hasher};

use arbitration::FileKey;
use object::{FileIdentity, ObjectPath};

/// Returns a hash that stands for a name of a file: of the parent directory, the name as stored,
/// and the file's birth time, since other files may have got both inode numbers by now. 0 for a
/// file without a parent.
#[must_use]
pub fn link(parent: Option<FileIdentity>, path: &ObjectPath, file: FileIdentity) -> u64 {
    let Some(parent) = parent else { return 0 };
    // This hasher has no random key: all processes of one program get the same hash.
    let mut hasher = std::hash::DefaultHasher::new();
    (parent.device, parent.inode, path.file_name(), file.birth).hash(&mut hasher);
    hasher.finish()
}

/// Returns the key of a file's record.
#[must_use]
pub fn key(identity: FileIdentity) -> FileKey {
    FileKey { device: identity.device, inode: identity.inode }
}
