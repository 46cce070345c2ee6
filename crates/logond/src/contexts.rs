//! Contexts of accepted tickets whose client still has to sign the list of mechanisms.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dtyp::ServerId;

/// Contexts by number. A client that does not go on loses its own.
#[derive(Debug)]
pub(crate) struct Contexts<C>(Mutex<Kept<C>>);

#[derive(Debug)]
struct Kept<C> {
    by_number: BTreeMap<u64, Entry<C>>,
    last: u64,
    /// Hash function for the names of owners.
    owners: RandomState,
}

#[derive(Debug)]
struct Entry<C> {
    worker: ServerId,
    /// Hash of the ticket's owner.
    owner: u64,
    until: Instant,
    context: C,
}

impl<C> Default for Contexts<C> {
    fn default() -> Self {
        Self(Mutex::new(Kept { by_number: BTreeMap::new(), last: 0, owners: RandomState::new() }))
    }
}

impl<C> Contexts<C> {
    /// Keeps a context of a ticket's owner for its worker, and returns its number; `None` if there
    /// are too many of that worker. If there are too many of all, the owner who has most loses the
    /// oldest: neither a client nor a user can take the room of all others.
    pub(crate) fn keep(
        &self,
        now: Instant,
        worker: ServerId,
        owner: &str,
        context: C,
    ) -> Option<u64> {
        let mut kept = self.lock();
        kept.by_number.retain(|_, it| it.until > now);
        let of_worker = kept.by_number.values().filter(|it| it.worker == worker).count();
        if of_worker >= PER_WORKER_MAX {
            return None;
        }
        if kept.by_number.len() >= CONTEXTS_MAX {
            kept.evict_oldest();
        }
        kept.last += 1;
        let (number, owner) = (kept.last, kept.owners.hash_one(owner));
        let entry = Entry { worker, owner, until: now + CONTEXT_TIMEOUT, context };
        kept.by_number.insert(number, entry);
        Some(number)
    }

    /// Takes a worker's own context, once.
    pub(crate) fn take(&self, now: Instant, worker: ServerId, number: u64) -> Option<C> {
        let mut kept = self.lock();
        let is_own = kept.by_number.get(&number).is_some_and(|it| it.worker == worker);
        let entry = is_own.then(|| kept.by_number.remove(&number)).flatten()?;
        (entry.until > now).then_some(entry.context)
    }

    fn lock(&self) -> MutexGuard<'_, Kept<C>> {
        // Nothing panics with the lock held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> Kept<C> {
    /// Forgets the oldest context of the owner who has most.
    fn evict_oldest(&mut self) {
        let mut counts: HashMap<u64, usize> = HashMap::new();
        for entry in self.by_number.values() {
            *counts.entry(entry.owner).or_default() += 1;
        }
        let most = counts.values().max().copied().unwrap_or_default();
        let oldest = self.by_number.iter().find(|(_, it)| counts[&it.owner] == most);
        if let Some(number) = oldest.map(|(number, _)| *number) {
            self.by_number.remove(&number);
        }
    }
}

/// Contexts that wait for a signature. A client needs one round trip for it.
const CONTEXTS_MAX: usize = 1_024;
/// The same for one worker, whose client logs on over as many connections at once.
const PER_WORKER_MAX: usize = 16;
/// Time that a client has for its signature.
const CONTEXT_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use dtyp::ServerId;

    use super::{CONTEXT_TIMEOUT, CONTEXTS_MAX, Contexts, PER_WORKER_MAX};

    fn worker(pid: u32) -> ServerId {
        ServerId { pid, unique_id: 1 }
    }

    #[test]
    fn a_context_is_its_worker_s_and_taken_once() {
        let (contexts, now) = (Contexts::default(), Instant::now());
        let number = contexts.keep(now, worker(1), "alice", "context").expect("there is room");
        assert_eq!(contexts.take(now, worker(2), number), None);
        assert_eq!(contexts.take(now, worker(1), number + 1), None);
        assert_eq!(contexts.take(now, worker(1), number), Some("context"));
        assert_eq!(contexts.take(now, worker(1), number), None);
    }

    #[test]
    fn a_worker_cannot_take_the_room_of_the_others() {
        let (contexts, now) = (Contexts::default(), Instant::now());
        let greedy = (0..CONTEXTS_MAX).filter_map(|_| contexts.keep(now, worker(1), "alice", 0));
        let numbers: Vec<u64> = greedy.collect();
        assert_eq!(numbers.len(), PER_WORKER_MAX);
        contexts.keep(now, worker(2), "alice", 0).expect("others have room");
        contexts.take(now, worker(1), numbers[0]).expect("it is the worker's own");
        contexts.keep(now, worker(1), "alice", 0).expect("one is finished");
        assert_eq!(contexts.keep(now, worker(1), "alice", 0), None);
    }

    #[test]
    fn a_user_cannot_take_the_room_of_the_others() {
        let (contexts, now) = (Contexts::default(), Instant::now());
        let bobs = contexts.keep(now, worker(0), "bob", 0).expect("there is room");
        let greedy = (1..5_000).map(|pid| (worker(pid), "mallory"));
        let numbers: Vec<u64> = greedy
            .map(|(worker, owner)| contexts.keep(now, worker, owner, 0).expect("others give way"))
            .collect();
        let carols = contexts.keep(now, worker(0), "carol", 0).expect("others give way");
        assert_eq!(contexts.take(now, worker(0), bobs), Some(0));
        assert_eq!(contexts.take(now, worker(0), carols), Some(0));
        assert_eq!(contexts.take(now, worker(1), numbers[0]), None, "the oldest is forgotten");
        let last = numbers.last().copied().expect("there are some");
        assert_eq!(contexts.take(now, worker(4_999), last), Some(0));
    }

    #[test]
    fn contexts_are_bounded_in_number_and_time() {
        let (contexts, now) = (Contexts::default(), Instant::now());
        let keep = |now, number: usize| {
            let pid = u32::try_from(number).expect("a pid");
            contexts.keep(now, worker(pid), &number.to_string(), 0).expect("others give way")
        };
        let numbers: Vec<u64> = (0..=CONTEXTS_MAX).map(|number| keep(now, number)).collect();
        assert_eq!(contexts.lock().by_number.len(), CONTEXTS_MAX);
        assert_eq!(contexts.take(now, worker(0), numbers[0]), None, "it was the oldest");
        assert_eq!(contexts.take(now, worker(1), numbers[1]), Some(0));
        let later = now + CONTEXT_TIMEOUT;
        assert_eq!(contexts.take(later, worker(2), numbers[2]), None, "it is too late");
        keep(later, 1);
        assert_eq!(contexts.lock().by_number.len(), 1, "the others are over");
    }
}
