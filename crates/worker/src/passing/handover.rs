//! Handovers between this process and others: the decisions of [`messaging::OfferConnection`],
//! without sockets, clocks or messages.
//!
//! Owner of a connection:
//!
//! - the sender, until it gets an answer in time and sends "yours", which it does once, and never
//!   after it has served the connection itself;
//! - the receiver, from the moment at which it reads "yours". Until then it keeps the socket
//!   without using it.
//!
//! So the receiver must not close its copy while a "yours" may be on its way to it: only when the
//! sender is dead, or has had more time than a message may wait.

#[cfg(test)]
mod exploration;

use std::time::{Duration, Instant};

use dtyp::ServerId;

/// Longest time for the other process to answer. A slower one is stuck, and it is better to serve
/// the client here.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval of checks whether the other process is still alive, while an answer is due.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Interval of checks whether the sender of an accepted connection is still alive.
const SENDER_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Longest time to keep an accepted connection without its settlement. The sender settles within
/// [`ANSWER_TIMEOUT`], and its message waits no longer than `QUEUE_TIMEOUT` of `messaging`.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(70);

/// Connections being handed over from here to other processes, and from others to here. `N`
/// describes a connection offered here, `S` holds the contents of an accepted offer.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Handover<N, S> {
    last_offer_id: u64,
    offered: Vec<Offered<N>>,
    accepted: Vec<Accepted<S>>,
}

/// A connection that was offered to another process.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Offered<N> {
    pub(super) offer_id: u64,
    pub(super) to: ServerId,
    pub(super) newcomer: N,
    /// Number of further processes that it may be offered to.
    pub(super) offers_left: u32,
    until: Instant,
    check_at: Instant,
}

/// A connection that another process has offered, and not settled yet.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Accepted<S> {
    offer_id: u64,
    from: ServerId,
    received: S,
    until: Instant,
    check_at: Instant,
}

/// Consequence of an answer to an offer.
#[derive(Debug)]
pub(super) enum Answered<N> {
    /// Tell the other process that it owns the connection. If that fails, treat it as a refusal.
    Give(Offered<N>),
    /// The other process refuses the connection.
    Refused(Offered<N>),
    /// The answer is too late: tell the other process that it does not get the connection.
    TooLate(Option<Offered<N>>),
}

impl<N, S> Default for Handover<N, S> {
    fn default() -> Self {
        Self { last_offer_id: 0, offered: Vec::new(), accepted: Vec::new() }
    }
}

impl<N, S> Handover<N, S> {
    /// True if no handover is pending.
    pub(crate) fn is_idle(&self) -> bool {
        self.offered.is_empty() && self.accepted.is_empty()
    }

    /// Returns the number of connections that may still be taken over.
    pub(super) fn accepted(&self) -> usize {
        self.accepted.len()
    }

    /// Returns the time for the next [`Handover::take_due`] or [`Handover::forget_dead`].
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let offered = self.offered.iter().map(|it| it.until.min(it.check_at));
        offered.chain(self.accepted.iter().map(|it| it.until.min(it.check_at))).min()
    }

    /// Returns the id of the next offer.
    pub(super) fn next_offer_id(&mut self) -> u64 {
        self.last_offer_id += 1;
        self.last_offer_id
    }

    /// Adds an offer that has been sent.
    pub(super) fn offered(
        &mut self,
        now: Instant,
        (to, offer_id): (ServerId, u64),
        newcomer: N,
        offers_left: u32,
    ) {
        let (until, check_at) = (now + ANSWER_TIMEOUT, now + CHECK_INTERVAL);
        self.offered.push(Offered { offer_id, to, newcomer, offers_left, until, check_at });
    }

    /// Adds an accepted offer of another process.
    pub(super) fn accept(&mut self, now: Instant, from: ServerId, offer_id: u64, received: S) {
        let (until, check_at) = (now + SETTLE_TIMEOUT, now + SENDER_CHECK_INTERVAL);
        self.accepted.push(Accepted { offer_id, from, received, until, check_at });
    }

    /// Removes an offer, and evaluates its answer.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        (from, offer_id): (ServerId, u64),
        accepted: bool,
    ) -> Answered<N> {
        let is_it = |it: &Offered<N>| (it.to, it.offer_id) == (from, offer_id);
        let found = self.offered.iter().position(is_it).map(|at| self.offered.swap_remove(at));
        match found {
            Some(offered) if !accepted => Answered::Refused(offered),
            // This process was stuck itself. The other one may have given up waiting.
            Some(offered) if offered.until <= now => Answered::TooLate(Some(offered)),
            Some(offered) => Answered::Give(offered),
            None => Answered::TooLate(None),
        }
    }

    /// Removes an accepted offer. Returns its contents if this process now owns the connection.
    pub(super) fn settled(&mut self, from: ServerId, offer_id: u64, yours: bool) -> Option<S> {
        let is_it = |it: &Accepted<S>| (it.from, it.offer_id) == (from, offer_id);
        let at = self.accepted.iter().position(is_it)?;
        let accepted = self.accepted.swap_remove(at);
        yours.then_some(accepted.received)
    }

    /// Takes offers without an answer in time, and those to processes that no longer serve the
    /// client by `serves`. The other process must be told that it does not get the connection.
    pub(super) fn take_due(
        &mut self,
        now: Instant,
        serves: impl Fn(ServerId, &N) -> bool,
    ) -> Vec<Offered<N>> {
        let mut due = Vec::new();
        for mut offered in std::mem::take(&mut self.offered) {
            let is_checked = offered.check_at <= now;
            if offered.until <= now || (is_checked && !serves(offered.to, &offered.newcomer)) {
                due.push(offered);
                continue;
            }
            if is_checked {
                offered.check_at = now + CHECK_INTERVAL;
            }
            self.offered.push(offered);
        }
        due
    }

    /// Drops accepted connections without hope of a settlement. If the sender is dead, no process
    /// owns the connection, because the state of its conversation is lost. The sender's messages
    /// must be read between its death and this call.
    pub(super) fn forget_dead(&mut self, now: Instant, is_alive: impl Fn(ServerId) -> bool) {
        self.accepted.retain_mut(|it| {
            let is_checked = it.check_at <= now;
            if it.until <= now || (is_checked && !is_alive(it.from)) {
                return false;
            }
            if is_checked {
                it.check_at = now + SENDER_CHECK_INTERVAL;
            }
            true
        });
    }

    /// True if [`Handover::forget_dead`] has senders to check.
    pub(super) fn must_check_senders(&self, now: Instant) -> bool {
        self.accepted.iter().any(|it| it.check_at <= now)
    }
}
