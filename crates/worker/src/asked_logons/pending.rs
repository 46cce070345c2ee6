//! Requests that wait for the answer of `logond`.

use std::time::Instant;

use dtyp::ServerId;
use proto::RequestId;
use zeroize::Zeroizing;

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
    /// Response of a user of the domain.
    Response,
    /// Response of a user of this server.
    OwnResponse,
    /// Names of the domain, for a pipe.
    Names,
}

impl Kind {
    /// True if a successor of a dead `logond` can answer. A ticket can be used once, and the
    /// context of its MIC is lost.
    pub(super) fn may_repeat(self) -> bool {
        matches!(self, Self::Response | Self::OwnResponse)
    }
}

/// A request, and the question that it waits for.
#[derive(Debug)]
pub(super) struct AskedLogon {
    pub(super) number: u64,
    /// The `logond` that was asked; none while there is none.
    pub(super) of: Option<ServerId>,
    pub(super) request: RequestId,
    pub(super) kind: Kind,
    pub(super) until: Instant,
    /// Data of a question that may be repeated.
    pub(super) data: Option<Zeroizing<Vec<u8>>>,
    /// Number of times that it was sent.
    pub(super) sends: u32,
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
        let index = self.asked.iter().position(|it| it.number == number && it.of == Some(of))?;
        Some(self.asked.swap_remove(index))
    }

    /// Takes all questions, also those that wait for a `logond`.
    pub(super) fn take_all(&mut self) -> Vec<AskedLogon> {
        std::mem::take(&mut self.asked)
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
