//! Deliberate mistakes, with which `make mutations` shows that the tests of failing channels would
//! notice them.
//!
//! They are only in builds with the feature `mutations`, and no release can be built with it. Which
//! one is made stands in the environment.

#[cfg(all(feature = "mutations", not(debug_assertions)))]
compile_error!("the feature `mutations` breaks the server on purpose: it is for debug builds only");

/// Faults that tests can switch on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mistake {
    /// A break that is lost on its way is not sent again.
    BreaksSentOnce,
    /// Connections are passed on without waiting for the other worker's answer.
    PassesUnasked,
    /// Repeated requests are executed again.
    ReplaysUndetected,
}

/// Names the mistake that is to be made, as it is spelled here.
#[cfg(feature = "mutations")]
const VARIABLE: &str = "CHORO_MISTAKE";

/// Whether this mistake is to be made.
#[cfg(feature = "mutations")]
pub(crate) fn is_made(mistake: Mistake) -> bool {
    std::env::var(VARIABLE).is_ok_and(|it| it == format!("{mistake:?}"))
}

/// Whether this mistake is to be made: none is.
#[cfg(not(feature = "mutations"))]
pub const fn is_made(_: Mistake) -> bool {
    false
}
