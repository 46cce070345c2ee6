//! Watched directories, and the workers that watch them.

mod group;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

use arbitration::Standing;
use dtyp::ServerId;
use messaging::Watch;
use object::{FileIdentity, HostChange, HostChangeKind, ObjectPath};
use wire::change_notify::CompletionFilter;

use group::{Group, Watcher};

/// Highest number of directories that all clients together may watch. Each takes a few hundred
/// bytes.
const WATCHES_MAX: usize = 1 << 20;

/// Divisor of the watches that other workers have left: a worker may have one such part.
const WORKER_PARTS: usize = 16;

/// Watched directories, and the workers that watch them.
#[derive(Debug)]
pub(super) struct Watchers {
    /// Highest number of watches of all workers.
    max: usize,
    directories: HashMap<String, HashMap<ServerId, Group>>,
    /// The directory of each open of each worker.
    workers: HashMap<ServerId, HashMap<u64, String>>,
    count: usize,
    /// Number of the latest watch.
    latest: u64,
}

/// Result of adding a watch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Watched {
    /// The watch was added, and counts.
    Added,
    /// The watch replaces an earlier one of the same open.
    Replaced,
    /// There are too many watches.
    Refused,
}

/// Reporter of a change, which decides on its receivers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Source {
    /// The kernel: only watches for changes by other programs get the change.
    Kernel,
    /// A worker, which has told its own client already.
    Worker(ServerId),
}

/// Parameters of the kernel's watch of a directory.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct WatchParameters {
    /// Directory that the path must lead to: that of the latest watch.
    pub(super) identity: FileIdentity,
    pub(super) recursive: bool,
    pub(super) filter: u32,
    pub(super) may_wait: bool,
}

impl WatchParameters {
    /// Device of a file system that may wait long; none for others.
    pub(super) fn waiting_device(&self) -> Option<u64> {
        self.may_wait.then_some(self.identity.device)
    }
}

impl Default for Watchers {
    fn default() -> Self {
        Self::new(WATCHES_MAX)
    }
}

impl Watchers {
    /// Begins without watches. `max` may lower the limit of [`WATCHES_MAX`].
    pub(super) fn new(max: usize) -> Self {
        let (directories, workers) = (HashMap::new(), HashMap::new());
        Self { max: max.min(WATCHES_MAX), directories, workers, count: 0, latest: 0 }
    }

    /// True if a worker may watch one more directory.
    fn permits(&self, worker: ServerId) -> bool {
        let own = self.workers.get(&worker).map_or(0, HashMap::len);
        Standing::User.permits((self.max, WORKER_PARTS), (self.count - own, own, 1))
    }

    /// Adds a watch, or replaces the one of the same open.
    pub(super) fn watch(&mut self, worker: ServerId, watch: &Watch) -> Watched {
        let is_replaced = self.unwatch(worker, watch.open).is_some();
        if !self.permits(worker) {
            return Watched::Refused;
        }
        let Watch { open, identity, recursive, filter, kernel, may_wait, .. } = *watch;
        let path = watch.path.as_str();
        self.latest += 1;
        let number = self.latest;
        let watcher = Watcher { number, open, identity, recursive, filter, kernel, may_wait };
        self.directories
            .entry(path.to_owned())
            .or_default()
            .entry(worker)
            .or_default()
            .add(watcher);
        self.workers.entry(worker).or_default().insert(open, path.to_owned());
        self.count += 1;
        if is_replaced { Watched::Replaced } else { Watched::Added }
    }

    /// Removes a watch. Returns its directory.
    pub(super) fn unwatch(&mut self, worker: ServerId, open: u64) -> Option<String> {
        let opens = self.workers.get_mut(&worker)?;
        let path = opens.remove(&open)?;
        if opens.is_empty() {
            self.workers.remove(&worker);
        }
        self.change_group(&path, worker, |group| usize::from(group.remove(open)));
        Some(path)
    }

    /// Returns the directory that an open watches.
    pub(super) fn directory(&self, worker: ServerId, open: u64) -> Option<&str> {
        self.workers.get(&worker)?.get(&open).map(String::as_str)
    }

