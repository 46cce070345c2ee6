//! A whole server in one thread: several workers over one store and one table of files, and clients
//! that open, read, write, lock, rename and delete the same few files, while connections are cut,
//! workers killed, and messages between them delayed, reordered or lost.
//!
//! Everything follows from a seed. Operations of the store are executed at random times, so that
//! requests of different workers interleave in every order; time jumps to the next timeout. After
//! every step `check.rs` compares records, workers, clients and files.

mod check;
mod client;
pub mod cuts;

use std::collections::HashSet;
use std::time::Duration;

use arbitration::FileKey;
use dtyp::ServerId;
use proto::files::BREAK_TIMEOUT;

use crate::entropy::Random;
use crate::world::World;
use client::Client;

/// Number of steps of one simulation.
const STEPS: usize = 400;

/// Number of clients, each served by its own worker.
const CLIENTS: usize = 3;

/// Number of workers; one more than clients, so that a client may return to another one.
const WORKERS: usize = CLIENTS + 1;

/// Highest number of rounds that execute all operations, release all locks, and advance beyond a
/// break's timeout, until every request has its response.
const ROUNDS_MAX: usize = 60;

/// Longer than any open of this simulation is kept without its client.
const KEPT: Duration = Duration::from_secs(400);

/// A server with its clients.
#[derive(Debug)]
pub struct Simulation {
    random: Random,
    /// World that creates the workers; it serves no client.
    supervisor: World,
    workers: Vec<Worker>,
    started: u64,
    clients: Vec<Client>,
    /// Messages between workers that have not arrived.
    mail: Vec<(ServerId, FileKey)>,
    /// Files with a lost message.
    unheard: HashSet<FileKey>,
    /// True if this server loses messages.
    loses: bool,
    writes: check::Writes,
}

#[derive(Debug)]
struct Worker {
    id: ServerId,
    world: World,
}

/// Simulates everything that follows from a seed.
///
/// # Panics
/// If the server breaks a promise.
pub fn run(seed: u64) {
    live(Simulation::new(seed, false));
}

/// As [`run`], and prints requests and responses of the clients to standard error.
///
/// # Panics
/// If the server breaks a promise.
pub fn run_with_output(seed: u64) {
    live(Simulation::new(seed, true));
}

fn live(mut simulation: Simulation) {
    for _ in 0..STEPS {
        simulation.step();
        simulation.receive();
        simulation.check();
    }
    simulation.end();
}

impl Simulation {
    fn new(seed: u64, is_aloud: bool) -> Self {
        let mut random = Random::new(seed);
        let supervisor = World::new();
        let is_ca = random.below(3) == 0;
        supervisor.add_share("files", |share| {
            share.is_ca = is_ca;
            share.local_programs.see_locks = seed.is_multiple_of(2);
        });
        supervisor.add_directory("files", "d");
        let loses = random.below(4) == 0;
        let mut simulation = Self {
            random,
            supervisor,
            workers: Vec::new(),
            started: 0,
            clients: Vec::new(),
            mail: Vec::new(),
            unheard: HashSet::new(),
            loses,
            writes: check::Writes::default(),
        };
        for _ in 0..WORKERS {
            let worker = simulation.start_worker();
            simulation.workers.push(worker);
        }
        simulation.clients =
            (0..CLIENTS).map(|number| Client::new(number, is_ca, is_aloud)).collect();
        simulation
    }

