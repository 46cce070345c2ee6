//! Deliberate mistakes, with which `make mutations` shows that tests would notice them: those of
//! failing channels, and the attacker's list.
//!
//! They are only in builds with the feature `mutations`, and no release can be built with it. Which
//! one is made stands in the environment. All are here, in a crate below all others, so that any
//! crate can make one.

#![forbid(unsafe_code)]

#[cfg(all(feature = "mutations", not(debug_assertions)))]
compile_error!("the feature `mutations` breaks the server on purpose: it is for debug builds only");

/// Faults that tests can switch on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mistake {
    /// A break that is lost on its way is not sent again.
    BreaksSentOnce,
    /// Processes may make all system calls.
    CallsUnfiltered,
    /// Processes keep all capabilities of the supervisor.
    CapabilitiesKept,
    /// Commands run that are not in the configuration.
    CommandsUnverified,
    /// Connections are passed on without waiting for the other worker's answer.
    PassesUnasked,
    /// Paths, TCP and signals of processes have no rules.
    PathsUnrestricted,
    /// Repeated requests are executed again.
    ReplaysUndetected,
    /// Rings of workers take all operations.
    RingUnrestricted,
    /// Messages count as those of the process that they name.
    SendersUnverified,
    /// Keys of sessions are lent for messages that they have not signed.
    SessionsLent,
}

/// Names the mistake that is to be made, as it is spelled here.
#[cfg(feature = "mutations")]
const VARIABLE: &str = "CHORO_MISTAKE";

/// Whether this mistake is to be made.
#[cfg(feature = "mutations")]
#[must_use]
pub fn is_made(mistake: Mistake) -> bool {
    std::env::var(VARIABLE).is_ok_and(|it| it == format!("{mistake:?}"))
}

/// Whether this mistake is to be made: none is.
#[cfg(not(feature = "mutations"))]
#[must_use]
pub const fn is_made(_: Mistake) -> bool {
    false
}
