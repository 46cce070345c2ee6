//! inotify: a watch per directory.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem::MaybeUninit;
use std::ops::Bound;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use object::{HostChange, HostChangeKind, ObjectPath};
use rustix::fs::FileType;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use super::folder::{Folder, entries, magic_path};
use super::{Coverage, FILTER_DATA, FILTER_METADATA, HostEvent, below, join, overflow, stored};

/// Directories that are watched at once. The kernel's own limit, `fs.inotify.max_user_watches`, may
/// be lower; each takes about a KiB of its memory, and a tree of so many takes a second to walk.
pub(super) const DIRECTORIES_MAX: usize = 65_536;

/// Bytes of the paths of these directories. A tree may have long ones, of which the account of
/// watches (`watchers::account`) counts that of its root only.
const PATH_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Highest number of events taken at once.
const EVENTS_MAX: usize = 1_024;

/// An instance of inotify, with its watches.
#[derive(Debug)]
pub(super) struct Inotify {
    fd: OwnedFd,
    /// Paths of watched directories, by watch descriptor.
    directories: HashMap<i32, Arc<str>>,
    /// And by path, in which order a tree is together.
    descriptors: BTreeMap<Arc<str>, i32>,
    /// Bytes of the paths of watched directories.
    path_bytes: usize,
    /// Folders that were asked for. Directories in a tree are opened from its folder, never by
    /// their paths: a symbolic link above would lead elsewhere.
    flat: HashSet<Arc<str>>,
    trees: HashMap<Arc<str>, Folder>,
    /// The first half of a rename.
    moved: Option<Moved>,
}

#[derive(Debug)]
struct Moved {
    cookie: u32,
    path: String,
    is_directory: bool,
}

/// One event, out of the kernel's buffer.
struct Event {
    descriptor: i32,
    flags: ReadFlags,
    cookie: u32,
    name: Option<String>,
}

