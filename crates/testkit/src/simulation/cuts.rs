//! A conversation of CREATE, LOCK, WRITE, lease break and CLOSE over two channels, of which the
//! first is cut: after every byte, in either direction, whether the server notices or not, with
//! operations of the store completed at once or still pending.
//!
//! Its client repeats unanswered requests over the other channel. In the end everything was
//! executed once: the file is created, written and locked once, another client's open had its lease
//! broken, and nothing is left.

use std::collections::BTreeSet;

use arbitration::OpenId;
use dtyp::{AccessMask, Guid, NtStatus};
use proto::Effect;
use proto::files::BREAK_TIMEOUT;
use wire::create::{CreateAction, CreateDisposition, CreateResponse, ShareAccess};
use wire::create_context::{DurableFlags, DurableHandleRequestV2, LeaseContext};
use wire::header::HeaderFlags;
use wire::lease::{LeaseKey, LeaseState};
use wire::lock::{LockElement, LockFlags, LockRequest, Locks};
use wire::negotiate::Capabilities;
use wire::oplock_break::{LeaseBreak, LeaseBreakNotification};
use wire::write::WriteRequest;
use wire::{Command, Dialect, Encode, FileId, OplockLevel};

use super::check::{verify_locks, verify_sharing, verify_writers};
use crate::accounts::ALICE;
use crate::create::Create;
use crate::login::Login;
use crate::peer::{Offer, Peer};
use crate::response::Response;
use crate::world::{Cut, Traversal, World};

const KEY: LeaseKey = LeaseKey([7; 16]);
const NAME: &str = "file";

/// Manner in which the first channel is lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Manner {
    /// True if the server notices it at once. Otherwise it finds out by a break that is not
    /// delivered, or never.
    pub is_noticed: bool,
    /// True if operations of the store are still pending when the client repeats its request.
    pub is_busy: bool,
}

/// Simulates all cuts in one manner: after every byte, or, if only cuts that differ for a server
/// are wanted, around the end of every frame. Returns their number.
///
/// # Panics
/// If the server breaks a promise.
#[must_use]
pub fn run(manner: Manner, after_every_byte: bool) -> usize {
    let endless = Traversal { requests: usize::MAX, responses: usize::MAX };
    let ends = Conversation::live(manner, endless);
    let cuts = |direction: fn(&Traversal) -> usize| -> BTreeSet<usize> {
        match after_every_byte {
            true => (0..=ends.last().map_or(0, direction)).collect(),
            false => ends.iter().map(direction).flat_map(|end| [end, end + 1, end + 2]).collect(),
        }
    };
    let (requests, responses) = (cuts(|it| it.requests), cuts(|it| it.responses));
    for &requests in &requests {
        Conversation::live(manner, Traversal { requests, ..endless });
    }
    for &responses in &responses {
        Conversation::live(manner, Traversal { responses, ..endless });
    }
    requests.len() + responses.len()
}

/// A client with two channels, and a second client.
struct Conversation {
    world: World,
    manner: Manner,
    channels: [Peer; 2],
    other: Peer,
    /// True once the first channel is lost.
    is_lost: bool,
    /// Breaks that the client was notified of.
    breaks: Vec<LeaseState>,
    cut: Traversal,
    /// Bytes passed over the first channel each time that the client received.
    ends: Vec<Traversal>,
}

/// Result of a request, final or pending.
enum Outcome {
    Answered(Response),
    /// Pending request: its channel and message id.
    Waits,
}

impl Conversation {
    /// Simulates one cut. Returns the bytes passed over the first channel at each receipt, starting
    /// with none.
    fn live(manner: Manner, after: Traversal) -> Vec<Traversal> {
        let world = World::new();
        let mut first = world.connect();
        first.negotiate_with(&offer(1)).ok();
        first.login(ALICE.0, ALICE.1);
        first.tree("data");
        let mut second = world.connect();
        second.negotiate_with(&offer(1)).ok();
        second.bind(&first, &Login::user(ALICE.0, ALICE.1)).ok();
        second.tree_id = first.tree_id;
        let mut other = world.connect();
        other.negotiate_with(&offer(2)).ok();
        other.login(ALICE.0, ALICE.1);
        other.tree("data");
        first.cut(Cut { after, is_noticed: manner.is_noticed });
        let channels = [first, second];
        let (is_lost, breaks) = (false, Vec::new());
        let ends = vec![Traversal::default()];
        let mut this = Self { world, manner, channels, other, is_lost, breaks, cut: after, ends };
        this.talk();
        this.end()
    }

