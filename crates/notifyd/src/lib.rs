//! `notifyd`: the process that reports changes in watched directories to workers.
//!
//! Workers tell it the watches of their clients and, while any watch exists, the changes by their
//! clients; it passes each change on to the workers whose clients may want it. It learns of changes
//! by other programs of the host from the kernel. It has no state beyond that of the workers: if it
//! dies, the workers repeat everything to its successor, and the clients are sent to list their
//! directories, because changes in between are lost.
//!
//! A change may arrive late, at a worker whose client has begun another watch of the same directory
//! meanwhile. So each change has the time at which it happened, and the worker leaves out younger
//! watches.
//!
//! Unsafe code is in `host_changes::fanotify` only, for calls that no safe library offers.

mod budget;
mod host_changes;
mod outbox;
mod recent;
mod siblings;
mod watch_threads;
mod watchers;

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::Context;
use dtyp::ServerId;
use host_changes::{Coverage, Folder, HostEvent, HostWatcher};
use messaging::{Changes, Message, MessageKind, Messaging, Unwatch, Watch};
use object::{FileIdentity, HostChange, HostChangeKind, ObjectPath};
use process::EventSet;
use process::administration;
use process::arguments::Start;
use process::clocks::machine_clock;
use process::control::{Received, ToSupervisor, ToWorker, WorkerEnd};
use process::log;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};
use settings::Settings;
use settings::messaging_settings::messaging_settings;
use tables::WatchPage;
use tracing::{debug, warn};

use budget::Budget;
use outbox::Outbox;
use recent::Recent;
use siblings::Siblings;
use watch_threads::{Report, WatchThreads};
use watchers::{Source, WatchParameters, Watched, Watchers};

/// Time until changes are sent again to a worker without room.
const RETRY: Duration = Duration::from_millis(100);

/// Highest number of messages to take before the changes in them are passed on.
const MESSAGES_PER_TURN_MAX: usize = 256;

const MESSAGES: u64 = 0;
const CONTROL: u64 = 1;
const KERNEL: u64 = 2;
/// Lowest token of a worker: its pid is added.
const WORKER: u64 = 1 << 32;

/// State of the process `notifyd`.
#[derive(Debug)]
pub struct Notifyd {
    settings: Settings,
    messaging: Messaging,
    page: WatchPage,
    control: WorkerEnd,
    events: EventSet<u64>,
    watchers: Watchers,
    /// A pidfd of each worker with watches, readable at the worker's end.
    lives: HashMap<ServerId, OwnedFd>,
    outbox: Outbox,
    host: HostWatcher,
    /// Watches of file systems that may wait long.
    threads: WatchThreads,
    /// Watches requested of the kernel, by path.
    wishes: HashMap<String, WatchParameters>,
    recent: Recent,
    siblings: Siblings,
    budget: Budget,
}

impl Notifyd {
    /// Joins the messages and the pages of the server.
    pub fn prepare(start: Start) -> anyhow::Result<Self> {
        let Start { settings, server_id, control, .. } = start;
        let lock_dir = &settings.directories.lock;
        let how = messaging_settings(&settings.config.global)?;
        let messaging = Messaging::init(lock_dir, server_id, how)
            .context("cannot join the server's messages")?;
        let page = WatchPage::open(lock_dir).context("cannot open the page of watches")?;
        let events = EventSet::new().context("cannot poll")?;
        if let Some(wake) = messaging.wake_source() {
            events.add(wake, MESSAGES).context("cannot poll messages")?;
        }
        events.add(&control, CONTROL).context("cannot poll the supervisor")?;
        let host = HostWatcher::new();
        for source in host.wake_sources() {
            events.add(source, KERNEL).context("cannot poll the kernel's changes")?;
        }
        let threads = WatchThreads::new().context("cannot poll watch threads")?;
        events.add(threads.wake_source(), KERNEL).context("cannot poll watch threads")?;
        let supervisor = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
        let supervisor = supervisor.and_then(|pid| u32::try_from(pid).ok());
        Ok(Self {
            settings,
            messaging,
            page,
            control,
            events,
            watchers: Watchers::new(host.folders_max()),
            lives: HashMap::new(),
            outbox: Outbox::default(),
            host,
            threads,
            wishes: HashMap::new(),
            recent: Recent::default(),
            siblings: Siblings::of(supervisor.unwrap_or_default()),
            budget: Budget::default(),
        })
    }

