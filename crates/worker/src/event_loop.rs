//! The loop of a worker: the only place that waits.
//!
//! One *turn*: wait for completions, act on each, let the engine say what it wants done until it
//! wants nothing more, then hand all frames out. So requests that arrived together are answered
//! together, by one system call.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use config::Global;
use confinement::ProcessKind;
use dtyp::{FileTime, Guid, ServerId};
use messaging::Messaging;
use process::Ending;
use process::clocks::machine_clock;
use process::control::{ToSupervisor, WorkerEnd};
use proto::entropy::Entropy;
use proto::{ConnectionId, Notice, Now, Server};
use rustc_hash::FxHashMap;
use settings::Settings;
use settings::messaging_settings::messaging_settings;
use shares::accounts::Accounts;
use shares::server_settings::has_continuously_available_shares;
use shares::unix::ask_logond_for_names;
use slab::Slab;
use store::{Store, StoreSettings};
use tables::{QosPage, Registry, SingleProcess, announced};
use trace::{Clock, LogonOutcome, Phase, Tracer};
use tracing::{debug, warn};
use uring::{Backend, Driver, Limits, Op, Reason, Refused, Token};

use super::WorkerStart;
use super::administration::waiting_requests::WaitingRequests;
use super::asked_logons::pending::AskedLogons;
use super::asked_sessions::pending::AskedSessions;
use super::audit::AuditTrail;
use super::clocks::{TimedPage, read_clocks};
use super::connection::Transport;
use super::inherited::{Inherited, Prepared};
use super::kept_offer::KeptOffer;
use super::kernel_leases::signals::KernelLeases;
use super::lanes::{Done, LaneId, Lanes};
use super::listings::Listings;
use super::local_storage::LocalStorage;
use super::logon_slot::LogonSlot;
use super::logons::{self, SharedLogons};
use super::messages::Waiting;
use super::notices::Notices;
use super::own_names::OwnNames;
use super::passing::queue::Passing;
use super::path_rules::PathRules;
use super::share_commands::queue::CommandQueue;
use super::slow_storage::SlowStorage;
use super::storage_commands::commands::StorageCommands;
use super::storage_threads::StorageThreads;
use super::storage_threads::mounts::KeptMounts;
use super::store_request::StoreRequest;
use super::traversing::Traversing;
use super::unreached_shares::waiting::UnreachedShares;
use super::watches::Watches;

/// Time that storage threads have for the work of a client that has left.
const ABANDONED_TIMEOUT: Duration = Duration::from_secs(10);

/// The process that serves one client.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(super) settings: Settings,
    pub(super) server: Server,
    pub(super) store: Store,
    pub(super) store_requests: Slab<StoreRequest>,
    pub(super) storage_threads: StorageThreads<Self>,
    pub(super) mounts: KeptMounts,
    pub(super) path_rules: PathRules,
    pub(super) unreached_shares: UnreachedShares,
    pub(super) listings: Listings,
    pub(super) traversing: Traversing,
    pub(super) kernel_leases: KernelLeases,
    pub(super) local_storage: LocalStorage,
    /// Time of the next call of [`Self::report_slow_storage`].
    pub(super) next_slow: Option<Duration>,
    pub(super) accounts: Accounts,
    pub(super) own_names: OwnNames,
    pub(super) kept_offer: KeptOffer,
    pub(super) registry: Registry,
    pub(super) messaging: Messaging,
    /// Counts of the client's address, until its first connection.
    logons: Option<SharedLogons>,
    pub(super) waiting: Waiting,
    pub(super) passing: Passing,
    pub(super) asked_logons: AskedLogons,
    pub(super) asked_sessions: AskedSessions,
    pub(super) changed_shares: WaitingRequests,
    pub(super) command_queue: CommandQueue,
    pub(super) storage_commands: StorageCommands,
    pub(super) notices: Notices,
    pub(super) audit: AuditTrail,
    logon_slot: Option<LogonSlot>,
    pub(super) watches: Watches,
    pub(super) trace: Tracer,
    pub(super) qos: QosPage,
    pub(super) slow_storage: SlowStorage,
    pub(super) control: WorkerEnd,
    pub(super) driver: Driver,
    /// Operations that the driver had no room for.
    pub(super) refused: VecDeque<(Token, Op)>,
    // Before the transports, whose sockets they use.
    pub(super) lanes: Lanes,
    pub(super) transports: FxHashMap<ConnectionId, Transport>,
    /// A worker that waits for its client is not one that has lost it.
    pub(super) had_client: bool,
    pub(super) server_guid: Guid,
    /// Opens can be kept beyond the server: decided when this process started.
    pub(super) keeps_persistent: bool,
    /// Longest wait for requests to end after the request to stop.
    pub(super) stop_at: Option<Instant>,
    /// The same since the last client has left.
    abandoned_at: Option<Instant>,
    /// Start of this turn: the clocks are read once a turn.
    pub(super) turn: Now,
}

