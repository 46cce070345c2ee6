//! Requests that took longer than somebody wants to know.

use crate::names::{Operation, Phase};

/// Slow requests that wait until the worker has time to tell of them. Of further ones it is only
/// told how many they were.
pub const SLOW_MAX: usize = 64;

/// A request that took long, and where its time went.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SlowRequest {
    /// Its message id.
    pub mid: u64,
    /// What it asked for.
    pub operation: Operation,
    /// The NTSTATUS of its response.
    pub status: u32,
    /// How long it took, in nanoseconds; what it waited for an event is not counted.
    pub ns: u64,
    /// The phases that it went through, in nanoseconds.
    pub phases: Vec<(Phase, u64)>,
    /// Its user, if there is a session that has a place of its own.
    pub user: String,
    /// Its share, likewise.
    pub share: String,
    /// The open that it was about.
    pub open: Option<u64>,
    /// The path that it was about, if it was said while it was served.
    pub path: Option<String>,
}

/// What was slow.
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

    /// The requests, and how many more there were.
    pub(crate) fn into_parts(self) -> (Vec<SlowRequest>, u64) {
        (self.requests, self.left_out)
    }
}
