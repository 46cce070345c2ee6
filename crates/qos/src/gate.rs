//! The gate of a worker: requests that are over a limit wait here until they may begin.
//!
//! Requests that belong to the same classes and do the same (read, write, anything else) are a flow,
//! and keep their order. Of a flow only the first has taken what it costs, and knows when it may
//! begin: so a client that has a hundred requests waiting is no further ahead than one that has a
//! single one, and each worker that has a flow of a class gets its turn.

use std::collections::VecDeque;

use crate::class::{Classes, Cost, Kind};
use crate::slot::{Slots, changes, count, count_waiting, refund, reserve};

/// Bytes that the requests of one client which are held may move together. Beyond it nothing more is
/// received from the client.
pub const HELD_BYTES_MAX: u64 = 64 << 20;

/// Requests of one client that may be held.
pub const HELD_REQUESTS_MAX: usize = 1_024;

/// How often it is looked whether a limit was changed for which somebody waits.
pub const LOOK_INTERVAL_NS: u64 = 200_000_000;

/// What may become of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Admission {
    /// It begins.
    Begins,
    /// It is held: [`Gate::hold`] it.
    Waits,
}

/// The requests that are held; `T` names one.
#[derive(Debug)]
pub struct Gate<T> {
    slots: Box<dyn Slots>,
    flows: Vec<Flow<T>>,
    held_bytes: u64,
    held_requests: usize,
    looked_at: u64,
}

#[derive(Debug)]
struct Flow<T> {
    classes: Classes,
    kind: Kind,
    /// Never empty.
    waiting: VecDeque<Waiting<T>>,
    /// When the first may begin: it has taken what it costs.
    begins: u64,
    /// What [`changes`] said when it took that.
    changes: u32,
}

#[derive(Debug)]
struct Waiting<T> {
    what: T,
    cost: Cost,
    since: u64,
}

impl<T: Copy + Eq> Gate<T> {
    /// A gate over what all workers share.
    #[must_use]
    pub fn new(slots: Box<dyn Slots>) -> Self {
        Self { slots, flows: Vec::new(), held_bytes: 0, held_requests: 0, looked_at: 0 }
    }

    /// Whether a request may begin at `now` (nanoseconds of the machine's clock), or else keeps it.
    pub fn admit(&mut self, now: u64, classes: &Classes, cost: Cost, what: T) -> Admission {
        let slots = self.slots.slots();
        let same = |flow: &&mut Flow<T>| flow.kind == cost.kind && flow.classes == *classes;
        let waiting = Waiting { what, cost, since: now };
        if let Some(flow) = self.flows.iter_mut().find(same) {
            flow.waiting.push_back(waiting);
        } else {
            let begins = reserve(slots, classes, cost, now);
            if begins <= now {
                count(slots, classes, cost, None);
                return Admission::Begins;
            }
            let (changes, waiting) = (changes(slots, classes), VecDeque::from([waiting]));
            let (classes, kind) = (classes.clone(), cost.kind);
            self.flows.push(Flow { classes, kind, waiting, begins, changes });
        }
        count_waiting(slots, classes, true);
        self.held_bytes += cost.bytes;
        self.held_requests += 1;
        Admission::Waits
    }

    /// The next request that may begin at `now`.
    pub fn release(&mut self, now: u64) -> Option<T> {
        let slots = self.slots.slots();
        self.looked_at = now;
        for flow in &mut self.flows {
            let changes = changes(slots, &flow.classes);
            if changes != flow.changes {
                // With the limit, what was taken of it was forgotten.
                flow.changes = changes;
                let first = flow.waiting.front().expect("never empty");
                flow.begins = reserve(slots, &flow.classes, first.cost, now);
            }
        }
        let at = (0..self.flows.len()).min_by_key(|at| self.flows[*at].begins)?;
        let flow = self.flows.get_mut(at).filter(|flow| flow.begins <= now)?;
        let Waiting { what, cost, since } = flow.waiting.pop_front().expect("never empty");
        count(slots, &flow.classes, cost, Some(now.saturating_sub(since)));
        count_waiting(slots, &flow.classes, false);
        self.held_bytes -= cost.bytes;
        self.held_requests -= 1;
        match flow.waiting.front() {
            Some(next) => flow.begins = reserve(slots, &flow.classes, next.cost, now),
            None => drop(self.flows.swap_remove(at)),
        }
        Some(what)
    }

    /// Forgets a request that is held; whether it was.
    pub fn forget(&mut self, now: u64, what: T) -> bool {
        let slots = self.slots.slots();
        let find = |flow: &Flow<T>| flow.waiting.iter().position(|it| it.what == what);
        let found = self.flows.iter().enumerate().find_map(|(at, flow)| Some((at, find(flow)?)));
        let Some((at, place)) = found else { return false };
        let flow = &mut self.flows[at];
        let Waiting { cost, .. } = flow.waiting.remove(place).expect("found above");
        count_waiting(slots, &flow.classes, false);
        self.held_bytes -= cost.bytes;
        self.held_requests -= 1;
        if place == 0 {
            refund(slots, &flow.classes, cost);
            match flow.waiting.front() {
                Some(next) => flow.begins = reserve(slots, &flow.classes, next.cost, now),
                None => drop(self.flows.swap_remove(at)),
            }
        }
        true
    }

    /// When [`Gate::release`] is due.
    #[must_use]
    pub fn next_timeout(&self) -> Option<u64> {
        let begins = self.flows.iter().map(|flow| flow.begins).min()?;
        Some(begins.min(self.looked_at + LOOK_INTERVAL_NS))
    }

    /// Whether nothing is held.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.held_requests == 0
    }

    /// Whether no more is to be received from the client.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.held_bytes >= HELD_BYTES_MAX || self.held_requests >= HELD_REQUESTS_MAX
    }

    /// Whether there is room for many more: the client may have its credits back.
    #[must_use]
    pub const fn has_much_room(&self) -> bool {
        self.held_bytes < HELD_BYTES_MAX / 2 && self.held_requests < HELD_REQUESTS_MAX / 2
    }
}

impl<T> Drop for Gate<T> {
    /// What is held by a worker that ends will never begin, and must keep nobody else waiting.
    fn drop(&mut self) {
        let slots = self.slots.slots();
        for flow in &self.flows {
            flow.waiting.iter().for_each(|_| count_waiting(slots, &flow.classes, false));
            if let Some(first) = flow.waiting.front() {
                refund(slots, &flow.classes, first.cost);
            }
        }
    }
}

#[cfg(test)]
mod tests;