impl Inotify {
    pub(super) fn new() -> Result<Self, Errno> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self {
            fd,
            directories: HashMap::new(),
            descriptors: BTreeMap::new(),
            path_bytes: 0,
            flat: HashSet::new(),
            trees: HashMap::new(),
            moved: None,
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn watch(&mut self, folder: Folder, recursive: bool) -> Result<Coverage, Errno> {
        let path = Arc::clone(folder.path());
        self.add(folder.fd(), &path)?;
        if recursive {
            self.flat.remove(&path);
            self.trees.insert(Arc::clone(&path), folder);
            return Ok(self.add_below(&path));
        }
        let was_tree = self.trees.remove(&path).is_some();
        self.flat.insert(Arc::clone(&path));
        if was_tree {
            self.remove_unneeded(&path);
        }
        Ok(Coverage::Whole)
    }

    pub(super) fn unwatch(&mut self, path: &str) {
        let was_flat = self.flat.remove(path);
        if self.trees.remove(path).is_some() {
            self.remove_unneeded(path);
        } else if was_flat && !self.needs(path) {
            self.remove(path);
        }
    }

    /// Gives up what was watched for the tree at `path` alone.
    fn remove_unneeded(&mut self, path: &str) {
        let unneeded: Vec<Arc<str>> =
            self.watched_within(path).filter(|it| !self.needs(it)).cloned().collect();
        for path in unneeded {
            self.remove(&path);
        }
    }

    /// Directories that are watched, of a tree.
    fn watched_within(&self, path: &str) -> impl Iterator<Item = &Arc<str>> {
        let (itself, below) = match path {
            "" => (None, self.descriptors.range::<str, _>(..)),
            _ => {
                // The character after the slash ends what begins with it.
                let (first, last) = (format!("{path}/"), format!("{path}0"));
                let itself = self.descriptors.get_key_value(path);
                let within = (Bound::Included(first.as_str()), Bound::Excluded(last.as_str()));
                (itself, self.descriptors.range::<str, _>(within))
            }
        };
        itself.into_iter().chain(below).map(|(path, _)| path)
    }

    fn needs(&self, path: &str) -> bool {
        self.flat.contains(path) || self.is_in_tree(path)
    }

    fn is_in_tree(&self, path: &str) -> bool {
        !self.trees.is_empty() && self_and_above(path).any(|it| self.trees.contains_key(it))
    }

    /// Opens a directory of a tree.
    fn directory(&self, path: &str) -> Result<OwnedFd, Errno> {
        let mut trees = self.trees.iter().filter(|(tree, _)| is_within(path, tree));
        trees.next().ok_or(Errno::NOENT)?.1.directory(path)
    }

    fn add(&mut self, directory: BorrowedFd<'_>, path: &Arc<str>) -> Result<(), Errno> {
        if self.directories.len() >= DIRECTORIES_MAX || !self.has_room_for(path) {
            return Err(Errno::NOSPC);
        }
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::ONLYDIR
            | WatchFlags::EXCL_UNLINK;
        let descriptor = inotify::add_watch(&self.fd, magic_path(directory), flags)?;
        // A directory that was known by another name has that one no longer.
        self.forget(descriptor);
        // Another directory may have had the path.
        self.remove(path);
        self.enter(descriptor, Arc::clone(path));
        Ok(())
    }

    fn has_room_for(&self, path: &str) -> bool {
        self.path_bytes + path.len() <= PATH_BYTES_MAX
    }

    /// Enters a directory that is in no table.
    fn enter(&mut self, descriptor: i32, path: Arc<str>) {
        self.path_bytes += path.len();
        self.directories.insert(descriptor, Arc::clone(&path));
        self.descriptors.insert(path, descriptor);
    }

    /// Takes a directory out of the tables.
    fn forget(&mut self, descriptor: i32) {
        if let Some(path) = self.directories.remove(&descriptor) {
            self.path_bytes -= path.len();
            // Another directory may have the path by now.
            if self.descriptors.get(&path) == Some(&descriptor) {
                self.descriptors.remove(&path);
            }
        }
    }

    fn remove(&mut self, path: &str) {
        if let Some(descriptor) = self.descriptors.get(path).copied() {
            self.forget(descriptor);
            // It is gone already if the directory is.
            let _ = inotify::remove_watch(&self.fd, descriptor);
        }
    }

    /// Watches all directories below one that is watched.
    fn add_below(&mut self, path: &Arc<str>) -> Coverage {
        let mut coverage = Coverage::Whole;
        let mut pending = vec![Arc::clone(path)];
        while let Some(path) = pending.pop() {
            let Ok(directory) = self.directory(&path) else { continue };
            let is_directory = |(_, kind): &(String, FileType)| *kind == FileType::Directory;
            for (name, _) in entries(directory.as_fd()).filter(is_directory) {
                let child: Arc<str> = join(&path, &name).into();
                match self.directory(&child).and_then(|it| self.add(it.as_fd(), &child)) {
                    Ok(()) => pending.push(child),
                    // Gone meanwhile, or not a directory any more.
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                    Err(Errno::NOSPC) => return Coverage::Partial,
                    Err(_) => coverage = Coverage::Partial,
                }
            }
        }
        coverage
    }

    pub(super) fn take(&mut self, events: &mut Vec<HostEvent>) {
        for event in self.read() {
            self.interpret(event, events);
        }
        self.settle_move(events);
    }

    fn read(&self) -> Vec<Event> {
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = Reader::new(&self.fd, &mut buffer);
        let mut events = Vec::new();
        while events.len() < EVENTS_MAX
            && let Ok(event) = reader.next()
        {
            events.push(Event {
                descriptor: event.wd(),
                flags: event.events(),
                cookie: event.cookie(),
                name: event.file_name().and_then(|name| name.to_str().ok()).map(str::to_owned),
            });
        }
        events
    }

    fn interpret(&mut self, event: Event, events: &mut Vec<HostEvent>) {
        let Event { descriptor, flags, cookie, name } = event;
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            return events.push(overflow());
        }
        if flags.contains(ReadFlags::IGNORED) {
            return self.forget(descriptor);
        }
        let is_second_half = flags.contains(ReadFlags::MOVED_TO)
            && self.moved.as_ref().is_some_and(|moved| moved.cookie == cookie);
        if !is_second_half {
            self.settle_move(events);
        }
        // Without a name it is about the directory itself, whose parent tells the rest.
        let (Some(directory), Some(name)) = (self.directories.get(&descriptor), name) else {
            return;
        };
        let path = join(directory, &name);
        let is_directory = flags.contains(ReadFlags::ISDIR);
        let mut push = |path: String, kind| events.push(host_event(path, is_directory, kind));
        if flags.contains(ReadFlags::CREATE) {
            push(path.clone(), HostChangeKind::Added);
            self.appeared(&path, is_directory, events);
        } else if flags.contains(ReadFlags::DELETE) {
            push(path, HostChangeKind::Removed);
        } else if flags.contains(ReadFlags::MOVED_FROM) {
            self.moved = Some(Moved { cookie, path, is_directory });
        } else if flags.contains(ReadFlags::MOVED_TO) {
            match self.moved.take() {
                Some(moved) => {
                    let to = stored(path.clone());
                    push(moved.path.clone(), HostChangeKind::Renamed { to });
                    self.renamed(&moved.path, &path, events);
                }
                None => push(path.clone(), HostChangeKind::Added),
            }
            self.appeared(&path, is_directory, events);
        } else if flags.contains(ReadFlags::MODIFY) {
            push(path, HostChangeKind::Modified(FILTER_DATA));
        } else if flags.contains(ReadFlags::ATTRIB) {
            push(path, HostChangeKind::Modified(FILTER_METADATA));
        }
    }

    /// The other half of a rename did not come: it left what is watched.
    fn settle_move(&mut self, events: &mut Vec<HostEvent>) {
        let Some(Moved { path, is_directory, .. }) = self.moved.take() else { return };
        let below: Vec<Arc<str>> = self.watched_within(&path).cloned().collect();
        for directory in below {
            self.remove(&directory);
        }
        events.push(host_event(path, is_directory, HostChangeKind::Removed));
    }

