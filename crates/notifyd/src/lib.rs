//! `notifyd`: the process that reports changes in watched directories to workers.
//!
//! Workers tell it the watches of their clients and, while any watch exists, the changes by their
//! clients; it sends each change to the workers whose clients may want it. It learns of changes by
//! other programs of the host from the kernel. It has no state beyond that of the workers: if it
//! dies, the workers send their watches to its successor, and their clients get NOTIFY_ENUM_DIR,
//! because changes in between are lost.
//!
//! A change may arrive after the worker's client has begun another watch of the same directory. So
//! each change has the time at which it happened, and the worker leaves out watches that began
//! later. A worker's watch counts from the receipt of its message to that of its end, in the order
//! of all messages; the kernel's part of it, and changes, are work for which workers take turns.
//!
//! Unsafe code is in `host_changes::fanotify` only, for calls that no safe library offers.

mod budget;
mod host_changes;
mod outbox;
mod recent;
mod siblings;
mod watch_threads;
mod watchers;
mod work;

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use confinement::ProcessKind;
use dtyp::ServerId;
use host_changes::{Coverage, Folder, HostEvent, HostWatcher};
use messaging::{Changes, Message, MessageKind, Unwatch, Watch};
use object::{FileIdentity, HostChange, HostChangeKind, ObjectPath};
use process::arguments::Start;
use process::clocks::machine_clock;
use process::{HelperProcess, Order, administration};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};
use tables::WatchPage;
use tracing::{debug, warn};

use budget::Budget;
use outbox::Outbox;
use recent::Recent;
use siblings::Siblings;
use watch_threads::{Report, WatchThreads};
use watchers::{Receivers, Source, WatchParameters, Watched, Watchers};
use work::{Beginning, Cost, Task, Work, visits_in};

/// Time until changes are sent again to a worker whose queue of messages is full.
const RETRY: Duration = Duration::from_millis(100);

/// Highest number of messages to take before work goes on.
const MESSAGES_PER_TURN_MAX: usize = 256;

/// Cost of the work, in visits, between two looks at messages: about a millisecond.
const VISITS_PER_TURN_MAX: u64 = 8_192;

const KERNEL: u64 = HelperProcess::FIRST_TOKEN;
/// Lowest token of a worker: its pid is added.
const WORKER: u64 = 1 << 32;

/// State of the process `notifyd`.
#[derive(Debug)]
pub struct Notifyd {
    process: HelperProcess,
    page: WatchPage,
    watchers: Watchers,
    work: Work,
    /// A pidfd of each worker with watches, readable at the worker's end.
    pidfds: HashMap<ServerId, OwnedFd>,
    outbox: Outbox,
    host: HostWatcher,
    /// Watches of file systems that may wait long.
    threads: WatchThreads,
    /// Watches requested of the kernel, by path.
    kernel_watches: HashMap<Arc<str>, WatchParameters>,
    recent: Recent,
    siblings: Siblings,
    budget: Budget,
}

impl Notifyd {
    /// Joins the messages and the pages of the server.
    pub fn prepare(start: Start) -> anyhow::Result<Self> {
        let process = HelperProcess::join(ProcessKind::Notifyd, start)?;
        let lock_dir = &process.settings.directories.lock;
        let page = WatchPage::open(lock_dir).context("cannot open the page of watches")?;
        let host = HostWatcher::new();
        for source in host.wake_sources() {
            process.events.add(source, KERNEL).context("cannot poll the kernel's changes")?;
        }
        let threads = WatchThreads::new().context("cannot poll watch threads")?;
        process.events.add(threads.wake_source(), KERNEL).context("cannot poll watch threads")?;
        let supervisor = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
        let supervisor = supervisor.and_then(|pid| u32::try_from(pid).ok());
        Ok(Self {
            process,
            page,
            watchers: Watchers::new(host.folders_max()),
            work: Work::default(),
            pidfds: HashMap::new(),
            outbox: Outbox::default(),
            host,
            threads,
            kernel_watches: HashMap::new(),
            recent: Recent::default(),
            siblings: Siblings::of(supervisor.unwrap_or_default()),
            budget: Budget::default(),
        })
    }

