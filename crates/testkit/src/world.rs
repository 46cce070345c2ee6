//! A server with its whole environment.

mod at_once;
mod engine;
mod worker;

use std::cell::{Cell, RefCell, RefMut};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use arbitration::{FileKey, FileRecord, FileRecords as _};
use bytes::BytesMut;
use dtyp::upcase::equal_ignoring_case;
use dtyp::{FileAttributes, NtStatus, ServerId};
use object::{ObjectOp, ObjectPath, ObjectReply, OpenRequest, Piped, RootId};
use proto::effect::{
    Authority, LentSession, Referral, Removal, ResponseFailure, SessionElsewhere, Unlocked,
};
use proto::server::Passed;
use proto::{
    Account, ChannelInfo, ConfirmationId, ConnectionId, Disconnect, Effect, EffectsOnly, Now,
    Reply, RequestId, Server, ServerSettings, Share, ShareRefusal, StorageLoad,
};
use tables::MemoryFiles;
use trace::{Reason, Spent};
use wire::ioctl::NetworkInterface;
use wire::write::WriteRequest;

use crate::accounts::{self, User};
use crate::clock::VirtualClock;
use crate::domain::Domain;
use crate::entropy::Random;
use crate::ledger::Ledger;
use crate::peer::Peer;
use crate::piped;
use crate::store::MemoryStore;
use at_once::{AtOnce, StorageAtOnce};
use worker::Worker;

/// Highest number of rounds of effects after one event. More means that the server repeats itself
/// forever.
const ROUNDS_MAX: usize = 100_000;

/// Number of slots for failed logons.
const LOGON_SLOTS: usize = 1_024;

/// Bytes of the transport's header before a frame.
const LENGTH_BYTES: usize = wire::frame::SIZE;

/// Bytes that a worker receives with one operation.
const RECEIVED_BYTES: usize = 68 * 1024;

/// A server with store, accounts and shares; all handles refer to the same one.
///
/// It starts with the users of [`accounts`], and with the shares `data` (all access granted),
/// `readonly`, `sealed` (encryption required) and `IPC$`.
#[derive(Clone, Debug)]
pub struct World {
    inner: Rc<RefCell<Inner>>,
    store: Rc<RefCell<MemoryStore>>,
}

/// Selects effects whose replies a test delays.
type Matches = Box<dyn Fn(&Effect) -> bool>;

struct Inner {
    server: Server,
    settings: Arc<ServerSettings>,
    server_id: ServerId,
    files: MemoryFiles,
    credits_max: u32,
    clock: VirtualClock,
    /// Clock of a tracer, in nanoseconds.
    traced_ns: Rc<Cell<u64>>,
    /// Tracer of the server, to which a world that serves at once reports like a worker.
    trace: trace::Tracer,
    store: Rc<RefCell<MemoryStore>>,
    users: Vec<User>,
    /// Service names that clients may use; all, if empty.
    own_names: Vec<String>,
    /// True if the name service does not answer at all.
    has_no_accounts: bool,
    are_users_lost: bool,
    domain: Domain,
    guest: Option<Account>,
    shares: Vec<Share>,
    refusals: HashMap<String, ShareRefusal>,
    /// Number of connections to each root.
    connected: HashMap<RootId, u32>,
    previous_sessions: Vec<(u64, String)>,
    /// Sessions of other workers, by id.
    elsewhere: HashMap<u64, LentSession>,
    /// Number of questions to other workers about sessions.
    session_questions: usize,
    interfaces: Vec<NetworkInterface>,
    ledger: Ledger,
    connections: HashMap<ConnectionId, Wire>,
    /// Connections that were cut and whose end the server has yet to learn.
    lost: Vec<ConnectionId>,
    client_count: u16,
    has_lanes: bool,
    delays: Option<Matches>,
    /// True if the rests of compounds that are served in turns wait for [`World::take_turn`].
    holds_turns: bool,
    at_once: AtOnce,
    /// Answers of the store to operations that began while their requests were served.
    begun: VecDeque<(RequestId, Reply)>,
    delayed: VecDeque<(RequestId, Reply)>,
    /// Set for one of several workers.
    worker: Option<Worker>,
    /// Memory for received frames, which share it as in a worker.
    received: BytesMut,
    frames: Vec<Vec<u8>>,
    plain: Vec<Plain>,
    /// Smallest size of a WRITE whose data go through a pipe.
    pipes_from: Option<usize>,
    piped_writes: u64,
}

/// A frame in plain text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Plain {
    /// Requests sent by a peer.
    Requests(Vec<u8>),
    /// Responses sent by the server.
    Responses(Vec<u8>),
}

/// Client's end of a connection.
#[derive(Debug, Default)]
struct Wire {
    inbox: VecDeque<Vec<u8>>,
    /// Reasons of refused requests, by MessageId, until the client takes their responses.
    reasons: HashMap<u64, Reason>,
    /// Reason of the server's disconnect.
    closed: Option<Disconnect>,
    /// True after the client has ended it, or sent a frame that no transport accepts.
    gone: bool,
    /// Received frames whose delivery the server wants confirmed.
    unconfirmed: Vec<ConfirmationId>,
    cut: Option<Cut>,
    /// Bytes passed since the cut was set.
    passed: Traversal,
}

/// Bytes in each direction, including the transport's headers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Traversal {
    /// Bytes sent by the client.
    pub requests: usize,
    /// Bytes sent by the server.
    pub responses: usize,
}

/// Cut of a connection: the first incomplete frame is lost, and all frames behind it, in both
/// directions.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Bytes that pass before the cut.
    pub after: Traversal,
    /// True if the server notices it. Otherwise it considers the connection alive.
    pub is_noticed: bool,
}