    /// Serves until the supervisor ends it.
    pub fn run(&mut self) -> anyhow::Result<()> {
        let server_id = self.messaging.server_id();
        self.page.begin(server_id);
        let ready = ToSupervisor::Ready { unique_id: server_id.unique_id };
        self.control.send(ready).context("the supervisor is gone")?;
        loop {
            for token in self.wait()? {
                match token {
                    KERNEL | MESSAGES => {}
                    CONTROL => {
                        if self.read_control() {
                            return Ok(());
                        }
                    }
                    worker => self.remove_worker(worker - WORKER),
                }
            }
            self.take_messages();
            self.take_events();
            self.pass_on();
        }
    }

    fn wait(&self) -> anyhow::Result<Vec<u64>> {
        let now = Instant::now();
        let retry = self.outbox.is_waiting().then(|| now + RETRY);
        let next = [self.messaging.next_timeout(), self.recent.next_timeout(), retry];
        let next = next.into_iter().flatten().min();
        let timeout = next.map(|at| at.saturating_duration_since(now));
        self.events.wait(timeout).context("waiting")
    }

    /// Reads the supervisor's messages. Returns true if this process must end.
    fn read_control(&mut self) -> bool {
        loop {
            match self.control.receive() {
                Ok(Received::Nothing) => return false,
                Ok(Received::Closed | Received::Message(ToWorker::Shutdown)) => return true,
                Ok(Received::Message(ToWorker::Reload { .. })) => self.reload(),
                Ok(Received::Message(message)) => debug!("{message:?} is not for notifyd"),
                Err(error) => warn!("the control socket: {error}"),
            }
        }
    }

    fn reload(&mut self) {
        match Settings::load(self.settings.source.clone()) {
            Ok(settings) => {
                if let Err(error) = log::follow(&settings) {
                    warn!("the log is kept as it was: {error:#}");
                }
                self.settings = settings;
            }
            Err(error) => warn!("the configuration is kept: {error:#}"),
        }
    }

    fn take_messages(&mut self) {
        for _ in 0..MESSAGES_PER_TURN_MAX {
            let Some(message) = self.messaging.poll(Instant::now()) else { break };
            self.take(&message);
        }
    }

    fn take(&mut self, message: &Message) {
        let sender = message.sender;
        match message.kind {
            MessageKind::CHANGED => match Changes::decode(&message.data) {
                Some(Changes { at, changes }) => {
                    let now = Instant::now();
                    self.siblings.heard(now, sender.pid);
                    for change in changes {
                        if self.is_anonymous() {
                            self.recent.said(now, &change);
                        }
                        self.tell(at, &change, Source::Worker(sender));
                    }
                }
                None => warn!("{sender:?} sent changes that cannot be read"),
            },
            MessageKind::UNWATCH => {
                if let Some(Unwatch { open }) = Unwatch::decode(&message.data)
                    && let Some(path) = self.watchers.unwatch(sender, open)
                {
                    self.page.remove(1);
                    self.ask_kernel_for(sender, &path);
                    self.let_go(sender);
                }
            }
            MessageKind::WATCH => match Watch::decode(&message.data) {
                Some(watch) => self.watch(sender, watch),
                None => warn!("{sender:?} sent a watch that cannot be read"),
            },
            _ => drop(administration::read(&mut self.messaging, message)),
        }
    }