    /// Serves until the supervisor ends it.
    pub fn run(&mut self) -> anyhow::Result<()> {
        self.page.begin(self.process.messaging.server_id());
        self.process.report_ready(&[])?;
        loop {
            let retry = self.outbox.is_waiting().then(|| Instant::now() + RETRY);
            let work = (!self.work.is_idle()).then(Instant::now);
            let until = [self.recent.next_timeout(), retry, work];
            for token in self.process.wait(until.into_iter().flatten())? {
                if token >= WORKER {
                    self.remove_worker(token - WORKER);
                }
            }
            while let Some(order) = self.process.next_order() {
                match order {
                    Order::End => return Ok(()),
                    Order::Listen(_) | Order::Reloaded(_) => {}
                }
            }
            self.take_messages();
            self.do_work();
            self.take_events();
            self.send_changes();
        }
    }

    fn take_messages(&mut self) {
        for _ in 0..MESSAGES_PER_TURN_MAX {
            let Some(message) = self.process.messaging.poll(Instant::now()) else { break };
            self.take(&message);
        }
    }

    fn take(&mut self, message: &Message) {
        let sender = message.sender;
        match message.kind {
            MessageKind::CHANGED => match Changes::decode(&message.data) {
                Some(Changes { at, changes }) => {
                    self.siblings.note_worker(Instant::now(), sender.pid);
                    self.work.add_changes(sender, at, changes);
                }
                None => warn!("process {} sent changes that cannot be decoded", sender.pid),
            },
            MessageKind::UNWATCH => {
                if let Some(Unwatch { open }) = Unwatch::decode(&message.data)
                    && let Some((path, number)) = self.watchers.unwatch(sender, open)
                {
                    self.page.remove(1);
                    self.work.remove_beginning(sender, number);
                    self.note_end(sender, path);
                    self.close_pidfd(sender);
                }
            }
            MessageKind::WATCH => match Watch::decode(&message.data) {
                Some(watch) => self.watch(sender, watch),
                None => warn!("process {} sent a watch that cannot be decoded", sender.pid),
            },
            _ => {
                administration::read(&mut self.process.messaging, message);
            }
        }
        self.work.charge_message(sender, message.data.len());
    }

    /// Does a part of the work that waits.
    fn do_work(&mut self) {
        let mut left = VISITS_PER_TURN_MAX;
        while left > 0
            && let Some(task) = self.work.next_task()
        {
            let Cost { own, others } = match task {
                Task::Report(sender, at, change) => self.report_of_worker(sender, at, &change),
                Task::Begin(worker, watch) => self.begin_watch(worker, &watch),
                Task::End(worker, path) => self.end_watch(worker, &path),
            };
            self.work.charge_turn(own);
            left = left.saturating_sub(own.saturating_add(others));
        }
    }

    /// Registers a watch: changes that other workers report from now on are for it, too. Changes by
    /// other programs are for it once it begins.
    fn watch(&mut self, worker: ServerId, mut watch: Watch) {
        if !self.pidfds.contains_key(&worker) {
            match open_pidfd(worker.pid) {
                Ok(pidfd)
                    if self.process.events.add(&pidfd, WORKER + u64::from(worker.pid)).is_ok() =>
                {
                    self.pidfds.insert(worker, pidfd);
                }
                Ok(_) => warn!("cannot wait for the end of worker {}", worker.pid),
                // The worker is dead already.
                Err(error) => {
                    debug!("{worker:?}: {error}");
                    self.page.remove(1);
                    return;
                }
            }
        }
        let before = self.watchers.watch_of(worker, watch.open);
        let before = before.map(|(path, number)| (Arc::clone(path), number));
        let kernel = std::mem::take(&mut watch.kernel);
        let watched = self.watchers.watch(worker, &watch);
        if let Some((path, number)) = before {
            self.work.remove_beginning(worker, number);
            if watched == Watched::Refused || &*path != watch.path.as_str() {
                self.note_end(worker, path);
            }
        }
        let added = self.watchers.watch_of(worker, watch.open);
        match (watched, added) {
            (Watched::Added | Watched::Replaced, Some((path, number))) => {
                let Watch { open, identity, may_wait, .. } = watch;
                let path = Arc::clone(path);
                let beginning = Beginning { open, path, identity, kernel, may_wait };
                self.work.add_beginning(worker, number, beginning);
            }
            _ => {
                warn!(
                    "worker {} has its limit of watches: its client gets no changes by others",
                    worker.pid
                );
                self.page.remove(1);
                self.outbox.push(worker, machine_clock(), HostChange::missed(watch.path));
                self.close_pidfd(worker);
            }
        }
    }

