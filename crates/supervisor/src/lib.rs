//! The supervisor: listens, accepts, and gives each client to a worker of its own.
//!
//! One thread and one epoll set; its state is little more than the worker of each client. It never
//! reads a byte that a client sent. A worker that dies takes its client's connections with it; the
//! supervisor removes what it left in the tables. If the supervisor dies, the kernel ends the
//! workers.

#![forbid(unsafe_code)]

mod accepting;
mod admission;
mod backoff;
mod birth;
mod birth_budget;
mod clients;
mod crashes;
mod directories;
mod effective;
mod events;
mod familiar;
mod helper;
mod interfaces;
mod listeners;
mod messages;
mod path_rules;
mod pid_file;
mod pressure;
mod refusals;
mod reloading;
mod service_manager;
mod signals;
mod violations;
mod workers;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use arbitration::FileKey;
use confinement::ProcessKind;
use discovery::{Announcement, remove_service_files};
use dtyp::ServerId;
use messaging::Messaging;
use process::arguments::{
    AUDITD_COMMAND, COMMANDD_COMMAND, DISCOVERYD_COMMAND, LOGOND_COMMAND, NOTIFYD_COMMAND,
};
use process::clocks::machine_clock;
use process::control::{Received, ToSupervisor, ToWorker};
use process::{Ending, EventSet, Priority};
use rustix::process::{WaitOptions, WaitStatus};
use settings::messaging_settings::messaging_settings;
use settings::{Directories, Settings};
use shares::added_shares::AddedShares;
use tables::{
    DeadWorkers, FailedLogonPage, FileTable, LogonPage, Mended, QosPage, Registry, Restored,
    TableError, ViolationPage, WatchPage,
};
use worker::{self, KeptMounts, PathRules, Prepared, notify_file_changed};

use backoff::Backoff;
use birth_budget::BirthBudget;
use clients::Clients;
use crashes::CrashesBySource;
pub use effective::path as effective_config;
use events::Event;
use familiar::FamiliarAddresses;
use helper::Helper;
pub use interfaces::fault as fault_of_interfaces;
use listeners::Listener;
use pid_file::PidFile;
use pressure::Pressure;
use refusals::Refusals;
use signals::{Signal, Signals};
use workers::{Birth, IDLE_WORKERS, Spawned, Worker, WorkerCommand, WorkerState, Workers};

/// Time that workers have to finish when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Time between two checks for expired disconnected opens. A conflicting open does not wait for
/// one: it removes an expired open at once.
const SCAVENGE_INTERVAL: Duration = Duration::from_secs(10);

/// Between two looks at the size of the log file, and after one that could not be renamed.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
const LOG_FAULT_INTERVAL: Duration = Duration::from_secs(3_600);

/// Finished workers after which the tables are searched once for records that these have left.
const FINISHED_MAX: usize = 64;

/// Time of one turn for the removal of dead workers from records of files: that of a search on most
/// servers. Of a longer one the rest follows in the next turns.
const REMOVAL_PER_TURN: Duration = Duration::from_millis(10);

/// Longest time for which no client is accepted because files are searched for dead workers.
const ACCEPTS_PAUSED_MAX: Duration = Duration::from_secs(1);

/// Longest wait for `logond` before the first worker. Without it clients are served who have no
/// password.
const LOGOND_START_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that killed workers have to be reaped; the kernel needs next to none.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// The server, from its first worker to its last.
#[derive(Debug)]
struct Supervisor {
    settings: Settings,
    command: WorkerCommand,
    listeners: Vec<Listener>,
    workers: Workers,
    clients: Clients,
    crashes: CrashesBySource,
    birth_budget: BirthBudget,
    familiar: FamiliarAddresses,
    /// Workers have idle priority until the budget is not low any more.
    has_yielding: bool,
    refusals: Refusals,
    notifyd: Helper,
    discoveryd: Helper,
    /// Announcement that discoveryd makes; `None` without one.
    announcement: Option<Announcement>,
    logond: Helper,
    /// The first workers wait for `logond`, which publishes the users, but no longer than this.
    awaits_logond_until: Option<Instant>,
    auditd: Helper,
    commandd: Helper,
    /// Socket that workers pass commands to, once some share has one.
    commands: Option<OwnedFd>,
    /// Socket that workers ask `logond` for names at.
    names: OwnedFd,
    registry: Registry,
    files: FileTable,
    qos: QosPage,
    violations: ViolationPage,
    // Used by its forks alone.
    failed_logons: FailedLogonPage,
    watches: WatchPage,
    prepared: Prepared,
    mounts: KeptMounts,
    /// Rules for the paths of future workers.
    path_rules: PathRules,
    /// Time of the next attempt to make others, if a worker lacks one.
    path_rules_from: Instant,
    pressure: Pressure,
    /// Messages: names of changed files to workers, and commands of administrators.
    messaging: Messaging,
    /// Messages are left that the last turn did not take.
    has_more_messages: bool,
    /// Workers that ended normally, and whose remaining records have not been searched for.
    finished: Vec<ServerId>,
    /// Other dead workers, whose records of files have not been removed yet.
    dead: DeadWorkers,
    /// Time that this turn has left for that.
    removal_left: Duration,
    /// Begin of a pause of accepting, for the removal of dead workers.
    accepts_paused: Option<Instant>,
    /// Time of the next check for expired disconnected opens.
    scavenge_at: Instant,
    /// Time of the next look at the size of the log file.
    log_at: Instant,
    backoff: Backoff,
    /// A child has ended that was not reaped: see [`Signals::child_ended`].
    child_ended: Arc<AtomicBool>,
    events: EventSet<Event>,
    /// Time before which nothing is accepted; clients wait in the kernel's backlog.
    accept_from: Option<Instant>,
    /// Time at which workers that have not ended are killed.
    stop_deadline: Option<Instant>,
    killed: bool,
}

