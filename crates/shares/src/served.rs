//! Lines of the log that a request causes.
//!
//! Users may have as many as they like. Guests have no password, and could replace the whole log
//! with lines of theirs: what concerns them is for an operator who debugs.

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
        match $crate::told::serves_guest() {
            true => tracing::debug!($($line)*),
            false => tracing::warn!($($line)*),
        }
    };
}

/// As `tracing::info`; as `tracing::debug` while a guest is served.
macro_rules! info_for_user {
    ($($line:tt)*) => {
        match $crate::told::serves_guest() {
            true => tracing::debug!($($line)*),
            false => tracing::info!($($line)*),
        }
    };
}

pub(super) use {info_for_user, warn_for_user};
