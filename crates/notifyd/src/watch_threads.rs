//! Threads for the watches of file systems that may wait long, so that these delay no others.
//!
//! A network or FUSE file system may hang when a directory is opened to watch it, or when a tree is
//! scanned. Each has a thread with a `HostWatcher` of its own, which ends with the last watch.

mod order_queue;
mod thread;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use object::FileIdentity;
use process::WakeUp;

use super::host_changes::{Coverage, HostEvent};
use super::watchers::WatchParameters;
use order_queue::{Change, OrderQueue};

/// Highest number of file systems with threads. Each costs a stack and an instance of inotify, of
/// which a user may have 128.
const WATCH_THREADS_MAX: usize = 32;

/// Reports of threads that have not been taken. Beyond it the threads wait.
const REPORTS_MAX: usize = 64;

/// The threads, by the device of their file system.
#[derive(Debug)]
pub(super) struct WatchThreads {
    queues: HashMap<u64, Arc<OrderQueue>>,
    reports: Receiver<Report>,
    reporter: Reporter,
}

/// A thread's end of the reports.
#[derive(Clone, Debug)]
struct Reporter {
    reports: SyncSender<Report>,
    /// Wakes the process while reports wait for it.
    wake: Arc<WakeUp>,
}

/// Result of a thread's work, for the process.
#[derive(Debug)]
pub(super) enum Report {
    /// Changes by programs of this host.
    Changed(Vec<HostEvent>),
    /// A path leads to another directory now, or to none.
    Gone { path: Arc<str>, identity: FileIdentity },
    /// The outcome of a watch.
    Watched { path: Arc<str>, outcome: io::Result<Coverage> },
    /// The thread of this device has ended: it had no watches.
    Ended(u64),
}

impl WatchThreads {
    /// Begins without threads.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub(super) fn new() -> io::Result<Self> {
        let wake = Arc::new(WakeUp::new()?);
        let (sender, reports) = sync_channel(REPORTS_MAX);
        let reporter = Reporter { reports: sender, wake };
        Ok(Self { queues: HashMap::new(), reports, reporter })
    }

    /// Descriptor that is readable while reports wait.
    pub(super) fn wake_source(&self) -> BorrowedFd<'_> {
        self.reporter.wake.as_fd()
    }

    /// True if no file system has a thread.
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Has a thread begin or change the watch of a directory.
    ///
    /// # Errors
    /// There are too many threads, or too many orders for this one.
    pub(super) fn watch(
        &mut self,
        device: u64,
        path: &Arc<str>,
        parameters: WatchParameters,
    ) -> io::Result<()> {
        self.order(device, path, |order| order.change = Some(Change::Watch(parameters)))
    }

    /// Has a thread end the watch of a directory.
    pub(super) fn unwatch(&self, device: u64, path: &Arc<str>) {
        if let Some(queue) = self.queues.get(&device) {
            queue.unwatch(path);
        }
    }

    /// Has a thread report if a path does not lead to this directory.
    ///
    /// # Errors
    /// There are too many threads, or too many orders for this one.
    pub(super) fn check(&mut self, path: &Arc<str>, identity: FileIdentity) -> io::Result<()> {
        self.order(identity.device, path, |order| order.check = Some(identity))
    }

    fn order(
        &mut self,
        device: u64,
        path: &Arc<str>,
        change: impl Fn(&mut order_queue::Order),
    ) -> io::Result<()> {
        if let Some(queue) = self.queues.get(&device)
            && let Some(outcome) = queue.order(path, &change)
        {
            return outcome;
        }
        // A queue whose thread has ended is replaced.
        self.queues.remove(&device);
        if self.queues.len() >= WATCH_THREADS_MAX {
            return Err(io::Error::other("too many file systems have threads"));
        }
        let queue = Arc::new(OrderQueue::new()?);
        let outcome = queue.order(path, &change);
        thread::start(device, Arc::clone(&queue), self.reporter.clone())?;
        self.queues.insert(device, queue);
        outcome.unwrap_or(Ok(()))
    }

    /// Takes the reports of all threads. Bounded: the rest comes with the next call.
    pub(super) fn take(&mut self) -> Vec<Report> {
        self.reporter.wake.clear();
        let reports: Vec<Report> = self.reports.try_iter().take(REPORTS_MAX).collect();
        if reports.len() == REPORTS_MAX {
            self.reporter.wake.wake();
        }
        for report in &reports {
            if let Report::Ended(device) = report
                && self.queues.get(device).is_some_and(|queue| queue.has_ended())
            {
                self.queues.remove(device);
            }
        }
        reports
    }
}

impl Reporter {
    /// Sends a report, waiting for room in the channel. Returns false if the process ends.
    fn report(&self, report: Report) -> bool {
        let is_sent = self.reports.send(report).is_ok();
        self.wake.wake();
        is_sent
    }
}