    /// Begins a watch that is registered: verifies its directory, and asks the kernel for changes
    /// by other programs. Returns the cost.
    fn begin_watch(&mut self, worker: ServerId, watch: &Beginning) -> Cost {
        let began = Instant::now();
        if watch.kernel && self.budget.is_spent(worker, began) {
            // Its client gets changes by other clients only, and NOTIFY_ENUM_DIR for the others.
            self.outbox.push(worker, machine_clock(), HostChange::missed(stored(&watch.path)));
        } else if watch.kernel {
            self.watchers.join_kernel(worker, watch.open);
            self.update_kernel_watch(&watch.path);
            self.budget.spend(worker, began, began.elapsed());
        }
        // The directory may have been removed before the watch arrived.
        if watch.may_wait {
            if let Err(error) = self.threads.check(&watch.path, watch.identity) {
                debug!("/{}: {error}", watch.path);
            }
        } else if is_gone(watch) {
            let kind = HostChangeKind::Removed;
            let path = stored(&watch.path);
            let gone = HostChange { path, is_directory: true, kind };
            self.outbox.push(worker, machine_clock(), gone);
        }
        Cost { own: visits_in(began.elapsed()), others: 0 }
    }

    /// Lets the kernel's watch of a directory end at a turn of the worker whose watch has ended.
    /// The kernel has one only if a worker's has begun.
    fn note_end(&mut self, worker: ServerId, path: Arc<str>) {
        if self.kernel_watches.contains_key(&*path) && self.work.add_end(worker, Arc::clone(&path))
        {
            self.watchers.account.add(worker, &path);
        }
    }

    /// Ends the kernel's watch of a directory, unless others need it. Returns the cost.
    fn end_watch(&mut self, worker: ServerId, path: &Arc<str>) -> Cost {
        let began = Instant::now();
        self.watchers.account.remove(worker, path);
        self.update_kernel_watch(path);
        let time = began.elapsed();
        self.budget.spend(worker, began, time);
        Cost { own: visits_in(time), others: 0 }
    }

    /// Adapts the kernel's watch of a directory to those of the workers.
    fn update_kernel_watch(&mut self, path: &Arc<str>) {
        let wanted = self.watchers.kernel_watch(path);
        if wanted == self.kernel_watches.get(path).copied() {
            return;
        }
        let before = match wanted {
            Some(wanted) => self.kernel_watches.insert(Arc::clone(path), wanted),
            None => self.kernel_watches.remove(path),
        };
        if let Some(before) = before {
            let before = before.waiting_device();
            // Another device is watched by another thread.
            if wanted.is_none_or(|wanted| wanted.waiting_device() != before) {
                match before {
                    Some(device) => self.threads.unwatch(device, path),
                    None => self.host.unwatch(path),
                }
            }
        }
        if let Some(wanted) = wanted {
            match wanted.waiting_device() {
                Some(device) => {
                    if let Err(error) = self.threads.watch(device, path, wanted) {
                        self.note_coverage(path, Err(error));
                    }
                }
                None => {
                    let outcome = self.host.watch_path(path, wanted);
                    self.note_coverage(path, outcome);
                }
            }
        }
        self.page.set_needs_all(self.lacks_pids());
    }

