//! The shares, opens and paths that all operations of the store work on. The crate `model`, of the
//! engine, is another one; an `opens::Open` here is the `LocalOpen` there.

pub(crate) mod depot_path;
pub(crate) mod folder;
pub(crate) mod held_locks;
pub(crate) mod listing;
pub(crate) mod opens;
pub(crate) mod place;
pub(crate) mod root;
pub(crate) mod secured_object;
pub(crate) mod stream_name;
