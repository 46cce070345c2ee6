//! Operations of the store that the kernel or a storage thread works on.

use std::time::Duration;

use object::StoreNumber;
use proto::{ConnectionId, RequestId};
use store::Continuation;

/// An operation of the kernel or a storage thread, and its continuation in the store.
#[derive(Debug)]
pub(super) struct StoreRequest {
    pub(super) request: Option<RequestId>,
    /// The store's part of it; none while a storage thread works on it.
    pub(super) continuation: Option<Continuation>,
    pub(super) work: Work,
    /// Time at which it is reported to the engine as slow, by the clock of
    /// [`proto::Now::monotonic`]; none if it was.
    pub(super) slow_at: Option<Duration>,
    /// Its share of a storage thread.
    pub(super) held: Option<Held>,
    /// Connection that the answer will be queued on, and its bytes.
    pub(super) reserved: Option<(ConnectionId, usize)>,
}

/// Request that an operation is for, and the connection that waits for its data. Operations of the
/// engine itself have neither.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) request: Option<RequestId>,
    pub(super) connection: Option<ConnectionId>,
}

/// Share of a storage thread's memory that a request occupies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) store: StoreNumber,
    pub(super) bytes: usize,
    /// Length of a READ that has its buffer.
    pub(super) read: Option<usize>,
}

/// The store's current operation, for tracing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) work: trace::StoreWork,
    /// Bytes that the buffer of a READ holds before it.
    pub(super) room: usize,
    /// True while the worker's thread carries it out, in one go.
    pub(super) is_inline: bool,
}
