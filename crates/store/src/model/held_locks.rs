//! The byte-range locks of one open, and the locks of the kernel that stand for them.
//!
//! SMB locks of an open may overlap, and each is released by itself; the kernel has one lock, or
//! none, for each byte of an open. So it gets the union: a byte is locked exclusively if any lock
//! of it is exclusive. Like Samba, locks without bytes are left out, and so is everything from the
//! byte 2^63 - 1 on, which the kernel cannot express.

use object::{FileRange, RangeLock};

use crate::sys::kernel_locks::{LOCK_END_MAX, LockKind};

/// The locks of an open.
#[derive(Debug, Default)]
pub(crate) struct HeldLocks {
    locks: Vec<RangeLock>,
}

/// Bytes whose lock by the kernel changes. They are at least one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LockChange {
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) from: LockKind,
    pub(crate) to: LockKind,
}

impl HeldLocks {
    pub(crate) fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// Adds locks, and returns the changes for the kernel.
    pub(crate) fn add(&mut self, locks: &[RangeLock]) -> Vec<LockChange> {
        let ranges: Vec<FileRange> = locks.iter().map(|it| it.range).collect();
        let before = self.locks.len();
        self.locks.extend_from_slice(locks);
        changes(&self.locks[..before], &self.locks, &ranges)
    }

    /// Removes the locks that [`HeldLocks::add`] has added last, because the kernel refused them.
    pub(crate) fn undo(&mut self, added: usize) {
        self.locks.truncate(self.locks.len().saturating_sub(added));
    }

    /// Removes one lock for each range, an exclusive one before a shared one, up to a range without
    /// a lock. Returns the changes for the kernel.
    pub(crate) fn remove(&mut self, ranges: &[FileRange]) -> Vec<LockChange> {
        let before = self.locks.clone();
        let mut removed = 0;
        for range in ranges {
            let of = |exclusive: bool| {
                move |it: &RangeLock| *it == RangeLock { range: *range, exclusive }
            };
            let at = self.locks.iter().position(of(true));
            let Some(at) = at.or_else(|| self.locks.iter().position(of(false))) else { break };
            self.locks.swap_remove(at);
            removed += 1;
        }
        changes(&before, &self.locks, &ranges[..removed])
    }
}

/// Returns the changes between two sets of locks in these ranges, by offset.
fn changes(before: &[RangeLock], after: &[RangeLock], ranges: &[FileRange]) -> Vec<LockChange> {
    let mut edges = Vec::new();
    for range in ranges {
        add_edges(&mut edges, *range, Layer::Within);
    }
    for (locks, is_after) in [(before, false), (after, true)] {
        for lock in locks {
            add_edges(&mut edges, lock.range, Layer::Lock { is_after, exclusive: lock.exclusive });
        }
    }
    edges.sort_unstable_by_key(|(at, ..)| *at);
    let mut counts = Counts::default();
    let mut found: Vec<LockChange> = Vec::new();
    for (index, &(start, layer, begins)) in edges.iter().enumerate() {
        counts.pass(layer, begins);
        let Some(&(end, ..)) = edges.get(index + 1) else { break };
        let (from, to) = (counts.kind(false), counts.kind(true));
        if end == start || counts.within == 0 || from == to {
            continue;
        }
        match found.last_mut() {
            Some(last) if (last.start + last.length, last.from, last.to) == (start, from, to) => {
                last.length += end - start;
            }
            _ => found.push(LockChange { start, length: end - start, from, to }),
        }
    }
    found
}

/// The set that a range belongs to.
#[derive(Clone, Copy)]
enum Layer {
    /// Bytes whose changes are returned.
    Within,
    Lock {
        is_after: bool,
        exclusive: bool,
    },
}

/// Numbers of ranges of each set that cover a byte.
#[derive(Default)]
struct Counts {
    within: usize,
    /// Shared and exclusive locks, before and after the change.
    locks: [[usize; 2]; 2],
}

impl Counts {
    fn pass(&mut self, layer: Layer, begins: bool) {
        let count = match layer {
            Layer::Within => &mut self.within,
            Layer::Lock { is_after, exclusive } => {
                &mut self.locks[usize::from(is_after)][usize::from(exclusive)]
            }
        };
        *count = if begins { *count + 1 } else { *count - 1 };
    }