    /// Directories below are called otherwise now; those whose paths have no room are not watched
    /// any more. Others are not looked at: any client can rename again and again.
    fn renamed(&mut self, old: &str, new: &str, events: &mut Vec<HostEvent>) {
        let below: Vec<Arc<str>> = self.watched_within(old).cloned().collect();
        let mut is_whole = true;
        for path in below {
            let Some(descriptor) = self.descriptors.get(&path).copied() else { continue };
            let renamed = format!("{new}{}", &path[old.len()..]);
            self.forget(descriptor);
            if self.has_room_for(&renamed) {
                self.enter(descriptor, renamed.into());
            } else {
                let _ = inotify::remove_watch(&self.fd, descriptor);
                is_whole = false;
            }
        }
        if !is_whole {
            let change = HostChange::missed(stored(new.to_owned()));
            events.push(HostEvent { change, pid: None });
        }
    }

    /// A new directory in a tree is watched as well. What was made in it before that is not known.
    fn appeared(&mut self, path: &str, is_directory: bool, events: &mut Vec<HostEvent>) {
        if !is_directory || !self.is_in_tree(path) || self.descriptors.contains_key(path) {
            return;
        }
        let Ok(directory) = self.directory(path) else { return };
        let shared = Arc::from(path);
        let is_whole = self.add(directory.as_fd(), &shared).is_ok()
            && self.add_below(&shared) == Coverage::Whole
            && entries(directory.as_fd()).next().is_none();
        if !is_whole {
            let change = HostChange::missed(stored(path.to_owned()));
            events.push(HostEvent { change, pid: None });
        }
    }
}

fn host_event(path: String, is_directory: bool, kind: HostChangeKind) -> HostEvent {
    let path = ObjectPath::from_stored(path, None);
    HostEvent { change: HostChange { path, is_directory, kind }, pid: None }
}

fn is_within(path: &str, directory: &str) -> bool {
    below(path, directory).is_some()
}

/// A path and all directories above it, the root last.
fn self_and_above(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rsplit_once('/') {
        Some((above, _)) => Some(above),
        None => (!path.is_empty()).then_some(""),
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Times many renames of a directory and one below it, beside other watched directories.
    fn time_of_renames(others: i32) -> Duration {
        let mut inotify = Inotify::new().expect("there are descriptors");
        let mut insert = |path: &str, descriptor| inotify.enter(descriptor, path.into());
        (0..others).for_each(|number| insert(&format!("srv/other{number}"), number));
        insert("srv/a", others);
        insert("srv/a/deep", others + 1);
        let began = Instant::now();
        for _ in 0..1_000 {
            inotify.renamed("srv/a", "srv/b", &mut Vec::new());
            inotify.renamed("srv/b", "srv/a", &mut Vec::new());
        }
        let elapsed = began.elapsed();
        for (path, descriptor) in [("srv/a", others), ("srv/a/deep", others + 1)] {
            assert_eq!(&*inotify.directories[&descriptor], path);
            assert_eq!(inotify.descriptors[path], descriptor);
        }
        assert_eq!(inotify.directories.len(), inotify.descriptors.len());
        elapsed
    }

    /// A client can rename as often as it wants, and others watch many directories.
    #[test]
    fn a_rename_costs_hardly_more_with_many_watched_directories() {
        let least = |others| (0..3).map(|_| time_of_renames(others)).min().expect("some");
        let (alone, crowded) = (least(0), least(20_000));
        assert!(crowded < 50 * alone, "{alone:?} alone, {crowded:?} beside many");
    }

    /// The attack: a client renames a directory again and again, each time to a longer name, and
    /// watches a tree of many directories through it.
    #[test]
    fn paths_that_grow_by_renames_take_bounded_memory_and_the_client_is_sent_to_look() {
        let mut inotify = Inotify::new().expect("there are descriptors");
        for number in 0..20_000 {
            inotify.enter(1_000_000 + number, format!("srv/a/{number}").into());
        }
        let mut events = Vec::new();
        let mut old = "srv/a".to_owned();
        for _ in 0..9 {
            let new = format!("{old}{}", "n".repeat(250));
            inotify.renamed(&old, &new, &mut events);
            old = new;
            let bytes: usize = inotify.descriptors.keys().map(|path| path.len()).sum();
            assert!(bytes <= PATH_BYTES_MAX, "{bytes}");
            assert_eq!(inotify.path_bytes, bytes);
        }
        assert!(inotify.directories.len() < 20_000);
        assert_eq!(inotify.directories.len(), inotify.descriptors.len());
        assert!(events.iter().all(|it| it.change.kind == HostChangeKind::Missed));
        assert_eq!(events[0].change.path.as_str().len() % 250, 5, "the directory itself");
    }
}
