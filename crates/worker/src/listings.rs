//! Listings that take long, in parts: between two of them the worker serves everything else.

use std::collections::VecDeque;

use object::{DirectoryEntry, EntryDetail, LocalOpen, ObjectOp, ObjectReply, ObjectResult, UserId};
use store::{Started, Store};

/// A listing as the store is asked for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingListing {
    pub(super) user: UserId,
    pub(super) open: LocalOpen,
    pub(super) restart: bool,
    pub(super) detail: EntryDetail,
    pub(super) entries_max: u32,
}

/// A listing, for the part of it that comes next.
#[derive(Debug)]
struct Listing {
    /// Number of the operation for the worker.
    slot: usize,
    wanted: PendingListing,
    /// Entries that earlier parts have found.
    entries: Vec<DirectoryEntry>,
}

/// Listings that have paused, or wait for an earlier one of the same open.
#[derive(Debug, Default)]
pub(super) struct Listings {
    waiting: VecDeque<Listing>,
}

/// The outcome of a part.
#[derive(Debug)]
pub(super) enum Part {
    /// The listing has this result.
    Ended(ObjectResult),
    /// It has paused, with these entries.
    Paused(Vec<DirectoryEntry>),
}

impl PendingListing {
    /// Carries out a part of the listing.
    pub(super) fn list(self, store: &mut Store) -> Part {
        let Self { user, open, restart, detail, entries_max } = self;
        match store.start(user, ObjectOp::ReadDirectory { open, restart, detail, entries_max }) {
            Started::Done(Ok(ObjectReply::Entries(entries))) if store.take_paused_listing() => {
                Part::Paused(entries)
            }
            Started::Done(result) => Part::Ended(result),
            Started::Submit(..) => unreachable!("the ring lists no directories"),
        }
    }

    /// What is left of the listing behind these entries.
    fn behind(self, entries: &[DirectoryEntry]) -> Self {
        let listed = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        let entries_max = self.entries_max.saturating_sub(listed);
        Self { entries_max, restart: self.restart && entries.is_empty(), ..self }
    }
}

impl Listings {
    /// True if no listing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// True if a listing has to wait for an earlier one of its open.
    pub(super) fn delay(&self, wanted: PendingListing) -> bool {
        self.waiting.iter().any(|listing| listing.wanted.open == wanted.open)
    }

    /// Keeps a listing for later; `entries` are those of its first part.
    pub(super) fn keep(
        &mut self,
        slot: usize,
        wanted: PendingListing,
        entries: Vec<DirectoryEntry>,
    ) {
        let wanted = wanted.behind(&entries);
        self.waiting.push_back(Listing { slot, wanted, entries });
    }

    /// Carries out the next part of the listing that has waited longest; returns the listing's
    /// number and result if it has ended.
    pub(super) fn go_on(&mut self, store: &mut Store) -> Option<(usize, ObjectResult)> {
        let Listing { slot, wanted, mut entries } = self.waiting.pop_front()?;
        match wanted.list(store) {
            Part::Paused(mut more) => {
                let wanted = wanted.behind(&more);
                entries.append(&mut more);
                // Before later ones of its open.
                let later = self.waiting.iter().position(|it| it.wanted.open == wanted.open);
                let listing = Listing { slot, wanted, entries };
                self.waiting.insert(later.unwrap_or(self.waiting.len()), listing);
                None
            }
            Part::Ended(Ok(ObjectReply::Entries(mut more))) => {
                entries.append(&mut more);
                Some((slot, Ok(ObjectReply::Entries(entries))))
            }
            Part::Ended(result) => Some((slot, result)),
        }
    }
}
