//! A simulated world: peers in one thread, over packets in memory and in virtual time. A seed
//! determines the order of events.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use dtyp::ServerId;
use messaging::transport::simulation::Network;
use messaging::{Messaging, Transport};

use crate::part::{Part, Role};
use crate::stage::{Stage, test_id};

/// Duration of a turn of all peers.
const TURN: Duration = Duration::from_micros(20);

/// A simulated world with its processes.
pub(crate) struct World {
    network: Network,
    now: Instant,
    peers: BTreeMap<ServerId, Peer>,
    next_unique_id: u64,
}

struct Peer {
    transport: Box<dyn Transport>,
    part: Option<Part>,
    is_stopped: bool,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let next_unique_id = test_id().unique_id + 1;
        let network = Network::new(seed);
        Self { network, now: Instant::now(), peers: BTreeMap::new(), next_unique_id }
    }

    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    /// Returns the counters of a peer.
    pub(crate) fn counters(&self, peer: ServerId) -> messaging::Counters {
        self.peers[&peer].transport.counters()
    }

    fn peer(&mut self, id: ServerId) -> &mut Peer {
        self.peers.get_mut(&id).expect("one of ours")
    }

    /// Gives each peer that can work a turn, in random order. Returns true if one did something.
    fn turn(&mut self) -> bool {
        let mut ids: Vec<ServerId> = self.peers.keys().copied().collect();
        let mut any = false;
        while !ids.is_empty() {
            let id = ids.swap_remove(self.network.draw(ids.len()));
            let now = self.now;
            let peer = self.peer(id);
            if let (Some(part), false) = (&mut peer.part, peer.is_stopped) {
                any |= part.turn(now, &mut *peer.transport);
            }
        }
        any
    }

    fn running(&self) -> impl Iterator<Item = (ServerId, &dyn Transport)> {
        let runs = |(_, peer): &(&ServerId, &Peer)| !peer.is_stopped && peer.part.is_some();
        self.peers.iter().filter(runs).map(|(id, peer)| (*id, &*peer.transport))
    }
}

impl Stage for World {
    fn now(&self) -> Instant {
        self.now
    }

    fn open(&self) -> Box<dyn Transport> {
        self.network.open(test_id())
    }

    fn messaging(&self) -> Messaging {
        Messaging::over(self.open(), test_id())
    }

    fn start(&mut self) -> ServerId {
        // All of them have one pid, so that nothing depends on pids.
        let id = ServerId { unique_id: self.next_unique_id, ..test_id() };
        self.next_unique_id += 1;
        let transport = self.network.open(id);
        self.peers.insert(id, Peer { transport, part: None, is_stopped: false });
        id
    }

    fn start_role(&mut self, peer: ServerId, role: Role) {
        let started = self.peer(peer);
        started.part = Some(role.begin(&mut *started.transport, peer));
    }

    fn stop(&mut self, peer: ServerId) {
        self.peer(peer).is_stopped = true;
    }

    fn resume(&mut self, peer: ServerId) {
        self.peer(peer).is_stopped = false;
    }

    fn kill(&mut self, peer: ServerId) {
        // Kill it first: frames that it would send on drop go nowhere.
        self.network.kill(peer);
        self.peers.remove(&peer).expect("one of ours");
    }

    /// Advances the time to the next timeout if no peer has work.
    fn wait(&mut self, _wake: Option<BorrowedFd<'_>>, until: Instant) {
        let any = self.turn();
        let is_ready = |id| self.network.is_ready(id);
        let is_busy = any
            || is_ready(test_id())
            || self.running().any(|(id, transport)| is_ready(id) || transport.wants_flush());
        let soon = self.now + TURN;
        if is_busy || until <= soon {
            self.now = soon;
            return;
        }
        let timeouts = self.running().filter_map(|(_, transport)| transport.next_timeout());
        self.now = timeouts.chain([until]).min().unwrap_or(soon).max(soon);
    }

    fn lock_dir(&self) -> Option<&Path> {
        None
    }
}