/// Kinds of tokens: the upper half is the kind, the lower half an index.
pub(super) const CONTROL: u64 = 1 << 32;
pub(super) const MESSAGES: u64 = 2 << 32;
pub(super) const RECEIVE: u64 = 3 << 32;
pub(super) const SEND: u64 = 4 << 32;
pub(super) const STORE: u64 = 5 << 32;
pub(super) const LANES: u64 = 6 << 32;
pub(super) const STORAGE_THREADS: u64 = 7 << 32;
pub(super) const COMMANDS: u64 = 8 << 32;
pub(super) const STORAGE_COMMANDS: u64 = 9 << 32;
pub(super) const KERNEL_LEASES: u64 = 10 << 32;

/// Threshold of slow requests, in nanoseconds.
pub(super) fn slow_ns(global: &Global) -> u64 {
    u64::from(global.slow_operation_threshold) * 1_000_000
}

fn store_settings(settings: &Settings, accounts: &Accounts) -> StoreSettings {
    let domain_ids = crate::domain_ids::open(settings, accounts.samba_users().clone());
    StoreSettings {
        opens_max: settings.config.global.max_open_files,
        domain_ids: Some(domain_ids),
        ..StoreSettings::default()
    }
}

fn new_driver() -> io::Result<Driver> {
    Driver::new(Backend::Auto, Limits::default())
}

/// Why workers of this process have no ring, if they have none.
///
/// # Errors
/// No descriptors are left.
pub fn ring_error() -> io::Result<Option<String>> {
    Ok(new_driver()?.ring_error().map(ToString::to_string))
}

impl Worker {
    /// Makes the worker ready for its first connection.
    #[inline(never)]
    pub(crate) fn prepare(start: Box<WorkerStart>) -> anyhow::Result<Box<Self>> {
        let WorkerStart { settings, server_id, clock, control, inherited, logon_slot } = *start;
        process::give_up_capabilities(&settings, ProcessKind::Worker);
        let lock_dir = &settings.directories.lock;
        ask_logond_for_names(lock_dir.clone());
        let inherited = inherited.map_or_else(|| Inherited::join(&settings, server_id), Ok)?;
        let Inherited { tables, pages, prepared, mounts, path_rules } = inherited;
        let Prepared { server_guid, engine, own_names, .. } = prepared;
        let keeps_persistent = has_continuously_available_shares(&settings.config);
        let how = messaging_settings(&settings.config.global)?;
        let trace = start_tracer(lock_dir, server_id, clock);
        trace.set_slow_threshold(slow_ns(&settings.config.global));
        let mut messaging = Messaging::init(lock_dir, server_id, how)
            .context("cannot join the server's messages")?;
        let driver = new_driver().context("cannot create the event loop")?;
        let entropy = Entropy::new(fill_random);
        let mut server =
            Server::new(proto::COMMANDS, engine, entropy, Box::new(tables.files), server_id);
        messaging.set_tracer(trace);
        server.set_tracer(trace);
        server.handle_slots(Box::new(TimedPage(pages.qos.clone())));
        let logons = SharedLogons(Arc::new(pages.failed_logons));
        server.handle_logon_slots(Box::new(logons.clone()));
        let accounts = Accounts::open(&settings);
        let store_settings = store_settings(&settings, &accounts);
        let mut worker = Box::new(Self {
            accounts,
            own_names,
            kept_offer: KeptOffer::default(),
            store: Store::new(store_settings),
            store_requests: Slab::new(),
            storage_threads: StorageThreads::new(server.storage_load().clone()),
            mounts,
            path_rules,
            unreached_shares: UnreachedShares::default(),
            listings: Listings::default(),
            traversing: Traversing::default(),
            kernel_leases: KernelLeases::default(),
            local_storage: LocalStorage::new(clock),
            next_slow: None,
            server,
            registry: tables.registry,
            messaging,
            logons: Some(logons),
            waiting: Waiting::default(),
            passing: Passing::default(),
            asked_logons: AskedLogons::default(),
            asked_sessions: AskedSessions::default(),
            changed_shares: WaitingRequests::default(),
            command_queue: CommandQueue::default(),
            storage_commands: StorageCommands::default(),
            notices: Notices::new(server_id),
            audit: AuditTrail::default(),
            logon_slot,
            watches: Watches::new(pages.watches),
            trace,
            qos: pages.qos,
            slow_storage: SlowStorage::default(),
            control,
            driver,
            refused: VecDeque::new(),
            transports: FxHashMap::default(),
            lanes: Lanes::new(trace.watch()).context("cannot create a descriptor for lanes")?,
            had_client: false,
            server_guid,
            keeps_persistent,
            stop_at: None,
            abandoned_at: None,
            turn: read_clocks(),
            settings,
        });
        worker.slow_storage.configure(&worker.settings.config.global);
        worker.watch_messages();
        worker.watch_lanes();
        Ok(worker)
    }

