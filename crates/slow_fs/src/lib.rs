//! A file system in memory that delays, hangs and fails on demand: the slow storage of tests.
//!
//! [`SlowFs::mount`] mounts it by FUSE, and [`SlowFs::gate`] decides what happens to each kind of
//! operation. The kernel is told to cache neither names nor attributes, so every system call of
//! the program under test becomes operations here.
//!
//! Needs `/dev/fuse` and root, or `fusermount3`.

#![forbid(unsafe_code)]

mod gate;
mod operations;
mod tree;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use nix::mount::{MntFlags, umount2};

pub use gate::{Behavior, Gate, Operation};

use crate::operations::Served;
use crate::tree::Tree;

/// Operations that are served at once. As many may hang without delaying others.
const THREADS: usize = 16;

/// A mounted file system. It ends when this is dropped.
#[derive(Debug)]
pub struct SlowFs {
    gate: Arc<Gate>,
    folder: PathBuf,
    // Ends before the gate is forgotten.
    session: Option<BackgroundSession>,
}

impl SlowFs {
    /// Mounts an empty file system whose root belongs to this user and group.
    ///
    /// # Errors
    /// There is no FUSE, or no right to use it.
    pub fn mount(folder: &Path, uid: u32, gid: u32) -> io::Result<Self> {
        let gate = Arc::new(Gate::default());
        let served = Served::new(Tree::new(uid, gid), Arc::clone(&gate));
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("slow_fs".to_owned()),
            MountOption::DefaultPermissions,
            MountOption::RW,
        ];
        config.acl = SessionACL::All;
        config.n_threads = Some(THREADS);
        let session = Some(fuser::spawn_mount(served, folder, &config)?);
        Ok(Self { gate, folder: folder.to_owned(), session })
    }

    /// Gate that decides on the operations.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }
}

impl Drop for SlowFs {
    fn drop(&mut self) {
        // Requests that hang would keep the session.
        self.gate.open();
        // Also if a server uses it still, as after a failed test. Without the right to do so, the
        // session unmounts it by fusermount3.
        let _ = umount2(&self.folder, MntFlags::MNT_DETACH);
        drop(self.session.take());
    }
}