/// A server that is ready to run: everything that can fail at the start has succeeded.
#[derive(Debug)]
pub struct Started {
    supervisor: Supervisor,
    signals: Signals,
    pid_file: PidFile,
}

/// Makes everything ready to serve. `registry`, directories and sockets are taken here, so that a
/// second server fails before it disturbs the first.
///
/// # Errors
/// The first obstacle, in words for the operator.
pub fn start(mut settings: Settings) -> anyhow::Result<Started> {
    let signals = Signals::register().context("cannot receive signals")?;
    raise_descriptor_limit();
    make_directories(&settings.directories)?;
    let pid_file = PidFile::take(&settings.directories.pid)?;
    let lock = settings.directories.lock.clone();
    // Each worker writes to its copies of what the next lines allocate: that is to lie together.
    process::fill_holes();
    let registry =
        Registry::create(&lock).with_context(|| format!("tables in {}", lock.display()))?;
    let watches = make_watch_page(&lock)?;
    trace::prepare(&lock).with_context(|| {
        format!("pages of workers in {}", lock.join(trace::DIRECTORY).display())
    })?;
    let (logons, failed_logons) = make_logon_pages(&lock)?;
    let violations = ViolationPage::open(&lock).context("cannot create the page of violations")?;
    let qos = make_qos(&lock, &settings)?;
    let files = make_files(&lock, &settings.directories.state)?;
    let how = messaging_settings(&settings.config.global)?;
    let messaging = Messaging::init(&lock, registry.server_id(), how)
        .context("cannot join the server's messages")?;
    messaging::transport::remove_stale(&lock, how.kind)
        .context("cannot remove files of the last server")?;
    let listeners = reloading::bind(&mut settings)?;
    let command = WorkerCommand::new(effective::path(&lock));
    effective::write(&command.config, &settings.config)?;
    let events = make_events(&signals, &listeners, &messaging)?;
    let names = process::listen_for_names(&lock).context("cannot create the socket for names")?;
    let prepared = Prepared::of(&settings, registry.server_id().unique_id);
    let mut supervisor = Supervisor {
        settings,
        command,
        listeners,
        workers: Workers::new(let_workers_return_to_normal_priority()),
        clients: Clients::new(logons),
        crashes: CrashesBySource::default(),
        birth_budget: BirthBudget::new(Instant::now(), processors()),
        familiar: FamiliarAddresses::default(),
        has_yielding: false,
        refusals: Refusals::default(),
        notifyd: Helper::new(NOTIFYD_COMMAND),
        discoveryd: Helper::new(DISCOVERYD_COMMAND),
        announcement: None,
        logond: Helper::new(LOGOND_COMMAND),
        awaits_logond_until: Some(Instant::now() + LOGOND_START_TIMEOUT),
        auditd: Helper::new(AUDITD_COMMAND),
        commandd: Helper::new(COMMANDD_COMMAND),
        commands: None,
        names,
        registry,
        files,
        qos,
        violations,
        failed_logons,
        watches,
        prepared,
        mounts: KeptMounts::default(),
        path_rules: PathRules::default(),
        path_rules_from: Instant::now(),
        pressure: Pressure::default(),
        messaging,
        has_more_messages: false,
        finished: Vec::new(),
        dead: DeadWorkers::default(),
        removal_left: REMOVAL_PER_TURN,
        accepts_paused: None,
        scavenge_at: Instant::now() + SCAVENGE_INTERVAL,
        log_at: Instant::now() + LOG_INTERVAL,
        backoff: Backoff::default(),
        child_ended: signals.child_ended(),
        events,
        accept_from: None,
        stop_deadline: None,
        killed: false,
    };
    supervisor.prepare_confinement();
    Ok(Started { supervisor, signals, pid_file })
}

impl Started {
    /// The addresses that are listened on.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.supervisor.listeners.iter().map(Listener::address).collect()
    }

    /// The settings, with what was decided while starting.
    pub fn settings(&self) -> &Settings {
        &self.supervisor.settings
    }

    /// Runs the server until it is told to stop. In a forked worker it serves one client instead,
    /// and returns only errors.
    ///
    /// # Errors
    /// The kernel refuses to poll, or the worker cannot serve.
    pub fn run(mut self) -> anyhow::Result<()> {
        service_manager::notify(&format!("READY=1\nMAINPID={}\n", std::process::id()));
        self.supervisor.announce_again();
        self.supervisor.listen_for_commands();
        process::fill_holes();
        while !self.supervisor.is_finished() {
            if let Some(birth) = self.supervisor.refill() {
                match worker::serve(self.become_worker(birth)?)? {}
            }
            for event in self.supervisor.wait()? {
                self.supervisor.handle_event(event, &mut self.signals);
            }
            self.supervisor.handle_time(Instant::now());
        }
        tracing::info!("stopped");
        Ok(())
    }
}