    /// Waits for a client and serves it until its last connection is gone or the supervisor says
    /// so.
    pub(crate) fn run(&mut self) -> anyhow::Result<Ending> {
        let ruleset = self.path_rules.take();
        process::keep_to(ruleset.as_ref(), ProcessKind::Worker);
        drop(ruleset);
        process::confine(&self.settings, ProcessKind::Worker, &self.control);
        let ready = ToSupervisor::Ready { unique_id: self.registry.server_id().unique_id };
        self.control.send(ready).context("the supervisor is gone")?;
        self.watch_control();
        let mut completions = Vec::new();
        while !self.is_done() {
            let timeout = self.timeout();
            self.trace.wait_for_events();
            self.log_slow_requests();
            self.driver.wait(timeout, &mut completions).context("cannot wait for events")?;
            self.trace.woke(completions.len());
            self.turn = read_clocks();
            for completion in completions.drain(..) {
                self.complete(completion);
                self.serve_effects();
            }
            self.serve_timeouts();
            self.continue_listing();
            self.continue_traversing();
            self.serve_postponed();
            self.place_local_storage();
            self.resubmit();
            self.send_changes();
            self.send_audit();
            self.flush_messages();
            self.flush();
        }
        let ending = self.close_all();
        if let Some((client, unlogged)) = self.server.take_unlogged_refusals(self.turn.monotonic) {
            logons::log_unlogged(client, unlogged);
        }
        // The requests that the last turn answered end here.
        self.trace.wait_for_events();
        self.log_slow_requests();
        self.trace.enter(Phase::Other);
        self.release_clients();
        Ok(ending)
    }

    /// Releases the resources that other processes wait for, and leaves the rest to the kernel: the
    /// process ends, and freeing its memory piece by piece costs a tenth of a short client's whole
    /// life.
    pub(crate) fn end(self) {
        let Self { settings, server, store, registry, driver, trace, qos, watches, .. } = self;
        std::mem::forget((settings, server, store, registry, driver, trace, qos, watches));
    }

    /// The time that the engine gets: the start of this turn.
    pub(super) fn now(&self) -> Now {
        self.turn
    }

    /// Hands an operation to the kernel, now or when there is room.
    #[inline(always)]
    pub(super) fn submit(&mut self, token: Token, op: Op) {
        submit(&mut self.driver, &mut self.refused, token, op);
    }

    fn resubmit(&mut self) {
        for _ in 0..self.refused.len() {
            let Some((token, op)) = self.refused.pop_front() else { return };
            self.submit(token, op);
        }
    }

    fn is_done(&mut self) -> bool {
        // A connection whose offer was accepted is as good as here.
        let is_left = self.had_client && self.transports.is_empty() && self.passing.is_idle();
        // Storage that hangs must not keep a place for a client that has left.
        self.abandoned_at = (is_left && !self.storage_threads.is_empty())
            .then(|| self.abandoned_at.unwrap_or_else(|| Instant::now() + ABANDONED_TIMEOUT));
        if self.deadline().is_some_and(|at| at <= Instant::now()) {
            return true;
        }
        // A connection that was passed on is lost if the last message about it does not leave.
        let has_queued = || self.messaging.counters().queued > 0;
        let is_idle = || self.server.is_idle() && self.command_queue.is_idle();
        let is_audited = || self.audit.keeps_worker(Instant::now());
        is_left && is_idle() && self.has_closed_all() && !has_queued() && !is_audited()
    }

