//! Three clients, and all that may happen to them between their requests.

use std::time::Duration;

use proto::Effect;
use testkit::accounts::{ALICE, BOB};
use testkit::entropy::Random;
use testkit::peer::Offer;
use testkit::{Login, Peer, Request, World};
use wire::cancel::CancelRequest;
use wire::create::CreateResponse;
use wire::negotiate_context::PosixExtensions;
use wire::session_setup::SessionSetupFlags;
use wire::{Command, Dialect, FileId};

use crate::requests::{request, waiting};

/// Number of connections at a time.
const CLIENTS: usize = 3;

/// Number of opens that a client knows; it forgets the oldest.
const OPENS_MAX: usize = 12;

/// Number of credits with which a client can send any compound.
const CREDITS_MIN: u32 = 20;

/// Time after which requests over the limit of bandwidth are answered, too.
const BACKLOG: Duration = Duration::from_secs(60);

/// Longest time that an open outlives its connection, and more.
const DURABLE: Duration = Duration::from_secs(2_000);

/// A connection with the opens that its client knows.
#[derive(Debug)]
struct Client {
    peer: Peer,
    opens: Vec<FileId>,
}

/// All clients of a world.
#[derive(Debug)]
pub(crate) struct Clients {
    random: Random,
    world: World,
    clients: Vec<Client>,
}

impl Clients {
    /// Connects the clients to a world.
    pub(crate) fn connect(world: World, mut random: Random) -> Self {
        let clients = (0..CLIENTS).map(|_| Client::connect(&world, &mut random)).collect();
        Self { random, world, clients }
    }

    /// Does one thing with one client, and takes all responses.
    pub(crate) fn step(&mut self) {
        let at = self.random.below(CLIENTS);
        let peer = &self.clients[at].peer;
        if !peer.is_open() || peer.credits() < CREDITS_MIN {
            peer.disconnect();
            self.world.release_all();
            self.clients[at] = Client::connect(&self.world, &mut self.random);
        }
        match self.random.below(40) {
            0..=7 => self.act_on_the_world(),
            8 => self.clients[at].peer.disconnect(),
            9 => self.add_channel(at),
            10 => self.reauthenticate(at),
            11 | 12 => self.cancel(at),
            13..=18 => self.send_compound(at),
            19 => self.change_sealing(at),
            20 => self.add_session(at),
            21 | 22 => self.crowd_an_open(at),
            _ => self.send_one(at),
        }
        for client in &mut self.clients {
            client.receive();
        }
    }

    /// Ends everything, and asserts that nothing is left.
    pub(crate) fn end(mut self) {
        self.world.release_all();
        for client in &mut self.clients {
            client.receive();
            client.peer.disconnect();
        }
        self.world.release_all();
        self.world.advance(DURABLE);
        self.world.scavenge();
        // What the first deletes with its opens, the second forgets.
        self.world.scavenge();
        self.world.release_all();
        self.world.assert_nothing_left();
    }

    /// Changes the pace of the store, or the time.
    fn act_on_the_world(&mut self) {
        let Self { random, world, .. } = self;
        match random.below(8) {
            0 if random.percent(50) => {
                world.delay_replies(|effect| matches!(effect, Effect::Object { .. }))
            }
            0 => world.delay_replies(|_| true),
            1 => world.stop_delaying(),
            2..=5 if world.delayed_replies() > 0 => {
                world.release(random.below(world.delayed_replies()))
            }
            6 => drop(world.report_slow()),
            7 => {
                let by = random.one_of(&[10, 1_000, 40_000, 400_000]);
                world.advance(Duration::from_millis(by));
            }
            _ => {}
        }
    }

    /// Replaces a client's connection by a further channel of another client's session.
    fn add_channel(&mut self, at: usize) {
        let from = self.random.below(CLIENTS);
        let first = &self.clients[from].peer;
        let dialect = first.negotiated.dialect;
        let is_able = dialect >= Dialect::SMB_3_0 && first.has_signing_key();
        if from == at || !first.is_open() || !is_able {
            return;
        }
        self.world.release_all();
        let mut peer = self.world.connect();
        peer.credit_request = 200;
        peer.negotiate([dialect]);
        peer.claim_key(first);
        let login = login(&mut self.random).flags(SessionSetupFlags::BINDING);
        if peer.try_authenticate(&login.again(first.session_id)).is_none() {
            peer.disconnect();
        }
        let opens = self.clients[from].opens.clone();
        self.clients[at].peer.disconnect();
        self.clients[at] = Client { peer, opens };
    }

    /// Logs on once more in a connection, which then uses the new session or the old one.
    fn add_session(&mut self, at: usize) {
        self.world.release_all();
        self.world.advance(BACKLOG);
        let Self { random, clients, .. } = self;
        let Client { peer, opens } = &mut clients[at];
        let before = (peer.session_id, peer.tree_id, peer.seals);
        (peer.session_id, peer.seals) = (0, false);
        let response = peer.try_authenticate(&login(random));
        if !response.is_some_and(|response| response.status().is_success()) {
            return peer.disconnect();
        }
        if random.percent(40) {
            (peer.session_id, peer.tree_id, peer.seals) = before;
        } else {
            opens.clear();
            let request = peer.tree_request("data");
            peer.send(request);
        }
    }

