//! What each client's requests have waited for since the client came: for `choro doctor`.

use std::path::Path;

use trace::{Figures, Operation, Phase, SeriesValue};

use crate::observation::{Observer, Row};

/// Commands that wait as long as the client likes: for a change, or for a lock.
const WAITING: [Operation; 2] = [Operation::ChangeNotify, Operation::Lock];

/// Requests of one client, with latencies.
#[derive(Clone, Debug)]
pub struct Activity {
    /// Worker that serves the client.
    pub pid: u32,
    /// Number of requests; requests that wait for an event do not count.
    pub requests: u64,
    /// Sum of the times of these requests, in nanoseconds.
    pub ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    /// Phase with most of the time.
    pub slowest: Option<Phase>,
    /// The same in words, as `choro top` shows it.
    pub time_goes_to: Option<String>,
}

/// Activity of a server since its start.
#[derive(Clone, Debug)]
pub struct Activities {
    pub clients: Vec<Activity>,
    /// Classes of service that have throttled requests.
    pub throttling: Vec<String>,
}

impl Activities {
    /// Reads the pages of the server's workers.
    ///
    /// # Errors
    /// No server runs, or its pages may not be read.
    pub fn read(lock_dir: &Path) -> anyhow::Result<Self> {
        let snapshot = Observer::begin(lock_dir)?.read()?;
        let throttling = snapshot.classes.into_iter().filter(|(_, figures)| figures.throttled != 0);
        let workers = snapshot.workers.into_iter().filter(|worker| !worker.client.is_empty());
        Ok(Self {
            clients: workers.map(|worker| Activity::of(worker.pid, worker.figures)).collect(),
            throttling: throttling.map(|(name, _)| name).collect(),
        })
    }
}

impl Activity {
    fn of(pid: u32, mut figures: Figures) -> Self {
        for operation in WAITING {
            if let Some(values) = figures.events.request_end.get_mut(operation as usize) {
                *values = SeriesValue::default();
            }
        }
        let row = Row::of(String::new(), &figures);
        Self {
            pid,
            requests: row.requests,
            ns: row.ns,
            p50_ns: row.p50_ns,
            p99_ns: row.p99_ns,
            slowest: row.slowest().map(|(phase, _)| phase),
            time_goes_to: row.time_goes_to(),
        }
    }
}
