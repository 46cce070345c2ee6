//! Sharing, locking and caching conflicts as pure functions over records.
//!
//! A record says who has a file open and how; a function says whether one more may. Nothing here
//! knows where records are kept or how anyone is told.

#![forbid(unsafe_code)]

pub mod byte_range;
pub mod share_mode;

pub use byte_range::{ByteRange, ByteRangeLock, LockError, LockList, RangeAccess};
pub use share_mode::{ShareMode, conflict};
