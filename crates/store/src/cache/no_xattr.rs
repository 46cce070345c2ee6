//! Objects without extended attributes: nearly all in most shares.
//!
//! To find that out takes a system call, as long as `statx` does. A new attribute changes the
//! change time of its object. So where the file system gives each change its own time, the answer
//! holds until the change time differs.

use dtyp::FileTime;
use rustc_hash::FxHashMap;
use rustix::fs::Statx;

use crate::cache::directories::Inode;
use crate::sys::times;

/// Highest number of objects kept, at some 60 bytes each; one more clears the cache.
const OBJECTS_MAX: usize = 4_096;

/// Objects that had no attributes, with their change times.
#[derive(Debug, Default)]
pub(crate) struct NoXattr(FxHashMap<Inode, FileTime>);

impl NoXattr {
    /// Whether an object that looks like `status` was seen to have none.
    pub(crate) fn contains(&self, status: &Statx) -> bool {
        !self.0.is_empty() && self.0.get(&Inode::of(status)) == Some(&times::change(status))
    }

    /// Records that an object had no attributes after its status was `status`.
    pub(crate) fn keep(&mut self, status: &Statx) {
        if self.0.len() >= OBJECTS_MAX {
            self.0.clear();
        }
        self.0.insert(Inode::of(status), times::change(status));
    }
}
