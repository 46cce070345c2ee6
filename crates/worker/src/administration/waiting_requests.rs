//! Requests whose changes of shares are written and not in effect yet.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use proto::RequestId;
use rpc::TaskFailure;

/// Time for the supervisor to read the configuration.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Highest number of waiting requests; one more is answered before its change is in effect.
const WAITING_MAX: usize = 16;

/// A share that was written, and that the configuration should have.
#[derive(Debug)]
pub(super) struct AddedShare {
    pub(super) name: String,
    pub(super) path: PathBuf,
}

/// A change that was written, and that the supervisor has to read.
#[derive(Debug)]
pub(super) enum WrittenChange {
    /// A share, which the configuration may lack.
    Added(AddedShare),
    /// A change that needs no verification.
    Other,
    /// A share was added and, for this reason, removed again.
    Undone(TaskFailure),
}

/// A request whose answer depends on the configuration.
#[derive(Debug)]
pub(super) struct WaitingRequest {
    pub(super) request: RequestId,
    pub(super) change: WrittenChange,
    until: Instant,
}

/// Requests that wait for the supervisor, oldest first.
#[derive(Debug, Default)]
pub(crate) struct WaitingRequests(Vec<WaitingRequest>);

impl WaitingRequests {
    /// Keeps a request.
    ///
    /// # Errors
    /// There is no room for the change.
    pub(super) fn keep(
        &mut self,
        request: RequestId,
        change: WrittenChange,
        now: Instant,
    ) -> Result<(), WrittenChange> {
        if self.0.len() >= WAITING_MAX {
            return Err(change);
        }
        self.0.push(WaitingRequest { request, change, until: now + RELOAD_TIMEOUT });
        Ok(())
    }

    /// Returns the request that has waited longest.
    pub(super) fn take_oldest(&mut self) -> Option<WaitingRequest> {
        if self.0.is_empty() { None } else { Some(self.0.remove(0)) }
    }

    /// Returns a request that has waited too long.
    pub(super) fn take_late(&mut self, now: Instant) -> Option<RequestId> {
        let late = self.0.iter().position(|it| it.until <= now)?;
        Some(self.0.remove(late).request)
    }

    /// Time of the next result of [`WaitingRequests::take_late`].
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.0.iter().map(|it| it.until).min()
    }
}
