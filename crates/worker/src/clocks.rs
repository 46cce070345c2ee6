//! The clocks of the engine.

use process::clocks::{machine_clock, wall_clock};
use proto::Now;

/// Reads both clocks for the engine.
pub(super) fn read_clocks() -> Now {
    Now { monotonic: machine_clock(), wall: wall_clock() }
}