    fn talk(&mut self) {
        let made = self.ask(Command::CREATE, &create(CreateDisposition::CREATE));
        let response: CreateResponse<'_> = made.body();
        assert_eq!(response.create_action, CreateAction::CREATED, "{:?}", self.cut);
        let file = response.file_id;
        self.check();

        self.ask(Command::LOCK, &lock(file, 1, 0, LockFlags::EXCLUSIVE_LOCK));
        self.ask(Command::WRITE, &WriteRequest::new(file, 0, b"first---"));
        self.check();

        let others = self.lose_lease();
        self.wait_for_lock(file, others);

        self.ask(Command::LOCK, &lock(file, 3, 0, LockFlags::UNLOCK));
        self.ask(Command::WRITE, &WriteRequest::new(file, 8, b"second--"));
        self.check();
        let locks: Vec<_> = self
            .world
            .files()
            .into_iter()
            .flat_map(|(_, it)| it.locks.iter().copied().collect::<Vec<_>>())
            .collect();
        assert_eq!(locks.len(), 1, "of two, one was given back: {:?}", self.cut);

        let close = wire::close::CloseRequest { file_id: file, ..Default::default() };
        self.ask(Command::CLOSE, &close);
        self.other.close(others).ok();
        let contents = self.world.contents("data", NAME);
        assert_eq!(contents.as_deref(), Some(&b"first---second--"[..]), "{:?}", self.cut);
        assert_eq!(self.world.open_count(), 0, "an open is left: {:?}", self.cut);
    }

    /// Opens the file as the other client, which breaks the first one's lease.
    fn lose_lease(&mut self) -> FileId {
        let create = Create::open(NAME).access(AccessMask::READ_DATA | AccessMask::WRITE_DATA);
        let request = self.other.request(Command::CREATE, &create);
        self.other.send(request);
        self.receive();
        let is_open = self.channels[0].is_open();
        if self.breaks.is_empty() && !is_open && !self.manner.is_noticed {
            // The server notices that the oldest channel delivers nothing.
            self.channels[0].take_nothing();
            self.receive();
        }
        assert!(!self.breaks.is_empty(), "nobody was breaks: {:?}", self.cut);
        let lease_state = self.breaks[0];
        self.ask(Command::OPLOCK_BREAK, &LeaseBreak { lease_key: KEY, lease_state });
        self.check();
        let answers = self.other.receive();
        let opened = answers.iter().find(|it| it.status().is_success());
        opened.expect("nobody is in the way").body::<CreateResponse<'_>>().file_id
    }

    /// Waits for a range that the other client has locked.
    fn wait_for_lock(&mut self, file: FileId, others: FileId) {
        let request =
            self.other.request(Command::LOCK, &lock(others, 0, 20, LockFlags::EXCLUSIVE_LOCK));
        self.other.call(request).ok();
        let wanted = lock(file, 2, 20, LockFlags::EXCLUSIVE_LOCK);
        let waits = matches!(self.try_ask(Command::LOCK, &wanted), Outcome::Waits);
        assert!(waits, "it is locked: {:?}", self.cut);
        let unlock = self.other.request(Command::LOCK, &lock(others, 0, 20, LockFlags::UNLOCK));
        self.other.call(unlock).ok();
        let mut answers = self.receive();
        if answers.is_empty() {
            // The response was lost with its channel.
            assert!(!self.channels[0].is_open(), "{:?}", self.cut);
            self.is_lost = true;
            answers.push(self.ask(Command::LOCK, &wanted));
        }
        assert!(answers.iter().all(|it| it.status().is_success()), "{:?}", self.cut);
        self.check();
    }

    /// Repeats a request until there is a response, which must not be a refusal.
    fn ask(&mut self, command: Command, body: &impl Encode) -> Response {
        match self.try_ask(command, body) {
            Outcome::Answered(response) => response,
            Outcome::Waits => panic!("{command:?} waits: {:?}", self.cut),
        }
    }

