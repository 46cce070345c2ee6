//! Requests that wait for the answer of `logond`.

use std::time::Instant;

use dtyp::ServerId;
use proto::RequestId;

/// Requests that wait for the answer of `logond`. No more wait than are in flight.
#[derive(Debug, Default)]
pub(crate) struct AskedLogons {
    asked: Vec<AskedLogon>,
    last: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Ticket,
    Mic,
    Response,
    /// Names of the domain, for a pipe.
    Names,
}

#[derive(Debug)]
pub(super) struct AskedLogon {
    pub(super) number: u64,
    /// The `logond` that was asked.
    pub(super) of: ServerId,
    pub(super) request: RequestId,
    pub(super) kind: Kind,
    pub(super) until: Instant,
}

impl AskedLogons {
    pub(super) fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn add(&mut self, asked: AskedLogon) {
        self.asked.push(asked);
    }

    /// Takes the question with this number, if this process was asked.
    pub(super) fn take(&mut self, of: ServerId, number: u64) -> Option<AskedLogon> {
        let index = self.asked.iter().position(|it| it.number == number && it.of == of)?;
        Some(self.asked.swap_remove(index))
    }

    pub(super) fn take_any(&mut self) -> Option<AskedLogon> {
        self.asked.pop()
    }

    pub(super) fn take_late(&mut self, now: Instant) -> Option<AskedLogon> {
        let index = self.asked.iter().position(|it| it.until <= now)?;
        Some(self.asked.swap_remove(index))
    }

    /// Returns the next call of `Worker::serve_asked_logon_timeouts`.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.asked.iter().map(|it| it.until).min()
    }
}
