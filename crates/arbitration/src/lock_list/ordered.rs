//! Locks of one kind, ordered by their ranges.

use std::collections::BTreeSet;

use crate::byte_range::{ByteRange, ByteRangeLock};
use crate::open::OpenId;

/// Locks of one kind, by stream, first byte, length and open.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct OrderedLocks {
    locks: Vec<ByteRangeLock>,
    /// Last byte covered by each lock or an earlier one of its stream; none if all are empty.
    reach: Vec<Option<u64>>,
}

type Place = (u64, u64, u64, OpenId);

fn place(lock: &ByteRangeLock) -> Place {
    (lock.stream, lock.range.offset, lock.range.length, lock.open)
}

impl OrderedLocks {
    pub(super) fn as_slice(&self) -> &[ByteRangeLock] {
        &self.locks
    }

    /// Adds locks in one pass: the sort finds both runs in order and merges them.
    pub(super) fn add(&mut self, locks: impl IntoIterator<Item = ByteRangeLock>) {
        self.locks.extend(locks);
        self.order();
    }

    fn order(&mut self) {
        self.locks.sort_by_key(place);
        self.reach.clear();
        let mut before: Option<(u64, Option<u64>)> = None;
        self.reach.extend(self.locks.iter().map(|lock| {
            let reached = before.filter(|(stream, _)| *stream == lock.stream);
            let reach = reached.and_then(|(_, reach)| reach).max(lock.range.last());
            before = Some((lock.stream, reach));
            reach
        }));
    }

    /// Keeps the locks that `wanted` picks.
    pub(super) fn retain(&mut self, wanted: impl FnMut(&ByteRangeLock) -> bool) {
        let before = self.locks.len();
        self.locks.retain(wanted);
        if self.locks.len() != before {
            self.order();
        }
    }

    /// Gives the locks of one open to another.
    pub(super) fn hand_over(&mut self, from: OpenId, to: OpenId) {
        self.locks.iter_mut().filter(|lock| lock.open == from).for_each(|lock| lock.open = to);
        self.order();
    }

    /// Returns the place of a lock with exactly this range, but those in `passed_over`.
    pub(super) fn find(
        &self,
        open: OpenId,
        stream: u64,
        range: ByteRange,
        passed_over: &BTreeSet<usize>,
    ) -> Option<usize> {
        let wanted = (stream, range.offset, range.length, open);
        let first = self.locks.partition_point(|lock| place(lock) < wanted);
        let same = self.locks[first..].iter().take_while(|lock| place(lock) == wanted).count();
        (first..first + same).find(|at| !passed_over.contains(at))
    }

    /// Removes the locks at these places.
    pub(super) fn remove(&mut self, places: &BTreeSet<usize>) {
        let mut at = 0..;
        self.retain(|_| at.next().is_none_or(|at| !places.contains(&at)));
    }

    /// True if a lock of the stream shares a byte with the range.
    pub(super) fn overlaps(&self, stream: u64, range: ByteRange) -> bool {
        let offset = range.offset;
        let before = match range.last() {
            Some(last) => {
                // A lock that begins behind the first byte and not behind the last overlaps.
                let behind = self.begin_by(stream, offset);
                if behind != self.begin_by(stream, last) {
                    return true;
                }
                behind
            }
            None => {
                self.locks.partition_point(|it| (it.stream, it.range.offset) < (stream, offset))
            }
        };
        self.reaches(before, stream, offset)
    }

    /// The locks of the stream that share a byte with the range.
    ///
    /// Quick for locks that do not overlap each other, as exclusive ones: of those before the range
    /// at most one reaches into it.
    pub(super) fn overlapping(
        &self,
        stream: u64,
        range: ByteRange,
    ) -> impl Iterator<Item = &ByteRangeLock> {
        let begin = self.begin_by(stream, range.offset);
        let end = range.last().map_or(begin, |last| self.begin_by(stream, last));
        let before =
            (0..begin).rev().take_while(move |at| self.reaches(at + 1, stream, range.offset));
        let before = before.map(|at| &self.locks[at]).filter(move |it| it.range.overlaps(range));
        before.chain(&self.locks[begin..end])
    }

    /// Counts the locks of earlier streams, and those of this one that begin at or before a byte.
    fn begin_by(&self, stream: u64, byte: u64) -> usize {
        self.locks.partition_point(|it| (it.stream, it.range.offset) <= (stream, byte))
    }

    /// True if one of the first `count` locks covers a byte of the stream, or one behind it.
    fn reaches(&self, count: usize, stream: u64, byte: u64) -> bool {
        let Some(at) = count.checked_sub(1) else { return false };
        self.locks[at].stream == stream && self.reach[at] >= Some(byte)
    }
}