    /// Removes all watches of a worker. Returns their number, and their directories.
    pub(super) fn remove_worker(&mut self, worker: ServerId) -> (usize, BTreeSet<String>) {
        let opens = self.workers.remove(&worker).unwrap_or_default();
        let count = opens.len();
        let directories: BTreeSet<String> = opens.into_values().collect();
        for path in &directories {
            self.change_group(path, worker, |group| std::mem::take(group).len());
        }
        (count, directories)
    }

    /// Removes some watches of a worker in a directory: `remove` returns their number.
    fn change_group(
        &mut self,
        path: &str,
        worker: ServerId,
        remove: impl FnOnce(&mut Group) -> usize,
    ) {
        let Some(groups) = self.directories.get_mut(path) else { return };
        let Some(group) = groups.get_mut(&worker) else { return };
        self.count -= remove(group);
        if group.len() == 0 {
            groups.remove(&worker);
        }
        if groups.is_empty() {
            self.directories.remove(path);
        }
    }

    /// True if a worker has any watch.
    pub(super) fn has(&self, worker: ServerId) -> bool {
        self.workers.contains_key(&worker)
    }

    /// Returns the parameters of the kernel's watch of a directory; none if no worker needs it.
    pub(super) fn kernel_watch(&self, path: &str) -> Option<WatchParameters> {
        let groups = self.directories.get(path)?.values();
        let joined = groups.map(Group::parameters).fold(None, group::later_of);
        joined.map(|(_, parameters)| parameters)
    }

    /// Returns the workers that watch a directory by this path.
    pub(super) fn of_directory(&self, path: &str, identity: FileIdentity) -> BTreeSet<ServerId> {
        let groups = self.directories.get(path).into_iter().flatten();
        groups.filter(|(_, group)| group.has(identity)).map(|(worker, _)| *worker).collect()
    }

    /// Returns the workers that must get a change. Each worker decides itself about its client.
    pub(super) fn receivers(&self, change: &HostChange, source: Source) -> BTreeSet<ServerId> {
        let mut workers = BTreeSet::new();
        if change.kind == HostChangeKind::Missed {
            self.add_around(&change.path, source, &mut workers);
            return workers;
        }
        let filter = filter(change);
        for path in std::iter::once(&change.path).chain(change.new_path()) {
            let parent = path.parent().unwrap_or_default();
            for directory in ancestors(path.as_str()) {
                let Some(groups) = self.directories.get(directory) else { continue };
                let is_near = directory == path.as_str() || directory == parent.as_str();
                let concerned = groups.iter().filter(|(worker, group)| {
                    let wanted = group.wanted(source == Source::Kernel);
                    source != Source::Worker(**worker) && wanted.includes(is_near, filter)
                });
                workers.extend(concerned.map(|(worker, _)| *worker));
            }
        }
        workers
    }

    /// Adds the workers with watches above or below a path.
    fn add_around(&self, path: &ObjectPath, source: Source, workers: &mut BTreeSet<ServerId>) {
        for (directory, groups) in &self.directories {
            let directory = ObjectPath::from_stored(directory.clone(), None);
            let is_near =
                path.relative_to(&directory).or_else(|| directory.relative_to(path)).is_some();
            if is_near {
                let concerned = groups.iter().filter(|(worker, group)| {
                    source != Source::Worker(**worker) && group.hears(source == Source::Kernel)
                });
                workers.extend(concerned.map(|(worker, _)| *worker));
            }
        }
    }
}

/// Returns the filters that a change passes. A change of a directory's own name passes all.
fn filter(change: &HostChange) -> u32 {
    match change.kind {
        HostChangeKind::Modified(filter) => filter,
        HostChangeKind::Added | HostChangeKind::Removed if !change.is_directory => {
            let names = CompletionFilter::FILE_NAME | CompletionFilter::STREAM_NAME;
            names.bits()
        }
        _ => u32::MAX,
    }
}

/// Returns a path and all directories above it, the root last.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rsplit_once('/') {
        Some((above, _)) => Some(above),
        None if path.is_empty() => None,
        None => Some(""),
    })
}
