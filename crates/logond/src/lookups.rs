//! Look-ups of names and SIDs in the domain, which no logon waits for.
//!
//! A question may have hundreds of names, and anonymous users may ask. So a thread looks up some of
//! them at a time, and workers take turns; all guests and anonymous users together have one.

use std::time::Instant;

use crate::jobs::Job;
use crate::lookup::Lookup;
use crate::pool::Pool;
use crate::under_way::UnderWay;

/// Questions of one worker that are under way.
const LOOKUPS_MAX: u32 = 32;

/// The same for a worker whose client is a guest or anonymous. Programs ask one at a time.
const GUEST_LOOKUPS_MAX: u32 = 4;

/// Questions that are under way, and their threads.
#[derive(Debug)]
pub(crate) struct Lookups {
    pool: Pool<Job>,
    under_way: UnderWay,
}

impl Lookups {
    pub(crate) fn new(pool: Pool<Job>) -> Self {
        Self { pool, under_way: UnderWay::default() }
    }

    /// Gives a question to the threads. Returns one that has to be answered as it is: this one, or
    /// another one that had to make room.
    pub(crate) fn begin(&mut self, lookup: Lookup) -> Option<Lookup> {
        let max = if lookup.is_guest { GUEST_LOOKUPS_MAX } else { LOOKUPS_MAX };
        if !self.under_way.permits(lookup.asker, max) {
            return Some(lookup);
        }
        self.under_way.add(lookup.asker);
        self.add(lookup)
    }

    /// Takes a question back from a thread. Returns one that has to be answered.
    pub(crate) fn finish(&mut self, now: Instant, lookup: Lookup) -> Option<Lookup> {
        if lookup.is_complete() || lookup.until <= now {
            return Some(self.end(lookup));
        }
        self.add(lookup)
    }

    fn add(&mut self, lookup: Lookup) -> Option<Lookup> {
        let added = self.pool.add_of(lookup.party(), Job::Names(lookup));
        match added.unwrap_or_else(Some) {
            Some(Job::Names(displaced)) => Some(self.end(displaced)),
            _ => None,
        }
    }

    fn end(&mut self, lookup: Lookup) -> Lookup {
        self.under_way.remove(lookup.asker);
        lookup
    }
}

#[cfg(test)]
mod tests;
