//! The state of a file, to see that it has changed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Identifies the state of a file. Programs that replace a file give it a new inode; size and times
/// change when it is written in place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fingerprint {
    device: u64,
    inode: u64,
    size_bytes: u64,
    modified: (i64, i64),
    mode: u32,
}

impl Fingerprint {
    /// Returns that of the file that `metadata` is of.
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size_bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            mode: metadata.mode(),
        }
    }
}
