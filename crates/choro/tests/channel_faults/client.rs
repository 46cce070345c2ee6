//! A client that does what real ones do when they lose a channel: it asks again over another one,
//! with the channel sequence counted on and the mark of a repetition, and makes a new channel when
//! it can. It has one thread that acts and one for each channel that receives.

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use client::Kind;
use dtyp::{Guid, NtStatus};
use wire::create::CreateResponse;
use wire::echo::EchoRequest;
use wire::lease::{LeaseKey, LeaseState};
use wire::oplock_break::{LeaseBreak, LeaseBreakFlags, LeaseBreakNotification};
use wire::{Command, Decode, Encode, FileId, Header};

use crate::connection::{self, Marks, Session};
use crate::harness::connection::{Connection, random, read_message};

/// A channel that owes an answer and is silent for so long is asked whether it is there.
const PROBE_AFTER: Duration = Duration::from_millis(700);

/// One that is silent for so long is lost.
const LOST_AFTER: Duration = Duration::from_secs(2);

/// Pause before the next attempt to create a channel.
const BIND_INTERVAL: Duration = Duration::from_millis(500);

/// Interval between looks at the clock.
const TICK: Duration = Duration::from_millis(50);

/// Pause before a repetition if the server says that the request is still under way.
const BUSY_INTERVAL: Duration = Duration::from_millis(50);

/// Longer than any request takes that is answered at all: a break that is not answered takes 35 s.
pub(crate) const PATIENCE: Duration = Duration::from_secs(100);

/// A client of the share `data`.
#[derive(Debug)]
pub(crate) struct Client {
    guid: Guid,
    session: Session,
    links: Vec<Link>,
    events: Receiver<Event>,
    sender: Sender<Event>,
    channel_count: u64,
    channel_sequence: u16,
    /// The link on which the next requests go out, if it has a channel.
    turn: usize,
    waiting: Vec<Waiting>,
    request_count: u64,
    /// Requests sent over lost channels, by channel and message id.
    given_up: HashMap<(u64, u64), u64>,
    /// The opens that CREATEs have made, by request, whichever answer told of them.
    made: HashMap<u64, FileId>,
    /// Leases that the client holds.
    pub(crate) leases: Leases,
    pub(crate) counts: Counts,
}

/// Leases that a client holds, as far as it knows. Other threads may read them.
pub(crate) type Leases = Arc<std::sync::Mutex<HashMap<LeaseKey, LeaseState>>>;

/// Numbers of events of a client.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) channels_lost: u64,
    /// Requests that were sent again.
    pub(crate) repeated: u64,
    pub(crate) breaks: u64,
    /// The longest time from the loss of a channel to the next answer over another one.
    pub(crate) outage: Duration,
}

#[derive(Debug)]
struct Link {
    address: SocketAddr,
    state: LinkState,
}

#[derive(Debug)]
enum LinkState {
    Bound(Channel),
    Binding,
    /// The connection was given up: requests under way in it may arrive still.
    Lost {
        retry_at: Instant,
        before: Option<Connection>,
    },
}

#[derive(Debug)]
struct Channel {
    number: u64,
    connection: Connection,
    heard_at: Instant,
    is_probed: bool,
    /// While this is set nothing is received.
    is_deaf: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Event {
    Bound { link: usize, result: io::Result<Box<Connection>> },
    Ended { channel: u64 },
    Message { channel: u64, header: Header, message: Vec<u8> },
}

/// A request to the server.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    command: Command,
    body: Vec<u8>,
}

/// An answer of the server.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: NtStatus,
    pub(crate) message: Vec<u8>,
    /// It was asked more than once.
    pub(crate) was_repeated: bool,
}

/// A request that has no answer yet.
#[derive(Debug)]
struct Waiting {
    id: u64,
    request: Request,
    /// Channel and message id of the request.
    sent: Option<(u64, u64)>,
    attempts: u32,
    send_at: Instant,
    began: Instant,
    /// True if the client sent it by itself: nobody waits for the answer.
    is_own: bool,
    answer: Option<Answer>,
}

impl Request {
    pub(crate) fn new(command: Command, body: &impl Encode) -> Self {
        let mut bytes = Vec::new();
        body.encode(&mut bytes);
        Self { command, body: bytes }
    }
}

