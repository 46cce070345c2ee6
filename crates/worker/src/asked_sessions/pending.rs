//! Requests that wait for the answer of another worker.

use std::time::Instant;

use dtyp::ServerId;
use proto::RequestId;

/// Requests that wait for the answer of another worker.
#[derive(Debug, Default)]
pub(crate) struct AskedSessions {
    pub(super) questions: Vec<SessionQuestion>,
    last_id: u64,
}

#[derive(Debug)]
pub(super) struct SessionQuestion {
    pub(super) id: u64,
    pub(super) of: ServerId,
    pub(super) request: RequestId,
    pub(super) until: Instant,
}

impl AskedSessions {
    /// Returns an id for a question.
    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id = self.last_id.wrapping_add(1);
        self.last_id
    }

    /// Returns the next call of `Worker::serve_asked_session_timeouts`.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.questions.iter().map(|it| it.until).min()
    }
}
