//! Watched directories, and the workers that watch them.

mod account;
mod group;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use arbitration::Standing;
use dtyp::ServerId;
use messaging::Watch;
use object::{FileIdentity, HostChange, HostChangeKind, ObjectPath};
use wire::change_notify::CompletionFilter;

use account::PathAccount;
use group::{Group, Watcher};

/// Highest number of directories that all clients together may watch. The bytes of their account
/// suffice for fewer.
const WATCHES_MAX: usize = 1 << 20;

/// Cost of a change for one more receiver, in visits: it is copied, encoded and sent.
const RECEIVER_VISITS: u64 = 4;

/// Bytes of a path that are read in the time of a visit.
const BYTES_PER_VISIT: usize = 128;

/// Divisor of the watches that other workers have left: a worker may have one such part.
const WORKER_PARTS: usize = 16;

/// Watched directories, and the workers that watch them.
#[derive(Debug)]
pub(super) struct Watchers {
    /// Highest number of watches of all workers.
    max: usize,
    directories: HashMap<Arc<str>, HashMap<ServerId, Group>>,
    /// Paths of the directories, in their order.
    paths: BTreeSet<Arc<str>>,
    /// The watch of each open of each worker.
    workers: HashMap<ServerId, HashMap<u64, Place>>,
    count: usize,
    /// Memory of the watches, and of ended ones that the kernel still has.
    pub(super) account: PathAccount,
    /// Number of the latest watch.
    latest: u64,
}

/// A watch: its directory, and its place among those of the worker there.
#[derive(Debug)]
struct Place {
    path: Arc<str>,
    index: usize,
    number: u64,
}

