//! Operations of the store that the kernel works on.

use proto::{ConnectionId, RequestId};
use store::Continuation;

/// Something for the kernel to do, and what the store does with its answer.
#[derive(Debug)]
pub(super) struct StoreRequest {
    pub(super) request: Option<RequestId>,
    pub(super) continuation: Continuation,
    pub(super) work: Work,
    /// Connection that the answer will be queued on, and its bytes.
    pub(super) promised: Option<(ConnectionId, usize)>,
}

/// The store's current operation, for tracing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) work: trace::StoreWork,
    /// Bytes that the buffer of a READ holds before it.
    pub(super) room: usize,
}