    /// Deadline of this worker; unfinished work ends with it.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.stop_at.into_iter().chain(self.abandoned_at).min()
    }

    /// True if neither opens nor work of the storage are left.
    fn has_closed_all(&self) -> bool {
        self.store_requests.is_empty()
            && self.storage_threads.is_idle()
            && self.server.file_opens().next().is_none()
    }

    /// Closes what is left when a deadline has passed, so that other clients need not wait for the
    /// kernel to end a thread that hangs. The supervisor cares for the rest.
    fn close_all(&mut self) -> Ending {
        self.lose_all("the worker ends");
        self.end_commands();
        self.end_storage_command();
        self.send_changes();
        self.send_audit();
        self.flush_messages();
        if self.has_closed_all() { Ending::Finished } else { Ending::Unfinished }
    }

    /// The clock is looked at only if something is due at some time; mostly nothing is.
    fn timeout(&self) -> Option<Duration> {
        let has_turns = !self.listings.is_empty() || !self.traversing.is_empty();
        if has_turns || self.server.has_postponed(None) {
            return Some(Duration::ZERO);
        }
        let engine = self.server.poll_timeout().into_iter().chain(self.next_frame_deadline());
        let engine = engine.chain(self.next_slow).chain(self.storage_threads.next_timeout()).min();
        let engine = engine.map(|at| at.saturating_sub(machine_clock()));
        let others = self.next_timeout().into_iter().chain(self.deadline()).min();
        let others = others.map(|at| at.saturating_duration_since(Instant::now()));
        engine.into_iter().chain(others).min()
    }

    /// Next call of [`Self::serve_timeouts`], without the engine's own timeouts.
    fn next_timeout(&self) -> Option<Instant> {
        let times = [
            self.messaging.next_timeout(),
            self.waiting.next_timeout(),
            self.passing.next_timeout(),
            self.asked_logons.next_timeout(),
            self.asked_sessions.next_timeout(),
            self.changed_shares.next_timeout(),
            self.command_queue.next_timeout(),
            self.storage_commands.next_timeout(),
            self.next_confirmation(),
            self.audit.retry_at(),
            self.transports.values().filter_map(Transport::next_drain_timeout).min(),
            self.slow_storage.next_timeout(),
            self.store.next_timeout(),
        ];
        times.into_iter().flatten().min()
    }

    pub(super) fn add_connection(&mut self, socket: TcpStream) {
        // Also one that is gone already was this worker's client: it serves no other.
        self.had_client = true;
        let transport = Transport::new(socket, self.server.memory());
        let (client, server) = match transport.addresses() {
            Ok(addresses) => addresses,
            Err(error) => return debug!("a new connection has ended already: {error}"),
        };
        if let Some(logons) = self.logons.take() {
            logons::share_rate_of_lines(logons, client);
        }
        transport.send_small_frames_at_once();
        let now = self.now();
        let id = self.server.handle_connect(now, client, server);
        debug!("{client} connected: {} worker={}", id.0, std::process::id());
        self.transports.insert(id, transport);
        self.receive(id);
    }

    /// The lane of a transport over which much goes, if another one of this client is as busy: what
    /// one transport moves, this thread moves as fast. Only for what is signed or sealed: moving
    /// alone is not worth the way to another processor's cache.
    pub(super) fn lane(&mut self, id: ConnectionId) -> Option<LaneId> {
        let transports = self.transports.values().filter(|it| it.is_bulky()).count();
        let (lanes, store) = (&mut self.lanes, &mut self.store);
        let revert_to_server = || {
            store.revert_to_server();
        };
        let choose =
            || (transports > 1).then(|| lanes.choose(transports, revert_to_server)).flatten();
        self.transports.get_mut(&id)?.lane(choose).filter(|_| transports > 1)
    }

    fn watch_lanes(&mut self) {
        let fd = self.lanes.wake_source().as_raw_fd();
        self.submit(Token(LANES), Op::PollReadable { fd });
    }

    /// Handles the results of the lanes.
    pub(super) fn read_lanes(&mut self) {
        for (id, done) in self.lanes.take_done() {
            match done {
                Done::Received { buffer, checked, result } => {
                    let at = self.trace.receives();
                    for it in checked.iter().filter(|it| it.checked.is_some()) {
                        self.trace.lane_worked(Phase::Verifying, it.spent);
                    }
                    let Some(transport) = self.transports.get_mut(&id) else { continue };
                    transport.received_by_lane(buffer, checked, at);
                    match result {
                        Ok(1..) => self.take_frames(id),
                        end => self.receive_ended(id, end),
                    }
                }
                Done::Overdue => self.frame_overdue(id),
                Done::Sent { buffers, protected, result } => {
                    self.trace.enter(Phase::Sending);
                    let spent = protected.iter().flatten();
                    spent.for_each(|it| self.trace.lane_worked(Phase::Signing, *it));
                    let Some(transport) = self.transports.get_mut(&id) else { continue };
                    transport.sent_by_lane(&buffers, &protected, result.is_ok());
                    self.take_sent(id, buffers, result);
                }
            }
            self.serve_effects();
        }
        self.watch_lanes();
    }

    /// Returns a connection's description for the log, with its client and user and this process.
    pub(super) fn describe(&self, id: ConnectionId) -> String {
        let by_socket = || Some(self.transports.get(&id)?.addresses().ok()?.0);
        let client = self.server.client_of(id).or_else(by_socket);
        let client = client.map_or_else(|| "unknown".to_owned(), |client| client.to_string());
        let user = self.notices.user().unwrap_or_default();
        format!("connection {} client={client} user={user:?} worker={}", id.0, std::process::id())
    }

    /// Reports the loss of a transport to the engine.
    pub(super) fn connection_lost(&mut self, id: ConnectionId, why: &str) {
        self.trace.enter(Phase::Other);
        debug!("{} ended: {why}", self.describe(id));
        self.confirm_taken(id);
        let now = self.now();
        self.server.handle_disconnect(now, id);
        self.close(id);
    }

    /// Ends all connections, as if their transports were gone.
    pub(super) fn lose_all(&mut self, why: &str) {
        let ids: Vec<ConnectionId> = self.transports.keys().copied().collect();
        ids.into_iter().for_each(|id| self.connection_lost(id, why));
        self.serve_effects();
    }

    pub(super) fn close(&mut self, id: ConnectionId) {
        let Some(transport) = self.transports.get_mut(&id) else { return };
        transport.shut_down();
        if !transport.is_busy() {
            self.transports.remove(&id);
        }
    }

    pub(super) fn record_notice(&mut self, notice: Notice, now: FileTime) {
        match notice {
            Notice::Changed(changes) => self.watches.change(changes),
            Notice::LogonChanged(logon) => {
                self.logon_slot.iter().for_each(|slot| slot.report(logon));
            }
            Notice::FurtherUser { client: address } => {
                // If the supervisor does not read, the connection counts as a stranger's.
                let sent = self.control.send(ToSupervisor::FurtherUser { address });
                sent.unwrap_or_else(|error| debug!("cannot report a user: {error}"));
            }
            Notice::Unwatched { volatile } => {
                self.store.revert_to_server();
                self.watches.end(&mut self.messaging, volatile);
            }
            Notice::Watched(watch) => {
                let volatile = watch.volatile;
                self.store.revert_to_server();
                let is_guest = !self.notices.had_user();
                self.watches.begin(&mut self.messaging, *watch, is_guest);
                let now = self.now();
                // Not when the turn began: what happened since then, the watch is not about.
                self.server.handle_watched(now, machine_clock(), volatile);
                self.serve_effects();
            }
            Notice::Audited(record) => {
                match !record.is_cheap() || self.may_record(record.audit.client) {
                    true => self.audit.share(&record, now),
                    false => self.audit.leave_out(),
                }
            }
            Notice::LogonRefused(refused) => {
                logons::log_refused(&refused);
                if self.server.settings().is_audited {
                    self.audit.refused_logon(&refused, now);
                }
            }
            notice => {
                if let Notice::SessionOpened(opened) = &notice {
                    logons::log_opened(opened);
                    if self.server.settings().is_audited {
                        let is_user = opened.outcome == LogonOutcome::User;
                        match is_user || self.may_record(opened.client) {
                            true => self.audit.logon(opened, now),
                            false => self.audit.leave_out(),
                        }
                    }
                }
                let _access = self.trace.access_table();
                self.notices.record(&self.registry, notice, now);
            }
        }
    }

    /// Returns whether the audit may have one more record that a client without a user has caused.
    fn may_record(&self, client: SocketAddr) -> bool {
        self.server.may_record(self.turn.monotonic, client)
    }

    /// Sends the changes of this turn to `notifyd`, if a watch exists.
    fn send_changes(&mut self) {
        if self.watches.wants_flush() {
            self.store.revert_to_server();
            self.watches.flush(&mut self.messaging);
        }
    }

    /// Sends the records of this turn to `auditd`.
    fn send_audit(&mut self) {
        if self.audit.wants_flush(Instant::now) {
            self.trace.enter(Phase::Messages);
            self.store.revert_to_server();
            let Self { audit, messaging, settings, .. } = self;
            let announced = || announced(&settings.directories.lock, SingleProcess::Auditd);
            audit.flush(messaging, Instant::now(), announced);
        }
    }

    /// Lets the messages of this turn leave together.
    fn flush_messages(&mut self) {
        if self.messaging.wants_flush() {
            self.trace.enter(Phase::Messages);
            self.store.revert_to_server();
            self.messaging.flush(Instant::now());
        }
    }

    /// There is a new `notifyd`.
    pub(super) fn watch_again(&mut self) {
        self.store.revert_to_server();
        let changes = self.watches.begin_again(&mut self.messaging);
        let now = self.now();
        self.server.handle_changes(now, machine_clock(), &changes);
        self.serve_effects();
    }

    fn serve_timeouts(&mut self) {
        let clocks = self.now();
        if self.server.poll_timeout().is_some_and(|at| at <= clocks.monotonic) {
            self.server.handle_timeout(clocks);
            self.serve_effects();
        }
        if self.next_frame_deadline().is_some_and(|at| at <= clocks.monotonic) {
            self.end_unfinished(clocks.monotonic);
        }
        if self.next_slow.is_some_and(|at| at <= clocks.monotonic) {
            self.report_slow_storage();
        }
        if self.storage_threads.next_timeout().is_some_and(|at| at <= clocks.monotonic) {
            self.refuse_excess();
        }
        let Some(next) = self.next_timeout() else { return };
        let now = Instant::now();
        if next > now {
            return;
        }
        while let Some((request, effect)) = self.slow_storage.take_done(now) {
            self.serve_now(request, effect);
            self.serve_effects();
        }
        while let Some(request) = self.waiting.take_late(now) {
            self.answer(Some(request), proto::Reply::PreviousSessionClosed);
            self.serve_effects();
        }
        while let Some(request) = self.waiting.take_woken(now) {
            self.answer(Some(request), proto::Reply::Woken);
            self.serve_effects();
        }
        if self.messaging.next_timeout().is_some_and(|at| at <= now) {
            self.take_messages();
            let dropped = self.messaging.take_dropped().messages;
            if dropped > 0 {
                warn!("{dropped} messages were dropped: the receivers' queues are full");
            }
        }
        self.store.forget_idle(now);
        self.serve_confirmations(now);
        self.close_undrained(now);
        self.serve_passing_timeouts(now);
        self.serve_asked_logon_timeouts(now);
        self.serve_asked_session_timeouts(now);
        self.serve_changed_share_timeouts(now);
        self.serve_command_timeouts(now);
        self.serve_storage_command_timeout(now);
    }
}

