//! Processors of client and server.
//!
//! Waking a task on another, halted processor takes long, and the time depends on the load by other
//! virtual machines. So loads with one request at a time run with client and server on one
//! processor, where wall time is the sum of the work of both; loads with several requests in flight
//! run unpinned.

use std::time::Duration;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::server::Server;

/// Processors available to the loads.
#[derive(Clone, Copy, Debug)]
pub struct Processors {
    all: CpuSet,
    one: CpuSet,
    chosen: usize,
}

impl Processors {
    /// The processors of this process, of which `chosen` (or the last) is the one to pin to.
    ///
    /// # Errors
    ///
    /// When they cannot be asked for, or the chosen one is not among them.
    pub fn new(chosen: Option<usize>) -> Result<Self> {
        let all = sched_getaffinity(None).context("sched_getaffinity")?;
        let mut ours = (0..CpuSet::MAX_CPU).filter(|&processor| all.is_set(processor));
        let chosen = match chosen {
            Some(chosen) => ours.find(|&ours| ours == chosen).context("no such processor")?,
            None => ours.next_back().context("no processor")?,
        };
        let mut one = CpuSet::new();
        one.set(chosen);
        Ok(Self { all, one, chosen })
    }

    /// The number of the processor to pin to.
    #[must_use]
    pub const fn chosen(&self) -> usize {
        self.chosen
    }

    /// Puts this thread and the server's processes on one processor, or back on all.
    ///
    /// # Errors
    ///
    /// When this thread cannot be moved.
    pub fn apply(&self, pinned: bool, server: &Server) -> Result<()> {
        let set = if pinned { &self.one } else { &self.all };
        sched_setaffinity(None, set).context("sched_setaffinity")?;
        server.processes()?.run_on(set);
        Ok(())
    }
}

/// The processor time of this process so far.
#[must_use]
pub fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}
