//! Identity of a request between the worker and the engine.

/// Identifies a request between the worker and the engine.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RequestId(pub u64);
