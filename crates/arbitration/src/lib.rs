//! Sharing, locking and caching conflicts as pure functions over records.

#![forbid(unsafe_code)]
