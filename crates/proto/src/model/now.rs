//! The time at which something happens: the engine reads no clock.

use std::time::Duration;

use dtyp::FileTime;

/// When something happens.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Now {
    /// Since some moment before the server began; never goes back.
    pub monotonic: Duration,
    /// The time of day.
    pub wall: FileTime,
}
