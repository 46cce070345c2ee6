//! Objects that have no extended attributes, as nearly all in most shares.
//!
//! To find that out takes a system call, as long as looking at an object does. Whoever gives an object
//! attributes changes its change time, so where the file system tells changes apart by their times
//! what was found out holds as long as that time stays.

use dtyp::FileTime;
use rustc_hash::FxHashMap;
use rustix::fs::Statx;

use crate::cache::directories::Inode;
use crate::sys::times::Times;

/// Objects that are kept of a share, at some 60 bytes each; beyond it all are forgotten.
const OBJECTS_MAX: usize = 4_096;

/// What of one file system was seen to have none, and its change time then.
#[derive(Debug, Default)]
pub(crate) struct NoXattr(FxHashMap<Inode, FileTime>);

impl NoXattr {
    /// Whether an object that looks like `status` was seen to have none.
    pub(crate) fn contains(&self, status: &Statx) -> bool {
        !self.0.is_empty() && self.0.get(&Inode::of(status)) == Some(&Times::of(status).change)
    }

    /// It was seen to have none after it looked like `status`.
    pub(crate) fn keep(&mut self, status: &Statx) {
        if self.0.len() >= OBJECTS_MAX {
            self.0.clear();
        }
        self.0.insert(Inode::of(status), Times::of(status).change);
    }
}
