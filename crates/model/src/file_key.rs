//! Keys of a file in the tables of workers.

use arbitration::FileKey;
use object::FileIdentity;

/// Returns the key of a file's record.
#[must_use]
pub fn key(identity: FileIdentity) -> FileKey {
    FileKey { device: identity.device, inode: identity.inode }
}