impl Client {
    /// A client with a channel over each of these links, the oldest first.
    pub(crate) fn new(addresses: &[SocketAddr]) -> io::Result<Self> {
        let guid = Guid(random());
        let (first, session) = connection::first(addresses[0], guid)?;
        let (sender, events) = mpsc::channel();
        let now = Instant::now();
        let lost = || LinkState::Lost { retry_at: now, before: None };
        let mut client = Self {
            guid,
            session,
            links: addresses.iter().map(|&address| Link { address, state: lost() }).collect(),
            events,
            sender,
            channel_count: 0,
            channel_sequence: 0,
            turn: 0,
            waiting: Vec::new(),
            request_count: 0,
            given_up: HashMap::new(),
            made: HashMap::new(),
            leases: Leases::default(),
            counts: Counts::default(),
        };
        client.begin(0, first);
        for (link, address) in addresses.iter().enumerate().skip(1) {
            let connection = connection::bound(*address, guid, client.session.clone())?;
            client.begin(link, connection);
        }
        Ok(client)
    }

    /// Number of channels that are connected.
    pub(crate) fn channels(&self) -> usize {
        self.links.iter().filter(|it| matches!(it.state, LinkState::Bound(_))).count()
    }

    /// The next requests go out over this link, if it has a channel.
    pub(crate) fn choose(&mut self, link: usize) {
        self.turn = link % self.links.len();
    }

    /// Sends requests together over one channel, and waits until each is answered, over whichever.
    #[track_caller]
    pub(crate) fn call_all<const N: usize>(&mut self, requests: [Request; N]) -> [Answer; N] {
        let ids = requests.map(|request| self.enqueue(request, false));
        self.work_until(|client| {
            let is_open =
                |id: &u64| client.waiting.iter().any(|it| it.id == *id && it.answer.is_none());
            !ids.iter().any(is_open)
        });
        ids.map(|id| {
            let at = self.waiting.iter().position(|it| it.id == id).expect("it was not taken");
            self.waiting.remove(at).answer.expect("waited for above")
        })
    }

    /// Sends one request and waits for its answer.
    #[track_caller]
    pub(crate) fn call(&mut self, request: Request) -> Answer {
        let [answer] = self.call_all([request]);
        answer
    }