    fn kind(&self, is_after: bool) -> LockKind {
        match self.locks[usize::from(is_after)] {
            [0, 0] => LockKind::Unlocked,
            [_, 0] => LockKind::Shared,
            _ => LockKind::Exclusive,
        }
    }
}

/// Returns the part of a range that the kernel can lock, as its first byte and its end.
pub(crate) fn lockable(range: FileRange) -> Option<(u64, u64)> {
    let end = range.offset.saturating_add(range.length).min(LOCK_END_MAX);
    (range.offset < end).then_some((range.offset, end))
}

fn add_edges(edges: &mut Vec<(u64, Layer, bool)>, range: FileRange, layer: Layer) {
    if let Some((start, end)) = lockable(range) {
        edges.extend([(start, layer, true), (end, layer, false)]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const BYTES: u64 = 24;

    fn range(offset: u64, length: u64) -> FileRange {
        FileRange { offset, length }
    }

    fn lock(offset: u64, length: u64, exclusive: bool) -> RangeLock {
        RangeLock { range: range(offset, length), exclusive }
    }

    /// Carries changes out on a file of a few bytes, as the kernel would.
    #[track_caller]
    fn carry_out(file: &mut [LockKind], changes: &[LockChange]) {
        for change in changes {
            for byte in change.start..change.start + change.length {
                let at = usize::try_from(byte).expect("a small file");
                assert_eq!(file[at], change.from, "{change:?}");
                file[at] = change.to;
            }
        }
    }

    fn union(locks: &[RangeLock]) -> Vec<LockKind> {
        let kind = |byte: u64| {
            let covers = |it: &&RangeLock| {
                (it.range.offset..it.range.offset + it.range.length).contains(&byte)
            };
            let of =
                |it: &RangeLock| if it.exclusive { LockKind::Exclusive } else { LockKind::Shared };
            locks.iter().filter(covers).map(of).max().unwrap_or(LockKind::Unlocked)
        };
        (0..BYTES).map(kind).collect()
    }

    proptest! {
        #[test]
        fn the_kernel_has_the_union_of_all_locks_after_each_request(
            steps in vec(
                (any::<bool>(), vec((0..16_u64, 0..8_u64, any::<bool>()), 1..4)),
                1..20,
            ),
        ) {
            let mut held = HeldLocks::default();
            let mut file = vec![LockKind::Unlocked; 24];
            for (adds, elements) in steps {
                let locks: Vec<_> =
                    elements.iter().map(|&(offset, length, it)| lock(offset, length, it)).collect();
                let ranges: Vec<_> = locks.iter().map(|it| it.range).collect();
                let changes = if adds { held.add(&locks) } else { held.remove(&ranges) };
                carry_out(&mut file, &changes);
                prop_assert_eq!(&file, &union(&held.locks));
            }
        }
    }

    #[test]
    fn a_shared_lock_within_an_exclusive_one_of_the_open_changes_nothing() {
        let mut held = HeldLocks::default();
        assert_eq!(held.add(&[lock(0, 10, true)]).len(), 1);
        assert_eq!(held.add(&[lock(2, 3, false)]), []);
        let changes = held.remove(&[range(0, 10)]);
        let kinds: Vec<_> = changes.iter().map(|it| (it.start, it.length, it.to)).collect();
        let unlocked = LockKind::Unlocked;
        assert_eq!(kinds, [(0, 2, unlocked), (2, 3, LockKind::Shared), (5, 5, unlocked)]);
    }

    #[test]
    fn bytes_that_the_kernel_cannot_lock_are_left_out() {
        let mut held = HeldLocks::default();
        assert_eq!(held.add(&[lock(5, 0, true), lock(1 << 63, 10, true)]), []);
        let changes = held.add(&[lock(7, u64::MAX - 7, true)]);
        assert_eq!((changes[0].start, changes[0].start + changes[0].length), (7, LOCK_END_MAX));
        assert_eq!(changes.len(), 1);
    }

    #[test]
    fn refused_locks_are_forgotten() {
        let mut held = HeldLocks::default();
        held.add(&[lock(0, 4, false)]);
        held.add(&[lock(8, 4, false), lock(16, 4, true)]);
        held.undo(2);
        assert_eq!(held.locks, [lock(0, 4, false)]);
    }
}
