//! From a connection that waits to a worker that serves it.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::events::Event;
use super::{Supervisor, listeners};

/// Clients accepted before other events are looked at again.
const ACCEPTS_PER_TURN: usize = 64;

/// How long nothing is accepted after the system ran out of descriptors or processes.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// How long clients wait for a worker to start, if the one before did not; until it has, at most.
const STARTING_PAUSE: Duration = Duration::from_millis(100);

/// Clients at a time when `max smbd processes` does not say.
const CLIENTS_MAX: usize = 16_384;

impl Supervisor {
    /// Accepts the clients that wait.
    pub(super) fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPTS_PER_TURN {
            // A worker that has ended takes no client, and none is turned away for it.
            self.reap_ended();
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

    /// Whether an idle worker is there. If workers cannot be started at the moment, clients wait in
    /// the backlog instead of being turned away; if the last one that was to start did not, until one
    /// has: a worker that fails takes its client with it.
    fn can_take_client(&mut self) -> bool {
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
        // They are started one in each turn; who waits is accepted in between.
        false
    }

    /// Gives an accepted client to a worker, unless it must not be served at all.
    fn admit(&mut self, socket: OwnedFd, peer: SocketAddr) {
        let ip = peer.ip().to_canonical();
        let defaults = &self.settings.config.defaults;
        if !config::hosts_access::allows(&defaults.hosts_allow, &defaults.hosts_deny, ip) {
            tracing::info!("{peer}: refused by `hosts allow` or `hosts deny`");
            return;
        }
        let clients_max = self.clients_max();
        if self.workers.serving_len() >= clients_max {
            tracing::warn!(
                "{peer}: refused, {clients_max} clients are served (`max smbd processes`)"
            );
            return;
        }
        if let Err(error) = listeners::prepare_client(&socket) {
            tracing::debug!("{peer}: gone before it was served: {error}");
            return;
        }
        match self.workers.hand_over(socket) {
            Ok(pid) => tracing::debug!("{peer}: served by worker {pid}"),
            Err(_) => tracing::warn!("{peer}: dropped, no worker could take it"),
        }
    }

    fn clients_max(&self) -> usize {
        match usize::try_from(self.settings.config.global.max_smbd_processes) {
            Ok(0) | Err(_) => CLIENTS_MAX,
            Ok(max) => max.min(CLIENTS_MAX),
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
