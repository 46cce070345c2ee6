//! Requests that wait for the answer of another worker.

use std::time::Instant;

use dtyp::ServerId;
use proto::RequestId;

/// Requests that wait for the answer of another worker.
#[derive(Debug, Default)]
pub(crate) struct AskedSessions(pub(super) Vec<SessionQuestion>);

#[derive(Debug)]
pub(super) struct SessionQuestion {
    pub(super) session_id: u64,
    pub(super) of: ServerId,
    pub(super) request: RequestId,
    pub(super) until: Instant,
}

impl AskedSessions {
    /// Returns the next call of `Worker::serve_asked_session_timeouts`.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.0.iter().map(|it| it.until).min()
    }
}
