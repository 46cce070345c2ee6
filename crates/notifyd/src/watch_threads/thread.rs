//! The loop of a watch thread.

use std::io;
use std::sync::Arc;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::order_queue::{Change, Order, OrderQueue};
use super::{Report, Reporter};
use crate::host_changes::{Folder, HostWatcher};

/// State of a watch thread.
struct WatchLoop {
    queue: Arc<OrderQueue>,
    host: HostWatcher,
    reporter: Reporter,
}

/// Starts the thread of a device.
///
/// # Errors
/// There are no resources for it.
pub(super) fn start(device: u64, queue: Arc<OrderQueue>, reporter: Reporter) -> io::Result<()> {
    // Nobody waits for its end: a file system that hangs would keep the process from ending.
    thread::Builder::new().name("watch".to_owned()).spawn(move || {
        let mut watch = WatchLoop { queue, host: HostWatcher::new(), reporter };
        watch.run();
        watch.reporter.report(Report::Ended(device));
    })?;
    Ok(())
}

impl WatchLoop {
    /// Runs until nothing is watched, or the process takes no more reports.
    fn run(&mut self) {
        while let Some(orders) = self.queue.take() {
            let mut reports = Vec::new();
            for (path, order) in orders {
                self.carry_out(path, order, &mut reports);
            }
            // No process is ignored here: the main thread recognizes workers.
            let events = self.host.take(|_| false);
            if !events.is_empty() {
                reports.push(Report::Changed(events));
            }
            if !reports.into_iter().all(|report| self.reporter.report(report)) {
                return;
            }
            // Without a watch nothing would wake this thread: the next orders are its last.
            if self.queue.is_watching() {
                self.wait();
            }
        }
    }

    fn carry_out(&mut self, path: Arc<str>, order: Order, reports: &mut Vec<Report>) {
        if let Some(identity) = order.check
            && Folder::open(&path, identity).err() == Some(Errno::NOENT)
        {
            reports.push(Report::Gone { path: Arc::clone(&path), identity });
        }
        match order.change {
            Some(Change::Watch(parameters)) => {
                let outcome = self.host.watch_path(&path, parameters);
                reports.push(Report::Watched { path, outcome });
            }
            Some(Change::Unwatch) => self.host.unwatch(&path),
            None => {}
        }
    }

    fn wait(&self) {
        let sources = std::iter::once(self.queue.wake_source()).chain(self.host.wake_sources());
        let mut sources: Vec<_> =
            sources.map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN)).collect();
        // Only a signal makes it fail, and then the sources are read once more.
        let _ = poll(&mut sources, None);
    }
}
