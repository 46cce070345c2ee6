//! Contexts of accepted tickets whose client still has to sign the list of mechanisms.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dtyp::ServerId;

/// Contexts by number. A client that does not go on loses its own.
#[derive(Debug)]
pub(crate) struct Contexts<C>(Mutex<Kept<C>>);

#[derive(Debug)]
struct Kept<C> {
    by_number: HashMap<u64, (ServerId, Instant, C)>,
    last: u64,
}

impl<C> Default for Contexts<C> {
    fn default() -> Self {
        Self(Mutex::new(Kept { by_number: HashMap::new(), last: 0 }))
    }
}

impl<C> Contexts<C> {
    /// Keeps a context for its worker, and returns its number; `None` if there are too many, or too
    /// many of that worker: one client must not take the room of all others.
    pub(crate) fn keep(&self, now: Instant, of: ServerId, context: C) -> Option<u64> {
        let mut kept = self.lock();
        kept.by_number.retain(|_, (_, until, _)| *until > now);
        let of_worker = kept.by_number.values().filter(|(owner, ..)| *owner == of).count();
        if kept.by_number.len() >= CONTEXTS_MAX || of_worker >= PER_WORKER_MAX {
            return None;
        }
        kept.last += 1;
        let number = kept.last;
        kept.by_number.insert(number, (of, now + CONTEXT_TIMEOUT, context));
        Some(number)
    }

    /// Takes a worker's own context, once.
    pub(crate) fn take(&self, now: Instant, of: ServerId, number: u64) -> Option<C> {
        let mut kept = self.lock();
        let is_own = kept.by_number.get(&number).is_some_and(|(owner, ..)| *owner == of);
        let (_, until, context) = is_own.then(|| kept.by_number.remove(&number)).flatten()?;
        (until > now).then_some(context)
    }

    fn lock(&self) -> MutexGuard<'_, Kept<C>> {
        // Nothing panics with the lock held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        let number = contexts.keep(now, worker(1), "context").expect("there is room");
        assert_eq!(contexts.take(now, worker(2), number), None);
        assert_eq!(contexts.take(now, worker(1), number + 1), None);
        assert_eq!(contexts.take(now, worker(1), number), Some("context"));
        assert_eq!(contexts.take(now, worker(1), number), None);
    }

    #[test]
    fn a_worker_cannot_take_the_room_of_the_others() {
        let (contexts, now) = (Contexts::default(), Instant::now());
        let greedy = (0..CONTEXTS_MAX).filter_map(|_| contexts.keep(now, worker(1), 0));
        let numbers: Vec<u64> = greedy.collect();
        assert_eq!(numbers.len(), PER_WORKER_MAX);
        contexts.keep(now, worker(2), 0).expect("others have room");
        contexts.take(now, worker(1), numbers[0]).expect("it is the worker's own");
        contexts.keep(now, worker(1), 0).expect("one is finished");
        assert_eq!(contexts.keep(now, worker(1), 0), None);
    }

    #[test]
    fn contexts_are_bounded_in_number_and_time() {
        let (contexts, now) = (Contexts::default(), Instant::now());
        let first = contexts.keep(now, worker(0), 0).expect("there is room");
        let last = u32::try_from(CONTEXTS_MAX).expect("a number");
        for number in 1..last {
            contexts.keep(now, worker(number), 0).expect("there is room");
        }
        assert_eq!(contexts.keep(now, worker(last), 0), None);
        let later = now + CONTEXT_TIMEOUT;
        assert_eq!(contexts.take(later, worker(1), first), None, "it is too late");
        contexts.keep(later, worker(1), 0).expect("the others are over");
    }
}
