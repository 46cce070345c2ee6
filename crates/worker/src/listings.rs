//! Listings and queries of ranges that take long, in parts: between two of them the worker serves
//! everything else.

use std::collections::VecDeque;

use object::{EntryDetail, LocalOpen, ObjectOp, ObjectReply, ObjectResult, UserId};
use store::{FoundRanges, Started, Store};

/// Bytes of memory of a range.
const RANGE_BYTES: usize = size_of::<(u64, u64)>();

/// A listing of a directory or a query of ranges, or the rest of one.
#[derive(Debug)]
pub(super) struct PendingListing {
    user: UserId,
    open: LocalOpen,
    wanted: Wanted,
}

/// Parameters of a listing, and the part of its result that was found.
#[derive(Debug)]
enum Wanted {
    /// Entries of a directory. The store keeps entries of paused parts.
    Entries { restart: bool, detail: EntryDetail, entries_max: u32 },
    /// Allocated ranges of a file; `found` has the ranges of paused parts.
    Ranges { from: u64, to: u64, ranges_max: u32, found: Vec<(u64, u64)> },
}

/// A listing, for the part of it that comes next.
#[derive(Debug)]
struct Listing {
    /// Number of the operation for the worker.
    slot: usize,
    pending: PendingListing,
}

/// Listings that have paused, or wait for an earlier one of the same open.
#[derive(Debug, Default)]
pub(super) struct Listings {
    waiting: VecDeque<Listing>,
    /// Numbers of those that came since [`Listings::take_new`].
    new: Vec<usize>,
}

impl PendingListing {
    /// Takes an operation that is carried out in parts; gives any other back.
    pub(super) fn of(user: UserId, op: ObjectOp) -> Result<Self, ObjectOp> {
        let (open, wanted) = match op {
            ObjectOp::ReadDirectory { open, restart, detail, entries_max } => {
                (open, Wanted::Entries { restart, detail, entries_max })
            }
            ObjectOp::AllocatedRanges { open, from, to, ranges_max } => {
                (open, Wanted::Ranges { from, to, ranges_max, found: Vec::new() })
            }
            other => return Err(other),
        };
        Ok(Self { user, open, wanted })
    }

    /// Highest number of bytes that it may keep here until it ends.
    pub(super) fn bytes_max(&self) -> usize {
        match self.wanted {
            Wanted::Entries { .. } => 0,
            Wanted::Ranges { ranges_max, .. } => {
                usize::try_from(ranges_max).map_or(usize::MAX, |it| it.saturating_mul(RANGE_BYTES))
            }
        }
    }

    /// Carries out a part of the listing. Returns its rest if it has paused.
    pub(super) fn list(self, store: &mut Store) -> Result<ObjectResult, Self> {
        let Self { user, open, wanted } = self;
        match wanted {
            Wanted::Entries { restart, detail, entries_max } => {
                let op = ObjectOp::ReadDirectory { open, restart, detail, entries_max };
                match store.start(user, op) {
                    Started::Done(Ok(ObjectReply::Entries(entries)))
                        if store.take_paused_listing() =>
                    {
                        store.continue_listing(open, entries);
                        let wanted = Wanted::Entries { restart: false, detail, entries_max };
                        Err(Self { user, open, wanted })
                    }
                    Started::Done(result) => Ok(result),
                    Started::Submit(..) => unreachable!("the ring lists no directories"),
                }
            }
            Wanted::Ranges { from, to, ranges_max, mut found } => {
                let found_before = u32::try_from(found.len()).unwrap_or(u32::MAX);
                let places = ranges_max.saturating_sub(found_before);
                match store.find_ranges(user, open, (from, to), places) {
                    Err(status) => Ok(Err(status)),
                    Ok(FoundRanges { ranges, rest }) => {
                        found.extend(ranges);
                        let Some(from) = rest else { return Ok(Ok(ObjectReply::Ranges(found))) };
                        let wanted = Wanted::Ranges { from, to, ranges_max, found };
                        Err(Self { user, open, wanted })
                    }
                }
            }
        }
    }
}

impl Listings {
    /// True if no listing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// True if a listing has to wait for an earlier one of its open.
    pub(super) fn delay(&self, pending: &PendingListing) -> bool {
        self.waiting.iter().any(|listing| listing.pending.open == pending.open)
    }

    /// Keeps a listing that has paused or has to wait, for later.
    pub(super) fn keep(&mut self, slot: usize, pending: PendingListing) {
        self.waiting.push_back(Listing { slot, pending });
        self.new.push(slot);
    }

    /// Takes the numbers of listings that have been kept since the last call.
    pub(super) fn take_new(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.new)
    }

    /// Number of the listing whose part comes next.
    pub(super) fn next(&self) -> Option<usize> {
        self.waiting.front().map(|listing| listing.slot)
    }

    /// Carries out the next part of the listing that has waited longest; returns the listing's
    /// number and result if it has ended.
    pub(super) fn list_next_part(&mut self, store: &mut Store) -> Option<(usize, ObjectResult)> {
        let Listing { slot, pending } = self.waiting.pop_front()?;
        match pending.list(store) {
            Ok(result) => Some((slot, result)),
            Err(pending) => {
                // Before later ones of its open.
                let later = self.waiting.iter().position(|it| it.pending.open == pending.open);
                let listing = Listing { slot, pending };
                self.waiting.insert(later.unwrap_or(self.waiting.len()), listing);
                None
            }
        }
    }
}