/// Starts the tracer. A worker without a page serves all the same.
fn start_tracer(lock_dir: &Path, server_id: ServerId, clock: Clock) -> Tracer {
    Tracer::create(lock_dir, server_id.pid, server_id.unique_id, clock).unwrap_or_else(|error| {
        warn!("cannot create the page for tracing: {error}");
        Tracer::private(clock).expect("there is memory")
    })
}

/// Hands an operation to the kernel, or keeps it until there is room.
#[inline(always)]
pub(super) fn submit(
    driver: &mut Driver,
    refused: &mut VecDeque<(Token, Op)>,
    token: Token,
    op: Op,
) {
    match driver.submit(token, op) {
        Ok(()) => {}
        Err(Refused { op, reason: Reason::Full }) => refused.push_back((token, op)),
        // Ranges were checked by the engine, and buffers have room.
        Err(Refused { op, reason }) => panic!("{op:?} failed: {reason:?}"),
    }
}

/// The token of an operation for the store.
pub(super) fn store_token(slot: usize) -> Token {
    Token(STORE | u64::from(u32::try_from(slot).expect("few operations are in flight")))
}

fn fill_random(mut bytes: &mut [u8]) {
    use rustix::rand::{GetRandomFlags, getrandom};
    while !bytes.is_empty() {
        let count = getrandom(&mut *bytes, GetRandomFlags::empty())
            .expect("getrandom fails only before the system has booted");
        bytes = &mut bytes[count..];
    }
}