    fn watch(&mut self, worker: ServerId, mut watch: Watch) {
        if !self.lives.contains_key(&worker) {
            match life(worker.pid) {
                Ok(life) if self.events.add(&life, WORKER + u64::from(worker.pid)).is_ok() => {
                    self.lives.insert(worker, life);
                }
                Ok(_) => warn!("the end of {worker:?} will not be seen"),
                // The worker is dead already.
                Err(error) => {
                    debug!("{worker:?}: {error}");
                    self.page.remove(1);
                    return;
                }
            }
        }
        if watch.kernel && self.budget.is_spent(worker, Instant::now()) {
            // Its client gets the changes of other clients, and is told that it misses some.
            watch.kernel = false;
            self.outbox.push(worker, machine_clock(), HostChange::uncounted(watch.path.clone()));
        }
        let before = self.watchers.directory(worker, watch.open).map(str::to_owned);
        let watched = self.watchers.watch(worker, &watch);
        for path in before.iter().map(String::as_str).chain([watch.path.as_str()]) {
            self.ask_kernel_for(worker, path);
        }
        // The directory may have been removed before the watch arrived.
        if watch.may_wait {
            if let Err(error) = self.threads.check(watch.path.as_str(), watch.identity) {
                debug!("/{}: {error}", watch.path.as_str());
            }
        } else if is_gone(&watch) {
            let kind = HostChangeKind::Removed;
            let path = watch.path.clone();
            let gone = HostChange { path, is_directory: true, kind };
            self.outbox.push(worker, machine_clock(), gone);
        }
        match watched {
            Watched::Added | Watched::Replaced => {}
            Watched::Refused => {
                warn!(
                    "worker {} is at its limit of watches: its client gets no changes of others",
                    worker.pid
                );
                self.page.remove(1);
                self.outbox.push(worker, machine_clock(), HostChange::uncounted(watch.path));
            }
        }
    }

    /// Calls [`Self::ask_kernel`], and charges the time to the worker.
    fn ask_kernel_for(&mut self, worker: ServerId, path: &str) {
        let began = Instant::now();
        self.ask_kernel(path);
        self.budget.spend(worker, began, began.elapsed());
    }

    /// Adapts the kernel's watch of a directory to those of the workers.
    fn ask_kernel(&mut self, path: &str) {
        let wish = self.watchers.wish(path);
        if wish == self.wishes.get(path).copied() {
            return;
        }
        let before = match wish {
            Some(wish) => self.wishes.insert(path.to_owned(), wish),
            None => self.wishes.remove(path),
        };
        if let Some(before) = before {
            let before = before.waiting_device();
            // Another device is watched by another thread.
            if wish.is_none_or(|wish| wish.waiting_device() != before) {
                match before {
                    Some(device) => self.threads.unwatch(device, path),
                    None => self.host.unwatch(path),
                }
            }
        }
        if let Some(wish) = wish {
            match wish.waiting_device() {
                Some(device) => {
                    if let Err(error) = self.threads.watch(device, path, wish) {
                        self.watched(path, Err(error));
                    }
                }
                None => {
                    let outcome = self.host.watch_path(path, wish);
                    self.watched(path, outcome);
                }
            }
        }
        self.page.set_needs_all(self.is_anonymous());
    }