    /// Looks after the channels until something is so.
    #[track_caller]
    pub(crate) fn work_until(&mut self, mut is_so: impl FnMut(&Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < PATIENCE, "no answer: {self:#?}");
            self.bind_lost();
            self.send_due();
            match self.events.recv_timeout(TICK) {
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("a sender is kept"),
            }
            self.give_up_silent();
        }
    }

    /// Asks over a link for more than its socket has room for, and does not read it, until
    /// [`Client::listen`].
    pub(crate) fn stop_reading(&mut self, link: usize, request: &Request, times: usize) {
        let LinkState::Bound(channel) = &mut self.links[link].state else { return };
        channel.is_deaf.store(true, Ordering::Relaxed);
        for _ in 0..times {
            // A server that ends the connection meanwhile is told of by the thread that receives.
            let _ = connection::send(
                &mut channel.connection,
                request.command,
                &request.body,
                Marks::default(),
            );
        }
    }

    /// Reads answers on all channels.
    pub(crate) fn listen(&mut self) {
        for link in &self.links {
            if let LinkState::Bound(channel) = &link.state {
                channel.is_deaf.store(false, Ordering::Relaxed);
            }
        }
    }

    fn enqueue(&mut self, request: Request, is_own: bool) -> u64 {
        self.request_count += 1;
        let (id, now) = (self.request_count, Instant::now());
        self.waiting.push(Waiting {
            id,
            request,
            sent: None,
            attempts: 0,
            send_at: now,
            began: now,
            is_own,
            answer: None,
        });
        id
    }

    /// The channel whose turn it is, or any.
    fn channel(&mut self) -> Option<(usize, &mut Channel)> {
        let count = self.links.len();
        let usable = |link: &Link| match &link.state {
            LinkState::Bound(channel) => !channel.is_deaf.load(Ordering::Relaxed),
            _ => false,
        };
        let at =
            (0..count).map(|it| (self.turn + it) % count).find(|at| usable(&self.links[*at]))?;
        match &mut self.links[at].state {
            LinkState::Bound(channel) => Some((at, channel)),
            _ => unreachable!("looked at above"),
        }
    }

    fn send_due(&mut self) {
        for at in 0..self.waiting.len() {
            let waiting = &self.waiting[at];
            if waiting.sent.is_some()
                || waiting.answer.is_some()
                || waiting.send_at > Instant::now()
            {
                continue;
            }
            let request = waiting.request.clone();
            let is_replay = waiting.attempts > 0;
            let marks = Marks { channel_sequence: self.channel_sequence, is_replay };
            let Some((link, channel)) = self.channel() else { return };
            let number = channel.number;
            let is_first = channel.heard_at;
            let sent =
                connection::send(&mut channel.connection, request.command, &request.body, marks);
            let is_idle = !self.waiting.iter().any(|it| it.sent.is_some_and(|to| to.0 == number));
            if let LinkState::Bound(channel) = &mut self.links[link].state {
                // Silence begins when something is asked for.
                channel.heard_at = if is_idle { Instant::now() } else { is_first };
            }
            match sent {
                Ok(message_id) => {
                    let waiting = &mut self.waiting[at];
                    waiting.sent = Some((number, message_id));
                    waiting.attempts += 1;
                    self.counts.repeated += u64::from(is_replay);
                }
                Err(_) => self.lose(link),
            }
        }
    }

    /// A channel is gone, or as good as gone: what is under way on it is asked for again.
    fn lose(&mut self, link: usize) {
        let state = LinkState::Lost { retry_at: Instant::now() + BIND_INTERVAL, before: None };
        let LinkState::Bound(channel) = std::mem::replace(&mut self.links[link].state, state)
        else {
            return;
        };
        let number = channel.number;
        self.links[link].state = LinkState::Lost {
            retry_at: Instant::now() + BIND_INTERVAL,
            before: Some(channel.connection),
        };
        channel.is_deaf.store(false, Ordering::Relaxed);
        self.counts.channels_lost += 1;
        self.channel_sequence = self.channel_sequence.wrapping_add(1);
        for waiting in &mut self.waiting {
            if let Some(sent) = waiting.sent.take_if(|it| it.0 == number) {
                self.given_up.insert(sent, waiting.id);
            }
        }
    }

    fn bind_lost(&mut self) {
        for at in 0..self.links.len() {
            let LinkState::Lost { retry_at, before } = &mut self.links[at].state else { continue };
            if *retry_at > Instant::now() {
                continue;
            }
            let before = before.take();
            self.links[at].state = LinkState::Binding;
            let (address, guid) = (self.links[at].address, self.guid);
            let (session, sender) = (self.session.clone(), self.sender.clone());
            thread::spawn(move || {
                let result = connection::bound(address, guid, session).map(Box::new);
                if let Some(before) = before {
                    // Written requests may still be under way; then the connection ends.
                    let _ = before.socket.shutdown(Shutdown::Write);
                }
                // Nobody listens any more when the client is done.
                let _ = sender.send(Event::Bound { link: at, result });
            });
        }
    }

    /// There is a new channel.
    fn begin(&mut self, link: usize, connection: Connection) {
        self.channel_count += 1;
        let number = self.channel_count;
        let is_deaf = Arc::new(AtomicBool::new(false));
        let mut socket = connection.socket.try_clone().expect("there are descriptors");
        socket.set_read_timeout(None).expect("a socket");
        socket.set_write_timeout(Some(LOST_AFTER)).expect("a socket");
        let key = connection.smb.channel().expect("a session").signing_key().clone();
        let (sender, deaf) = (self.sender.clone(), Arc::clone(&is_deaf));
        thread::spawn(move || {
            loop {
                while deaf.load(Ordering::Relaxed) {
                    thread::sleep(TICK);
                }
                let Ok((header, mut message)) = read_message(&mut socket) else {
                    let _ = sender.send(Event::Ended { channel: number });
                    return;
                };
                if Kind::of(&header) == Kind::Final {
                    key.verify(&mut message).expect("the signature of this channel");
                }
                if sender.send(Event::Message { channel: number, header, message }).is_err() {
                    return;
                }
            }
        });
        let heard_at = Instant::now();
        let channel = Channel { number, connection, heard_at, is_probed: false, is_deaf };
        self.links[link].state = LinkState::Bound(channel);
    }

    fn link_of(&mut self, number: u64) -> Option<(usize, &mut Channel)> {
        self.links.iter_mut().enumerate().find_map(|(at, link)| match &mut link.state {
            LinkState::Bound(channel) if channel.number == number => Some((at, channel)),
            _ => None,
        })
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Bound { link, result: Ok(connection) } => self.begin(link, *connection),
            Event::Bound { link, result: Err(_) } => {
                let retry_at = Instant::now() + BIND_INTERVAL;
                self.links[link].state = LinkState::Lost { retry_at, before: None };
            }
            Event::Ended { channel } => {
                if let Some((link, _)) = self.link_of(channel) {
                    self.lose(link);
                }
            }
            Event::Message { channel, header, message } => {
                let kind = Kind::of(&header);
                if let Some((_, channel)) = self.link_of(channel) {
                    channel.heard_at = Instant::now();
                    channel.is_probed = false;
                    if kind != Kind::Notification {
                        channel.connection.smb.window.grant(header.credits);
                    }
                }
                match kind {
                    Kind::Notification => self.apply_break(&message),
                    Kind::Interim => {}
                    Kind::Final => self.answered(channel, &header, message),
                }
            }
        }
    }

    fn answered(&mut self, channel: u64, header: &Header, message: Vec<u8>) {
        let sent = (channel, header.message_id);
        let late = self.given_up.remove(&sent);
        let id = match self.waiting.iter().find(|it| it.sent == Some(sent)) {
            Some(waiting) => waiting.id,
            None => match late {
                Some(id) => id,
                // The answer to a probe.
                None => return,
            },
        };
        // The open of an answered request may be closed by now: a late break is then repeated, for
        // all that the server can know.
        let is_open = self.waiting.iter().any(|it| it.id == id && it.answer.is_none());
        if header.command == Command::CREATE && header.status.is_success() && is_open {
            let made = CreateResponse::decode(&message).expect("well-formed").file_id;
            let known = *self.made.entry(id).or_insert(made);
            assert_eq!(known, made, "one CREATE has made two opens");
        }
        if late.is_some() {
            // Whatever it says, it was asked again.
            return;
        }
        let at = self.waiting.iter().position(|it| it.id == id).expect("found above");
        let waiting = &mut self.waiting[at];
        if header.status == NtStatus::FILE_NOT_AVAILABLE {
            assert!(waiting.began.elapsed() < PATIENCE, "it is never done: {waiting:?}");
            waiting.sent = None;
            waiting.send_at = Instant::now() + BUSY_INTERVAL;
            return;
        }
        if waiting.is_own {
            self.waiting.remove(at);
            return;
        }
        let was_repeated = waiting.attempts > 1;
        if was_repeated {
            self.counts.outage = self.counts.outage.max(waiting.began.elapsed());
        }
        waiting.answer = Some(Answer { status: header.status, message, was_repeated });
    }

    /// A lease is taken: there is nothing to write back, so the answer goes out at once.
    fn apply_break(&mut self, message: &[u8]) {
        let notice = LeaseBreakNotification::decode(message).expect("only leases are asked for");
        self.counts.breaks += 1;
        let mut leases = self.leases.lock().expect("nobody panics with it");
        if let Some(held) = leases.get_mut(&notice.lease_key) {
            *held &= notice.new_lease_state;
        }
        drop(leases);
        if notice.flags.contains(LeaseBreakFlags::ACK_REQUIRED) {
            let (lease_key, lease_state) = (notice.lease_key, notice.new_lease_state);
            let answer = LeaseBreak { lease_key, lease_state };
            self.enqueue(Request::new(Command::OPLOCK_BREAK, &answer), true);
        }
    }

    fn give_up_silent(&mut self) {
        for at in 0..self.links.len() {
            let LinkState::Bound(channel) = &mut self.links[at].state else { continue };
            let number = channel.number;
            let owes = self.waiting.iter().any(|it| it.sent.is_some_and(|to| to.0 == number));
            if !owes || channel.is_deaf.load(Ordering::Relaxed) {
                continue;
            }
            let silence = channel.heard_at.elapsed();
            if silence > LOST_AFTER {
                self.lose(at);
            } else if silence > PROBE_AFTER && !channel.is_probed {
                channel.is_probed = true;
                let probe = Request::new(Command::ECHO, &EchoRequest);
                let sent = connection::send(
                    &mut channel.connection,
                    probe.command,
                    &probe.body,
                    Marks::default(),
                );
                if sent.is_err() {
                    self.lose(at);
                }
            }
        }
    }
}

impl Drop for Client {
    /// The threads that receive have the sockets, too.
    fn drop(&mut self) {
        for link in &self.links {
            let connection = match &link.state {
                LinkState::Bound(channel) => {
                    channel.is_deaf.store(false, Ordering::Relaxed);
                    Some(&channel.connection)
                }
                LinkState::Lost { before, .. } => before.as_ref(),
                LinkState::Binding => None,
            };
            // It may have ended already.
            let _ = connection.map(|it| it.socket.shutdown(Shutdown::Both));
        }
    }
}