impl Supervisor {
    fn is_finished(&self) -> bool {
        let Some(deadline) = self.stop_deadline else { return false };
        let is_alone = self.workers.len() == 0 && !self.helpers().any(Helper::is_running);
        is_alone || (self.killed && Instant::now() >= deadline)
    }

    fn wait(&mut self) -> anyhow::Result<Vec<Event>> {
        let now = Instant::now();
        let starts_worker =
            self.wants_idle_worker().then(|| self.backoff.blocked_until(now).unwrap_or(now));
        let starts_notifyd = self.wants_notifyd().then(|| self.notifyd.start_at(now)).flatten();
        let starts_discoveryd =
            self.wants_discoveryd().then(|| self.discoveryd.start_at(now)).flatten();
        let starts_logond = self.wants_logond().then(|| self.logond.start_at(now)).flatten();
        let starts_auditd = self.wants_auditd().then(|| self.auditd.start_at(now)).flatten();
        let starts_commandd = self.wants_commandd().then(|| self.commandd.start_at(now)).flatten();
        let next = [
            starts_worker,
            self.awaits_logond_until.filter(|until| *until > now),
            starts_notifyd,
            starts_discoveryd,
            starts_logond,
            starts_auditd,
            starts_commandd,
            self.accept_from,
            self.stop_deadline,
            // Deletions of expired opens need a worker: without one there is no deadline.
            self.workers.deletion_owner().map(|_| self.scavenge_at),
            self.limits_log().then_some(self.log_at),
            self.messaging.next_timeout(),
            self.has_more_messages.then_some(now),
            (!self.dead.is_empty()).then_some(now),
            self.qos.is_shared().then(|| self.pressure.next_measurement(now)),
            self.refusals.next_timeout(),
            self.has_yielding.then(|| self.birth_budget.low_until()),
        ];
        let next = next.into_iter().flatten().min();
        self.events
            .wait(next.map(|at| at.saturating_duration_since(now)))
            .context("cannot wait for events")
    }

    fn handle_event(&mut self, event: Event, signals: &mut Signals) {
        match event {
            Event::Listener(index) => self.accept(index),
            Event::Signal => {
                for signal in signals.take() {
                    match signal {
                        Signal::Child => self.reap_ended(),
                        // The log has the result.
                        Signal::Reload => drop(self.reload()),
                        Signal::Stop => self.stop(),
                    }
                }
            }
            Event::Worker(pid) => self.receive(pid),
            // Taken with those that waited: see `handle_time`.
            Event::Message => {}
        }
    }

    fn handle_time(&mut self, now: Instant) {
        self.qos.set_clients(u32::try_from(self.clients.all().all()).unwrap_or(u32::MAX));
        if self.qos.is_shared()
            && let Some(stalled) = self.pressure.measure(now)
        {
            self.qos.set_stalled(stalled);
        }
        self.take_messages(now);
        self.removal_left = REMOVAL_PER_TURN;
        self.remove_dead();
        if self.scavenge_at <= now {
            self.remove_records_of_finished();
        }
        if self.scavenge_at <= now
            && let Some(deletion_owner) = self.workers.deletion_owner()
        {
            self.scavenge(now, deletion_owner);
        }
        if self.limits_log() && self.log_at <= now {
            self.limit_log(now);
        }
        self.restore_priority(now);
        self.end_last_helpers();
        self.refusals.take_due(now).iter().for_each(|line| tracing::warn!("{line}"));
        if self.accept_from.is_some_and(|from| from <= now) {
            self.accept_from = None;
            self.watch_listeners(true);
        }
        if self.stop_deadline.is_some_and(|deadline| deadline <= now) && !self.killed {
            tracing::warn!("killing {} workers that did not finish in time", self.workers.len());
            self.workers.kill_all();
            self.helpers().for_each(Helper::kill);
            self.killed = true;
            self.stop_deadline = Some(now + KILL_TIMEOUT);
        }
        self.messaging.flush(now);
        let dropped = self.messaging.take_dropped().messages;
        if dropped > 0 {
            tracing::warn!("{dropped} messages were dropped: the receivers' queues are full");
        }
    }

    /// Whether there is a log file of limited size.
    fn limits_log(&self) -> bool {
        let global = &self.settings.config.global;
        global.max_log_size > 0 && !global.log_file.is_empty()
    }

    /// Begins a new log file if the old one is too long, and has all processes write to it.
    /// Discoveryd, which has no rights to open one, writes few lines, and to the old one.
    fn limit_log(&mut self, now: Instant) {
        self.log_at = now + LOG_INTERVAL;
        match process::log::limit_size(&self.settings) {
            Ok(false) => {}
            Ok(true) => self.send_log(),
            Err(error) => {
                tracing::warn!("the log file keeps growing: {error:#}");
                self.log_at = now + LOG_FAULT_INTERVAL;
            }
        }
    }

