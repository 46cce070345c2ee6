//! The clocks of the engine.

use process::clocks::{machine_clock, wall_clock};
use proto::Now;
use qos::{Device, Slot, Slots};
use tables::QosPage;

/// The page of all classes, with the clock for the times of operations.
#[derive(Debug)]
pub(super) struct TimedPage(pub(super) QosPage);

impl Slots for TimedPage {
    fn slots(&self) -> &[Slot] {
        self.0.slots()
    }

    fn devices(&self) -> &[Device] {
        self.0.devices()
    }

    fn clock(&self, now: u64) -> u64 {
        u64::try_from(machine_clock().as_nanos()).unwrap_or(now)
    }

    fn clients(&self) -> u32 {
        self.0.clients()
    }
}

/// Reads both clocks for the engine.
pub(super) fn read_clocks() -> Now {
    Now { monotonic: machine_clock(), wall: wall_clock() }
}
