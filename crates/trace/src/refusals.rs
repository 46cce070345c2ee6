//! Counters of refused requests, by reason and command.
//!
//! Few of all pairs occur in the life of a worker, so each takes a place when it is first counted.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::memory::populate;
use crate::names::{Kind as _, Operation};
use crate::reason::Reason;
use crate::series::add;

/// Highest number of pairs of reason and command with their own counter; the rest share one.
pub const REFUSALS_MAX: usize = Reason::NAMES.len();

/// Places for pairs of reason and command.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Refusals {
    places: [Place; REFUSALS_MAX],
    taken: AtomicUsize,
    others: AtomicU64,
}

#[derive(Debug)]
#[repr(C)]
struct Place {
    reason: AtomicU64,
    operation: AtomicU64,
    count: AtomicU64,
}

/// Number of requests with one command that were refused for one reason.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refused {
    /// Rule that the requests broke.
    pub reason: Reason,
    /// Command of all these requests.
    pub operation: Operation,
    /// Number of these requests so far.
    pub count: u64,
}

impl Refusals {
    /// Bytes at the start without need of memory before the first refusal.
    pub(crate) const UNUSED_BYTES: usize = offset_of!(Self, taken);

    /// Counts a request that was refused.
    pub(crate) fn add(&self, reason: Reason, operation: Operation) {
        let taken = self.taken.load(Ordering::Relaxed).min(REFUSALS_MAX);
        let key = (reason.number(), operation.number());
        if let Some(place) = self.places[..taken].iter().find(|place| place.key() == key) {
            add(&place.count, 1);
        } else if let Some(place) = self.places.get(taken).filter(|it| has_memory(it)) {
            place.reason.store(key.0, Ordering::Relaxed);
            place.operation.store(key.1, Ordering::Relaxed);
            place.count.store(1, Ordering::Relaxed);
            // A reader that sees the place as taken sees all of it.
            self.taken.store(taken + 1, Ordering::Release);
        } else {
            add(&self.others, 1);
        }
    }

    /// Returns the counts, in the order of the numbers of reasons and commands.
    pub(crate) fn read(&self) -> Vec<Refused> {
        let taken = self.taken.load(Ordering::Acquire).min(REFUSALS_MAX);
        let mut refusals: Vec<Refused> = self.places[..taken].iter().map(Place::read).collect();
        refusals.sort_unstable_by_key(Refused::key);
        refusals
    }

    /// Number of refused requests without a place.
    pub(crate) fn others(&self) -> u64 {
        self.others.load(Ordering::Relaxed)
    }
}

/// Allocates memory for a place. Returns false if there is none: a store would kill the process.
fn has_memory(place: &Place) -> bool {
    populate(place, size_of::<Place>())
}

impl Place {
    fn key(&self) -> (u64, u64) {
        (self.reason.load(Ordering::Relaxed), self.operation.load(Ordering::Relaxed))
    }

    fn read(&self) -> Refused {
        let (reason, operation) = self.key();
        Refused {
            reason: Reason::from_number(reason),
            operation: Operation::from_number(operation),
            count: self.count.load(Ordering::Relaxed),
        }
    }
}

impl Refused {
    fn key(&self) -> (u64, u64) {
        (self.reason.number(), self.operation.number())
    }
}

/// Returns the differences to an earlier moment that are not zero.
pub(crate) fn since(now: &[Refused], earlier: &[Refused]) -> Vec<Refused> {
    let before = |it: &Refused| earlier.iter().find(|other| other.key() == it.key());
    let difference = |it: &Refused| {
        let count = it.count.wrapping_sub(before(it).map_or(0, |before| before.count));
        Refused { count, ..*it }
    };
    now.iter().map(difference).filter(|it| it.count != 0).collect()
}

/// Adds the counts of another worker.
pub(crate) fn merge(mine: &mut Vec<Refused>, theirs: &[Refused]) {
    for refused in theirs {
        match mine.binary_search_by_key(&refused.key(), Refused::key) {
            Ok(at) => mine[at].count = mine[at].count.wrapping_add(refused.count),
            Err(at) => mine.insert(at, *refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{REFUSALS_MAX, Refusals, Refused, merge, since};
    use crate::names::Operation;
    use crate::page::Page;
    use crate::reason::Reason;

    fn refused(reason: Reason, operation: Operation, count: u64) -> Refused {
        Refused { reason, operation, count }
    }

    fn with<R>(test: impl FnOnce(&Refusals) -> R) -> R {
        let page = Page::private().expect("there is memory");
        test(&page.layout().refusals)
    }

    #[test]
    fn a_reason_is_counted_for_each_command_and_sorted_by_number() {
        with(|refusals| {
            refusals.add(Reason::NotSigned, Operation::Read);
            refusals.add(Reason::BadSignature, Operation::Write);
            refusals.add(Reason::NotSigned, Operation::Read);
            refusals.add(Reason::NotSigned, Operation::Create);
            assert_eq!(
                refusals.read(),
                [
                    refused(Reason::BadSignature, Operation::Write, 1),
                    refused(Reason::NotSigned, Operation::Create, 1),
                    refused(Reason::NotSigned, Operation::Read, 2),
                ]
            );
        });
    }

    #[test]
    fn pairs_without_a_place_are_counted_together() {
        with(|refusals| {
            let pairs = Operation::ALL
                .iter()
                .flat_map(|operation| Reason::ALL.iter().map(move |reason| (*reason, *operation)));
            for (reason, operation) in pairs.take(REFUSALS_MAX + 3) {
                refusals.add(reason, operation);
            }
            refusals.add(Reason::NotSigned, Operation::Negotiate);
            assert_eq!((refusals.read().len(), refusals.others()), (REFUSALS_MAX, 3));
            let twice = refused(Reason::NotSigned, Operation::Negotiate, 2);
            assert!(refusals.read().contains(&twice));
        });
    }

    #[test]
    fn counts_of_workers_add_up_and_earlier_ones_are_taken_off() {
        let one = [refused(Reason::BadSignature, Operation::Read, 1)];
        let two = [
            refused(Reason::BadSignature, Operation::Read, 3),
            refused(Reason::NotSigned, Operation::Echo, 1),
        ];
        assert_eq!(since(&two, &one), [refused(Reason::BadSignature, Operation::Read, 2), two[1]]);
        assert_eq!(since(&two, &two), []);
        let mut sum = two.to_vec();
        merge(&mut sum, &one);
        assert_eq!(sum, [refused(Reason::BadSignature, Operation::Read, 4), two[1]]);
        let mut sum = one.to_vec();
        merge(&mut sum, &two);
        assert_eq!(sum, [refused(Reason::BadSignature, Operation::Read, 4), two[1]]);
    }
}