    /// Has all processes write to the log file that this one has open. They may not open it.
    fn send_log(&self) {
        let message = match process::log::descriptor() {
            Ok(Some(file)) => ToWorker::Log(file),
            Ok(None) => return,
            Err(error) => return tracing::warn!("processes keep the old log file: {error}"),
        };
        self.workers.send_to_all(&message);
        let helpers = [&self.notifyd, &self.logond, &self.auditd, &self.commandd];
        helpers.into_iter().for_each(|helper| helper.send(&message));
    }

    /// Gives workers normal priority again when the flood of new clients is over.
    fn restore_priority(&mut self, now: Instant) {
        if self.has_yielding && !self.birth_budget.is_low(now) {
            self.has_yielding = false;
            self.workers.restore_priority();
        }
    }

    /// Closes expired disconnected opens. If they are of many files, the rest follows in the next
    /// turn, so that clients are accepted in between.
    fn scavenge(&mut self, now: Instant, deletion_owner: ServerId) {
        let scavenged = self.files.scavenge(deletion_owner, machine_clock());
        let has_more = scavenged.as_ref().is_ok_and(|it| it.has_more);
        self.scavenge_at = if has_more { now } else { now + SCAVENGE_INTERVAL };
        self.notify_workers(scavenged.map(|it| it.to_notify));
    }

    /// Starts one worker at most, so that waiting clients are accepted in between. In a forked
    /// worker it returns `Some`: that process must leave the supervisor's loop.
    fn refill(&mut self) -> Option<Birth> {
        if self.wants_idle_worker()
            && self.backoff.blocked_until(Instant::now()).is_none()
            && let Some(birth) = self.spawn()
        {
            return Some(birth);
        }
        let wanted = [
            self.wants_notifyd(),
            self.wants_discoveryd(),
            self.wants_logond(),
            self.wants_auditd(),
            self.wants_commandd(),
        ];
        let Self { notifyd, discoveryd, logond, auditd, commandd, .. } = self;
        let helpers = [notifyd, discoveryd, logond, auditd, commandd];
        for (helper, is_wanted) in helpers.into_iter().zip(wanted) {
            let now = Instant::now();
            if is_wanted
                && helper.start_at(now).is_some_and(|at| at <= now)
                && let Some(process) = helper.start(&self.command)
                && let Err(error) =
                    self.events.add(process.control(), Event::Worker(process.server_id.pid))
            {
                tracing::error!("cannot receive messages from {}: {error}", helper.name());
            }
        }
        None
    }

    fn wants_logond(&self) -> bool {
        self.stop_deadline.is_none()
    }

    /// Iterates over the helpers: processes of which a server has one each.
    fn helpers(&self) -> impl Iterator<Item = &Helper> {
        [&self.notifyd, &self.discoveryd, &self.logond, &self.auditd, &self.commandd].into_iter()
    }

    fn wants_auditd(&self) -> bool {
        self.stop_deadline.is_none() && self.settings.config.is_audited()
    }

    fn wants_commandd(&self) -> bool {
        self.stop_deadline.is_none() && self.commands.is_some()
    }

    /// Makes the socket that workers pass commands to, if some share has one. It stays until the
    /// server stops, for clients of before a reload.
    fn listen_for_commands(&mut self) {
        if self.commands.is_none() && self.settings.config.has_commands() {
            match process::listen_for_commands(&self.settings.directories.lock) {
                Ok(socket) => self.commands = Some(socket),
                Err(error) => tracing::error!("no command of a share can be run: {error}"),
            }
        }
    }

    /// Ends `logond`, `auditd` and `commandd` after the last worker, whose logons, records and
    /// commands they wait for.
    fn end_last_helpers(&mut self) {
        if self.stop_deadline.is_some() && self.workers.len() == 0 {
            self.logond.end();
            self.auditd.end();
            self.commandd.end();
        }
    }

    fn wants_discoveryd(&self) -> bool {
        self.stop_deadline.is_none() && self.announcement.is_some()
    }

    /// Announces the server to other machines according to the present settings.
    fn announce_again(&mut self) {
        let new = announcement_of(&self.settings);
        if let Some(old) = &self.announcement
            && new.as_ref().is_none_or(|new| old.is_outdated_by(new))
        {
            remove_service_files(old);
            self.discoveryd.end();
        }
        self.announcement = new;
    }

    fn wants_notifyd(&self) -> bool {
        self.stop_deadline.is_none() && self.settings.config.global.change_notify
    }

    fn wants_idle_worker(&self) -> bool {
        self.stop_deadline.is_none()
            && self.workers.idle_len() < IDLE_WORKERS
            && self.awaits_logond_until.is_none_or(|until| until <= Instant::now())
    }

    fn spawn(&mut self) -> Option<Birth> {
        // There are more slots than clients and ending workers together.
        let slot = self.clients.take_slot()?;
        let is_low = self.birth_budget.is_low(Instant::now());
        let priority = if is_low { Priority::Idle } else { Priority::Normal };
        self.has_yielding |= is_low;
        let list_of_mounts = self.mounts.before_fork();
        let started = match self.workers.spawn(&self.command, slot, priority) {
            Ok(Spawned::Child(birth)) => {
                self.mounts.continue_in_fork(list_of_mounts);
                return Some(birth);
            }
            Ok(Spawned::Parent(worker)) => {
                self.events.add(worker.control(), Event::Worker(worker.server_id.pid))
            }
            Err(error) => {
                self.clients.free_slot(slot);
                Err(error)
            }
        };
        if let Err(error) = started {
            let pause = self.backoff.record_failure(Instant::now());
            tracing::error!("cannot start a worker: {error}; next attempt in {pause:?}");
        }
        None
    }

