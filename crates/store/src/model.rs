//! The shares, opens and paths that all operations work on.

pub(crate) mod listing;
pub(crate) mod opens;
pub(crate) mod place;
pub(crate) mod root;
pub(crate) mod stream_name;
pub(crate) mod subject;