/// Workers that must get a change.
#[derive(Debug, Default)]
pub(super) struct Receivers {
    pub(super) workers: BTreeSet<ServerId>,
    /// Cost of the change: groups of watches that were looked at, and the like.
    pub(super) visits: u64,
    /// Cost of groups whose wishes had to be joined again, by the worker of the group: it has ended
    /// watches, and the reporter of the change has no part in that.
    pub(super) joins: Vec<(ServerId, u64)>,
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
        let (directories, paths, workers, account) = Default::default();
        let max = max.min(WATCHES_MAX);
        Self { max, directories, paths, workers, count: 0, account, latest: 0 }
    }

    /// True if a worker may have one more watch.
    fn permits(&self, worker: ServerId, watch: &Watch) -> bool {
        let standing = if watch.is_guest { Standing::Guest } else { Standing::User };
        let own = self.workers.get(&worker).map_or(0, HashMap::len);
        standing.permits((self.max, WORKER_PARTS), (self.count - own, own, 1))
            && self.account.permits(worker, standing, watch.path.as_str())
    }

    /// Adds a watch, or replaces the one of the same open.
    pub(super) fn watch(&mut self, worker: ServerId, watch: &Watch) -> Watched {
        let is_replaced = self.unwatch(worker, watch.open).is_some();
        if !self.permits(worker, watch) {
            return Watched::Refused;
        }
        let Watch { open, identity, recursive, filter, kernel, may_wait, .. } = *watch;
        self.latest += 1;
        let number = self.latest;
        let path: Arc<str> = watch.path.as_str().into();
        let path = self.paths.get(&path).cloned().unwrap_or(path);
        self.paths.insert(Arc::clone(&path));
        self.account.add(worker, &path);
        let groups = self.directories.entry(Arc::clone(&path)).or_default();
        let watcher = Watcher { number, open, identity, recursive, filter, kernel, may_wait };
        let index = groups.entry(worker).or_default().add(watcher);
        self.workers.entry(worker).or_default().insert(open, Place { path, index, number });
        self.count += 1;
        if is_replaced { Watched::Replaced } else { Watched::Added }
    }

    /// Removes a watch. Returns its directory and its number.
    pub(super) fn unwatch(&mut self, worker: ServerId, open: u64) -> Option<(Arc<str>, u64)> {
        let opens = self.workers.get_mut(&worker)?;
        let Place { path, index, number } = opens.remove(&open)?;
        let groups = self.directories.get_mut(&path)?;
        let group = groups.get_mut(&worker)?;
        if let Some(moved) = group.remove(index).and_then(|open| opens.get_mut(&open)) {
            moved.index = index;
        }
        self.count -= 1;
        self.account.remove(worker, &path);
        if group.is_empty() {
            groups.remove(&worker);
        }
        if groups.is_empty() {
            self.directories.remove(&path);
            self.paths.remove(&path);
        }
        if opens.is_empty() {
            self.workers.remove(&worker);
        }
        Some((path, number))
    }

    /// Returns the directory that an open watches, and the number of the watch.
    pub(super) fn watch_of(&self, worker: ServerId, open: u64) -> Option<(&Arc<str>, u64)> {
        let Place { path, number, .. } = self.workers.get(&worker)?.get(&open)?;
        Some((path, *number))
    }

    /// Lets the watch of an open hear of changes by other programs, too.
    pub(super) fn join_kernel(&mut self, worker: ServerId, open: u64) {
        let place = self.workers.get(&worker).and_then(|opens| opens.get(&open));
        let Some(Place { path, index, .. }) = place else { return };
        let groups = self.directories.get_mut(path);
        if let Some(group) = groups.and_then(|groups| groups.get_mut(&worker)) {
            group.join_kernel(*index);
        }
    }

    /// Removes all watches of a worker. Returns their number, and their directories.
    pub(super) fn remove_worker(&mut self, worker: ServerId) -> (usize, BTreeSet<Arc<str>>) {
        let opens = self.workers.remove(&worker).unwrap_or_default();
        let count = opens.len();
        self.count -= count;
        opens.values().for_each(|it| self.account.remove(worker, &it.path));
        let directories: BTreeSet<Arc<str>> = opens.into_values().map(|it| it.path).collect();
        for path in &directories {
            let Some(groups) = self.directories.get_mut(path) else { continue };
            groups.remove(&worker);
            if groups.is_empty() {
                self.directories.remove(path);
                self.paths.remove(path);
            }
        }
        (count, directories)
    }

    /// True if a worker has any watch.
    pub(super) fn has(&self, worker: ServerId) -> bool {
        self.workers.contains_key(&worker)
    }

    /// Returns the parameters of the kernel's watch of a directory; none if no worker needs it.
    pub(super) fn kernel_watch(&mut self, path: &str) -> Option<WatchParameters> {
        let groups = self.directories.get_mut(path)?.values_mut();
        let joined = groups.map(Group::parameters).fold(None, group::later_of);
        joined.map(|(_, parameters)| parameters)
    }

    /// Returns the workers that watch a directory by this path.
    pub(super) fn of_directory(&self, path: &str, identity: FileIdentity) -> BTreeSet<ServerId> {
        let groups = self.directories.get(path).into_iter().flatten();
        groups.filter(|(_, group)| group.has(identity)).map(|(worker, _)| *worker).collect()
    }

    /// Returns the workers that must get a change. Each worker decides itself about its client.
    pub(super) fn receivers(&mut self, change: &HostChange, source: Source) -> Receivers {
        let mut receivers = Receivers { visits: 1, ..Receivers::default() };
        if change.kind == HostChangeKind::Missed {
            self.add_around(&change.path, source, &mut receivers);
        } else {
            for path in std::iter::once(&change.path).chain(change.new_path()) {
                self.add_above(path, change, source, &mut receivers);
            }
        }
        let count = u64::try_from(receivers.workers.len()).unwrap_or(u64::MAX);
        receivers.visits += count.saturating_mul(RECEIVER_VISITS);
        receivers
    }

    /// Adds the workers whose watches of directories above a path want a change of it.
    fn add_above(
        &mut self,
        path: &ObjectPath,
        change: &HostChange,
        source: Source,
        receivers: &mut Receivers,
    ) {
        let filter = filter(change);
        let parent = path.parent().unwrap_or_default();
        for directory in ancestors(path.as_str()) {
            let is_near = directory == path.as_str() || directory == parent.as_str();
            receivers.add(self.directories.get_mut(directory), directory, source, |group| {
                group.wanted(source == Source::Kernel).includes(is_near, filter)
            });
        }
    }

    /// Adds the workers with watches above or below a path.
    fn add_around(&mut self, path: &ObjectPath, source: Source, receivers: &mut Receivers) {
        let Self { directories, paths, workers, .. } = self;
        if path.is_root()
            && let Source::Worker(own) = source
        {
            receivers.visits += u64::try_from(workers.len()).unwrap_or(u64::MAX);
            receivers.workers.extend(workers.keys().filter(|worker| **worker != own));
            return;
        }
        let path = path.as_str();
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let from = (Bound::Included(prefix.as_str()), Bound::Unbounded);
        let below = paths.range::<str, _>(from).take_while(|it| it.starts_with(&prefix));
        for directory in ancestors(path).chain(below.map(|it| &**it)) {
            receivers.add(directories.get_mut(directory), directory, source, |group| {
                group.hears(source == Source::Kernel)
            });
        }
    }
}

impl Receivers {
    /// Adds the workers in a directory of whose groups this is true, and the cost of the look.
    fn add(
        &mut self,
        groups: Option<&mut HashMap<ServerId, Group>>,
        directory: &str,
        source: Source,
        is_concerned: impl Fn(&mut Group) -> bool,
    ) {
        let mut visits = 1 + directory.len() / BYTES_PER_VISIT;
        for (worker, group) in groups.into_iter().flatten() {
            visits += 1;
            if source == Source::Worker(*worker) {
                continue;
            }
            let stale = group.stale_len();
            if is_concerned(group) {
                self.workers.insert(*worker);
            }
            // Not every look needs them.
            let joined = stale - group.stale_len();
            if joined > 0 {
                self.joins.push((*worker, u64::try_from(joined).unwrap_or(u64::MAX)));
            }
        }
        self.visits += u64::try_from(visits).unwrap_or(u64::MAX);
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