    /// Handles a message of a worker.
    fn receive(&mut self, pid: u32) {
        if self.helpers().any(|helper| helper.is(pid)) {
            return self.receive_from_helper(pid);
        }
        let Some(worker) = self.workers.get_mut(pid) else { return };
        match worker.receive() {
            Ok(Received::Message(ToSupervisor::Ready { unique_id })) => {
                if unique_id != worker.server_id.unique_id {
                    tracing::error!("worker {pid} reported a wrong id");
                    workers::kill(pid, rustix::process::Signal::KILL);
                    return;
                }
                worker.set_ready();
                self.backoff.record_success();
                // Clients may wait for it.
                self.accept_from = self.accept_from.map(|_| Instant::now());
            }
            Ok(Received::Message(ToSupervisor::FurtherUser { address })) => {
                self.further_connection_has_user(address);
            }
            Ok(Received::Message(ToSupervisor::LacksPaths { number })) => {
                self.renew_path_rules(pid, number, Instant::now());
            }
            // It ends at once: see `reap`.
            Ok(Received::Message(ToSupervisor::Violation { call })) => {
                worker.violation = Some(call);
            }
            Ok(Received::Nothing) => {}
            // It is dying: SIGCHLD follows. Until then its end must not wake us again and again.
            Ok(Received::Closed) => self.events.remove(worker.control()),
            Err(error) => {
                tracing::error!("worker {pid}: {error}");
                self.events.remove(worker.control());
                workers::kill(pid, rustix::process::Signal::KILL);
            }
        }
    }

    /// Handles the message of a helper that it has started. A new `notifyd` has no watches yet, so
    /// workers send theirs again, and a new `logond` gets the passwords without an answer.
    fn receive_from_helper(&mut self, pid: u32) {
        let (is_notifyd, is_logond) = (self.notifyd.is(pid), self.logond.is(pid));
        let Self { notifyd, discoveryd, logond, auditd, commandd, names, commands, .. } = self;
        let commands = commands.as_ref().filter(|_| commandd.is(pid));
        let socket = is_logond.then_some(&*names).or(commands);
        let helpers = [notifyd, discoveryd, logond, auditd, commandd];
        let Some(helper) = helpers.into_iter().find(|helper| helper.is(pid)) else { return };
        let name = helper.name();
        let Some(process) = helper.process() else { return };
        match process.receive() {
            Ok(Received::Message(ToSupervisor::Ready { unique_id })) => {
                if helper.is_ready(unique_id) {
                    if is_notifyd {
                        self.workers.send_to_serving(&ToWorker::WatchAgain);
                    }
                    if is_logond {
                        self.awaits_logond_until = None;
                        self.workers.send_to_serving(&ToWorker::LogonsAgain);
                    }
                    if let Some(socket) = socket {
                        helper.give_socket(socket.try_clone());
                    }
                } else {
                    tracing::error!("{name} {pid} reported a wrong id");
                    workers::kill(pid, rustix::process::Signal::KILL);
                }
            }
            Ok(Received::Message(ToSupervisor::Violation { call })) => {
                process.violation = Some(call);
            }
            // It has no clients.
            Ok(
                Received::Message(
                    ToSupervisor::FurtherUser { .. } | ToSupervisor::LacksPaths { .. },
                )
                | Received::Nothing,
            ) => {}
            Ok(Received::Closed) => self.events.remove(process.control()),
            Err(error) => {
                tracing::error!("{name} {pid}: {error}");
                self.events.remove(process.control());
                workers::kill(pid, rustix::process::Signal::KILL);
            }
        }
    }

    /// As [`Supervisor::reap`], if a child has ended.
    fn reap_ended(&mut self) {
        if self.child_ended.swap(false, Ordering::Relaxed) {
            self.reap();
        }
    }

