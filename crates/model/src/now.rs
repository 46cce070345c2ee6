//! The current time, given to the engine, which reads no clock.

use std::time::Duration;

use dtyp::FileTime;

/// A moment on both clocks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Now {
    /// Time since some moment before the server began; never goes back.
    pub monotonic: Duration,
    /// Time of day, which may jump.
    pub wall: FileTime,
}