    fn start_worker(&mut self) -> Worker {
        self.started += 1;
        let pid = 100 + u32::try_from(self.started).expect("a few workers");
        let id = ServerId { pid, unique_id: self.random.next_u64() };
        let world = self.supervisor.beside(self.random.next_u64(), id);
        world.advance(self.supervisor.now().monotonic);
        Worker { id, world }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..40 => self.act(),
            40..70 => self.work(),
            70..88 => self.deliver(),
            88..94 => {
                let seconds = 1 + self.random.below(6);
                self.pass(Duration::from_secs(u64::try_from(seconds).expect("a few")));
            }
            94..95 => self.pass(BREAK_TIMEOUT),
            95..97 => self.cut(),
            97..98 => self.kill(),
            _ => self.scavenge(),
        }
    }

    /// Lets a client act, or return.
    fn act(&mut self) {
        let at = self.random.below(CLIENTS);
        if self.clients[at].is_connected() {
            return self.clients[at].act(&mut self.random);
        }
        let taken: Vec<ServerId> =
            self.clients.iter().filter(|it| it.is_connected()).map(|it| it.worker).collect();
        let free: Vec<&Worker> = self.workers.iter().filter(|it| !taken.contains(&it.id)).collect();
        let worker = free[self.random.below(free.len())];
        self.clients[at].connect(worker.id, &worker.world);
    }

    /// Executes one operation of a store.
    fn work(&mut self) {
        let at = self.random.below(WORKERS);
        for worker in self.workers.iter().cycle().skip(at).take(WORKERS) {
            let kept = worker.world.kept();
            if kept > 0 {
                return worker.world.release_one(self.random.below(kept));
            }
        }
    }

    /// Delivers any message between workers; their order is not guaranteed.
    fn deliver(&mut self) {
        if self.mail.is_empty() {
            return;
        }
        let (server, file) = self.mail.swap_remove(self.random.below(self.mail.len()));
        if self.loses && self.random.below(20) == 0 {
            self.unheard.insert(file);
            return;
        }
        // Messages to dead workers are lost.
        if let Some(worker) = self.workers.iter().find(|it| it.id == server) {
            worker.world.check_file(file);
        }
    }

    /// Advances the time everywhere; timeouts fire at their time.
    fn pass(&mut self, by: Duration) {
        let target = self.supervisor.now().monotonic + by;
        loop {
            let now = self.supervisor.now().monotonic;
            let due = self.workers.iter().filter_map(|it| it.world.next_timeout()).min();
            let next = due.unwrap_or(target).clamp(now, target);
            for world in self.workers.iter().map(|it| &it.world).chain([&self.supervisor]) {
                world.advance(next - now);
            }
            self.receive();
            if next == target {
                return;
            }
        }
    }

    /// Cuts a connection, with the loss of all frames in both directions.
    fn cut(&mut self) {
        let at = self.random.below(CLIENTS);
        self.clients[at].cut();
    }

    /// Kills a worker; the supervisor notices at once, and starts another.
    fn kill(&mut self) {
        let at = self.random.below(WORKERS);
        let new = self.start_worker();
        let dead = std::mem::replace(&mut self.workers[at], new);
        self.collect(&dead.world);
        dead.world.die();
        let deletion_owner = self.workers[self.random.below(WORKERS)].id;
        let to_notify = self.supervisor.remove_worker(dead.id, deletion_owner);
        self.post_all(to_notify);
    }

    /// Removes opens whose clients did not return, as the supervisor does.
    fn scavenge(&mut self) {
        let deletion_owner = self.workers[self.random.below(WORKERS)].id;
        let to_notify = self.supervisor.scavenge_files(deletion_owner);
        self.post_all(to_notify);
    }

    fn post_all(&mut self, to_notify: Vec<(FileKey, Vec<ServerId>)>) {
        for (file, servers) in to_notify {
            self.mail.extend(servers.into_iter().map(|server| (server, file)));
        }
    }

    /// Collects the workers' messages for others.
    fn receive(&mut self) {
        let worlds: Vec<World> = self.workers.iter().map(|it| it.world.clone()).collect();
        worlds.iter().for_each(|world| self.collect(world));
        for client in &mut self.clients {
            client.receive(&self.writes);
        }
    }

    fn collect(&mut self, world: &World) {
        self.mail.extend(world.take_notifications());
        self.writes.perform(world.take_writes());
    }

    /// Begins nothing new, and verifies that all pending work ends and leaves nothing behind.
    fn end(&mut self) {
        for round in 0.. {
            self.rest();
            if self.clients.iter().all(|it| !it.awaits_others()) {
                break;
            }
            assert!(round < ROUNDS_MAX, "somebody waits for ever: {:#?}", self.clients);
            // Every pending lock is granted once no conflicting one is held.
            self.clients.iter_mut().for_each(Client::release_locks);
            self.rest();
            self.pass(BREAK_TIMEOUT + Duration::from_secs(1));
            self.scavenge();
        }
        self.loses = false;
        for client in &self.clients {
            client.assert_answered();
        }
        self.clients.iter_mut().for_each(Client::cut);
        self.rest();
        self.pass(KEPT);
        self.scavenge();
        self.rest();
        assert_eq!(self.supervisor.files(), [], "records are left");
        assert_eq!(self.supervisor.store().open_count(), 0, "descriptors are left");
        let refused = self.supervisor.store().refused_locks();
        assert_eq!(refused, 0, "there are no programs, and clients meet in the record");
        assert!(self.workers.iter().all(|it| it.world.is_idle()), "requests are left");
    }

    /// Delivers and executes everything pending.
    fn rest(&mut self) {
        loop {
            self.receive();
            self.check();
            let busy = self.workers.iter().find(|it| it.world.kept() > 0);
            match busy {
                Some(worker) => worker.world.release_one(0),
                None if !self.mail.is_empty() => self.deliver(),
                None => return,
            }
        }
    }
}
