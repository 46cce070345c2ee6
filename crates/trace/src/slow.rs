//! Slow requests, kept until the worker logs them.

use crate::names::{Operation, Phase};
use crate::reason::Reason;

/// Highest number of slow requests kept for the log. Further ones are only counted.
pub const SLOW_MAX: usize = 64;

/// A slow request, with its time by phase.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SlowRequest {
    /// MessageId of the request, for the log.
    pub mid: u64,
    /// Command of the request, for the log.
    pub operation: Operation,
    /// NTSTATUS of the response, for the log.
    pub status: u32,
    /// Reason of a refusal, and its sentence in English.
    pub refusal: Option<(Reason, String)>,
    /// Duration in nanoseconds, without waiting for an event.
    pub ns: u64,
    /// Phases of the request, in nanoseconds.
    pub phases: Vec<(Phase, u64)>,
    /// Name of the user, if the session has its own place.
    pub user: String,
    /// Name of the share, likewise.
    pub share: String,
    /// Open that the request named or created.
    pub open: Option<u64>,
    /// Path of the file, if it was set while the request was served.
    pub path: Option<String>,
}

/// Slow requests that were not logged yet.
#[derive(Debug, Default)]
pub(crate) struct Slow {
    requests: Vec<SlowRequest>,
    left_out: u64,
}

impl Slow {
    pub(crate) fn push(&mut self, request: SlowRequest) {
        if self.requests.len() < SLOW_MAX {
            self.requests.push(request);
        } else {
            self.left_out += 1;
        }
    }

    /// Returns the requests, and the number of further ones.
    pub(crate) fn into_parts(self) -> (Vec<SlowRequest>, u64) {
        (self.requests, self.left_out)
    }
}
