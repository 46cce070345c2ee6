//! Accepted connections: the check of each, and its way to a worker.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use process::Priority;
use tables::Logon;

use super::admission::{Limits, Refusal, Source, Verdict};
use super::birth_budget::Pace;
use super::events::Event;
use super::{Supervisor, listeners};

/// Clients accepted before other events are looked at again.
const ACCEPTS_PER_TURN: usize = 64;

/// Pause after the system ran out of descriptors or processes.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// Longest wait of clients for a worker to start, after a failed start.
const STARTING_PAUSE: Duration = Duration::from_millis(100);

/// Highest number of clients if `max smbd processes` sets none.
const CLIENTS_MAX: usize = 16_384;

/// Workers that end because their clients make room. Their processes exist beyond the counted
/// clients.
const ENDING_MAX: usize = 256;

impl Supervisor {
    /// Accepts the clients that wait.
    pub(super) fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPTS_PER_TURN {
            // Ended workers are removed first, so that no client is given to one or refused for it.
            self.reap_ended();
            if !self.may_accept_beside_dead(Instant::now()) {
                return;
            }
            if self.stop_deadline.is_some() || !self.can_take_client() {
                return;
            }
            // An event of an earlier turn may name a listener that a reload has closed since.
            let Some(listener) = self.listeners.get(index) else { return };
            match listener.accept() {
                Ok(Some((socket, peer))) => self.admit(socket, peer),
                Ok(None) => return,
                Err(error) => {
                    tracing::error!("cannot accept clients: {error}");
                    self.pause_accepting(Instant::now() + EXHAUSTED_PAUSE);
                    return;
                }
            }
        }
    }

    /// Returns whether there is a worker for a client. While workers cannot be started, clients
    /// wait in the backlog. After a failed start they wait for a worker that is ready, because a
    /// worker that fails takes its client with it.
    fn can_take_client(&mut self) -> bool {
        self.follow_new_paths();
        let is_failing = self.backoff.is_failing();
        if self.workers.has_ready() || !is_failing && self.workers.idle_len() > 0 {
            return true;
        }
        let now = Instant::now();
        if let Some(until) = self.backoff.blocked_until(now) {
            self.pause_accepting(until);
            return false;
        }
        if is_failing {
            self.pause_accepting(now + STARTING_PAUSE);
            return false;
        }
        // Workers start one in each turn; waiting clients are accepted in between.
        false
    }

    /// Gives an accepted client to a worker, or refuses it.
    fn admit(&mut self, socket: OwnedFd, peer: SocketAddr) {
        self.read_logons();
        let now = Instant::now();
        let source = self.familiar.source(peer.ip(), now);
        let pace = self.birth_budget.pace(now, source);
        match self.decide(peer, source, pace) {
            Verdict::Admit => {}
            Verdict::AdmitInsteadOf(Logon::Nobody) => match self.clients.take_waiting() {
                Some(pid) => self.workers.end(pid),
                None => return self.turn_away(socket, peer, Refusal::Startups),
            },
            Verdict::AdmitInsteadOf(_) => self.end_guest(),
            Verdict::Refuse(refusal) => return self.turn_away(socket, peer, refusal),
        }
        if let Err(error) = listeners::prepare_client(&socket) {
            tracing::debug!("{peer}: disconnected before it was served: {error}");
            return;
        }
        let priority = if pace == Pace::Normal { Priority::Normal } else { Priority::Idle };
        self.has_yielding |= priority == Priority::Idle;
        match self.workers.hand_over(socket, priority) {
            Ok((pid, slot)) => {
                self.birth_budget.take(now, source);
                self.clients.enter(slot, pid, source, peer.ip());
                tracing::debug!("{peer}: served by worker {pid}");
            }
            Err(socket) => self.turn_away(socket, peer, Refusal::NoWorker),
        }
    }

    fn decide(&mut self, peer: SocketAddr, source: Source, pace: Pace) -> Verdict {
        let defaults = &self.settings.config.defaults;
        let ip = peer.ip().to_canonical();
        if !config::hosts_access::allows(&defaults.hosts_allow, &defaults.hosts_deny, ip) {
            return Verdict::Refuse(Refusal::Hosts);
        }
        if self.crashes.is_blocked(source.as_stranger(), Instant::now()) {
            return Verdict::Refuse(Refusal::Crashes);
        }
        let limits = self.limits(pace);
        for _ in 0..limits.surplus_guests(self.clients.all()) {
            self.end_guest();
        }
        for _ in 0..limits.surplus_guests_of_source(self.clients.of_source(source)) {
            self.clients.take_guest_of(source).into_iter().for_each(|pid| self.workers.end(pid));
        }
        if limits.is_share_taken(self.clients.of_machine(source)) {
            return Verdict::Refuse(Refusal::AddressShare);
        }
        // Without random numbers the draw is 0, which drops the client.
        let draw = || tables::random_unique_id().map_or(0, |it| it.to_le_bytes()[0].into());
        let verdict = limits.decide(self.clients.all(), self.clients.of_source(source), draw);
        match verdict {
            Verdict::AdmitInsteadOf(_) if self.workers.ending_len() >= ENDING_MAX => {
                Verdict::Refuse(Refusal::Full)
            }
            verdict => verdict,
        }
    }

    /// Reads which clients have logged on. Workers of users do not count in the budget.
    pub(super) fn read_logons(&mut self) {
        let now = Instant::now();
        for (source, address) in self.clients.take_new_users() {
            self.birth_budget.refund(now, source);
            self.familiar.note(address, now);
        }
    }

    /// Notes that a user has bound a channel, or logged on over a further connection. The worker
    /// that was started for this connection, and passed it on, does not count any more.
    pub(super) fn further_connection_has_user(&mut self, address: IpAddr) {
        let now = Instant::now();
        self.birth_budget.refund(now, self.familiar.source(address, now));
        self.familiar.note(address, now);
    }

    /// Ends a guest's worker. Its place is free at once, and the worker has some seconds to end.
    fn end_guest(&mut self) {
        if let Some(pid) = self.clients.take_guest() {
            tracing::debug!("the guest of worker {pid} is disconnected to make room");
            self.workers.end(pid);
        }
    }

    fn turn_away(&mut self, socket: OwnedFd, peer: SocketAddr, refusal: Refusal) {
        listeners::turn_away(socket);
        if let Some(line) = self.refusals.record(Instant::now(), peer, refusal) {
            tracing::warn!("{line}");
        }
    }

    fn limits(&self, pace: Pace) -> Limits {
        let global = &self.settings.config.global;
        let at_most = |configured: u32| match usize::try_from(configured) {
            Ok(0) | Err(_) => CLIENTS_MAX,
            Ok(max) => max.min(CLIENTS_MAX),
        };
        Limits {
            clients: at_most(global.max_smbd_processes),
            guests: at_most(global.max_guest_clients),
            per_address: global.max_clients_per_address.try_into().ok(),
            startups: global.max_startups,
            is_budget_spent: pace == Pace::Refused,
        }
    }

    fn pause_accepting(&mut self, until: Instant) {
        self.accept_from = Some(until);
        self.watch_listeners(false);
    }

    pub(super) fn watch_listeners(&self, watch: bool) {
        for (index, listener) in self.listeners.iter().enumerate() {
            if let Err(error) = self.events.enable(listener, Event::Listener(index), watch) {
                tracing::error!("cannot poll {}: {error}", listener.address());
            }
        }
    }
}
