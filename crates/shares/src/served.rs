//! The standing of the requester that this thread serves: a guest or not.
//!
//! Guests have no password, and may be any number. So the name service answers their questions
//! last, and lines of the log about them are for an operator who debugs: they could replace the
//! whole log with others.

use std::cell::Cell;

thread_local! {
    static SERVES_GUEST: Cell<bool> = const { Cell::new(false) };
}

/// Notes whether the requests that this thread serves from now on are a guest's.
pub(super) fn serve_guest(is_guest: bool) {
    SERVES_GUEST.set(is_guest);
}

/// True while this thread serves a guest.
pub(super) fn serves_guest() -> bool {
    SERVES_GUEST.get()
}

/// Serves a part of a request, perhaps on another thread than the rest of it.
pub(super) fn serving<T>(is_guest: bool, serve: impl FnOnce() -> T) -> T {
    let before = SERVES_GUEST.replace(is_guest);
    let served = serve();
    SERVES_GUEST.set(before);
    served
}

/// As `tracing::warn`; as `tracing::debug` while a guest is served.
macro_rules! warn_for_user {
    ($($line:tt)*) => {
        match $crate::served::serves_guest() {
            true => tracing::debug!($($line)*),
            false => tracing::warn!($($line)*),
        }
    };
}

/// As `tracing::info`; as `tracing::debug` while a guest is served.
macro_rules! info_for_user {
    ($($line:tt)*) => {
        match $crate::served::serves_guest() {
            true => tracing::debug!($($line)*),
            false => tracing::info!($($line)*),
        }
    };
}

pub(super) use {info_for_user, warn_for_user};