    /// Logs the failure of a kernel's watch, and reports changes that it misses.
    fn note_coverage(&mut self, path: &str, outcome: io::Result<Coverage>) {
        match outcome {
            Ok(Coverage::Whole) => {}
            Ok(Coverage::Partial) => {
                warn!("/{path}: too many directories: not all of them are watched");
                let unseen = HostChange::missed(stored(path));
                self.report(machine_clock(), &unseen, Source::Kernel);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => debug!("/{path} is gone"),
            Err(error) => warn!("/{path}: changes by other programs are not seen: {error}"),
        }
    }

    /// True if the kernel may report changes without their process. Threads watch by inotify as a
    /// rule: file systems that may wait have no identity for fanotify.
    fn lacks_pids(&self) -> bool {
        self.host.lacks_pids() || !self.threads.is_empty()
    }

    /// Queues the changes that the kernel reports.
    fn take_events(&mut self) {
        let now = Instant::now();
        let siblings = &self.siblings;
        let events = self.host.take(|pid| siblings.knows(now, pid));
        self.take_host_events(now, events);
        for report in self.threads.take() {
            match report {
                Report::Changed(events) => self.take_host_events(now, events),
                Report::Ended(_) => self.page.set_needs_all(self.lacks_pids()),
                Report::Gone { path, identity } => self.report_gone(&path, identity),
                Report::Watched { path, outcome } => self.note_coverage(&path, outcome),
            }
        }
        // The kernel reports no time, so every present watch gets the change.
        for change in self.recent.take(now) {
            self.report(machine_clock(), &change, Source::Kernel);
        }
    }

    fn take_host_events(&mut self, now: Instant, events: Vec<HostEvent>) {
        for HostEvent { change, pid } in events {
            match pid {
                None if change.kind != HostChangeKind::Missed => self.recent.hold(now, change),
                pid => self.report_by_others(now, &change, pid),
            }
        }
    }

    /// Reports to the watchers of a directory that its path does not lead to it any more.
    fn report_gone(&mut self, path: &str, identity: FileIdentity) {
        let workers = self.watchers.of_directory(path, identity);
        let path = stored(path);
        let gone = HostChange { path, is_directory: true, kind: HostChangeKind::Removed };
        for worker in workers {
            self.outbox.push(worker, machine_clock(), gone.clone());
        }
    }

    /// Queues a change by a process, unless that is a worker. The process is looked up last: most
    /// changes of a file system are far from any watched directory.
    fn report_by_others(&mut self, now: Instant, change: &HostChange, pid: Option<u32>) {
        let Receivers { workers, joins, .. } = self.watchers.receivers(change, Source::Kernel);
        self.work.charge_others(&joins);
        if workers.is_empty() || pid.is_some_and(|pid| self.siblings.contains(now, pid)) {
            return;
        }
        let at = machine_clock();
        for worker in workers {
            self.outbox.push(worker, at, change.clone());
        }
    }

    /// Queues a change that a worker has reported. Returns the cost.
    fn report_of_worker(&mut self, sender: ServerId, at: Duration, change: &HostChange) -> Cost {
        if self.lacks_pids() {
            self.recent.note_report(Instant::now(), change);
        }
        self.report(at, change, Source::Worker(sender))
    }

    fn report(&mut self, at: Duration, change: &HostChange, source: Source) -> Cost {
        let Receivers { workers, visits, joins } = self.watchers.receivers(change, source);
        let others = self.work.charge_others(&joins);
        for worker in workers {
            self.outbox.push(worker, at, change.clone());
        }
        Cost { own: visits, others }
    }

    fn send_changes(&mut self) {
        let now = machine_clock();
        for worker in self.process.messaging.take_dropped().receivers {
            warn!("the queue of worker {} is full: changes for it are dropped", worker.pid);
            self.outbox.push(worker, now, HostChange::missed(ObjectPath::root()));
        }
        for worker in self.outbox.flush(&mut self.process.messaging) {
            self.remove_watches(worker);
        }
        self.process.messaging.flush(Instant::now());
    }

    /// Removes a worker that has ended.
    fn remove_worker(&mut self, pid: u64) {
        let dead: Vec<_> =
            self.pidfds.keys().filter(|it| u64::from(it.pid) == pid).copied().collect();
        for worker in dead {
            self.remove_watches(worker);
        }
    }

    fn remove_watches(&mut self, worker: ServerId) {
        self.work.remove_beginnings(worker);
        let (count, directories) = self.watchers.remove_worker(worker);
        self.page.remove(u32::try_from(count).unwrap_or(u32::MAX));
        for path in directories {
            self.note_end(worker, path);
        }
        self.close_pidfd(worker);
    }

    /// Closes the pidfd of a worker without watches.
    fn close_pidfd(&mut self, worker: ServerId) {
        if !self.watchers.has(worker) {
            self.pidfds.remove(&worker);
        }
    }
}

/// True if the path leads to another directory than the client's, or to none. The client cannot
/// tell one from the other: it may have put a symbolic link to another user's directory into the
/// path.
fn is_gone(watch: &Beginning) -> bool {
    Folder::open(&watch.path, watch.identity).err() == Some(Errno::NOENT)
}

/// Makes the path of a watched directory for reports.
fn stored(path: &str) -> ObjectPath {
    ObjectPath::from_stored(path.to_owned(), None)
}

/// Opens a pidfd, which becomes readable at the process's end.
fn open_pidfd(pid: u32) -> Result<OwnedFd, Errno> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    rustix::process::pidfd_open(pid, PidfdFlags::empty())
}