    /// Reaps all ended workers, and removes their records.
    fn reap(&mut self) {
        let (mut dead, mut must_mend) = (Vec::new(), false);
        // Any child; `waitpid` without a pid would mean our process group, where workers are not.
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let Ok(pid) = u32::try_from(pid.as_raw_nonzero().get()) else { continue };
            let is_logond = self.logond.is(pid);
            let Self { notifyd, discoveryd, logond, auditd, commandd, .. } = self;
            let helpers = [notifyd, discoveryd, logond, auditd, commandd];
            if let Some(helper) = helpers.into_iter().find(|helper| helper.is(pid)) {
                // A worker that is starting may still have this process's end open.
                let kind = helper.kind();
                if let Some(process) = helper.process() {
                    self.events.remove(process.control());
                    process.take_last_messages();
                    if let Some(kind) = kind {
                        violations::record(&self.violations, kind, process, status);
                    }
                }
                if let Some(dead) = helper.take_end(status, self.stop_deadline.is_some()) {
                    self.messaging.remove_dead(dead);
                }
                if is_logond {
                    self.workers.send_to_serving(&ToWorker::LogonsFailed);
                }
                continue;
            }
            let Some(mut worker) = self.workers.remove(pid) else { continue };
            // A worker that is starting may still have this process's end open.
            self.events.remove(worker.control());
            worker.take_last_messages();
            violations::record(&self.violations, ProcessKind::Worker, &worker, status);
            self.report_end(pid, status, &worker);
            // Its client may have become a user since the last reading.
            self.read_logons();
            let source = worker.slot.and_then(|slot| self.clients.free_slot(slot));
            let has_crashed = ending(status).is_none() && !has_missed_deadline(status);
            if let Some(source) = source.filter(|_| has_crashed) {
                self.crashes.record(source.as_stranger(), Instant::now());
            }
            self.messaging.remove_dead(worker.server_id);
            self.qos.remove_worker(worker.server_id.unique_id);
            self.remove_page(worker.server_id);
            must_mend |= status.signaled() && !has_missed_deadline(status);
            if leaves_no_opens(status, &worker) {
                self.finished.push(worker.server_id);
            } else {
                self.dead.add(worker.server_id);
                dead.push(worker.server_id);
            }
        }
        // Every record of every table is looked at: once, however many have died.
        if must_mend {
            self.mend();
        }
        self.remove_dead();
        if !dead.is_empty() {
            self.remove_records_of(&dead);
        }
        // Workers that end normally remove their records themselves; a single check covers many of
        // them.
        if self.finished.len() >= FINISHED_MAX {
            self.remove_records_of_finished();
        }
    }

    /// True if clients may be accepted beside dead workers. A client of one reconnects within
    /// milliseconds, and would ask in vain for durable opens that are not noted yet. Workers that
    /// die one after the other delay all clients by a bounded time.
    fn may_accept_beside_dead(&mut self, now: Instant) -> bool {
        if self.dead.is_empty() {
            self.accepts_paused = None;
            return true;
        }
        let since = *self.accepts_paused.get_or_insert(now);
        now.saturating_duration_since(since) >= ACCEPTS_PAUSED_MAX
    }

    /// Removes dead workers from records of files, for as long as this turn permits.
    fn remove_dead(&mut self) {
        while !self.dead.is_empty() && !self.removal_left.is_zero() {
            let begin = Instant::now();
            let deletion_owner = self.deletion_owner();
            let (to_notify, error) =
                self.files.remove_dead(&mut self.dead, deletion_owner, machine_clock());
            if let Some(error) = error {
                tracing::error!("a dead worker stays in the table of files: {error}");
            }
            self.notify_workers(Ok(to_notify));
            self.removal_left = self.removal_left.saturating_sub(begin.elapsed());
        }
    }

    fn remove_records_of_finished(&mut self) {
        let finished = std::mem::take(&mut self.finished);
        if !finished.is_empty() {
            self.remove_records_of(&finished);
        }
    }

    fn remove_records_of(&self, dead: &[ServerId]) {
        let pids: Vec<u32> = dead.iter().map(|it| it.pid).collect();
        match self.registry.remove_all_of(dead) {
            Ok(removed) if removed == tables::Removed::default() => {}
            Ok(removed) => tracing::info!("workers {pids:?} left records behind: {removed:?}"),
            Err(error) => tracing::error!("cannot remove records of workers {pids:?}: {error}"),
        }
    }

    /// Removes the page of counters of a dead worker.
    fn remove_page(&self, ServerId { pid, unique_id }: ServerId) {
        if let Err(error) = trace::remove(&self.settings.directories.lock, pid, unique_id) {
            tracing::warn!("cannot remove the page of worker {pid}: {error}");
        }
    }

    /// Picks the worker that takes over a dead worker's deletions. The supervisor keeps them while
    /// there is no worker, and passes them on to the next one.
    fn deletion_owner(&mut self) -> ServerId {
        self.workers.deletion_owner().unwrap_or_else(|| {
            self.scavenge_at = Instant::now();
            self.registry.server_id()
        })
    }

    /// Checks all tables, and rebuilds damaged ones: a killed process may have been changing one.
    fn mend(&self) {
        for (table, mended) in self.registry.mend().into_iter().chain(self.files.mend()) {
            match mended {
                Ok(Mended { was_damaged: false, .. }) => {}
                Ok(Mended { chains_lost, records_lost, .. }) => tracing::warn!(
                    "{table} was damaged and has been rebuilt; {chains_lost} chains and \
                     {records_lost} records are lost"
                ),
                Err(error) => tracing::error!("cannot check {table}: {error}"),
            }
        }
    }

    /// Asks workers to check files whose records have changed.
    fn notify_workers(&mut self, to_notify: Result<Vec<(FileKey, Vec<ServerId>)>, TableError>) {
        let to_notify = match to_notify {
            Ok(to_notify) => to_notify,
            Err(error) => return tracing::error!("cannot update the table of files: {error}"),
        };
        for (file, servers) in to_notify {
            // The supervisor owns deletions only until there is a worker.
            for server in servers.into_iter().filter(|it| *it != self.registry.server_id()) {
                if let Some(worker) = self.workers.get_mut(server.pid) {
                    worker.may_own_deletions = true;
                }
                notify_file_changed(&mut self.messaging, server, file);
            }
        }
    }

    /// Logs the unexpected end of a worker. One that failed to start delays the next start.
    fn report_end(&mut self, pid: u32, status: WaitStatus, worker: &Worker) {
        let how = match (status.terminating_signal(), ending(status)) {
            _ if has_missed_deadline(status) => "ended: no answer of the name service".to_owned(),
            (Some(signal), _) => format!("was killed by signal {signal}"),
            (None, Some(Ending::Finished)) => "finished".to_owned(),
            (None, Some(Ending::Unfinished)) => "ended while its storage hangs".to_owned(),
            (None, None) => {
                format!("failed with status {}", status.exit_status().unwrap_or(-1))
            }
        };
        match worker.state {
            WorkerState::Stopping | WorkerState::Ending => tracing::debug!("worker {pid} {how}"),
            WorkerState::Idle => tracing::error!("worker {pid} {how} before it had a client"),
            WorkerState::Serving if ending(status).is_some() => {
                tracing::debug!("worker {pid} {how}");
            }
            WorkerState::Serving => {
                tracing::error!("worker {pid} {how}; its client has lost its connections");
            }
        }
        let served = worker.is_ready || ending(status).is_some();
        let failed = worker.state == WorkerState::Idle || !served;
        let is_wanted = matches!(worker.state, WorkerState::Idle | WorkerState::Serving);
        if failed && is_wanted {
            let pause = self.backoff.record_failure(Instant::now());
            tracing::warn!("next worker starts in {pause:?}");
        }
    }

    /// Begins to stop. Asking twice changes nothing: a terminal and a service manager may both ask.
    fn stop(&mut self) {
        if self.stop_deadline.is_some() {
            return;
        }
        tracing::info!("stopping");
        service_manager::notify("STOPPING=1\n");
        self.accept_from = None;
        self.listeners.clear();
        self.workers.wait_until_closed();
        self.workers.shut_down();
        let others = [&self.notifyd, &self.discoveryd];
        others.into_iter().for_each(|helper| helper.send(&ToWorker::Shutdown));
        self.announcement.iter().for_each(remove_service_files);
        self.stop_deadline = Some(Instant::now() + STOP_TIMEOUT);
    }
}