impl Wire {
    /// True if a frame of that many bytes arrives.
    fn lets_pass(&mut self, direction: fn(&mut Traversal) -> &mut usize, bytes: usize) -> bool {
        let Some(mut cut) = self.cut else { return true };
        let passed = direction(&mut self.passed);
        let room = *direction(&mut cut.after) - *passed;
        *passed += bytes.min(room);
        bytes <= room
    }

    /// True if nothing more may pass in one direction.
    fn is_at_its_end(&self) -> bool {
        self.cut.is_some_and(|cut| {
            let Traversal { requests, responses } = cut.after;
            self.passed.requests == requests || self.passed.responses == responses
        })
    }
}

impl Inner {
    /// Returns a frame in memory that was received.
    fn receive(&mut self, frame: &[u8]) -> BytesMut {
        if !self.received.try_reclaim(frame.len()) {
            self.received = BytesMut::with_capacity(frame.len().max(RECEIVED_BYTES));
        }
        self.received.extend_from_slice(frame);
        self.received.split()
    }

    /// Moves the end of a frame that need not be in memory into a pipe.
    fn pipe_end(&mut self, connection: ConnectionId, frame: &mut BytesMut) -> Option<Piped> {
        let front = usize::from(WriteRequest::DATA_OFFSET) + self.pipes_from?;
        let behind = frame.len().checked_sub(front).filter(|behind| *behind > 0)?;
        self.server.file_to_pipe_to(connection, &frame[..front], behind)?;
        self.piped_writes += 1;
        Some(piped::fill(&frame.split_off(front)))
    }

    fn new(
        seed: u64,
        settings: ServerSettings,
        server_id: ServerId,
        files: MemoryFiles,
        store: Rc<RefCell<MemoryStore>>,
    ) -> Self {
        let entropy = Random::new(seed).into_entropy();
        let credits_max = settings.credits_max;
        let settings = Arc::new(settings);
        let records = Box::new(files.handle());
        Self {
            server: Server::new(
                proto::COMMANDS,
                Arc::clone(&settings),
                entropy,
                records,
                server_id,
            ),
            settings,
            server_id,
            files,
            credits_max,
            clock: VirtualClock::default(),
            traced_ns: Rc::default(),
            trace: trace::Tracer::default(),
            store,
            users: accounts::users(),
            own_names: Vec::new(),
            has_no_accounts: false,
            are_users_lost: false,
            domain: Domain {
                template: accounts::users().first().map(|it| it.account.clone()),
                ..Domain::default()
            },
            guest: None,
            shares: Vec::new(),
            refusals: HashMap::new(),
            connected: HashMap::new(),
            previous_sessions: Vec::new(),
            elsewhere: HashMap::new(),
            session_questions: 0,
            interfaces: Vec::new(),
            ledger: Ledger::default(),
            connections: HashMap::new(),
            lost: Vec::new(),
            client_count: 0,
            has_lanes: true,
            delays: None,
            holds_turns: false,
            at_once: AtOnce::new(seed),
            begun: VecDeque::new(),
            delayed: VecDeque::new(),
            worker: None,
            received: BytesMut::new(),
            frames: Vec::new(),
            plain: Vec::new(),
            pipes_from: None,
            piped_writes: 0,
        }
    }
}

impl World {
    /// Creates a world with the default settings.
    #[must_use]
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// Creates a world with other settings.
    #[must_use]
    pub fn with(change: impl FnOnce(&mut ServerSettings)) -> Self {
        Self::with_seed(1, change)
    }

    /// Creates a world with other randomness, too.
    #[must_use]
    pub fn with_seed(seed: u64, change: impl FnOnce(&mut ServerSettings)) -> Self {
        let mut settings = accounts::settings();
        change(&mut settings);
        let server_id = ServerId { pid: 1, unique_id: 1 };
        let store = Rc::new(RefCell::new(MemoryStore::new()));
        let files = MemoryFiles::default();
        let mut inner = Inner::new(seed, settings, server_id, files, Rc::clone(&store));
        inner.guest = Some(accounts::guest());
        inner.shares = vec![accounts::share("IPC$", None)];
        let world = Self { inner: Rc::new(RefCell::new(inner)), store };
        world.add_share("data", |_| {});
        world.add_share("readonly", |share| {
            share.access_max =
                dtyp::AccessMask::FILE_GENERIC_READ | dtyp::AccessMask::FILE_GENERIC_EXECUTE;
        });
        world.add_share("sealed", |share| share.encryption = proto::settings::Policy::Required);
        world
    }

    /// Serves like a worker with a single connection whose store never blocks: no lane decrypts
    /// its frames, and every operation is answered at once.
    pub fn serve_at_once(&self) {
        let mut inner = self.inner();
        inner.has_lanes = false;
        inner.at_once = AtOnce::Always;
    }

    /// Connects a new client from the default address.
    #[must_use]
    pub fn connect(&self) -> Peer {
        self.connect_from(Ipv4Addr::new(192, 0, 2, 1).into())
    }

