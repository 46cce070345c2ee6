//! Names that ordinary files have.
//!
//! What is behind a name has to be known before it is opened for its data: a FIFO would wait for
//! somebody at its other end, a device does things. So one looks first (`statx`), and what is no ordinary
//! file is opened as a mere place (O_PATH). Where there was an ordinary file before, most likely there is one
//! still, and nobody looks. Should something else be there by now, opening it waits for nobody
//! (O_NONBLOCK), and it is closed again.

use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::hash::BuildHasher;

use rustc_hash::FxHashSet;

use crate::cache::directories::Inode;

/// Names that are kept of a share, at up to eighteen bytes each; beyond it all are forgotten.
const NAMES_MAX: usize = 16_384;

/// Hashes of some names that ordinary files have, with their directories.
#[derive(Debug, Default)]
pub(crate) struct RegularFiles {
    known: FxHashSet<u64>,
    hasher: RandomState,
}

impl RegularFiles {
    fn hash(&self, directory: Inode, name: &OsStr) -> u64 {
        self.hasher.hash_one((directory, name))
    }

    /// Whether an ordinary file had this name when somebody looked last.
    pub(crate) fn contains(&self, directory: Inode, name: &OsStr) -> bool {
        !self.known.is_empty() && self.known.contains(&self.hash(directory, name))
    }

    /// An ordinary file has this name.
    pub(crate) fn keep(&mut self, directory: Inode, name: &OsStr) {
        if self.known.len() >= NAMES_MAX {
            self.known.clear();
        }
        self.known.insert(self.hash(directory, name));
    }

    /// What has this name could not be opened at once.
    pub(crate) fn forget(&mut self, directory: Inode, name: &OsStr) {
        self.known.remove(&self.hash(directory, name));
    }
}
