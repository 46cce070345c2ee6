//! Names of requests between the worker and the engine.

/// Names a request between the worker and the engine.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RequestId(pub u64);
