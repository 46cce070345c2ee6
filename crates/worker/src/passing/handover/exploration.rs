//! Every interleaving of messages, timeouts and deaths of three processes, one of which has a
//! connection: in the end, exactly one of them has it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use dtyp::ServerId;

use super::{
    ANSWER_TIMEOUT, Answered, CHECK_INTERVAL, Handover, Offered, SENDER_CHECK_INTERVAL,
    SETTLE_TIMEOUT,
};

/// Number of processes. The first has the connection at the beginning, the second has claimed the
/// client.
const PROCESSES: usize = 3;

/// Highest number of deaths in one interleaving.
const DEATHS_MAX: usize = 2;

/// Number of processes to offer the connection to, one after the other; one less than in
/// `passing.rs`, since a third behaves like the second.
const OFFERS_MAX: u32 = 2;

/// Planted mistake of a process, which the exploration has to find.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Mistake {
    None,
    /// The sender does not wait for an answer.
    GivesAtOnce,
    /// The sender takes an answer for as long as there is an offer.
    TakesLateAnswers,
    /// The receiver lets go while the sender lives.
    LetsGo,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Mail {
    Offer(u64),
    Answer(u64, bool),
    Settle(u64, bool),
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct World {
    mistake: Mistake,
    now: Instant,
    /// True once all timeouts have expired.
    is_late: bool,
    processes: [Process; PROCESSES],
    /// Process that has claimed the client.
    claimant: Option<usize>,
    /// Pending messages in any order, with sender and receiver.
    mail: Vec<(usize, usize, Mail)>,
    deaths: usize,
    /// True if the owner of the connection has died.
    died_with: bool,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Process {
    handover: Handover<(), ()>,
    is_dead: bool,
    /// True if the process uses the connection.
    speaks: bool,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A message is read. An answer may also be read after the timeout, by a process that was
    /// stuck.
    Read {
        at: usize,
        is_late: bool,
    },
    /// A process checks whether the receiver of its offer still serves the client, or stops
    /// waiting.
    CheckOffers {
        process: usize,
        is_over: bool,
    },
    CheckSenders {
        process: usize,
        is_over: bool,
    },
    Die(usize),
    /// The claimant has lost all its connections of the client.
    Release,
    /// Another connection of the client arrives at the process.
    Claim(usize),
}

fn id(process: usize) -> ServerId {
    ServerId { pid: u32::try_from(process).expect("a few"), unique_id: 1 }
}

fn process(id: ServerId) -> usize {
    usize::try_from(id.pid).expect("a few")
}

impl World {
    fn new(mistake: Mistake) -> Self {
        let mut world = Self {
            mistake,
            now: Instant::now(),
            is_late: false,
            processes: Default::default(),
            claimant: Some(1),
            mail: Vec::new(),
            deaths: 0,
            died_with: false,
        };
        world.find_worker(0, OFFERS_MAX, None);
        world
    }

    /// Finds a worker as `Worker::find_worker` does.
    fn find_worker(&mut self, at: usize, offers_left: u32, gone: Option<usize>) {
        let mut gone = gone;
        for left in (0..=offers_left).rev() {
            let other = match self.claimant.filter(|it| Some(*it) != gone) {
                Some(other) if other != at && left > 0 => other,
                Some(_) => break,
                None => {
                    self.claimant = Some(at);
                    break;
                }
            };
            if self.processes[other].is_dead {
                gone = Some(other);
                continue;
            }
            let now = self.now;
            let handover = &mut self.processes[at].handover;
            let offer_id = handover.next_offer_id();
            self.mail.push((at, other, Mail::Offer(offer_id)));
            if self.mistake != Mistake::GivesAtOnce {
                handover.offered(now, (id(other), offer_id), (), left - 1);
            }
            return;
        }
        self.processes[at].speaks = true;
    }

    fn read(&mut self, at: usize, is_late: bool) {
        let (from, to, mail) = self.mail.swap_remove(at);
        let late = if is_late { ANSWER_TIMEOUT } else { Duration::ZERO };
        let now = self.now + late;
        match mail {
            Mail::Offer(offer_id) if self.mistake == Mistake::GivesAtOnce => {
                _ = offer_id;
                self.processes[to].speaks = true;
            }
            Mail::Offer(offer_id) => {
                let accepted = self.claimant == Some(to);
                if self.post(to, from, Mail::Answer(offer_id, accepted)) && accepted {
                    self.processes[to].handover.accept(now, id(from), offer_id, ());
                }
            }
            Mail::Answer(offer_id, accepted) => {
                let takes_late = self.mistake == Mistake::TakesLateAnswers;
                let now = if takes_late { now - SETTLE_TIMEOUT - ANSWER_TIMEOUT } else { now };
                let offer = (id(from), offer_id);
                match self.processes[to].handover.answered(now, offer, accepted) {
                    Answered::Give(Offered { offers_left, .. }) => {
                        if !self.post(to, from, Mail::Settle(offer_id, true)) {
                            self.find_worker(to, offers_left, Some(from));
                        }
                    }
                    Answered::Refused(Offered { offers_left, .. }) => {
                        self.find_worker(to, offers_left.min(1), None);
                    }
                    Answered::TooLate(offered) => {
                        self.post(to, from, Mail::Settle(offer_id, false));
                        if let Some(Offered { offers_left, .. }) = offered {
                            self.find_worker(to, offers_left, Some(from));
                        }
                    }
                }
            }
            Mail::Settle(offer_id, yours) => {
                let adopted = self.processes[to].handover.settled(id(from), offer_id, yours);
                assert_eq!(adopted.is_some(), yours, "{to} has let go of what is its own");
                if yours {
                    // As `Worker::adopt`.
                    self.claimant = self.claimant.or(Some(to));
                    self.processes[to].speaks = true;
                }
            }
        }
    }

    /// Sends a message. Returns whether the receiver is alive.
    fn post(&mut self, from: usize, to: usize, mail: Mail) -> bool {
        if !self.processes[to].is_dead {
            self.mail.push((from, to, mail));
        }
        !self.processes[to].is_dead
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (at, (_, _, mail)) in self.mail.iter().enumerate() {
            events.push(Event::Read { at, is_late: false });
            if matches!(mail, Mail::Answer(..)) {
                events.push(Event::Read { at, is_late: true });
            }
        }
        for (at, process) in self.processes.iter().enumerate().filter(|(_, it)| !it.is_dead) {
            if !process.handover.offered.is_empty() {
                let check = |is_over| Event::CheckOffers { process: at, is_over };
                events.extend([check(false), check(true)]);
            }
            if !process.handover.accepted.is_empty() {
                let check = |is_over| Event::CheckSenders { process: at, is_over };
                events.push(check(false));
                events.extend((!self.is_late).then(|| check(true)));
            }
            if self.deaths < DEATHS_MAX {
                events.push(Event::Die(at));
            }
        }
        // A process that uses a connection of the client keeps the claim.
        if self.claimant.is_some_and(|it| !self.processes[it].speaks) {
            events.push(Event::Release);
        }
        // The first process is busy with this connection.
        let others = (1..PROCESSES).filter(|_| self.claimant.is_none());
        events.extend(others.filter(|it| !self.processes[*it].is_dead).map(Event::Claim));
        events
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Read { at, is_late } => self.read(at, is_late),
            Event::CheckOffers { process: at, is_over } => {
                let after = if is_over { ANSWER_TIMEOUT } else { CHECK_INTERVAL };
                let claimant = self.claimant.filter(|it| !self.processes[*it].is_dead);
                let handover = &mut self.processes[at].handover;
                let serves = |to, (): &()| claimant == Some(process(to));
                let due = handover.take_due(self.now + after, serves);
                for Offered { offer_id, to, offers_left, .. } in due {
                    self.post(at, process(to), Mail::Settle(offer_id, false));
                    self.find_worker(at, offers_left, Some(process(to)));
                }
            }
            Event::CheckSenders { process: at, is_over } => {
                let dead: Vec<bool> = self.processes.iter().map(|it| it.is_dead).collect();
                if is_over {
                    self.is_late = true;
                    self.now += SETTLE_TIMEOUT;
                }
                // As in `passing.rs`, pending messages are read before.
                while let Some(mail) = self.mail.iter().position(|mail| mail.1 == at) {
                    self.read(mail, false);
                }
                let lets_go = self.mistake == Mistake::LetsGo;
                let is_alive = |it| !lets_go && !dead[process(it)];
                let now = self.now + SENDER_CHECK_INTERVAL;
                self.processes[at].handover.forget_dead(now, is_alive);
            }
            Event::Die(at) => {
                self.deaths += 1;
                let dead = &mut self.processes[at];
                let is_its = |mail: &(usize, usize, Mail)| {
                    mail.1 == at && matches!(mail.2, Mail::Settle(_, true))
                };
                let had_it = dead.speaks || !dead.handover.offered.is_empty();
                self.died_with |= had_it || self.mail.iter().any(is_its);
                *dead = Process { is_dead: true, ..Process::default() };
                self.mail.retain(|mail| mail.1 != at);
                // The supervisor removes the dead process from the table.
                self.claimant = self.claimant.filter(|it| *it != at);
            }
            Event::Release => self.claimant = None,
            Event::Claim(at) => self.claimant = Some(at),
        }
    }

    fn verify(&self) {
        let speaking = self.processes.iter().filter(|it| it.speaks).count();
        assert!(speaking <= 1, "two speak: {self:?}");
        let is_quiet =
            self.mail.is_empty() && self.processes.iter().all(|it| it.handover.offered.is_empty());
        if is_quiet {
            assert!(speaking == 1 || self.died_with, "nobody has the connection: {self:?}");
        }
    }
}

/// Explores every interleaving; returns the number of different states.
fn explore(mistake: Mistake) -> usize {
    let world = World::new(mistake);
    let (mut seen, mut next) = (HashSet::from([world.clone()]), vec![world]);
    while let Some(world) = next.pop() {
        world.verify();
        for event in world.events() {
            let mut world = world.clone();
            world.happen(event);
            world.mail.sort_unstable();
            if seen.insert(world.clone()) {
                next.push(world);
            }
        }
    }
    seen.len()
}

#[test]
fn in_every_interleaving_one_process_ends_up_with_the_connection() {
    let worlds = explore(Mistake::None);
    assert!(worlds > 1_000, "only {worlds} were seen");
}

#[test]
fn every_mistake_in_a_handover_is_found() {
    for mistake in [Mistake::GivesAtOnce, Mistake::TakesLateAnswers, Mistake::LetsGo] {
        let found = std::panic::catch_unwind(|| explore(mistake));
        assert!(found.is_err(), "{mistake:?} makes no difference");
    }
}
