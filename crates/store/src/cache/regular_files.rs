//! Names of ordinary files.
//!
//! The kind of an object must be known before the object is opened for its data: a FIFO would wait
//! for its other end, a device acts. So `statx` comes first, and other objects than ordinary files
//! are opened with O_PATH only. A name that had an ordinary file before, in a listing or for an
//! open, most likely still has one, which spares the `statx`. Should another object have the name
//! by now, O_NONBLOCK keeps opening it from waiting, and it is closed again.

use std::ffi::OsStr;
use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashSet};

use crate::cache::directories::Inode;

/// Highest number of names kept, at up to eighteen bytes each; one more clears the cache.
const NAMES_MAX: usize = 16_384;

/// Hashes of some names that ordinary files have, with their directories.
#[derive(Debug, Default)]
pub(crate) struct RegularFiles {
    known: FxHashSet<u64>,
}

/// Two names with the same hash may be mistaken for each other: the second then costs a system call
/// more. So a hash that a client can foresee will do, and a listing takes one for each entry.
fn hash(directory: Inode, name: &OsStr) -> u64 {
    FxBuildHasher.hash_one((directory, name))
}

impl RegularFiles {
    /// Whether an ordinary file had this name when somebody looked last.
    pub(crate) fn contains(&self, directory: Inode, name: &OsStr) -> bool {
        !self.known.is_empty() && self.known.contains(&hash(directory, name))
    }

    /// An ordinary file has this name.
    pub(crate) fn keep(&mut self, directory: Inode, name: &OsStr) {
        if self.known.len() >= NAMES_MAX {
            self.known.clear();
        }
        self.known.insert(hash(directory, name));
    }

    /// A listing shows an ordinary file of this name, which its client may open next. Names of
    /// listings fill half of the cache at most: those of large directories cost time, and nobody
    /// opens them all.
    pub(crate) fn keep_listed(&mut self, directory: Inode, name: &OsStr) {
        if self.known.len() < NAMES_MAX / 2 {
            self.known.insert(hash(directory, name));
        }
    }

    /// Drops a name whose object could not be opened at once.
    pub(crate) fn forget(&mut self, directory: Inode, name: &OsStr) {
        self.known.remove(&hash(directory, name));
    }
}