    /// Begins a reauthentication, which may be damaged or repeated, and is never finished.
    fn reauthenticate(&mut self, at: usize) {
        let Self { random, clients, .. } = self;
        let peer = &mut clients[at].peer;
        let login = login(random);
        let (_, token) = peer.begin(&login);
        let mut request = peer.session_setup(&login, &token);
        if random.percent(50) {
            request = request.body(|body| {
                let at = random.below(body.len());
                body[at] ^= 1;
            });
        }
        peer.send(request);
        if random.percent(30) {
            let again = peer.session_setup(&login, &token);
            peer.send(again);
        }
    }

    /// Cancels one of the last requests, by its message id or any async id.
    fn cancel(&mut self, at: usize) {
        let Self { random, clients, .. } = self;
        let peer = &mut clients[at].peer;
        let back = 1 + random.next_u64() % 12;
        let message_id = peer.next_message_id().saturating_sub(back);
        let mut cancel = peer.request(Command::CANCEL, &CancelRequest).message_id(message_id);
        if random.percent(50) {
            cancel = cancel.async_id(random.next_u64() % 200);
        }
        peer.send(cancel);
    }

    fn change_sealing(&mut self, at: usize) {
        let peer = &mut self.clients[at].peer;
        if peer.has_sealing_keys() {
            peer.seals = self.random.percent(50);
        }
    }

    fn send_compound(&mut self, at: usize) {
        let Self { random, clients, .. } = self;
        let Client { peer, opens } = &mut clients[at];
        let mut requests: Vec<Request> = Vec::new();
        for number in 0..2 + random.below(3) {
            let request = request(random, peer, opens);
            let is_related = number > 0 && random.percent(75);
            requests.push(if is_related { request.related() } else { request });
        }
        peer.send_all(requests);
    }

    /// Sends several requests that may wait at one open, often to a slow store. In one frame each
    /// would wait for the one before.
    fn crowd_an_open(&mut self, at: usize) {
        let Self { random, clients, world } = self;
        let Client { peer, opens } = &mut clients[at];
        let Some(open) = opens.last() else { return };
        if random.percent(50) {
            world.delay_replies(|effect| matches!(effect, Effect::Object { .. }));
        }
        let count = 3 + random.below(5);
        for _ in 0..count {
            let request = waiting(random, peer, *open);
            peer.send(request);
        }
    }

    /// Sends one request, sometimes in a session or a tree connect of somebody else.
    fn send_one(&mut self, at: usize) {
        let sessions = [self.clients[0].peer.session_id, self.clients[1].peer.session_id, 0, 5];
        let Self { random, clients, .. } = self;
        let Client { peer, opens } = &mut clients[at];
        let mut request = request(random, peer, opens);
        if random.percent(2) {
            request = request.unsigned().session(random.one_of(&sessions));
        }
        if random.percent(3) {
            request = request.tree(random.one_of(&[0, 1, 2, 3, 4]));
        }
        peer.send(request);
    }
}

impl Client {
    /// Connects, logs on and connects to a share; the server must allow that.
    fn connect(world: &World, random: &mut Random) -> Self {
        let mut peer = world.connect();
        peer.credit_request = 200;
        if random.percent(40) {
            let offer = Offer::dialects(&[Dialect::SMB_3_1_1]);
            let mut contexts = offer.contexts();
            contexts.push(&PosixExtensions::VERSION_1);
            peer.negotiate_contexts(&offer, &contexts).ok();
        } else {
            peer.negotiate([random.one_of(&[
                Dialect::SMB_3_1_1,
                Dialect::SMB_3_0,
                Dialect::SMB_2_1,
                Dialect::SMB_2_0_2,
            ])]);
        }
        peer.authenticate(&login(random)).ok();
        peer.tree(random.one_of(&["data", "data", "data", "mac", "dfs", "IPC$"]));
        Self { peer, opens: Vec::new() }
    }

    /// Takes all responses. New opens are kept, and the newest tree connect is used.
    fn receive(&mut self) {
        for response in self.peer.receive() {
            if !response.status().is_success() || response.is_interim() {
                continue;
            }
            match response.header.command {
                Command::CREATE => {
                    self.opens.push(response.body::<CreateResponse<'_>>().file_id);
                    if self.opens.len() > OPENS_MAX {
                        self.opens.remove(0);
                    }
                }
                Command::TREE_CONNECT => self.peer.tree_id = response.header.tree_id,
                _ => {}
            }
        }
    }
}

fn login(random: &mut Random) -> Login {
    let (user, password) = if random.percent(70) { ALICE } else { BOB };
    Login::user(user, password)
}
