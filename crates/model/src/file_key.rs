//! Keys of a file in the tables of workers.

use std::hash::Hasher;

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
    // In as few steps as possible, because each takes longer than what it hashes.
    let mut head = [0; 16];
    head[..8].copy_from_slice(&parent.device.to_ne_bytes());
    head[8..].copy_from_slice(&parent.inode.to_ne_bytes());
    hasher.write(&head);
    hasher.write(path.file_name().as_bytes());
    // No name has this byte.
    let mut tail = [0xFF; 9];
    tail[1..].copy_from_slice(&file.birth.to_ne_bytes());
    hasher.write(&tail);
    hasher.finish()
}

/// Returns the key of a file's record.
#[must_use]
pub fn key(identity: FileIdentity) -> FileKey {
    FileKey { device: identity.device, inode: identity.inode }
}

#[cfg(test)]
mod tests {
    use std::hash::{DefaultHasher, Hash, Hasher};

    use object::{FileIdentity, ObjectPath};

    use super::link;

    #[test]
    fn a_link_is_the_hash_of_its_parts() {
        let parent = FileIdentity { device: 1, inode: 2, birth: 0, stream: 0 };
        let file = FileIdentity { birth: 3, ..parent };
        for name in ["a", "a name of several blocks", "\u{e4}"] {
            let path = ObjectPath::from_stored(format!("folder/{name}"), None);
            let mut hasher = DefaultHasher::new();
            (parent.device, parent.inode, name, file.birth).hash(&mut hasher);
            assert_eq!(link(Some(parent), &path, file), hasher.finish());
        }
    }
}