/// Makes the page of watches. Nobody watches yet, whatever the last server left.
fn make_watch_page(lock: &Path) -> anyhow::Result<WatchPage> {
    let watches =
        WatchPage::open(lock).with_context(|| format!("page of watches in {}", lock.display()))?;
    watches.begin(ServerId::default());
    Ok(watches)
}

/// Makes the page with the highest logon of each worker, and that of failed logons.
fn make_logon_pages(lock: &Path) -> anyhow::Result<(LogonPage, FailedLogonPage)> {
    let logons =
        LogonPage::create(lock).with_context(|| format!("page of logons in {}", lock.display()))?;
    // Its times are those of the machine's clock, which starts again with the machine.
    let failed =
        FailedLogonPage::create(lock).context("cannot create the page of failed logons")?;
    Ok((logons, failed))
}

/// Makes the set of sources that the supervisor waits for from its start.
fn make_events(
    signals: &Signals,
    listeners: &[Listener],
    messaging: &Messaging,
) -> anyhow::Result<EventSet<Event>> {
    let events = EventSet::new().context("cannot create the event loop")?;
    for descriptor in signals.descriptors() {
        events.add(descriptor, Event::Signal)?;
    }
    for (index, listener) in listeners.iter().enumerate() {
        events.add(listener, Event::Listener(index))?;
    }
    if let Some(wake) = messaging.wake_source() {
        events.add(wake, Event::Message).context("cannot poll messages")?;
    }
    Ok(events)
}

/// Makes the directories of a server, and the files in them that operators may have moved.
fn make_directories(directories: &Directories) -> anyhow::Result<()> {
    directories::create(directories)?;
    AddedShares::verify_writers(&directories.state)?;
    AddedShares::prepare_folder(&directories.state)?;
    Ok(())
}

/// Returns the announcement for other machines. Without one the server is started all the same.
fn announcement_of(settings: &Settings) -> Option<Announcement> {
    let announcement = Announcement::of(settings);
    announcement.unwrap_or_else(|error| {
        tracing::error!("other machines cannot find this server: {error:#}");
        None
    })
}

/// Creates the page of the classes of service, with their limits.
fn make_qos(lock: &Path, settings: &Settings) -> anyhow::Result<QosPage> {
    QosPage::create(lock)
        .inspect(|page| page.configure(settings.config.classes.iter().map(|it| &it.class)))
        .with_context(|| format!("cannot create the page of classes in {}", lock.display()))
}

