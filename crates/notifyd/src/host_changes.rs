//! Changes that other programs of this host make in folders, as the kernel reports them.
//!
//! By fanotify where process and file system permit it (Linux 5.17, CAP_SYS_ADMIN): one mark
//! watches a whole file system, and each change has the pid of its process. Else by inotify: one
//! watch for each directory, out of a limited number, and changes without a pid.

mod fanotify;
mod folder;
mod inotify;
#[cfg(test)]
mod tests;
mod unseen;

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use object::{HostChange, ObjectPath};
use rustix::io::Errno;

pub(crate) use self::folder::Folder;

use self::fanotify::Fanotify;
use self::inotify::Inotify;
use self::unseen::without_unseen;
use super::watchers::WatchParameters;

/// The filters of [MS-SMB2] 2.2.35 that writing to a file matches: its size and last write, and
/// the attributes that come with them.
pub(crate) const FILTER_DATA: u32 = 0x0000_0018;

/// The filters of [MS-SMB2] 2.2.35 that a change of a file's mode, owner, times or extended
/// attributes matches. The kernel does not say which of them it was.
pub(crate) const FILTER_METADATA: u32 = 0x0000_01F4;

/// Watcher of folders, by fanotify and inotify.
#[derive(Debug)]
pub(crate) struct HostWatcher {
    fanotify: Option<Fanotify>,
    inotify: Option<Inotify>,
    /// The mechanism that watches each folder, by path.
    folders: HashMap<Arc<str>, By>,
    /// Number of folders that inotify watches.
    by_inotify: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum By {
    Fanotify,
    Inotify,
}

/// A change, and the process that made it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct HostEvent {
    /// The change, with the path from the host's root.
    pub change: HostChange,
    /// Pid of the process; `None` if the kernel does not report it.
    pub pid: Option<u32>,
}

/// Share of a folder's changes that the watcher will report.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub(crate) enum Coverage {
    /// Every change in the folder is reported.
    Whole,
    /// Some directories below it are not watched: there are too many.
    Partial,
}

impl HostWatcher {
    /// Begins without watches; it uses fanotify if it can.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self { fanotify: Fanotify::new().ok(), ..Self::without_fanotify() }
    }

    /// As [`HostWatcher::new`], by inotify alone.
    #[must_use]
    pub(crate) fn without_fanotify() -> Self {
        Self { inotify: Inotify::new().ok(), ..Self::nothing() }
    }

    fn nothing() -> Self {
        Self { fanotify: None, inotify: None, folders: HashMap::new(), by_inotify: 0 }
    }

    /// Finds a folder by its path, and watches it.
    ///
    /// # Errors
    /// The path leads to another folder, or the folder cannot be watched.
    pub(crate) fn watch_path(
        &mut self,
        path: &Arc<str>,
        parameters: WatchParameters,
    ) -> io::Result<Coverage> {
        let WatchParameters { identity, recursive, filter, .. } = parameters;
        self.watch(Folder::open(path, identity)?, recursive, filter)
    }

    /// Begins or changes the watch of a folder. `filter` selects changes ([MS-SMB2] 2.2.35); others
    /// may be reported, too.
    ///
    /// # Errors
    /// The folder cannot be watched: there is no room for more watches.
    pub(crate) fn watch(
        &mut self,
        folder: Folder,
        recursive: bool,
        filter: u32,
    ) -> io::Result<Coverage> {
        let path = Arc::clone(folder.path());
        if let Some(fanotify) = &mut self.fanotify {
            match fanotify.watch(&folder, recursive, filter) {
                Ok(()) => {
                    self.enter(&path, By::Fanotify);
                    return Ok(Coverage::Whole);
                }
                // With inotify it would be no better, and each client's changes would be read.
                Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOSPC)) => {
                    return Err(error.into());
                }
                // A file system without file handles or without an id of its own.
                Err(_) => {}
            }
        }
        let inotify = self.inotify.as_mut().ok_or(io::ErrorKind::Unsupported)?;
        let coverage = inotify.watch(folder, recursive)?;
        self.enter(&path, By::Inotify);
        Ok(coverage)
    }

    fn enter(&mut self, path: &Arc<str>, by: By) {
        let before = self.folders.insert(Arc::clone(path), by);
        self.by_inotify += usize::from(by == By::Inotify);
        self.by_inotify -= usize::from(before == Some(By::Inotify));
    }

    /// Ends the watch of a folder.
    pub(crate) fn unwatch(&mut self, path: &str) {
        match self.folders.remove(path) {
            Some(By::Fanotify) => {
                if let Some(fanotify) = &mut self.fanotify {
                    fanotify.unwatch(path);
                }
            }
            Some(By::Inotify) => {
                self.by_inotify -= 1;
                if let Some(inotify) = &mut self.inotify {
                    inotify.unwatch(path);
                }
            }
            None => {}
        }
    }

    /// Returns the number of folders that may be watched at once.
    #[must_use]
    pub(crate) fn folders_max(&self) -> usize {
        let by_inotify = inotify::DIRECTORIES_MAX.min(folders_max());
        self.fanotify.as_ref().map_or(by_inotify, Fanotify::folders_max)
    }

    /// True if a folder is watched by inotify, whose events name no process.
    #[must_use]
    pub(crate) fn lacks_pids(&self) -> bool {
        self.by_inotify != 0
    }

    /// Readable when [`HostWatcher::take`] has something.
    pub(crate) fn wake_sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let fanotify = self.fanotify.as_ref().map(Fanotify::fd);
        fanotify.into_iter().chain(self.inotify.as_ref().map(Inotify::fd))
    }

    /// Returns pending changes, without those by ignored processes: decoding an event costs more
    /// than comparing its pid. Bounded: the rest comes with the next call, and all that came may be
    /// about objects that have no name yet.
    pub(crate) fn take(&mut self, is_ignored: impl Fn(u32) -> bool) -> Vec<HostEvent> {
        let mut events = Vec::new();
        if let Some(fanotify) = &mut self.fanotify {
            fanotify.take(&is_ignored, &mut events);
        }
        if let Some(inotify) = &mut self.inotify {
            inotify.take(&mut events);
        }
        events.into_iter().filter_map(without_unseen).collect()
    }
}

impl Default for HostWatcher {
    fn default() -> Self {
        Self::new()
    }
}

/// Makes the event for an overflow of the kernel's queue: any change may be missing.
fn overflow() -> HostEvent {
    HostEvent { change: HostChange::missed(ObjectPath::root()), pid: None }
}

/// Returns the number of folders that may be watched: half of the descriptors that the process may
/// have. Each folder takes one; the other half is for sockets.
fn folders_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit / 2).unwrap_or(usize::MAX))
}

/// A path of the host, for the kernel.
fn absolute(path: &str) -> String {
    format!("/{path}")
}

/// The rest of a path within a directory, empty for that itself; none for a path elsewhere.
fn below<'a>(path: &'a str, directory: &str) -> Option<&'a str> {
    if directory.is_empty() {
        return Some(path);
    }
    let rest = path.strip_prefix(directory)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// A name in a directory.
fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

fn stored(path: String) -> ObjectPath {
    ObjectPath::from_stored(path, None)
}
