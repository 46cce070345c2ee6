//! Watches of one worker in one directory.

use object::FileIdentity;

use super::WatchParameters;

/// Opens of one worker that watch one directory. A client may have thousands of them, so a change
/// looks only at what they want together.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// A watch keeps its place until it is removed, or takes that of a removed one.
    watchers: Vec<Watcher>,
    joined: Joined,
    /// A watch has ended since the wishes were joined. They are joined again when they are needed:
    /// a client may end thousands of watches one after the other.
    is_stale: bool,
}

/// Wishes of all watches of a group.
#[derive(Clone, Copy, Debug, Default)]
struct Joined {
    /// Changes that any of the watches wants.
    all: Wanted,
    /// Changes by other programs: not every watch wants them.
    kernel: Wanted,
    /// Parameters of the kernel's watch for those, and the number of the latest watch.
    parameters: Option<(u64, WatchParameters)>,
}

/// One open that watches a directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watcher {
    /// Number of the watch: later ones have higher numbers.
    pub(super) number: u64,
    pub(super) open: u64,
    pub(super) identity: FileIdentity,
    pub(super) recursive: bool,
    pub(super) filter: u32,
    pub(super) kernel: bool,
    pub(super) may_wait: bool,
}

/// Filters of the changes that some watches want.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    /// Changes of the directory itself and its entries.
    near: u32,
    /// Changes anywhere below those entries.
    below: u32,
}

impl Wanted {
    /// Returns whether changes that pass `filter` are wanted. `is_near`: of the directory itself or
    /// its entries.
    pub(super) fn includes(self, is_near: bool, filter: u32) -> bool {
        let wanted = if is_near { self.near } else { self.below };
        wanted & filter != 0
    }

    fn add(&mut self, watcher: &Watcher) {
        self.near |= watcher.filter;
        if watcher.recursive {
            self.below |= watcher.filter;
        }
    }
}

impl Group {
    /// Adds a watch. Returns its place.
    pub(super) fn add(&mut self, watcher: Watcher) -> usize {
        self.watchers.push(watcher);
        self.joined.include(&watcher);
        self.watchers.len() - 1
    }

    /// Removes the watch at a place. Returns the open whose watch has that place now.
    pub(super) fn remove(&mut self, place: usize) -> Option<u64> {
        self.watchers.swap_remove(place);
        self.is_stale = true;
        self.watchers.get(place).map(|watcher| watcher.open)
    }

    /// Lets the watch at a place hear of changes by other programs, too.
    pub(super) fn join_kernel(&mut self, place: usize) {
        if let Some(watcher) = self.watchers.get_mut(place) {
            watcher.kernel = true;
            self.joined.include(watcher);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.watchers.is_empty()
    }

    /// Number of watches that the next look at the wishes has to join again.
    pub(super) fn stale_len(&self) -> usize {
        if self.is_stale { self.watchers.len() } else { 0 }
    }

    /// Returns the wanted changes by other programs (`by_kernel`), or by workers.
    pub(super) fn wanted(&mut self, by_kernel: bool) -> Wanted {
        let joined = self.joined();
        if by_kernel { joined.kernel } else { joined.all }
    }

    /// Returns whether some watch hears of changes by other programs (`by_kernel`), or by workers.
    pub(super) fn hears(&mut self, by_kernel: bool) -> bool {
        !by_kernel || self.parameters().is_some()
    }

    /// Returns parameters for the kernel, and the number of the latest watch in them.
    pub(super) fn parameters(&mut self) -> Option<(u64, WatchParameters)> {
        self.joined().parameters
    }

    /// Returns whether an open watches the directory that had this identity.
    pub(super) fn has(&self, identity: FileIdentity) -> bool {
        self.watchers.iter().any(|watcher| watcher.identity == identity)
    }

    fn joined(&mut self) -> Joined {
        if std::mem::take(&mut self.is_stale) {
            self.joined = Joined::default();
            self.watchers.iter().for_each(|watcher| self.joined.include(watcher));
        }
        self.joined
    }
}

impl Joined {
    fn include(&mut self, watcher: &Watcher) {
        self.all.add(watcher);
        if watcher.kernel {
            self.kernel.add(watcher);
            let Watcher { number, identity, recursive, filter, may_wait, .. } = *watcher;
            let one = WatchParameters { identity, recursive, filter, may_wait };
            self.parameters = later_of(self.parameters, Some((number, one)));
        }
    }
}

/// Joins parameters: the directory is that of the later watch.
pub(super) fn later_of(
    one: Option<(u64, WatchParameters)>,
    other: Option<(u64, WatchParameters)>,
) -> Option<(u64, WatchParameters)> {
    let (Some((number, one)), Some((other_number, other))) = (one, other) else {
        return one.or(other);
    };
    let latest = if number > other_number { one } else { other };
    let joined = WatchParameters {
        identity: latest.identity,
        recursive: one.recursive || other.recursive,
        filter: one.filter | other.filter,
        may_wait: one.may_wait || other.may_wait,
    };
    Some((number.max(other_number), joined))
}