    /// Takes the outcome of a watch.
    fn watched(&mut self, path: &str, outcome: io::Result<Coverage>) {
        match outcome {
            Ok(Coverage::Whole) => {}
            Ok(Coverage::Partial) => {
                warn!("/{path}: too many directories: not all of them are watched");
                let path = ObjectPath::from_stored(path.to_owned(), None);
                let unseen = HostChange::uncounted(path);
                self.tell(machine_clock(), &unseen, Source::Kernel);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => debug!("/{path} is gone"),
            Err(error) => warn!("/{path}: changes by other programs are not seen: {error}"),
        }
    }

    /// True if the kernel may report changes without their process. Threads watch by inotify as a
    /// rule: file systems that may wait have no identity for fanotify.
    fn is_anonymous(&self) -> bool {
        self.host.is_anonymous() || !self.threads.is_empty()
    }

    /// Passes on the changes that the kernel reports.
    fn take_events(&mut self) {
        let now = Instant::now();
        let siblings = &self.siblings;
        let events = self.host.take(|pid| siblings.knows(now, pid));
        self.take_in(now, events);
        for report in self.threads.take() {
            match report {
                Report::Changed(events) => self.take_in(now, events),
                Report::Ended(_) => self.page.set_needs_all(self.is_anonymous()),
                Report::Gone { path, identity } => self.tell_gone(path, identity),
                Report::Watched { path, outcome } => self.watched(&path, outcome),
            }
        }
        // The kernel reports no time, so every present watch gets the change.
        for change in self.recent.take(now) {
            self.tell(machine_clock(), &change, Source::Kernel);
        }
    }

    fn take_in(&mut self, now: Instant, events: Vec<HostEvent>) {
        for HostEvent { change, pid } in events {
            match pid {
                None if change.kind != HostChangeKind::Uncounted => self.recent.hold(now, change),
                pid => self.tell_of_others(now, &change, pid),
            }
        }
    }

    /// Tells those who watch a directory that its path does not lead to it any more.
    fn tell_gone(&mut self, path: String, identity: FileIdentity) {
        let workers = self.watchers.of_directory(&path, identity);
        let path = ObjectPath::from_stored(path, None);
        let gone = HostChange { path, is_directory: true, kind: HostChangeKind::Removed };
        for worker in workers {
            self.outbox.push(worker, machine_clock(), gone.clone());
        }
    }

    /// Passes on a change by a process, unless that is a worker. The process is looked up last:
    /// most changes of a file system are nowhere near a watched directory.
    fn tell_of_others(&mut self, now: Instant, change: &HostChange, pid: Option<u32>) {
        let workers = self.watchers.concerned(change, Source::Kernel);
        if workers.is_empty() || pid.is_some_and(|pid| self.siblings.contains(now, pid)) {
            return;
        }
        let at = machine_clock();
        for worker in workers {
            self.outbox.push(worker, at, change.clone());
        }
    }

    fn tell(&mut self, at: Duration, change: &HostChange, source: Source) {
        for worker in self.watchers.concerned(change, source) {
            self.outbox.push(worker, at, change.clone());
        }
    }

    fn pass_on(&mut self) {
        let now = machine_clock();
        for worker in self.messaging.take_dropped().receivers {
            warn!("worker {} has no room: changes for it are dropped", worker.pid);
            self.outbox.push(worker, now, HostChange::uncounted(ObjectPath::root()));
        }
        for worker in self.outbox.flush(&mut self.messaging) {
            self.forget(worker);
        }
        self.messaging.flush(Instant::now());
    }

    /// Removes a worker that has ended.
    fn remove_worker(&mut self, pid: u64) {
        let dead: Vec<_> =
            self.lives.keys().filter(|it| u64::from(it.pid) == pid).copied().collect();
        for worker in dead {
            self.forget(worker);
        }
    }

    fn forget(&mut self, worker: ServerId) {
        let watched = self.watchers.forget(worker);
        self.page.remove(u32::try_from(watched.len()).unwrap_or(u32::MAX));
        for path in &watched {
            self.ask_kernel(path);
        }
        self.let_go(worker);
    }

    /// Closes the pidfd of a worker without watches.
    fn let_go(&mut self, worker: ServerId) {
        if !self.watchers.has(worker) {
            self.lives.remove(&worker);
        }
    }
}

/// True if the path leads to another directory than the client's, or to none. The client cannot
/// tell one from the other: it may have put a symbolic link to another user's directory into the
/// path.
fn is_gone(watch: &Watch) -> bool {
    Folder::open(watch.path.as_str(), watch.identity).err() == Some(Errno::NOENT)
}

/// Opens a pidfd, which becomes readable at the process's end.
fn life(pid: u32) -> Result<OwnedFd, Errno> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    rustix::process::pidfd_open(pid, PidfdFlags::empty())
}