    fn try_ask(&mut self, command: Command, body: &impl Encode) -> Outcome {
        let mut is_repeated = false;
        // Over the first channel, over the second, and again if the first request is still pending.
        for _ in 0..3 {
            let channel = &mut self.channels[usize::from(self.is_lost)];
            let mut request = channel.request(command, body);
            if self.is_lost {
                request = request.channel_sequence(1);
            }
            if is_repeated {
                request = request.flags(HeaderFlags::REPLAY_OPERATION);
            }
            if self.manner.is_busy && !is_repeated {
                self.world.delay_replies(|effect| matches!(effect, Effect::Object { .. }));
            }
            channel.send(request);
            if self.channels[usize::from(self.is_lost)].is_open() {
                self.world.release_all();
            } else {
                self.world.stop_delaying();
            }
            let answers = self.receive();
            self.is_lost |= !self.channels[0].is_open();
            match answers.into_iter().next() {
                Some(answer) if answer.is_interim() => return Outcome::Waits,
                Some(answer) if answer.status() == NtStatus::FILE_NOT_AVAILABLE => {
                    assert!(is_repeated, "{command:?} is new: {:?}", self.cut);
                    self.world.release_all();
                }
                Some(answer) => {
                    let was_done = is_repeated && is_done(command, answer.status());
                    assert!(
                        answer.status().is_success() || was_done,
                        "{command:?} is {:?}: {:?}, {:?}",
                        answer.status(),
                        self.cut,
                        self.manner
                    );
                    // Others may wait for the lost request's operation.
                    self.world.release_all();
                    return Outcome::Answered(answer);
                }
                None => assert!(self.is_lost, "{command:?} has no answer: {:?}", self.cut),
            }
            is_repeated = true;
        }
        panic!("{command:?} is never answered: {:?}, {:?}", self.cut, self.manner);
    }

    /// Receives frames: records breaks, and returns responses, interim ones only if nothing else
    /// came.
    fn receive(&mut self) -> Vec<Response> {
        let mut answers = Vec::new();
        self.ends.push(self.channels[0].passed());
        for channel in &mut self.channels {
            for response in channel.receive() {
                if response.header.message_id == u64::MAX {
                    let notice: LeaseBreakNotification = response.body();
                    self.breaks.push(notice.new_lease_state);
                } else {
                    answers.push(response);
                }
            }
        }
        if answers.iter().any(|it| !it.is_interim()) {
            answers.retain(|it| !it.is_interim());
        }
        answers
    }

    fn check(&self) {
        for (_, record) in self.world.files() {
            verify_sharing(&record);
            verify_writers(&record);
            verify_locks(&record);
            let opens: Vec<OpenId> = record.opens.iter().map(|it| it.id).collect();
            assert!(opens.len() <= 2, "one open for each client: {opens:?}, {:?}", self.cut);
        }
    }

    fn end(self) -> Vec<Traversal> {
        let peers = self.channels.into_iter().chain([self.other]);
        peers.for_each(|peer| peer.disconnect());
        // The expiration of the break finds it already acknowledged.
        self.world.advance(2 * BREAK_TIMEOUT);
        self.world.assert_nothing_left();
        self.ends
    }
}

/// True if this status shows that the first of two identical requests was executed.
fn is_done(command: Command, status: NtStatus) -> bool {
    match command {
        Command::CLOSE => status == NtStatus::FILE_CLOSED,
        // [MS-SMB2] 3.3.5.22.2: the lease no longer has a break.
        Command::OPLOCK_BREAK => status == NtStatus::UNSUCCESSFUL,
        _ => false,
    }
}

fn offer(client: u8) -> Offer {
    let mut offer = Offer::dialects(&[Dialect::SMB_3_1_1]);
    offer.client_guid = Guid([client; 16]);
    offer.capabilities |= Capabilities::LEASING | Capabilities::PERSISTENT_HANDLES;
    offer
}

fn create(disposition: CreateDisposition) -> Create {
    let lease_state =
        LeaseState::READ_CACHING | LeaseState::WRITE_CACHING | LeaseState::HANDLE_CACHING;
    let lease = LeaseContext { lease_key: KEY, lease_state, ..LeaseContext::default() };
    let (timeout_ms, flags, create_guid) = (0, DurableFlags::empty(), Guid([9; 16]));
    Create::with_disposition(NAME, disposition)
        .access(AccessMask::READ_DATA | AccessMask::WRITE_DATA)
        .share(ShareAccess::READ | ShareAccess::WRITE)
        .oplock(OplockLevel::LEASE)
        .context(&lease)
        .context(&DurableHandleRequestV2 { timeout_ms, flags, create_guid })
}

/// Creates a LOCK of ten bytes, with a sequence number if it has an index.
fn lock(file_id: FileId, index: u32, offset: u64, flags: LockFlags) -> LockOf {
    LockOf {
        file_id,
        lock_sequence: index << 4,
        element: LockElement { offset, length: 10, flags },
    }
}

/// A LOCK request with its own element.
struct LockOf {
    file_id: FileId,
    lock_sequence: u32,
    element: LockElement,
}

impl Encode for LockOf {
    fn encode(&self, out: &mut Vec<u8>) {
        let Self { file_id, lock_sequence, element } = *self;
        let locks = [element];
        LockRequest { lock_sequence, file_id, locks: Locks::new(&locks) }.encode(out);
    }
}
