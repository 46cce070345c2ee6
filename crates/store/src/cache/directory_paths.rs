//! Paths of recently used directories.
//!
//! Most requests name a directory that an earlier request named. Its descriptor is still open, so a
//! single `statx` of the path confirms that the path still leads there; opening the directory again
//! would take two more calls, `openat2` and `close`. A path that leads elsewhere or nowhere is
//! resolved anew, and so is one whose last component has become a link.
//!
//! `statx` follows links in the path, wherever they lead, and resolving does not: a directory moved
//! out of the share, with a link in its place, would still be found. So a path is resolved anew
//! after [`BELIEVED`], which ends access to such a directory.

use std::cell::OnceCell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::fs::{Statx, StatxFlags};

use crate::cache::directories::{Directory, Inode};
use crate::sys::system;

/// Highest number of paths kept of one root, with a descriptor each.
const PATHS_MAX: usize = 8;

/// Longest path that is kept, in bytes. A client may connect to a share a thousand times, each time
/// with paths of its own. Windows has 260 characters, of three bytes at most.
const PATH_BYTES_MAX: usize = 1_024;

/// Time after which a path is resolved anew.
const BELIEVED: Duration = Duration::from_secs(1);

/// Some paths from the root of a share, and their directories.
#[derive(Debug, Default)]
pub(crate) struct DirectoryPaths {
    /// The most recently used path comes first.
    known: Vec<CachedDirectory>,
    /// The kernel's number of the mount that the root is in, once it was asked for; `None` from a
    /// kernel before 5.8, and then no path is kept.
    mount: OnceCell<Option<u64>>,
}

#[derive(Debug)]
struct CachedDirectory {
    /// The path as on disk, from the root.
    path: String,
    directory: Rc<Directory>,
    resolved_at: Instant,
}

impl DirectoryPaths {
    /// Returns the directory of a path and its status, if the path is known and still leads there.
    /// `root` is the share's root.
    pub(crate) fn find(
        &mut self,
        root: BorrowedFd<'_>,
        path: &str,
        now: Instant,
    ) -> Option<(Rc<Directory>, Statx)> {
        let at = self.known.iter().position(|cached| cached.path == path)?;
        let cached = &self.known[at];
        let is_believed = now.saturating_duration_since(cached.resolved_at) < BELIEVED;
        let status = is_believed.then(|| system::status_at(root, path).ok()).flatten();
        // The inode is held by the descriptor, so that its number is nobody else's.
        match status.filter(|status| Inode::of(status) == cached.directory.inode) {
            Some(status) => {
                let directory = cached.directory.clone();
                self.known[..=at].rotate_right(1);
                Some((directory, status))
            }
            None => {
                self.known.remove(at);
                None
            }
        }
    }

    /// Keeps a path that was just resolved. Directories of other file systems are left out, because
    /// an open descriptor keeps them from being unmounted.
    pub(crate) fn keep(
        &mut self,
        root: BorrowedFd<'_>,
        path: &str,
        (directory, status): (&Rc<Directory>, &Statx),
        now: Instant,
    ) {
        if path.len() > PATH_BYTES_MAX {
            return;
        }
        let of_root = || system::status_of(root).ok().as_ref().and_then(mount);
        let of_root = *self.mount.get_or_init(of_root);
        if of_root.is_none() || mount(status) != of_root {
            return;
        }
        self.known.truncate(PATHS_MAX - 1);
        let cached = CachedDirectory {
            path: path.to_owned(),
            directory: directory.clone(),
            resolved_at: now,
        };
        self.known.insert(0, cached);
    }
}

