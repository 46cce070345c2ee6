//! Finding names without regard to case.
//!
//! Linux tells `a` from `A`, so a name that is not there exactly must be looked for among all names
//! of its directory. So that creating many files does not read the directory for each of them, hashes of
//! the folded names of a few directories are kept. A hash that is absent is an answer; one that is
//! present leads to a look into the directory itself.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use dtyp::upcase;
use rustix::fs::{OFlags, Statx};
use rustix::io::Errno;

use crate::directories::{Directory, Inode};
use crate::entries::Entries;
use crate::system;

/// Directories whose names are kept.
const DIRECTORIES_MAX: usize = 8;

/// Names kept of one directory; a larger one is read each time. At nine bytes a name and half-full
/// tables this bounds the memory at some 40 MiB.
const NAMES_MAX: usize = 262_144;

/// How long an answer is believed at least although another process might have changed the
/// directory within the granularity of its modification time.
const BELIEVED: Duration = Duration::from_secs(1);

/// How much longer it is believed, in times of what reading the directory took.
const BELIEVED_FACTOR: u32 = 50;

/// What is known of the names of a few directories, most recently used first.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: Vec<Known>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Known {
    inode: Inode,
    modified: Modified,
    read_at: Instant,
    cost: Duration,
    hashes: HashSet<u64>,
}

/// The modification time of a directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Modified(i64, u32);

impl Modified {
    fn of(status: &Statx) -> Self {
        Self(status.stx_mtime.tv_sec, status.stx_mtime.tv_nsec)
    }
}

impl Names {
    /// The name in `directory` that equals `name` but for case. A directory that may be passed though
    /// not read has no such names.
    pub(crate) fn find_folded(
        &mut self,
        directory: &Directory,
        name: &str,
    ) -> Result<Option<String>, Errno> {
        let folded = upcase::fold_cow(name);
        let hash = self.hasher.hash_one(&*folded);
        let status = system::status_of(directory.fd.as_fd())?;
        let modified = Modified::of(&status);
        if let Some(at) = self.known.iter().position(|known| known.inode == directory.inode) {
            let known = &self.known[at];
            let believed = BELIEVED + known.cost * BELIEVED_FACTOR;
            let holds = known.modified == modified && known.read_at.elapsed() < believed;
            if holds && !known.hashes.contains(&hash) {
                self.known[..=at].rotate_right(1);
                return Ok(None);
            }
            self.known.remove(at);
        }
        match self.read(directory, modified, &folded) {
            Err(Errno::ACCESS) => Ok(None),
            result => result,
        }
    }

    /// Reads all names, keeps their hashes, and returns the one looked for.
    fn read(
        &mut self,
        directory: &Directory,
        modified: Modified,
        folded: &str,
    ) -> Result<Option<String>, Errno> {
        let read_at = Instant::now();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = system::open_beneath(directory.fd.as_fd(), ".", flags, 0, false)?;
        let mut entries = Entries::default();
        let mut hashes = HashSet::new();
        let mut found = None;
        while let Some(name) = entries.next(fd.as_fd())? {
            let Ok(name) = name.to_str() else { continue };
            let candidate = upcase::fold_cow(name);
            if hashes.len() <= NAMES_MAX {
                hashes.insert(self.hasher.hash_one(&*candidate));
            }
            if found.is_none() && candidate == folded {
                found = Some(name.to_owned());
            }
        }
        if hashes.len() <= NAMES_MAX {
            self.known.truncate(DIRECTORIES_MAX - 1);
            let (inode, cost) = (directory.inode, read_at.elapsed());
            self.known.insert(0, Known { inode, modified, read_at, cost, hashes });
        }
        Ok(found)
    }

    /// To be called before a change of our own: whether what is known of the directory holds.
    pub(crate) fn verified(&self, directory: &Directory) -> bool {
        let known = self.known.iter().find(|known| known.inode == directory.inode);
        known.is_some_and(|known| {
            let status = system::status_of(directory.fd.as_fd());
            status.is_ok_and(|status| Modified::of(&status) == known.modified)
        })
    }

    /// To be called after a change of our own: keeps what was known, if it held before the change. A
    /// name that was removed stays known, which costs a look into the directory and no more.
    pub(crate) fn changed(&mut self, directory: &Directory, verified: bool, added: Option<&str>) {
        let hash = added.map(|name| self.hasher.hash_one(&*upcase::fold_cow(name)));
        let known = self.known.iter_mut().find(|known| known.inode == directory.inode);
        if let (true, Some(known)) = (verified, known)
            && let Ok(status) = system::status_of(directory.fd.as_fd())
        {
            known.modified = Modified::of(&status);
            known.hashes.extend(hash);
        }
    }
}
