//! What a process knows of connections that are on their way between it and others: the decisions
//! of [`messaging::OfferConnection`], without sockets, clocks or messages.
//!
//! Whose a connection is:
//!
//! - The sender's, until it takes an answer in time and says "yours". It says so once, and never
//!   after it has served the connection itself.
//! - The receiver's from the moment at which it reads that. Until then it holds the socket and does
//!   nothing with it.
//!
//! So the receiver must not let go while a "yours" may be on its way to it: only when the sender is
//! dead, or has had more time than a message may wait.

#[cfg(test)]
mod exploration;

use std::time::{Duration, Instant};

use dtyp::ServerId;

/// How long the other process may take to answer. One that takes longer is stuck, and the client
/// better served here than waiting.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// How often to look meanwhile whether the other process is still there.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// How often whoever has accepted a connection looks whether its sender is still there.
const SENDER_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long a connection that was accepted is kept until it is settled whose it is. The sender says
/// so within [`ANSWER_TIMEOUT`], and what it says waits no longer than `QUEUE_TIMEOUT` of `messaging`.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(70);

/// Connections on their way from here to other processes, and from others to here. `N` is what is
/// known of a connection that is offered, `S` what was received of one that was accepted.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(in crate::worker) struct Handover<N, S> {
    last_offer_id: u64,
    offered: Vec<Offered<N>>,
    accepted: Vec<Accepted<S>>,
}

/// A connection that was offered to another process.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(in crate::worker) struct Offered<N> {
    pub(super) offer_id: u64,
    pub(super) to: ServerId,
    pub(super) newcomer: N,
    /// To how many others it may still be offered.
    pub(super) offers_left: u32,
    until: Instant,
    look_at: Instant,
}

/// A connection that another process has offered, and not given yet.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Accepted<S> {
    offer_id: u64,
    from: ServerId,
    received: S,
    until: Instant,
    look_at: Instant,
}

/// What an answer to an offer comes to.
#[derive(Debug)]
pub(super) enum Answered<N> {
    /// The other process is to be told that the connection is its own. If that fails, it is as if
    /// it had refused.
    Give(Offered<N>),
    /// It does not want it.
    Refused(Offered<N>),
    /// It comes too late: the other process is to be told that it gets nothing.
    TooLate(Option<Offered<N>>),
}

impl<N, S> Default for Handover<N, S> {
    fn default() -> Self {
        Self { last_offer_id: 0, offered: Vec::new(), accepted: Vec::new() }
    }
}

impl<N, S> Handover<N, S> {
    /// Whether nothing is on its way.
    pub(in crate::worker) fn is_idle(&self) -> bool {
        self.offered.is_empty() && self.accepted.is_empty()
    }

    /// Connections that may still come to be served here.
    pub(super) fn accepted(&self) -> usize {
        self.accepted.len()
    }

    /// When [`Handover::take_due`] and [`Handover::forget_dead`] are due.
    pub(in crate::worker) fn next_timeout(&self) -> Option<Instant> {
        let offered = self.offered.iter().map(|it| it.until.min(it.look_at));
        offered.chain(self.accepted.iter().map(|it| it.until.min(it.look_at))).min()
    }

    /// The name of the next offer.
    pub(super) fn next_offer_id(&mut self) -> u64 {
        self.last_offer_id += 1;
        self.last_offer_id
    }

    /// The offer has been sent.
    pub(super) fn offered(
        &mut self,
        now: Instant,
        (to, offer_id): (ServerId, u64),
        newcomer: N,
        offers_left: u32,
    ) {
        let (until, look_at) = (now + ANSWER_TIMEOUT, now + LOOK_INTERVAL);
        self.offered.push(Offered { offer_id, to, newcomer, offers_left, until, look_at });
    }

    /// What was offered by another process was accepted.
    pub(super) fn accept(&mut self, now: Instant, from: ServerId, offer_id: u64, received: S) {
        let (until, look_at) = (now + SETTLE_TIMEOUT, now + SENDER_LOOK_INTERVAL);
        self.accepted.push(Accepted { offer_id, from, received, until, look_at });
    }

    /// An offer was answered.
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
            // This process was stuck itself. The other one may not wait any more.
            Some(offered) if offered.until <= now => Answered::TooLate(Some(offered)),
            Some(offered) => Answered::Give(offered),
            None => Answered::TooLate(None),
        }
    }

    /// The sender has settled whose a connection is: gives what was received with it, if it is to
    /// be served here.
    pub(super) fn settled(&mut self, from: ServerId, offer_id: u64, yours: bool) -> Option<S> {
        let is_it = |it: &Accepted<S>| (it.from, it.offer_id) == (from, offer_id);
        let at = self.accepted.iter().position(is_it)?;
        let accepted = self.accepted.swap_remove(at);
        yours.then_some(accepted.received)
    }

    /// Offers that are not answered in time, or never will be: `serves` says whether a process still
    /// serves the client of a connection. It is to be told that it gets nothing.
    pub(super) fn take_due(
        &mut self,
        now: Instant,
        serves: impl Fn(ServerId, &N) -> bool,
    ) -> Vec<Offered<N>> {
        let mut due = Vec::new();
        for mut offered in std::mem::take(&mut self.offered) {
            let is_looked_at = offered.look_at <= now;
            if offered.until <= now || (is_looked_at && !serves(offered.to, &offered.newcomer)) {
                due.push(offered);
                continue;
            }
            if is_looked_at {
                offered.look_at = now + LOOK_INTERVAL;
            }
            self.offered.push(offered);
        }
        due
    }

    /// Lets go of accepted connections that nobody will settle. Whose sender is dead is nobody's:
    /// nothing is known of what it has said to the client. Its messages have to be read between the
    /// moment at which it was found dead and this one.
    pub(super) fn forget_dead(&mut self, now: Instant, is_alive: impl Fn(ServerId) -> bool) {
        self.accepted.retain_mut(|it| {
            let is_looked_at = it.look_at <= now;
            if it.until <= now || (is_looked_at && !is_alive(it.from)) {
                return false;
            }
            if is_looked_at {
                it.look_at = now + SENDER_LOOK_INTERVAL;
            }
            true
        });
    }

    /// Whether [`Handover::forget_dead`] has something to look at.
    pub(super) fn looks_for_senders(&self, now: Instant) -> bool {
        self.accepted.iter().any(|it| it.look_at <= now)
    }
}
