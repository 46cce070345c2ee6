//! Workers with pages that this user may read.

use std::io::ErrorKind;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tables::Registry;

/// Time that a starting server may need for its first worker.
const FIRST_WORKER_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between checks for the first worker.
const FIRST_WORKER_INTERVAL: Duration = Duration::from_millis(10);

/// The workers of a server that live and have a page: pid and unique id of each, by pid.
///
/// # Errors
/// No server has run, or its pages may not be looked at: a sentence for whoever asked.
pub(crate) fn live_workers(lock_dir: &Path) -> anyhow::Result<Vec<(u32, u64)>> {
    let directory = lock_dir.join(trace::DIRECTORY);
    let mut workers = match trace::workers(lock_dir) {
        Ok(workers) => workers,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("no server has run in {}", lock_dir.display())
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            bail!("permission denied for {}: only its group may read it", directory.display())
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", directory.display()));
        }
    };
    // A killed server leaves pages of processes that are gone.
    workers.retain(|(pid, _)| Path::new(&format!("/proc/{pid}")).exists());
    Ok(workers)
}

/// The same; of a server that has just begun, once it has a worker.
///
/// # Errors
/// As above, or there is none.
pub(crate) fn first_workers(lock_dir: &Path) -> anyhow::Result<Vec<(u32, u64)>> {
    let deadline = Instant::now() + FIRST_WORKER_TIMEOUT;
    loop {
        let workers = live_workers(lock_dir)?;
        if !workers.is_empty() {
            return Ok(workers);
        }
        if Instant::now() >= deadline || Registry::observe(lock_dir).is_err() {
            bail!("no worker runs; is the server running?");
        }
        thread::sleep(FIRST_WORKER_INTERVAL);
    }
}

/// That there is no worker with this pid.
pub(crate) fn no_such_worker(pid: u32) -> String {
    format!("no worker of this server has the pid {pid}; `choro status` names them")
}