fn mount(status: &Statx) -> Option<u64> {
    let known = StatxFlags::from_bits_retain(status.stx_mask);
    known.contains(StatxFlags::MNT_ID).then_some(status.stx_mnt_id)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;
    use std::path::Path;

    use rustix::fs::{Mode, OFlags};

    use super::*;

    struct Share {
        folder: tempfile::TempDir,
        root: std::os::fd::OwnedFd,
        paths: DirectoryPaths,
        now: Instant,
    }

    fn open(path: &Path) -> std::os::fd::OwnedFd {
        rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).expect("there")
    }

    impl Share {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let root = open(folder.path());
            Self { folder, root, paths: DirectoryPaths::default(), now: Instant::now() }
        }

        /// As if the path had been resolved.
        fn keep(&mut self, path: &str) {
            let fd = open(&self.folder.path().join(path));
            let status = system::status_of(fd.as_fd()).expect("open");
            let directory = Rc::new(Directory { fd, inode: Inode::of(&status) });
            self.paths.keep(self.root.as_fd(), path, (&directory, &status), self.now);
        }

        fn finds(&mut self, path: &str) -> bool {
            self.paths.find(self.root.as_fd(), path, self.now).is_some()
        }
    }

    #[test]
    fn a_cached_path_is_used_until_it_leads_to_another_directory() {
        let mut share = Share::new();
        let (a, b) = (share.folder.path().join("a"), share.folder.path().join("a/b"));
        fs::create_dir_all(&b).expect("made");
        share.keep("a/b");
        assert!(share.finds("a/b") && !share.finds("a"));
        fs::rename(&a, share.folder.path().join("c")).expect("moved");
        assert!(!share.finds("a/b"), "it is not there any more");
        fs::create_dir_all(&b).expect("made");
        assert!(!share.finds("a/b"), "it is another one, and what was known is forgotten");
        share.keep("a/b");
        fs::remove_dir(&b).expect("empty");
        assert!(!share.finds("a/b"));
    }

    #[test]
    fn a_link_in_its_place_is_no_way() {
        let mut share = Share::new();
        let outside = tempfile::tempdir().expect("a folder");
        let b = share.folder.path().join("b");
        fs::create_dir(&b).expect("made");
        share.keep("b");
        fs::rename(&b, outside.path().join("b")).expect("moved");
        std::os::unix::fs::symlink(outside.path().join("b"), &b).expect("linked");
        assert!(!share.finds("b"));
    }

    #[test]
    fn a_way_through_a_link_that_leads_out_is_not_gone_for_long() {
        let mut share = Share::new();
        let outside = tempfile::tempdir().expect("a folder");
        let (a, moved) = (share.folder.path().join("a"), outside.path().join("a"));
        fs::create_dir_all(a.join("b")).expect("made");
        share.keep("a/b");
        fs::rename(&a, &moved).expect("moved");
        std::os::unix::fs::symlink(&moved, &a).expect("linked");
        share.now += BELIEVED;
        assert!(!share.finds("a/b"));
    }

    #[test]
    fn the_paths_used_last_are_kept_and_no_more() {
        let mut share = Share::new();
        for number in 0..=PATHS_MAX {
            fs::create_dir(share.folder.path().join(number.to_string())).expect("made");
        }
        for number in 0..PATHS_MAX {
            share.keep(&number.to_string());
        }
        assert!(share.finds("0"));
        share.keep(&PATHS_MAX.to_string());
        assert_eq!(share.paths.known.len(), PATHS_MAX);
        assert!(share.finds("0") && !share.finds("1"));
    }

    #[test]
    fn a_very_long_way_is_not_kept() {
        let mut share = Share::new();
        let component = "x".repeat(255);
        let long = [component.as_str(); 4].join("/");
        fs::create_dir_all(share.folder.path().join(&long).join("y")).expect("made");
        share.keep(&long);
        assert!(share.finds(&long), "1,023 bytes");
        let longer = format!("{long}/y");
        share.keep(&longer);
        assert!(!share.finds(&longer));
    }

    #[test]
    fn a_way_into_another_file_system_is_not_kept() {
        let mut share = Share::new();
        share.root = open(Path::new("/"));
        let fd = open(Path::new("/proc"));
        let status = system::status_of(fd.as_fd()).expect("open");
        let directory = Rc::new(Directory { fd, inode: Inode::of(&status) });
        share.paths.keep(share.root.as_fd(), "proc", (&directory, &status), share.now);
        assert!(!share.finds("proc"));
    }
}
