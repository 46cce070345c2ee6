//! Names of a file in its record.

use std::hash::{Hash, Hasher};

use arbitration::FileKey;
use object::{FileIdentity, ObjectPath};

/// What stands for a name of a file: the directory that it is in, how it is written there, and when
/// the file was made, since both numbers may be those of others by now.
#[must_use]
pub fn link(parent: Option<FileIdentity>, path: &ObjectPath, file: FileIdentity) -> u64 {
    let Some(parent) = parent else { return 0 };
    // The same in every process of one program, which is all that it has to be.
    let mut hasher = std::hash::DefaultHasher::new();
    (parent.device, parent.inode, path.file_name(), file.birth).hash(&mut hasher);
    hasher.finish()
}

/// The record of a file.
#[must_use]
pub fn key(identity: FileIdentity) -> FileKey {
    FileKey { device: identity.device, inode: identity.inode }
}
