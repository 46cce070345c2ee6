//! Listings that take long, in parts: between two of them the worker serves everything else.

use std::collections::VecDeque;

use object::{EntryDetail, LocalOpen, ObjectOp, ObjectReply, ObjectResult, UserId};
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
}

/// Listings that have paused, or wait for an earlier one of the same open.
#[derive(Debug, Default)]
pub(super) struct Listings {
    waiting: VecDeque<Listing>,
}

impl PendingListing {
    /// Carries out a part of the listing. `None` if it has paused; the store has its entries.
    pub(super) fn list(self, store: &mut Store) -> Option<ObjectResult> {
        let Self { user, open, restart, detail, entries_max } = self;
        match store.start(user, ObjectOp::ReadDirectory { open, restart, detail, entries_max }) {
            Started::Done(Ok(ObjectReply::Entries(found))) if store.take_paused_listing() => {
                store.continue_listing(open, found);
                None
            }
            Started::Done(result) => Some(result),
            Started::Submit(..) => unreachable!("the ring lists no directories"),
        }
    }

    /// The rest of the listing.
    pub(super) fn rest(self) -> Self {
        Self { restart: false, ..self }
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

    /// Keeps a listing that has paused or has to wait, for later.
    pub(super) fn keep(&mut self, slot: usize, wanted: PendingListing) {
        self.waiting.push_back(Listing { slot, wanted });
    }

    /// Carries out the next part of the listing that has waited longest; returns the listing's
    /// number and result if it has ended.
    pub(super) fn list_next_part(&mut self, store: &mut Store) -> Option<(usize, ObjectResult)> {
        let Listing { slot, wanted } = self.waiting.pop_front()?;
        let result = wanted.list(store);
        if result.is_none() {
            // Before later ones of its open.
            let later = self.waiting.iter().position(|it| it.wanted.open == wanted.open);
            let listing = Listing { slot, wanted: wanted.rest() };
            self.waiting.insert(later.unwrap_or(self.waiting.len()), listing);
        }
        result.map(|result| (slot, result))
    }
}