/// Makes the table of files, with the persistent opens that the last run of the server left.
fn make_files(lock: &Path, state: &Path) -> anyhow::Result<FileTable> {
    let files = FileTable::create(lock, state).context("cannot create the table of files")?;
    // A server without its persistent opens is better than none.
    let restored = files.restore(machine_clock());
    if restored.is_ok_and(|it| it.was_mended) {
        tracing::warn!("persistent_opens.tdb was damaged and has been rebuilt");
    }
    match restored {
        Ok(Restored { opens: 0, damaged: 0, .. }) => {}
        Ok(Restored { opens, damaged: 0, .. }) => {
            tracing::info!("{opens} persistent opens wait for their clients");
        }
        Ok(Restored { opens, damaged, .. }) => {
            tracing::error!(
                "{opens} persistent opens were restored; {damaged} were damaged and are lost"
            );
        }
        Err(error) => tracing::error!("cannot restore persistent opens: {error}"),
    }
    Ok(files)
}

/// Returns the way in which a worker ended by itself; none if it failed or was killed.
fn ending(status: WaitStatus) -> Option<Ending> {
    status.exit_status().and_then(Ending::of_status)
}

/// True if no record of a file can have anything of a dead worker. So a search of all files, the
/// most expensive part of its end, is left out.
///
/// A worker that has finished has closed its opens. One that the name service has kept waiting had
/// no session ([`has_missed_deadline`]): strangers can cause any number of such ends.
fn leaves_no_opens(status: WaitStatus, worker: &Worker) -> bool {
    match ending(status) {
        Some(Ending::Finished) => true,
        Some(Ending::Unfinished) => false,
        None => has_missed_deadline(status) && !worker.may_own_deletions,
    }
}

/// True if a worker has ended because the name service was late at its client's first logon. No
/// table is being changed then.
fn has_missed_deadline(status: WaitStatus) -> bool {
    status.terminating_signal() == Some(process::deadline_signal())
}

/// Descriptors that a worker can need: one for each open that a client may have, and some.
const DESCRIPTORS_WANTED: u64 = 2 * 65_536;

/// Lets the supervisor, and the workers that inherit it, hold as many descriptors as they can need,
/// or as many as the system allows: the traditional 1024 is for programs that use `select`.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // `None` is no limit at all. Only root may raise what was given as the maximum.
    let wanted = limit.maximum.map(|maximum| maximum.max(DESCRIPTORS_WANTED));
    let set = |both| setrlimit(Resource::Nofile, Rlimit { current: both, maximum: both });
    if let Err(error) = set(wanted).or_else(|_| set(limit.maximum)) {
        tracing::debug!("cannot raise the limit of open files: {error}");
    }
}

/// Lets workers with idle priority take normal priority again: by the limit of nice values, or by
/// CAP_SYS_NICE where the limit cannot be raised. Returns false if the system does not, or if the
/// operator has given the server another scheduling policy.
fn let_workers_return_to_normal_priority() -> bool {
    use rustix::process::{Resource, Rlimit, getpriority_process, getrlimit, setrlimit};
    use rustix::thread::CapabilitySet;
    let Ok(nice) = getpriority_process(None) else { return false };
    let needed = process::nice_limit(nice);
    let Rlimit { current, maximum } = getrlimit(Resource::Nice);
    // `None` is no limit.
    let raise = |limit: Option<u64>| limit.map(|limit| limit.max(needed));
    let raised = Rlimit { current: raise(current), maximum: raise(maximum) };
    let is_enough = current == raised.current || setrlimit(Resource::Nice, raised).is_ok();
    let is_privileged = || {
        let capabilities = rustix::thread::capabilities(None);
        capabilities.is_ok_and(|it| it.effective.contains(CapabilitySet::SYS_NICE))
    };
    (is_enough || is_privileged()) && process::is_normal_priority()
}

/// The number of processors that this process may use.
fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |it| u32::try_from(it.get()).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use dtyp::ServerId;
    use process::control;
    use process::{Ending, Priority};
    use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

    use super::{Worker, leaves_no_opens};

    fn worker() -> Worker {
        let (supervisor_end, _) = control::pair().expect("descriptors are left");
        Worker::new(ServerId::default(), Some(0), supervisor_end, Priority::Normal)
    }

    /// Status of a process that ends by this command of a shell.
    #[expect(clippy::zombie_processes, reason = "`waitpid` has the status of both kinds")]
    fn status_after(command: &str) -> WaitStatus {
        let shell = Command::new("sh").args(["-c", command]).spawn().expect("there is a shell");
        let pid = i32::try_from(shell.id()).ok().and_then(Pid::from_raw);
        let (_, status) = waitpid(pid, WaitOptions::empty()).expect("a child").expect("it waits");
        status
    }

    #[test]
    fn all_files_are_searched_for_no_worker_that_had_no_session_or_has_closed_its_opens() {
        let late = status_after(&format!("kill -{} $$", process::deadline_signal()));
        assert!(leaves_no_opens(late, &worker()), "the name service was late at its first logon");
        let mut owner = worker();
        owner.may_own_deletions = true;
        assert!(!leaves_no_opens(late, &owner), "its deletions need another owner");
        let exit = |ending: Ending| status_after(&format!("exit {}", ending.status()));
        assert!(leaves_no_opens(exit(Ending::Finished), &owner));
        assert!(!leaves_no_opens(exit(Ending::Unfinished), &worker()));
        assert!(!leaves_no_opens(status_after("kill -9 $$"), &worker()));
        assert!(!leaves_no_opens(status_after("exit 101"), &worker()));
    }
}
