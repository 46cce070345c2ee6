//! Directories that opens hold on to.
//!
//! An open keeps the directory of its name, so that it can be renamed and removed also after the
//! directories above were moved. Opens in one directory share one descriptor.

use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};

use rustc_hash::FxHashMap;
use rustix::fs::Statx;

/// An inode, by device and number.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Inode {
    pub(crate) device: u64,
    pub(crate) number: u64,
}

impl Inode {
    /// The same, as the engine knows it.
    pub(crate) fn identity(self) -> object::FileIdentity {
        object::FileIdentity { device: self.device, inode: self.number, birth: 0, stream: 0 }
    }

    pub(crate) fn of(status: &Statx) -> Self {
        let device = u64::from(status.stx_dev_major) << 32 | u64::from(status.stx_dev_minor);
        Self { device, number: status.stx_ino }
    }
}

/// A directory, opened with O_PATH.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) fd: OwnedFd,
    pub(crate) inode: Inode,
}

/// The directories that are in use.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    /// By inode and mount: one directory may be mounted twice, and writable in one place only.
    used: FxHashMap<(Inode, u64), Weak<Directory>>,
    /// Number of entries at which unused ones are removed.
    sweep_at: usize,
}

/// Entries before the first sweep.
const SWEEP_FIRST: usize = 64;

impl Directories {
    /// Returns the directory that was opened as `fd` and has this status: the same object for all
    /// its users.
    pub(crate) fn intern(&mut self, fd: OwnedFd, status: &Statx) -> Rc<Directory> {
        let inode = Inode::of(status);
        // Kernels before 5.8 tell no mount; there the number is 0.
        let key = (inode, status.stx_mnt_id);
        if let Some(directory) = self.used.get(&key).and_then(Weak::upgrade) {
            return directory;
        }
        if self.used.len() >= self.sweep_at {
            self.used.retain(|_, directory| directory.strong_count() > 0);
            self.sweep_at = (self.used.len() * 2).max(SWEEP_FIRST);
        }
        let directory = Rc::new(Directory { fd, inode });
        self.used.insert(key, Rc::downgrade(&directory));
        directory
    }
}
