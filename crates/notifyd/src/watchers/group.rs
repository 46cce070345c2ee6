//! Watches of one worker in one directory.

use object::FileIdentity;

use super::WatchParameters;

/// Opens of one worker that watch one directory. A client may have thousands of them, so a change
/// looks only at what they want together.
#[derive(Debug, Default)]
pub(super) struct Group {
    watchers: Vec<Watcher>,
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
    pub(super) fn add(&mut self, watcher: Watcher) {
        self.watchers.push(watcher);
        self.include(&watcher);
    }

    /// Removes the watch of an open. Returns whether it had one.
    pub(super) fn remove(&mut self, open: u64) -> bool {
        let Some(at) = self.watchers.iter().position(|watcher| watcher.open == open) else {
            return false;
        };
        let mut left = std::mem::take(self).watchers;
        left.swap_remove(at);
        left.iter().for_each(|watcher| self.include(watcher));
        self.watchers = left;
        true
    }

    pub(super) fn len(&self) -> usize {
        self.watchers.len()
    }

    /// Returns the wanted changes by other programs (`by_kernel`), or by workers.
    pub(super) fn wanted(&self, by_kernel: bool) -> Wanted {
        if by_kernel { self.kernel } else { self.all }
    }

    /// Returns whether some watch hears of changes by other programs (`by_kernel`), or by workers.
    pub(super) fn hears(&self, by_kernel: bool) -> bool {
        !by_kernel || self.parameters.is_some()
    }

    /// Returns parameters for the kernel, and the number of the latest watch in them.
    pub(super) fn parameters(&self) -> Option<(u64, WatchParameters)> {
        self.parameters
    }

    /// Returns whether an open watches the directory that had this identity.
    pub(super) fn has(&self, identity: FileIdentity) -> bool {
        self.watchers.iter().any(|watcher| watcher.identity == identity)
    }

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