    /// Connects a new client from another address.
    #[must_use]
    pub fn connect_from(&self, client: IpAddr) -> Peer {
        let mut inner = self.inner();
        inner.client_count += 1;
        let port = 40_000 + inner.client_count;
        let client = SocketAddr::from((client, port));
        let server = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 254), 445));
        let now = inner.clock.now();
        let id = inner.server.handle_connect(now, client, server);
        inner.connections.insert(id, Wire::default());
        let credits_max = inner.credits_max;
        drop(inner);
        Peer::new(self.clone(), id, credits_max)
    }

    /// Changes the settings of the server.
    pub fn change_settings(&self, change: impl FnOnce(&mut ServerSettings)) {
        let mut settings = accounts::settings();
        change(&mut settings);
        let mut inner = self.inner();
        inner.settings = Arc::new(settings);
        let settings = Arc::clone(&inner.settings);
        inner.server.handle_settings(settings);
    }

    /// Adds a share, with its own root.
    pub fn add_share(&self, name: &str, change: impl FnOnce(&mut Share)) -> RootId {
        let root = self.store().add_root();
        let mut inner = self.inner();
        let mut share = accounts::share(name, Some(root));
        change(&mut share);
        inner.shares.push(share);
        root
    }

    /// Adds a share whose folder is a directory in that of another share.
    ///
    /// # Panics
    /// If there is no such share or directory.
    pub fn add_share_beneath(&self, name: &str, outer: &str, path: &str) {
        let root = self.store().add_root_beneath(self.root(outer), path);
        let mut inner = self.inner();
        let folder = &inner.share(outer).expect("it has a root").folder;
        let folder = format!("{}/{path}", folder.as_str());
        let mut share = accounts::share(name, Some(root));
        share.folder = ObjectPath::from_stored(folder, None);
        inner.shares.push(share);
    }

    /// Makes a share lead new tree connects to another, empty folder, like a share whose path
    /// contains the time.
    ///
    /// # Panics
    /// If the share does not exist.
    pub fn move_share(&self, name: &str) {
        let root = self.store().add_root();
        self.change_share(name, |share| {
            share.root = Some(root);
            share.folder = ObjectPath::from_stored(format!("srv/{name}-{}", root.0), None);
        });
    }

    /// Changes a share for later tree connects.
    ///
    /// # Panics
    /// If the share does not exist.
    pub fn change_share(&self, name: &str, change: impl FnOnce(&mut Share)) {
        let mut inner = self.inner();
        let share = inner.shares.iter_mut().find(|share| equal_ignoring_case(&share.name, name));
        change(share.expect("a share of this name"));
    }

    /// Refuses all further tree connects to a share.
    pub fn refuse_share(&self, name: &str, refusal: ShareRefusal) {
        self.inner().refusals.insert(name.to_owned(), refusal);
    }

    /// Returns the root of a share.
    ///
    /// # Panics
    /// If the share does not exist, or is the pipe share.
    #[must_use]
    pub fn root(&self, share: &str) -> RootId {
        self.inner().share(share).and_then(|share| share.root).expect("a share with a root")
    }

    /// Changes the answers of the domain.
    pub fn change_domain(&self, change: impl FnOnce(&mut Domain)) {
        change(&mut self.inner().domain);
    }

    /// Replaces the guest account; with `None` there are no guests.
    pub fn set_guest(&self, guest: Option<Account>) {
        self.inner().guest = guest;
    }

    /// Replaces the service names that clients may name in a logon.
    pub fn set_own_names(&self, names: &[&str]) {
        self.inner().own_names = names.iter().map(|name| (*name).to_owned()).collect();
    }

    /// Makes the name service fail from now on.
    pub fn lose_accounts(&self) {
        self.inner().has_no_accounts = true;
    }

    /// Makes the list of users unreadable.
    pub fn lose_users(&self) {
        self.inner().are_users_lost = true;
    }

    /// Starts to count failed logons, in slots of this world.
    pub fn count_failed_logons(&self) {
        let slots: Vec<AtomicU64> = (0..LOGON_SLOTS).map(|_| AtomicU64::new(0)).collect();
        self.inner().server.handle_logon_slots(Box::new(slots));
    }

    /// Returns the store, for preparation, inspection and faults.
    pub fn store(&self) -> RefMut<'_, MemoryStore> {
        self.store.borrow_mut()
    }

    /// Adds a file to a share. `/` separates components.
    pub fn add_file(&self, share: &str, path: &str, data: &[u8]) {
        let root = self.root(share);
        self.store().add_file(root, path, data);
    }

    /// Adds a symbolic link of the host to a share.
    pub fn add_link(&self, share: &str, path: &str, target: &str) {
        let root = self.root(share);
        self.store().add_link(root, path, target);
    }

    /// Adds a directory to a share.
    pub fn add_directory(&self, share: &str, path: &str) {
        let root = self.root(share);
        self.store().add_directory(root, path);
    }

    /// Returns the data of a file in a share, or of its stream after a colon.
    #[must_use]
    pub fn contents(&self, share: &str, path: &str) -> Option<Vec<u8>> {
        let root = self.root(share);
        self.store().contents(root, path)
    }

    /// True if a path exists in a share.
    #[must_use]
    pub fn exists(&self, share: &str, path: &str) -> bool {
        let root = self.root(share);
        self.store().exists(root, path)
    }

    /// Returns the attributes of a file or directory in a share.
    #[must_use]
    pub fn attributes(&self, share: &str, path: &str) -> Option<FileAttributes> {
        let root = self.root(share);
        self.store().attributes(root, path)
    }

    /// Sets the attributes of a file or directory in a share.
    pub fn set_attributes(&self, share: &str, path: &str, attributes: FileAttributes) {
        let root = self.root(share);
        self.store().set_attributes(root, path, attributes);
    }

    /// Returns the record of the server's notices.
    pub fn ledger(&self) -> RefMut<'_, Ledger> {
        RefMut::map(self.inner(), |inner| &mut inner.ledger)
    }

    /// Returns the sessions that the server asked other workers to end, with their users.
    #[must_use]
    pub fn previous_sessions(&self) -> Vec<(u64, String)> {
        self.inner().previous_sessions.clone()
    }

    /// Reports from another worker that a session is replaced.
    pub fn close_session_of(&self, session_id: u64, user: &str) {
        let mut inner = self.inner();
        let now = inner.clock.now();
        inner.server.handle_close_session_of(now, session_id, user);
        inner.pump();
    }

    /// Returns a session of this server, in the form for other workers.
    #[must_use]
    pub fn lend_session(&self, session_id: u64) -> Option<LentSession> {
        self.inner().server.lend_session(session_id)
    }

    /// Returns the channels of all sessions, in the form for administrators.
    #[must_use]
    pub fn channels(&self) -> Vec<ChannelInfo> {
        self.inner().server.channels()
    }

    /// Returns the number of questions to other workers about sessions.
    #[must_use]
    pub fn session_questions(&self) -> usize {
        self.inner().session_questions
    }

    /// Adds a session of another worker.
    pub fn put_elsewhere(&self, session_id: u64, session: LentSession) {
        self.inner().elsewhere.insert(session_id, session);
    }

    /// Sets the interfaces that are offered to clients.
    pub fn set_interfaces(&self, interfaces: Vec<NetworkInterface>) {
        self.inner().interfaces = interfaces;
    }

    /// Hands a connection of this world over to another one, as the workers of one server do: its
    /// NEGOTIATE waits for the reply to [`Effect::ClaimClient`]. `passed` is that message, and
    /// whether an SMB1 NEGOTIATE came before it.
    ///
    /// # Panics
    /// If no such reply is delayed.
    #[must_use]
    pub fn pass_on(&self, peer: &Peer, passed: (&[u8], bool), to: &Self) -> Peer {
        let (message, after_smb1) = passed;
        let mut inner = self.inner();
        let delayed = inner.delayed.pop_back();
        assert!(matches!(delayed, Some((_, Reply::ClientClaimed))), "delayed: {delayed:?}");
        let id = peer.connection();
        inner.server.handle_passed_on(id);
        inner.connections.get_mut(&id).expect("a connection of this world").gone = true;
        drop(inner);
        let mut there = to.inner();
        let passed = Passed {
            client: SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 50_000)),
            server: SocketAddr::from((Ipv4Addr::new(192, 0, 2, 254), 445)),
            message: BytesMut::from(message),
            after_smb1,
        };
        let now = there.clock.now();
        let id = there.server.handle_passed_connection(now, passed);
        there.connections.insert(id, Wire::default());
        there.pump();
        let credits_max = there.credits_max;
        drop(there);
        Peer::new(to.clone(), id, credits_max)
    }

    /// Kills the worker at any point; another one serves new connections.
    pub fn kill_worker(&self) {
        let mut inner = self.inner();
        let dead = inner.server_id;
        inner.replace_worker();
        let now = inner.clock.now().monotonic;
        let deletion_owner = inner.server_id;
        let to_notify = worker::remove_dead(&inner.files.handle(), dead, deletion_owner, now);
        inner.notify_workers(to_notify);
    }

    /// Ends the whole server abruptly, and starts it again.
    pub fn restart_server(&self) {
        let mut inner = self.inner();
        inner.files = inner.files.after_restart();
        let now = inner.clock.now().monotonic;
        let restored = inner.files.handle().restore(now).expect("memory is readable");
        assert_eq!(restored.damaged, 0);
        inner.replace_worker();
    }

    /// Does the supervisor's periodic work: removes opens whose clients did not return.
    pub fn scavenge(&self) {
        let mut inner = self.inner();
        let now = inner.clock.now().monotonic;
        let to_notify = worker::scavenge(&inner.files.handle(), inner.server_id, now);
        inner.notify_workers(to_notify);
    }

    /// Delays replies to matching effects from now on; the effects are executed at once.
    pub fn delay_replies(&self, matches: impl Fn(&Effect) -> bool + 'static) {
        self.inner().delays = Some(Box::new(matches));
    }

    /// Has the rests of compounds that are served in turns wait for [`Self::take_turn`].
    pub fn hold_turns(&self) {
        self.inner().holds_turns = true;
    }

    /// Serves the next request of such a rest. Returns false if there is none.
    #[must_use]
    pub fn take_turn(&self) -> bool {
        let mut inner = self.inner();
        let has_postponed = inner.server.has_postponed(None);
        let now = inner.clock.now();
        inner.server.serve_postponed(now, &mut EffectsOnly);
        inner.pump();
        has_postponed
    }

    /// Records the times that requests have to wait, from now on, in place of
    /// [`Self::delay_replies`].
    #[must_use]
    pub fn record_sleeps(&self) -> Rc<RefCell<Vec<Duration>>> {
        let seen = Rc::<RefCell<Vec<Duration>>>::default();
        let sleeps = Rc::clone(&seen);
        self.delay_replies(move |effect| {
            if let Effect::Sleep(time) = effect {
                sleeps.borrow_mut().push(*time);
            }
            false
        });
        seen
    }

    /// Stops delaying replies; those delayed before stay so.
    pub fn stop_delaying(&self) {
        self.inner().delays = None;
    }

    /// Number of replies that are delayed now.
    #[must_use]
    pub fn delayed_replies(&self) -> usize {
        self.inner().delayed.len()
    }

    /// Delivers one delayed reply to the server: the oldest is 0.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn release(&self, index: usize) {
        let mut inner = self.inner();
        let (id, reply) = inner.delayed.remove(index).expect("so many replies are delayed");
        let now = inner.clock.now();
        inner.server.handle_reply(now, id, reply);
        inner.pump();
    }

    /// Sets the highest size of all files' records in bytes.
    pub fn set_record_bytes_max(&self, bytes_max: u64) {
        self.inner().files.set_bytes_max(bytes_max);
    }

    /// Delivers all delayed replies to the server, oldest first, and delays no more.
    pub fn release_all(&self) {
        self.stop_delaying();
        while self.delayed_replies() > 0 {
            self.release(0);
        }
    }

    /// Reports to the server that the requests with delayed replies take long. Returns the number
    /// of those that keep their credits until the next report.
    pub fn report_slow(&self) -> usize {
        let mut inner = self.inner();
        let now = inner.clock.now();
        let requests: Vec<_> = inner.delayed.iter().map(|(id, _)| *id).collect();
        let kept = requests.into_iter().filter_map(|id| inner.server.handle_slow(now, id)).count();
        inner.pump();
        kept
    }

    /// Memory of requests that wait for storage threads: tests set it, as there are no threads.
    #[must_use]
    pub fn storage_load(&self) -> StorageLoad {
        self.inner().server.storage_load().clone()
    }

    /// Returns the time of the world.
    #[must_use]
    pub fn now(&self) -> Now {
        self.inner().clock.now()
    }

    /// Sets the slots of classes of service.
    pub fn set_slots(&self, slots: Box<dyn qos::Slots>) {
        self.inner().server.handle_slots(slots);
    }

    /// Sets the classes of service of requests by user and share.
    pub fn set_classes(&self, mut of: impl FnMut(&str, &str) -> qos::Membership) {
        let of = |account: &Account, _, share: &str, _| of(&account.user, share);
        self.inner().server.handle_classes(of);
    }

    /// Traces requests from now on, with a record of all events. Requests of existing sessions are
    /// not counted by share and user.
    #[cfg(feature = "recorder")]
    #[must_use]
    pub fn trace(&self) -> trace::Tracer {
        let tracer = trace::Tracer::in_test(Rc::clone(&self.inner().traced_ns));
        self.set_tracer(tracer);
        tracer
    }

    /// Makes the server count its requests.
    pub fn set_tracer(&self, tracer: trace::Tracer) {
        let mut inner = self.inner();
        inner.trace = tracer;
        inner.server.set_tracer(tracer);
    }

    /// Advances the time; timeouts fire at their time.
    pub fn advance(&self, by: Duration) {
        let mut inner = self.inner();
        let target = inner.clock.now().monotonic + by;
        while let Some(due) = inner.server.poll_timeout().filter(|due| *due <= target) {
            inner.advance_to(due);
            let now = inner.clock.now();
            inner.server.handle_timeout(now);
            inner.pump();
            let next = inner.server.poll_timeout();
            assert!(next.is_none_or(|next| next > now.monotonic), "a timeout stays due");
        }
        inner.advance_to(target);
    }

    /// Makes the server free room for another connection. Returns true if it could.
    #[must_use]
    pub fn crowd(&self) -> bool {
        let mut inner = self.inner();
        let now = inner.clock.now();
        let admits = inner.server.handle_connection_limit(now);
        inner.pump();
        admits
    }

    /// Asks for room for a connection that another worker offers, while others are on their way.
    /// Returns true if there is some.
    #[must_use]
    pub fn admits(&self, client: IpAddr, coming: usize) -> bool {
        let mut inner = self.inner();
        let now = inner.clock.now();
        let admits = inner.server.handle_offered_connection(now, client, coming);
        inner.pump();
        admits
    }

    /// Returns the records of open files, for inspection.
    #[must_use]
    pub fn files(&self) -> Vec<(FileKey, FileRecord)> {
        let mut files = Vec::new();
        let handle = self.inner().files.handle();
        handle.for_each(&mut |key, record| files.push((key, record))).expect("memory is readable");
        files
    }

    /// Returns the records of files, as another process of the server has them.
    #[must_use]
    pub fn file_table(&self) -> impl arbitration::FileRecords {
        self.inner().files.handle()
    }

    /// Number of changes of records so far, deletions included.
    #[must_use]
    pub fn record_updates(&self) -> u64 {
        self.inner().files.updates()
    }

    /// Returns the number of walks through the records of all files.
    #[must_use]
    pub fn record_walks(&self) -> u64 {
        self.inner().files.walks()
    }

    /// Number of opens of files.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.files().iter().map(|(_, record)| record.opens.len()).sum()
    }

    /// Bytes of memory charged to the client.
    pub fn memory_taken(&self) -> usize {
        self.inner().server.memory().taken()
    }

    /// True if the server is idle, and reports so.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.inner().server.is_idle()
    }

    /// Asserts that all connections have ended and nothing of them is left.
    ///
    /// # Panics
    /// If anything is left.
    pub fn assert_nothing_left(&self) {
        assert_eq!(self.files(), [], "files are left open");
        let inner = self.inner();
        assert!(inner.server.is_idle(), "the server has connections or requests");
        assert_eq!(inner.server.poll_timeout(), None, "a timeout is left");
        assert_eq!(inner.server.memory().taken(), 0, "memory is taken");
        assert_eq!(self.store().open_count(), 0, "opens are left in the store");
        let connected: Vec<_> = inner.connected.iter().filter(|(_, count)| **count > 0).collect();
        assert!(connected.is_empty(), "roots are still connected: {connected:?}");
        inner.ledger.assert_empty();
    }

    /// Returns every frame that a client has sent, without the transport's header.
    #[must_use]
    pub fn frames(&self) -> Vec<Vec<u8>> {
        self.inner().frames.clone()
    }

    /// Returns every frame that a peer has built or received, in plain text.
    #[must_use]
    pub fn plain_frames(&self) -> Vec<Plain> {
        self.inner().plain.clone()
    }

    /// Moves all but `bytes` bytes of WRITE data into pipes from now on, where possible.
    pub fn pipe_writes_behind(&self, bytes: usize) {
        self.inner().pipes_from = Some(bytes);
    }

    /// Number of WRITEs with data in a pipe.
    #[must_use]
    pub fn piped_writes(&self) -> u64 {
        self.inner().piped_writes
    }

    pub(crate) fn keep_frame(&self, plain: Plain) {
        self.inner().plain.push(plain);
    }

    /// Sets the point at which a connection is cut.
    pub(crate) fn cut(&self, connection: ConnectionId, cut: Cut) {
        let mut inner = self.inner();
        let wire = inner.connections.get_mut(&connection).expect("a connection of this world");
        (wire.cut, wire.passed) = (Some(cut), Traversal::default());
        inner.cut_off(connection);
        inner.pump();
    }

    /// Bytes that have passed since the cut was set.
    pub(crate) fn passed(&self, connection: ConnectionId) -> Traversal {
        self.inner().connections[&connection].passed
    }

    pub(crate) fn deliver(&self, connection: ConnectionId, frame: &[u8]) {
        let mut inner = self.inner();
        if let Some(wire) = inner.connections.get_mut(&connection).filter(|it| it.cut.is_some()) {
            let passes =
                !wire.gone && wire.lets_pass(|it| &mut it.requests, frame.len() + LENGTH_BYTES);
            if !passes {
                inner.cut_off(connection);
                return inner.pump();
            }
        }
        inner.frames.push(frame.to_vec());
        let frame_len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let now = inner.clock.now();
        if frame_len > inner.server.frame_len_max(connection) {
            // Like a worker, which does not even buffer it.
            if let Some(wire) = inner.connections.get_mut(&connection) {
                wire.gone = true;
            }
            inner.server.handle_disconnect(now, connection);
        } else {
            let mut bytes = inner.receive(frame);
            // Treats every second frame as decrypted by a lane.
            let over_lane = inner.has_lanes && inner.frames.len().is_multiple_of(2);
            let checked =
                over_lane.then(|| engine::open(&inner.server, connection, frame, &mut bytes));
            let checked = checked.flatten();
            let piped = inner.pipe_end(connection, &mut bytes);
            let inner = &mut *inner;
            if matches!(inner.at_once, AtOnce::Always) {
                inner.trace.wait_for_events();
                inner.trace.woke(1);
                let at = inner.trace.receives();
                inner.trace.frame_came(connection.0, bytes.len(), (Some(at), at), Spent::default());
            }
            let mut storage = StorageAtOnce {
                trace: inner.trace,
                store: &inner.store,
                worker: inner.worker.as_mut(),
                delays: inner.delays.as_ref(),
                now: now.wall,
                at_once: &mut inner.at_once,
                begun: &mut inner.begun,
            };
            let server = &mut inner.server;
            engine::handle_frame(server, connection, now, bytes, piped, checked, &mut storage);
        }
        inner.pump();
        inner.cut_off(connection);
        inner.pump();
    }

    pub(crate) fn disconnect(&self, connection: ConnectionId) {
        let mut inner = self.inner();
        if let Some(wire) = inner.connections.get_mut(&connection) {
            wire.gone = true;
        }
        let now = inner.clock.now();
        inner.server.handle_disconnect(now, connection);
        inner.pump();
    }

    /// Confirms delivery of all frames of this connection to the server. Returns their number.
    pub(crate) fn confirm(&self, connection: ConnectionId) -> usize {
        let mut inner = self.inner();
        let wire = inner.connections.get_mut(&connection).expect("a connection of this world");
        let unconfirmed = std::mem::take(&mut wire.unconfirmed);
        let now = inner.clock.now();
        for id in &unconfirmed {
            inner.server.handle_confirmed(now, connection, *id);
        }
        inner.pump();
        unconfirmed.len()
    }

    /// Tells the server that this connection no longer delivers frames.
    pub(crate) fn take_nothing(&self, connection: ConnectionId) {
        let mut inner = self.inner();
        let now = inner.clock.now();
        inner.server.handle_unconfirmed(now, connection);
        inner.pump();
    }

    pub(crate) fn take_inbox(&self, connection: ConnectionId) -> VecDeque<Vec<u8>> {
        let mut inner = self.inner();
        let wire = inner.connections.get_mut(&connection).expect("a connection of this world");
        std::mem::take(&mut wire.inbox)
    }

    /// Takes the reason why a request was refused.
    pub(crate) fn take_reason(&self, connection: ConnectionId, message_id: u64) -> Reason {
        let mut inner = self.inner();
        let wire = inner.connections.get_mut(&connection).expect("a connection of this world");
        wire.reasons.remove(&message_id).unwrap_or(Reason::NotRefused)
    }

    pub(crate) fn closed(&self, connection: ConnectionId) -> Option<Disconnect> {
        self.inner().connections[&connection].closed
    }

    pub(crate) fn is_open(&self, connection: ConnectionId) -> bool {
        let inner = self.inner();
        let wire = &inner.connections[&connection];
        wire.closed.is_none() && !wire.gone
    }

    fn inner(&self) -> RefMut<'_, Inner> {
        self.inner.borrow_mut()
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl Inner {
    fn advance_to(&mut self, monotonic: Duration) {
        self.clock.advance_to(monotonic);
        let ns = self.clock.now().monotonic.as_nanos();
        self.traced_ns.set(u64::try_from(ns).expect("tests last less than centuries"));
    }

    fn replace_worker(&mut self) {
        self.server_id.pid += 1;
        self.server_id.unique_id += 1;
        let entropy = Random::new(self.server_id.unique_id).into_entropy();
        let records = Box::new(self.files.handle());
        self.server = Server::new(
            proto::COMMANDS,
            Arc::clone(&self.settings),
            entropy,
            records,
            self.server_id,
        );
        self.connections.values_mut().for_each(|wire| wire.gone = true);
        self.connected.clear();
        self.store.borrow_mut().release_locks_of_opens();
        self.delayed.clear();
        self.begun.clear();
        self.ledger = Ledger::default();
    }

    /// Notifies workers of changed records, as the supervisor does.
    fn notify_workers(&mut self, to_notify: Vec<(FileKey, Vec<ServerId>)>) {
        for (file, servers) in to_notify {
            if servers.contains(&self.server_id) {
                let now = self.clock.now();
                self.server.handle_file_changed(now, file);
                self.pump();
            }
        }
    }

    /// Executes all effects of the server, until there are none.
    fn pump(&mut self) {
        for _ in 0..ROUNDS_MAX {
            if let Some((id, reply)) = self.begun.pop_front() {
                let now = self.clock.now();
                engine::handle_reply(&mut self.server, now, id, reply);
                continue;
            }
            let Some((id, effect)) = engine::poll_effect(&mut self.server) else {
                self.collect();
                if self.lost.is_empty() {
                    if self.holds_turns || !self.server.has_postponed(None) {
                        return;
                    }
                    self.server.serve_postponed(self.clock.now(), &mut EffectsOnly);
                    continue;
                }
                let now = self.clock.now();
                for connection in std::mem::take(&mut self.lost) {
                    self.server.handle_disconnect(now, connection);
                }
                continue;
            };
            let Some((id, effect)) = self.keep(id, effect) else { continue };
            let holds = self.delays.as_ref().is_some_and(|matches| matches(&effect));
            let reply = self.answer(effect);
            match (id, reply) {
                (Some(id), Some(reply)) if holds => self.delayed.push_back((id, reply)),
                (Some(id), Some(reply)) => {
                    let now = self.clock.now();
                    engine::handle_reply(&mut self.server, now, id, reply);
                }
                (Some(_), None) => panic!("a request waits for an effect without a reply"),
                // A failure without a waiting request is ignored.
                (None, _) => {}
            }
            self.collect();
        }
        panic!("the server does not come to rest");
    }

    /// Ends a connection that has reached its cut.
    fn cut_off(&mut self, connection: ConnectionId) {
        let wire = self.connections.get_mut(&connection).expect("a connection of this world");
        let Some(cut) = wire.cut.filter(|_| !wire.gone && wire.is_at_its_end()) else { return };
        wire.gone = true;
        self.lost.extend(cut.is_noticed.then_some(connection));
    }

    /// Collects frames, notices and disconnects.
    fn collect(&mut self) {
        while let Some(mut transmit) = engine::poll_transmit(&mut self.server) {
            transmit.frame.extend(transmit.piped.take().iter().flat_map(piped::drain));
            let wire = self.connections.get_mut(&transmit.connection).expect("it was connected");
            let (length, frame) = transmit.frame.split_first_chunk::<4>().expect("a length");
            let length = usize::try_from(u32::from_be_bytes(*length)).expect("it fits");
            assert_eq!(length, frame.len(), "the transport's length is that of the frame");
            assert!(length <= wire::frame::LENGTH_MAX, "a frame's length has 24 bits");
            assert!(wire.closed.is_none(), "a frame for a connection that was ended");
            if wire.cut.is_some()
                && (wire.gone || !wire.lets_pass(|it| &mut it.responses, length + LENGTH_BYTES))
            {
                self.cut_off(transmit.connection);
                continue;
            }
            wire.inbox.push_back(frame.to_vec());
            #[cfg(feature = "recorder")]
            wire.reasons.extend(transmit.answered.refused());
            wire.unconfirmed.extend(transmit.confirmation);
            if matches!(self.at_once, AtOnce::Always) {
                let now = self.clock.now();
                engine::handle_sent(&mut self.server, now, transmit.frame);
                transmit.answered.end_with_waiting();
            }
        }
        while let Some(notice) = self.server.poll_notice() {
            self.ledger.enter(notice);
        }
        while let Some((connection, reason, _)) = self.server.poll_close() {
            let wire = self.connections.get_mut(&connection).expect("it was connected");
            assert_eq!(wire.closed.replace(reason), None, "ended twice");
        }
    }

    fn disconnect_share(&mut self, root: RootId) -> Option<Reply> {
        let count = self.connected.get_mut(&root).expect("what was connected");
        *count = count.checked_sub(1).expect("disconnected once for each connect");
        None
    }

    fn answer(&mut self, effect: Effect) -> Option<Reply> {
        match effect {
            Effect::CheckMic(mic) => Some(Reply::Mic(self.domain.check_mic(&mic))),
            Effect::CheckResponse { response, authority } => {
                let checked = match authority {
                    Authority::Domain => self.domain.check_response(&response),
                    Authority::Server if self.are_users_lost => Err(ResponseFailure::Unchecked),
                    Authority::Server => accounts::check_response(&self.users, &response),
                };
                Some(Reply::Response(checked.map(Box::new)))
            }
            Effect::CheckTicket(ticket) => {
                Some(Reply::Ticket(self.domain.check_ticket(&ticket).map(Box::new)))
            }
            Effect::ClaimClient { .. } => Some(Reply::ClientClaimed),
            Effect::ClosePreviousSession { session_id, user } => {
                self.previous_sessions.push((session_id, user));
                Some(Reply::PreviousSessionClosed)
            }
            Effect::ConnectShare(wanted) => Some(Reply::Share(self.connect_share(&wanted.name))),
            Effect::DisconnectShare(root) => self.disconnect_share(root),
            Effect::FindAccount { users, requested_user: _ } => {
                let [user] = &users[..] else { panic!("{users:?} instead of one") };
                let user = accounts::find(&self.users, user).filter(|_| !self.has_no_accounts);
                Some(Reply::Account(user.map(|user| Box::new(user.account.clone()))))
            }
            Effect::IsOwnName { target_name, .. } => {
                let is_any = self.own_names.is_empty();
                Some(Reply::OwnName(is_any || self.own_names.contains(&target_name)))
            }
            Effect::FindReferral(question) => {
                Some(Reply::Referral(self.find_referral(&question.connect.name, &question.path)))
            }
            Effect::ChangeQuota { .. } => Some(Reply::QuotaChanged(false)),
            Effect::FindFreeSpace { .. } => Some(Reply::FreeSpace(None)),
            Effect::FindQuota { .. } => Some(Reply::Quota(None)),
            Effect::FindSession { session_id, message } => {
                Some(Reply::Session(self.find_session(session_id, &message)))
            }
            // The test controls time: see `delay_replies`.
            Effect::Sleep(_) => Some(Reply::Woken),
            Effect::FindNames(questions) => {
                Some(Reply::Names(questions.iter().map(|it| self.domain.find_name(it)).collect()))
            }
            Effect::CarryOut { .. } => Some(no_such_file()),
            Effect::ListNetworkInterfaces => {
                Some(Reply::NetworkInterfaces(self.interfaces.clone()))
            }
            Effect::FindGuest => Some(Reply::Account(self.guest.clone().map(Box::new))),
            Effect::FileDeleted(deletion) => {
                let now = self.clock.now();
                self.server.handle_deleted(now, &deletion);
                None
            }
            Effect::FileUnlocked(unlocked) => self.file_unlocked(&unlocked),
            // No other worker waits here.
            Effect::NotifyTurn { .. } | Effect::Withdraw(_) => None,
            Effect::NotifyFileChanged { worker, file } => {
                let this = self.worker.as_mut().expect("there is one worker here");
                this.notifications.push((worker, file));
                None
            }
            Effect::Remove(removal) => {
                self.remove(&removal);
                None
            }
            Effect::Traverse(traversal) => {
                let path = traversal.directory.clone().into();
                let looked = self.perform(ObjectOp::Lookup { root: traversal.root, path });
                let now = self.clock.now();
                self.server.handle_traversed(now, &traversal, looked.is_ok().then_some(true));
                None
            }
            Effect::Object { user: _, op } => Some(Reply::Object(self.perform(op))),
        }
    }

    fn file_unlocked(&mut self, unlocked: &Unlocked) -> Option<Reply> {
        let now = self.clock.now();
        self.server.handle_unlocked(now, unlocked);
        None
    }

    fn find_session(&mut self, session_id: u64, message: &[u8]) -> SessionElsewhere {
        self.session_questions += 1;
        match self.elsewhere.get(&session_id) {
            None => SessionElsewhere::Nowhere,
            Some(lent) if lent.has_signed(message) => SessionElsewhere::Proven(lent.clone().into()),
            Some(_) => SessionElsewhere::Unproven,
        }
    }

    fn find_referral(&mut self, share: &str, path: &ObjectPath) -> Result<Referral, NtStatus> {
        let share = self.share(share).filter(|share| share.is_dfs_root);
        let root = share.and_then(|share| share.root).ok_or(NtStatus::NOT_FOUND)?;
        if path.is_root() {
            return Ok(Referral::Root);
        }
        match self.perform(ObjectOp::FindReferral { root, path: path.clone().into() }) {
            Ok(ObjectReply::Stopped(link)) => Ok(Referral::Link(link)),
            _ => Err(NtStatus::NOT_FOUND),
        }
    }

    fn remove(&mut self, removal: &Removal) {
        let root = self.share(&removal.share).and_then(|share| share.root).expect("a share's file");
        let request = OpenRequest::to_remove(root, removal.path.clone());
        let mut removed = Err(NtStatus::OBJECT_NAME_NOT_FOUND);
        if let Ok(ObjectReply::Opened(opened)) = self.perform(ObjectOp::Open(Box::new(request))) {
            let unlink = removal.is_of(&opened);
            let closed = self.perform(ObjectOp::Close { open: opened.open, unlink });
            removed = closed.and(if unlink { Ok(opened) } else { removed });
        }
        let now = self.clock.now();
        self.server.handle_removed(now, removal, removed.as_deref().map_err(|status| *status));
    }

    fn connect_share(&mut self, name: &str) -> Result<Box<Share>, ShareRefusal> {
        if let Some(refusal) = self.refusals.get(name) {
            return Err(*refusal);
        }
        let share = self.share(name).cloned().ok_or(ShareRefusal::BadNetworkName)?;
        if let Some(root) = share.root {
            *self.connected.entry(root).or_default() += 1;
        }
        Ok(Box::new(share))
    }

    fn share(&self, name: &str) -> Option<&Share> {
        self.shares.iter().find(|share| equal_ignoring_case(&share.name, name))
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("clock", &self.clock).finish_non_exhaustive()
    }
}

/// Reply to every task of an administrator: nobody has a file open by a number.
fn no_such_file() -> Reply {
    let failure = rpc::TaskFailure::NoSuchFile;
    Reply::Outcome(Box::new(rpc::Outcome::Failed(failure)))
}
