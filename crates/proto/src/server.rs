//! The protocol state of one worker: [MS-SMB2] 3.3.1.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arbitration::{FileKey, FileRecords};
use bytes::{Bytes, BytesMut};
use dtyp::upcase::equal_ignoring_case;
use dtyp::{FileTime, ServerId};
use object::{
    FileIdentity, HostChange, HostChangeKind, ObjectOp, ObjectPath, Opened, Piped, RootId, UserId,
};
use rustc_hash::FxHashMap;
use trace::{Phase, Tracer};
use wire::{Command, FileId};

use crate::break_notification::{BreakNotifications, ConfirmationId};
use crate::buffer_pool::BufferPool;
use crate::change::{Change, ChangeKind};
use crate::command::{change_notify, negotiate};
use crate::connection::{Connection, ConnectionId, Negotiated};
use crate::dispatch;
use crate::effect::{Effect, LentSession, Removal, Reply};
use crate::files::{Files, key};
use crate::notice::Notice;
use crate::open::{CreateName, Open, OpenFile, Target};
use crate::protection;
use crate::reject::{Disconnect, Reject};
use crate::request::{Chain, InFlight, Incoming, RequestId};
use crate::respond::error_body;
use crate::response::{Step, Transmit};
use crate::session::{Session, SessionState};
use crate::settings::ServerSettings;
use crate::tree_connect::TreeConnect;

/// How long a connection may take until a session is set up: [MS-SMB2] 3.3.2.3 leaves it open.
const SETUP_TIMEOUT: Duration = Duration::from_secs(45);

/// Requests of a connection that may wait for something without an end.
///
/// Each keeps its message and takes a place in a wait list; no known client has more than a few.
const ASYNC_COMMANDS_MAX: u32 = 512;

/// Bytes of such a request, and of those behind it in its compound. A CREATE with all that fits its
/// contexts has less; those that pay for more move data, and none of them waits so.
const SUSPENDED_BYTES_MAX: usize = 256 * 1024;

/// Bytes of a frame beyond its payload: headers, transform, a compound's further requests.
const FRAME_OVERHEAD_MAX: u32 = 0x1_0000;

/// Bytes of a frame before a session exists. A NEGOTIATE or SESSION_SETUP is far smaller.
const FRAME_BEFORE_SESSION_MAX: u32 = 0x2_0000;

/// When something happens.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Now {
    /// Since some moment before the server began; never goes back.
    pub monotonic: Duration,
    /// The time of day.
    pub wall: FileTime,
}

/// A connection that another worker passed on.
#[derive(Debug)]
pub struct Passed {
    /// Where the client is.
    pub client: SocketAddr,
    /// Which address it came to.
    pub server: SocketAddr,
    /// Its NEGOTIATE, the header included.
    pub message: BytesMut,
    /// An SMB1 NEGOTIATE came before it.
    pub after_smb1: bool,
}

/// [MS-SMB2] 3.3.1: the state of the server as one worker sees it.
#[derive(Debug)]
pub struct Server {
    /// `Server.ConnectionList`.
    pub(crate) connections: FxHashMap<ConnectionId, Connection>,
    /// `Server.GlobalSessionTable`, as far as this client's sessions go.
    pub(crate) sessions: FxHashMap<u64, Session>,
    /// `Server.GlobalOpenTable`, as far as this client's opens go; by volatile id.
    pub(crate) opens: FxHashMap<u64, Open>,
    pub(crate) in_flight: FxHashMap<RequestId, InFlight>,
    pub(crate) globals: Globals,
    deadlines: FxHashMap<ConnectionId, Duration>,
    request_count: u64,
    connection_count: u32,
}

/// What belongs to no connection, session or open.
#[derive(Debug)]
pub struct Globals {
    /// What the administrator decided.
    pub settings: Arc<ServerSettings>,
    /// The files that are open anywhere.
    pub files: Files,
    /// Breaks on their way to the client.
    pub breaks: BreakNotifications,
    /// Buffers for answers to READ.
    pub buffers: BufferPool,
    /// Requests that are over a limit of their classes, or wait for their turn at the storage.
    pub gate: qos::Gate<RequestId>,
    /// Where unguessable bytes come from.
    pub entropy: Entropy,
    /// What is to be done in the world.
    pub outbox: Outbox,
    /// Counts opens, for their ids.
    pub open_count: u64,
    /// Opens by what their clients call them, the latest of each name.
    pub create_names: HashMap<CreateName, u64>,
    /// Tells this worker's persistent ids from those of others.
    pub file_id_base: u64,
    /// Opens with a watch, by volatile id: what CHANGE_NOTIFY costs a server in which nobody asks
    /// for it is to see that this is empty.
    pub watchers: Vec<u64>,
    /// The client is Apple's, and was told that listings are in its form.
    pub apple_listings: bool,
    /// Somebody watches a directory through another worker.
    pub is_watched_elsewhere: bool,
    /// Where the time of requests is kept; it looks at the clock, and says nothing of it here.
    pub trace: Tracer,
    /// Where the roots of shares are on the host. A root that is used again is entered again, so
    /// there are never more than the store has roots.
    pub folders: HashMap<RootId, ObjectPath>,
}

/// What is to be done in the world, and in this server once a handler has returned.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Questions, with the request that waits for the answer, if one does.
    pub effects: VecDeque<(Option<RequestId>, Effect)>,
    /// Frames.
    pub transmits: VecDeque<Transmit>,
    /// Changes for the tables.
    pub notices: VecDeque<Notice>,
    /// Connections to end.
    pub closes: VecDeque<(ConnectionId, Disconnect)>,
    /// Suspended requests whose reason to wait may be gone.
    pub wakes: VecDeque<RequestId>,
    /// Opens that were closed: whoever is suspended on them is woken.
    pub closed_opens: Vec<u64>,
    /// Changes that watchers may want to know of.
    pub changes: Vec<HostChange>,
    /// Sessions that end once the response to it is signed.
    pub ended_sessions: Vec<u64>,
}

/// What the store has to do for an open that is in no table any more.
#[derive(Debug)]
pub struct Retired {
    /// On whose behalf.
    pub user: UserId,
    /// What.
    pub op: ObjectOp,
    /// What is gone then, for the file's record.
    pub deleted: Option<(FileKey, u64)>,
}

/// A source of unguessable bytes.
pub struct Entropy(Box<dyn Fill>);

/// Fills a buffer with unguessable bytes.
pub trait Fill: FnMut(&mut [u8]) + Send {}

impl<T: FnMut(&mut [u8]) + Send> Fill for T {}

impl Entropy {
    /// Wraps a source.
    #[must_use]
    pub fn new(fill: impl Fill + 'static) -> Self {
        Self(Box::new(fill))
    }

    /// The next bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        (self.0)(&mut bytes);
        bytes
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entropy")
    }
}

impl Server {
    /// A server without connections.
    #[must_use]
    pub fn new(
        settings: Arc<ServerSettings>,
        mut entropy: Entropy,
        records: Box<dyn FileRecords>,
        server: ServerId,
    ) -> Self {
        let file_id_base = u64::from(u32::from_le_bytes(entropy.bytes())) << 32;
        Self {
            connections: FxHashMap::default(),
            sessions: FxHashMap::default(),
            opens: FxHashMap::default(),
            in_flight: FxHashMap::default(),
            globals: Globals {
                settings,
                files: Files::new(records, server),
                breaks: BreakNotifications::default(),
                buffers: BufferPool::default(),
                gate: qos::Gate::new(Box::new(Vec::new()), server),
                entropy,
                outbox: Outbox::default(),
                open_count: 0,
                create_names: HashMap::new(),
                file_id_base,
                watchers: Vec::new(),
                apple_listings: false,
                is_watched_elsewhere: false,
                trace: Tracer::default(),
                folders: HashMap::new(),
            },
            deadlines: FxHashMap::default(),
            request_count: 0,
            connection_count: 0,
        }
    }

    /// Keeps the time of requests from now on; by default nobody sees it. Sessions that are there already
    /// go on being counted where they were.
    pub fn set_tracer(&mut self, trace: Tracer) {
        self.globals.files.set_tracer(trace);
        self.globals.trace = trace;
    }

    /// Replaces the settings. What was negotiated stays.
    pub fn handle_settings(&mut self, settings: Arc<ServerSettings>) {
        self.globals.settings = settings;
    }

    /// Takes a new connection: [MS-SMB2] 3.3.5.1.
    pub fn handle_connect(
        &mut self,
        now: Now,
        client: SocketAddr,
        server: SocketAddr,
    ) -> ConnectionId {
        self.connection_count += 1;
        let id = ConnectionId(self.connection_count);
        self.globals.files.set_now(now.monotonic);
        let credits_max = self.globals.settings.credits_max;
        self.connections.insert(id, Connection::new(client, server, now.wall, credits_max));
        self.deadlines.insert(id, now.monotonic + SETUP_TIMEOUT);
        id
    }

    /// Takes a connection that another worker passed on, and serves the NEGOTIATE that came over it:
    /// [`Effect::ClaimClient`].
    pub fn handle_passed_connection(&mut self, now: Now, passed: Passed) -> ConnectionId {
        let id = self.handle_connect(now, passed.client, passed.server);
        let connection = self.connections.get_mut(&id).expect("it was just made");
        connection.was_passed = true;
        if passed.after_smb1 {
            negotiate::follow_smb1(connection);
        }
        self.globals.trace.frame_passed();
        self.handle_frame(id, now, passed.message);
        id
    }

    /// Ends a connection over which no user has logged on, so that another has its place: the oldest
    /// one without any session, or else with sessions of guests and nobody in particular only.
    /// Says whether there was one.
    pub fn handle_crowd(&mut self, now: Now) -> bool {
        self.globals.files.set_now(now.monotonic);
        let mut has_session = HashMap::new();
        for session in self.sessions.values().filter(|it| it.state != SessionState::InProgress) {
            for channel in session.bound_channels() {
                *has_session.entry(channel.connection).or_default() |=
                    channel.signing_key.is_some();
            }
        }
        let is_users = |id: &ConnectionId| has_session.get(id) == Some(&true);
        let others = self.connections.keys().filter(|id| !is_users(id));
        let Some(id) = others.min_by_key(|id| (has_session.contains_key(id), id.0)).copied() else {
            return false;
        };
        self.disconnect(id, Disconnect::Crowded);
        self.quiesce(now);
        true
    }

    /// The connection that [`Effect::ClaimClient`] named is another worker's from now on.
    pub fn handle_passed_on(&mut self, id: ConnectionId) {
        self.in_flight.retain(|_, waiting| waiting.chain.connection != id);
        self.deadlines.remove(&id);
        self.connections.remove(&id);
    }

    /// A session of this worker, for another one that has to refuse to bind to it.
    #[must_use]
    pub fn lend_session(&self, session_id: u64) -> Option<LentSession> {
        let session = self.sessions.get(&session_id)?;
        let Negotiated { dialect, cipher, .. } = *session.negotiated;
        Some(LentSession { dialect, cipher, signing_key: session.signing_key.clone()? })
    }

    /// Takes a frame, without the transport's length.
    pub fn handle_frame(&mut self, connection: ConnectionId, now: Now, frame: BytesMut) {
        self.handle_frame_with(connection, now, frame, None, None);
    }

    /// Takes a frame whose end may be `piped` (see [`Server::file_to_pipe_to`]), or that may have been
    /// opened already (see [`Server::opener`]).
    pub fn handle_frame_with(
        &mut self,
        connection: ConnectionId,
        now: Now,
        frame: BytesMut,
        piped: Option<Piped>,
        opened: Option<protection::Opened>,
    ) {
        self.globals.files.set_now(now.monotonic);
        if let Err(disconnect) = self.receive(connection, now, frame, piped, opened) {
            self.disconnect(connection, disconnect);
        }
        self.quiesce(now);
    }

    /// Takes the answer to an effect that named a request.
    pub fn handle_reply(&mut self, now: Now, id: RequestId, reply: Reply) {
        self.globals.files.set_now(now.monotonic);
        self.end_at_storage(now, id);
        self.go_on(now, id, reply);
        self.quiesce(now);
    }

    /// Takes that a file's record has changed in a way that concerns this worker.
    pub fn handle_file_changed(&mut self, now: Now, file: FileKey) {
        self.globals.files.set_now(now.monotonic);
        self.look_at(file);
        self.quiesce(now);
    }

    /// Takes that what was marked for deletion is gone: see [`Effect::FileDeleted`].
    pub fn handle_deleted(&mut self, now: Now, file: FileKey, stream: u64) {
        self.globals.files.set_now(now.monotonic);
        self.globals.files.deleted(file, stream);
        self.quiesce(now);
    }

    /// Takes what became of an [`Effect::Remove`]: what was removed, or nothing.
    pub fn handle_removed(&mut self, now: Now, removal: &Removal, removed: Option<&Opened>) {
        self.globals.files.set_now(now.monotonic);
        if let Some(Opened { parent, metadata, path, .. }) = removed {
            if let Some(parent) = parent {
                self.globals.files.listing_changes(*parent, None);
            }
            if self.globals.is_watched() {
                self.globals.outbox.changes.push(HostChange {
                    path: path.below(&removal.folder),
                    is_directory: metadata.is_directory() && path.stream().is_none(),
                    kind: HostChangeKind::Removed,
                });
            }
        }
        self.globals.files.deleted(removal.file, removal.mark);
        self.quiesce(now);
    }

    /// Takes the end of a connection: [MS-SMB2] 3.3.7.1.
    pub fn handle_disconnect(&mut self, now: Now, id: ConnectionId) {
        self.globals.files.set_now(now.monotonic);
        self.forget_connection(id);
        self.quiesce(now);
    }

    /// The client's transport has taken the frame that [`Transmit::confirmation`] names.
    pub fn handle_confirmed(&mut self, now: Now, id: ConnectionId, confirmation: ConfirmationId) {
        if self.connections.get(&id).is_some_and(|it| it.confirms_nothing) {
            return self.handle_unconfirmed(now, id);
        }
        self.globals.breaks.confirm(confirmation);
    }

    /// A frame with a [`Transmit::confirmation`] was not taken in time: the connection is as good
    /// as gone, and what was not confirmed on it goes out on another one.
    pub fn handle_unconfirmed(&mut self, now: Now, id: ConnectionId) {
        self.globals.files.set_now(now.monotonic);
        self.disconnect(id, Disconnect::BreakNotConfirmed);
        self.quiesce(now);
    }

    /// Ends a session whose user has set up another elsewhere: [MS-SMB2] 3.3.5.5.3. Somebody
    /// else's session is left alone.
    pub fn handle_close_session_of(&mut self, now: Now, session_id: u64, user: &str) {
        self.globals.files.set_now(now.monotonic);
        let account = self.sessions.get(&session_id).and_then(|it| it.account.as_ref());
        if account.is_some_and(|account| account.identity == user) {
            self.globals.detach_durable(session_id, &mut self.opens);
            self.end_session(session_id);
        }
        self.quiesce(now);
    }

    /// Disconnects everybody from a share, or from all of them but IPC$ where no name is given, and
    /// closes what they have open in it: [MS-SMB2] 3.3.4.15, but that the share stays. Returns the
    /// number of tree connects.
    pub fn handle_close_share(&mut self, now: Now, share: Option<&str>) -> usize {
        self.globals.files.set_now(now.monotonic);
        let mut closed = 0;
        for session in self.sessions.values_mut() {
            let is_meant = |tree: &TreeConnect| match share {
                Some(name) => equal_ignoring_case(&tree.share.name, name),
                None => !tree.is_pipe(),
            };
            let trees = session.tree_connects.iter().filter(|(_, tree)| is_meant(tree));
            let tree_ids: Vec<u32> = trees.map(|(tree_id, _)| *tree_id).collect();
            closed += tree_ids.len();
            for tree_id in tree_ids {
                self.globals.end_tree_connect(session, tree_id, &mut self.opens);
            }
        }
        self.quiesce(now);
        closed
    }

    /// Takes changes that others made: another worker's client, or a program of this host.
    ///
    /// One after the other, however they came: a request that waits is answered with the first,
    /// and the next request with the next. `at` is when they had happened and nobody knew yet, by
    /// the clock of [`Now::monotonic`]: watches that began later hear nothing of them.
    pub fn handle_changes(&mut self, now: Now, at: Duration, changes: &[HostChange]) {
        for change in changes {
            change_notify::tell(self, change, Some(at));
            self.quiesce(now);
        }
    }

    /// Others know of a watch now, so that nothing they do from now on is missed. What they did
    /// before that is looked at once more. `at` is what the clock of [`Now::monotonic`] said after
    /// they knew: the watch began then, see [`Server::handle_changes`].
    pub fn handle_watched(&mut self, now: Now, at: Duration, volatile: u64) {
        change_notify::begun(self, at, volatile);
        let waiting = self.suspended_on(volatile);
        self.globals.outbox.wakes.extend(waiting);
        self.quiesce(now);
    }

    /// Takes whether anyone watches through another worker. Where nobody does, no change leaves
    /// this one: to be said before every `handle_*` that may bring a change about.
    pub fn handle_watched_elsewhere(&mut self, is_watched_elsewhere: bool) {
        self.globals.is_watched_elsewhere = is_watched_elsewhere;
    }

    /// Does what is due. See [`Server::poll_timeout`].
    pub fn handle_timeout(&mut self, now: Now) {
        self.globals.files.set_now(now.monotonic);
        self.globals.buffers.forget_idle(now.monotonic);
        for file in self.globals.files.take_overdue(now.monotonic) {
            self.look_at(file);
        }
        let late: Vec<_> = self.deadlines.iter().filter(|(_, at)| **at <= now.monotonic).collect();
        let late: Vec<_> = late.into_iter().map(|(id, _)| *id).collect();
        for id in late {
            self.deadlines.remove(&id);
            self.disconnect(id, Disconnect::TooSlow);
        }
        self.release(now);
        self.quiesce(now);
    }

    /// It is the turn of requests that waited for the storage: what another worker's
    /// [`Effect::TellTurn`] says.
    pub fn handle_turn(&mut self, now: Now) {
        self.globals.files.set_now(now.monotonic);
        self.release(now);
        self.quiesce(now);
    }

    /// The next question to the world, and the request that waits for its answer, if any.
    pub fn poll_effect(&mut self) -> Option<(Option<RequestId>, Effect)> {
        self.globals.outbox.effects.pop_front()
    }

    /// The next frame to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.globals.outbox.transmits.pop_front()
    }

    /// The next change that the tables should know.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.globals.outbox.notices.pop_front()
    }

    /// The next connection to end. It is forgotten already.
    pub fn poll_close(&mut self) -> Option<(ConnectionId, Disconnect)> {
        self.globals.outbox.closes.pop_front()
    }

    /// When [`Server::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let deadline = self.deadlines.values().min().copied();
        let breaks = self.globals.files.next_timeout();
        let held = self.next_release();
        [deadline, breaks, held, self.globals.buffers.next_timeout()].into_iter().flatten().min()
    }

    /// Takes the buffer of a frame that was sent, to be used again.
    pub fn handle_sent(&mut self, now: Now, frame: BytesMut) {
        self.globals.buffers.give(frame, now.monotonic);
    }

    /// The connection on which a request that waits is to be answered, if it is not lost.
    #[must_use]
    pub fn connection_of(&self, request: RequestId) -> Option<ConnectionId> {
        self.in_flight.get(&request).map(|it| it.chain.connection)
    }

    /// Bytes that a frame of this connection may have, the transport's length not counted. A
    /// longer one must not be buffered: the connection has to go.
    #[must_use]
    pub fn frame_len_max(&self, connection: ConnectionId) -> u32 {
        let negotiated = self.connections.get(&connection).and_then(|it| it.negotiated.as_ref());
        match negotiated {
            Some(it) if !self.deadlines.contains_key(&connection) => {
                it.max_write_size.max(it.max_transact_size) + FRAME_OVERHEAD_MAX
            }
            _ => FRAME_BEFORE_SESSION_MAX,
        }
    }

    /// The opens of files that this worker serves, by volatile id: what the files' records say of
    /// it.
    pub fn file_opens(&self) -> impl Iterator<Item = (FileKey, u64)> {
        self.opens.values().filter_map(|open| match &open.target {
            Target::File(file) => Some((key(file.identity), open.file_id.volatile)),
            Target::Pipe(_) => None,
        })
    }

    /// The path of an open in its share, as clients write it, if it is one of a file.
    #[must_use]
    pub fn path_of(&self, volatile: u64) -> Option<String> {
        Some(self.opens.get(&volatile)?.file().ok()?.path.to_windows())
    }

    /// Whether nothing is left to serve.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.connections.is_empty() && self.in_flight.is_empty()
    }

    pub(crate) fn next_request_id(&mut self) -> RequestId {
        self.request_count += 1;
        RequestId(self.request_count)
    }

    /// Serves what handlers left behind, until nothing more comes of it.
    fn quiesce(&mut self, now: Now) {
        loop {
            self.tell_turns(now);
            self.end_held_without_tree(now);
            change_notify::deliver(self);
            let own = self.globals.files.server();
            for (file, server) in self.globals.files.take_looks() {
                if server == own {
                    self.look_at(file);
                } else {
                    let effect = Effect::TellFileChanged { server, file };
                    self.globals.outbox.effects.push_back((None, effect));
                }
            }
            // Emptied in place: it is filled again with the next CLOSE.
            let mut ended_count = 0;
            while let Some(&volatile) = self.globals.outbox.closed_opens.get(ended_count) {
                ended_count += 1;
                let on_open = self.suspended_on(volatile);
                self.globals.outbox.wakes.extend(on_open);
                self.end_held_on(now, volatile);
            }
            self.globals.outbox.closed_opens.clear();
            if let Some(id) = self.globals.outbox.wakes.pop_front() {
                if self.in_flight.get(&id).is_some_and(|it| it.is_suspended) {
                    self.go_on(now, id, Reply::Woken);
                }
                continue;
            }
            // Sessions go last: the answers to what waited in them are still signed and sealed.
            let ended = std::mem::take(&mut self.globals.outbox.ended_sessions);
            if ended.is_empty() {
                return;
            }
            for session_id in ended {
                self.end_session(session_id);
            }
        }
    }

    /// The requests that are suspended on an open, in the order in which they came.
    pub(crate) fn suspended_on(&self, volatile: u64) -> Vec<RequestId> {
        let mut ids: Vec<RequestId> = self
            .in_flight
            .iter()
            .filter(|(_, it)| it.is_suspended)
            .filter(|(_, it)| it.file_id.is_some_and(|id| id.volatile == volatile))
            .map(|(id, _)| *id)
            .collect();
        ids.sort_unstable();
        ids
    }

    /// Goes on with a request that waited.
    pub(crate) fn go_on(&mut self, now: Now, id: RequestId, reply: Reply) {
        let Some(waiting) = self.in_flight.remove(&id) else {
            return; // It was cancelled, and only a wake-up can come for it.
        };
        let InFlight { mut incoming, pending, chain, file_id, async_id, changed, .. } = waiting;
        incoming.now = now;
        incoming.trace.resume();
        if let Some(charged) = incoming.charged.take() {
            self.give_back_unread(now, charged, &reply);
        }
        if let Some((identity, volatile)) = changed {
            // Whoever read it meanwhile, and may keep what it read, has read what was there before.
            // A record that cannot be read has nobody who could be told.
            let _ = self.globals.files.contents_changed(identity, volatile);
        }
        self.find_another_channel(&mut incoming);
        let outcome = dispatch::resume(self, &incoming, file_id, pending, reply);
        let rest = self.settle(chain, incoming, file_id, async_id, outcome);
        if !self.in_flight.contains_key(&id) {
            self.end_request(id, file_id);
        }
        if let Some(chain) = rest {
            self.run(chain, trace::Request::default(), now);
        }
    }

    /// A request is the client's, not its connection's: when that is gone, the request goes on over
    /// another channel of its session, so that what it changes is changed once and wholly. Only its
    /// response is lost. It cannot be sent over another channel, where its MessageId is that of
    /// another request; the client hears of it by repeating the request.
    fn find_another_channel(&self, incoming: &mut Incoming) {
        if self.connections.contains_key(&incoming.connection) || !incoming.may_be_repeated() {
            return;
        }
        let session = self.sessions.get(&incoming.header.session_id);
        if let Some(channel) = session.and_then(|session| session.bound_channels().next()) {
            incoming.connection = channel.connection;
        }
    }

    /// A request that waited is over: [MS-SMB2] 3.3.5.2.10.
    pub(crate) fn end_request(&mut self, id: RequestId, file_id: Option<FileId>) {
        if let Some(open) = file_id.and_then(|file_id| self.opens.get_mut(&file_id.volatile)) {
            open.channel_sequence.end(id);
            if open.is_closing {
                self.wake_suspended_on(file_id);
            }
        }
    }

    fn wake_suspended_on(&mut self, file_id: Option<FileId>) {
        let waiting = file_id.map(|file_id| self.suspended_on(file_id.volatile));
        self.globals.outbox.wakes.extend(waiting.into_iter().flatten());
    }

    /// The only place where an outcome becomes a response or a wait. Gives the chain back if the
    /// next request in it may go on.
    pub(crate) fn settle(
        &mut self,
        mut chain: Box<Chain>,
        mut incoming: Box<Incoming>,
        file_id: Option<FileId>,
        mut async_id: Option<u64>,
        outcome: Result<Step, Reject>,
    ) -> Option<Box<Chain>> {
        if let Err(Reject::Disconnect(reason)) = outcome {
            self.disconnect(chain.connection, reason);
            return None;
        }
        let (mut changed, mut held) = (None, None);
        let (pending, is_suspended) = match outcome {
            Ok(Step::Done(response)) => {
                let command = incoming.header.command;
                if command == Command::SESSION_SETUP && response.status.is_success() {
                    // The connection has shown that it is good for something.
                    self.deadlines.remove(&incoming.connection);
                }
                self.respond(&mut chain, &incoming, async_id, response);
                return Some(chain);
            }
            Err(reject) => {
                self.respond(&mut chain, &incoming, async_id, error_body(reject.status()));
                return Some(chain);
            }
            Ok(Step::Wait(effect, pending)) => {
                let by_name = || dispatch::changes(&pending);
                changed = self.changed_by(file_id, &effect).or_else(by_name);
                held = self.ask(&mut chain, &mut incoming, &mut async_id, file_id, effect);
                (pending, false)
            }
            Ok(Step::Suspend(pending)) => match self.suspend(&mut chain, &mut incoming, async_id) {
                Ok(id) => {
                    async_id = Some(id);
                    (pending, true)
                }
                Err(reject) => {
                    let abandoned = dispatch::abandon(pending, None);
                    let effect = abandoned.effect.map(|effect| (None, effect));
                    self.globals.outbox.effects.extend(effect);
                    self.respond(&mut chain, &incoming, async_id, error_body(reject.status()));
                    return Some(chain);
                }
            },
        };
        let id = incoming.id;
        if is_suspended {
            incoming.trace.wait(suspension(&incoming));
        }
        if is_suspended && let Some(file) = dispatch::waits_for(&pending) {
            self.globals.files.wait(file, id);
        }
        if let Some(open) = file_id.and_then(|file_id| self.opens.get_mut(&file_id.volatile)) {
            open.channel_sequence.wait(id, &incoming.header);
            // What a CLOSE has waited for does not keep it any more.
            if is_suspended && open.is_closing && incoming.header.command != Command::CLOSE {
                self.wake_suspended_on(file_id);
            }
        }
        let waiting =
            InFlight { incoming, pending, chain, file_id, async_id, is_suspended, held, changed };
        self.in_flight.insert(id, waiting);
        None
    }

    /// The file whose contents the store is asked to change, and the open through which.
    fn changed_by(&self, file_id: Option<FileId>, effect: &Effect) -> Option<(FileIdentity, u64)> {
        let Effect::Object { op, .. } = effect else { return None };
        let open = file_id.filter(|_| op.changes_contents())?;
        let file = self.opens.get(&open.volatile)?.file().ok()?;
        Some((file.identity, open.volatile))
    }

    /// Has a request wait for something without an end, for as little memory as that takes: the
    /// client has its credits back, and its frame may be much longer than what is left of it. It may
    /// have been held before, and had its interim response then.
    fn suspend(
        &mut self,
        chain: &mut Chain,
        incoming: &mut Incoming,
        async_id: Option<u64>,
    ) -> Result<u64, Reject> {
        if incoming.message.len() + chain.messages.len() > SUSPENDED_BYTES_MAX {
            return Err(Reject::TooLongToWait);
        }
        let async_id = match async_id {
            Some(async_id) => async_id,
            None => self.go_async(chain, incoming)?,
        };
        incoming.message = Bytes::copy_from_slice(&incoming.message);
        chain.messages = BytesMut::from(&chain.messages[..]);
        Ok(async_id)
    }

    /// Sends what the chain has so far, and the interim response behind it.
    pub(crate) fn go_async(
        &mut self,
        chain: &mut Chain,
        incoming: &Incoming,
    ) -> Result<u64, Reject> {
        // A CREATE waits wherever it stands, and the rest of its compound with it, as in Windows:
        // its client may not know how to give way before it has an answer. So does a CLOSE, which
        // would leave its open behind.
        let waits_anywhere = matches!(incoming.header.command, Command::CREATE | Command::CLOSE);
        if !chain.messages.is_empty() && !waits_anywhere {
            return Err(Reject::AsyncInCompound);
        }
        let waiting = self.connections.get(&chain.connection).map_or(0, |it| it.async_commands);
        if waiting >= ASYNC_COMMANDS_MAX {
            return Err(Reject::TooManyAsyncCommands);
        }
        let async_id = incoming.id.0;
        self.transmit(chain.connection, chain.sealed, std::mem::take(&mut chain.outgoing));
        self.respond_interim(chain.connection, chain.sealed, incoming, async_id);
        Ok(async_id)
    }

    pub(crate) fn disconnect(&mut self, id: ConnectionId, reason: Disconnect) {
        if self.connections.contains_key(&id) {
            self.globals.outbox.closes.push_back((id, reason));
            self.forget_connection(id);
        }
    }

    fn forget_connection(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.remove(&id) else { return };
        self.deadlines.remove(&id);
        if let Some(negotiated) = connection.negotiated {
            let client_guid = negotiated.client_guid;
            let notice = Notice::ConnectionClosed { client_guid, client: connection.client };
            self.globals.outbox.notices.push_back(notice);
        }
        self.forget_waits(id);
        let mut orphans = Vec::new();
        for session in self.sessions.values_mut() {
            session.channels.retain(|channel| channel.connection != id);
            // A connection that is still being bound does not keep a session.
            if session.bound_channels().next().is_none() {
                orphans.push(session.session_id);
            }
        }
        for session_id in orphans {
            self.globals.detach_durable(session_id, &mut self.opens);
            self.end_session(session_id);
        }
        self.repeat_breaks(id);
    }

    /// Ends requests of a connection that is gone which wait for something without an end, and
    /// which the client can only ask for anew over another channel: what it cannot know of would
    /// stand in its own way. A LOCK with a number goes on, and its repetition has its answer.
    fn forget_waits(&mut self, connection: ConnectionId) {
        let waits = |it: &InFlight| {
            let is_asked_anew = match &it.pending {
                dispatch::Pending::ChangeNotify(_) => true,
                dispatch::Pending::Lock(pending) => !pending.may_be_repeated(),
                _ => false,
            };
            it.chain.connection == connection && it.is_suspended && is_asked_anew
        };
        let ids: Vec<RequestId> =
            self.in_flight.iter().filter(|(_, it)| waits(it)).map(|(id, _)| *id).collect();
        for id in ids {
            let waiting = self.in_flight.remove(&id).expect("listed above");
            let abandoned = dispatch::abandon(waiting.pending, None);
            self.globals.outbox.effects.extend(abandoned.effect.map(|effect| (None, effect)));
            self.end_request(id, waiting.file_id);
        }
    }

    /// Ends a session with all that belongs to it: [MS-SMB2] 3.3.7.1.
    fn end_session(&mut self, session_id: u64) {
        let Some(mut session) = self.sessions.remove(&session_id) else { return };
        self.globals.end_session(&mut session, &mut self.opens);
        for channel in &session.channels {
            if let Some(connection) = self.connections.get_mut(&channel.connection) {
                connection.preauth_sessions.remove(&session_id);
            }
        }
    }
}

/// What a request waits for that may never come.
fn suspension(incoming: &Incoming) -> Phase {
    match incoming.header.command {
        Command::CREATE | Command::SET_INFO => Phase::Break,
        _ => Phase::Event,
    }
}

impl Globals {
    /// An id for a new open. Never given twice: a client that keeps an old one must not meet
    /// another file with it.
    pub(crate) fn allocate_file_id(&mut self) -> FileId {
        self.open_count += 1;
        FileId { persistent: self.file_id_base | self.open_count, volatile: self.open_count }
    }

    /// Closes all that a session has, and tells the tables.
    pub(crate) fn end_session(&mut self, session: &mut Session, opens: &mut FxHashMap<u64, Open>) {
        let tree_ids: Vec<u32> = session.tree_connects.keys().copied().collect();
        for tree_id in tree_ids {
            self.end_tree_connect(session, tree_id, opens);
        }
        if session.state != SessionState::InProgress && session.state != SessionState::Ended {
            let session_id = session.session_id;
            self.outbox.notices.push_back(Notice::SessionClosed { session_id });
        }
        session.state = SessionState::Ended;
    }

    /// Closes all that a tree connect has, and tells the tables.
    pub(crate) fn end_tree_connect(
        &mut self,
        session: &mut Session,
        tree_id: u32,
        opens: &mut FxHashMap<u64, Open>,
    ) {
        let Some(tree) = session.tree_connects.remove(&tree_id) else { return };
        let session_id = session.session_id;
        let gone = |open: &Open| open.session_id == session_id && open.tree_id == tree_id;
        let volatiles: Vec<u64> =
            opens.iter().filter(|(_, open)| gone(open)).map(|(volatile, _)| *volatile).collect();
        for volatile in volatiles {
            let open = opens.remove(&volatile).expect("listed above");
            self.retire_unasked(open);
        }
        // Who waits for a file in it looks up, and finds it gone.
        let waiting = self.files.take_all_waiting();
        self.outbox.wakes.extend(waiting);
        if let Some(root) = tree.share.root {
            self.outbox.effects.push_back((None, Effect::DisconnectShare(root)));
        }
        self.outbox.notices.push_back(Notice::TreeDisconnected { session_id, tree_id });
    }

    /// Takes an open out of all tables of this server, and says what the store has to do.
    pub(crate) fn retire(&mut self, open: Open) -> Option<Retired> {
        let volatile = open.file_id.volatile;
        self.outbox.closed_opens.push(volatile);
        let Target::File(file) = open.target else { return None };
        self.forget(&file, volatile);
        if let (true, Some(parent)) = (file.is_modified, file.parent) {
            self.files.listing_changes(parent, file.parent_lease);
        }
        let mut unlink = self.files.close(file.identity, volatile, file.delete_on_close).unlink;
        if file.path.is_posix() && self.files.is_delete_pending(file.identity, file.link) {
            // To POSIX a name goes at once, and what else has the file open keeps it.
            unlink = Some(file.link);
        }
        if let Some(root) = open.share.root
            && file.is_directory
            && self.files.is_delete_pending(file.identity, file.link)
        {
            self.report(|| Change {
                root,
                path: file.path.clone(),
                is_directory: true,
                kind: ChangeKind::Doomed(file.identity),
            });
        }
        if let (Some(_), Some(parent)) = (unlink, file.parent) {
            self.files.listing_changes(parent, file.parent_lease);
        }
        // Not the stream that was open, but the file.
        let is_file_gone = unlink.is_some_and(|mark| mark != file.identity.stream);
        if let (Some(_), Some(root)) = (unlink, open.share.root) {
            self.report(|| Change {
                root,
                path: if is_file_gone { file.path.with_stream(None) } else { file.path.clone() },
                is_directory: file.is_directory,
                kind: ChangeKind::Removed,
            });
        }
        let op = match unlink {
            Some(_) if is_file_gone && file.identity.stream != 0 => {
                ObjectOp::CloseAndUnlinkFile { open: file.local_open }
            }
            _ => ObjectOp::Close { open: file.local_open, unlink: unlink.is_some() },
        };
        let deleted = unlink.map(|stream| (key(file.identity), stream));
        Some(Retired { user: open.user, op, deleted })
    }

    /// The opens of a session that outlive it leave this worker: [MS-SMB2] 3.3.5.6, 3.3.7.1. What
    /// is left of them is in the file's record.
    pub(crate) fn detach_durable(&mut self, session_id: u64, opens: &mut FxHashMap<u64, Open>) {
        let is_durable = |open: &Open| {
            open.session_id == session_id && open.file().is_ok_and(|file| file.durable.is_some())
        };
        let volatiles: Vec<u64> = opens
            .iter()
            .filter(|(_, open)| is_durable(open))
            .map(|(volatile, _)| *volatile)
            .collect();
        for volatile in volatiles {
            let (identity, position) = match &opens[&volatile] {
                Open { target: Target::File(file), .. } => (file.identity, file.position),
                _ => unreachable!("filtered above"),
            };
            if !self.files.disconnect(identity, volatile, position) {
                continue;
            }
            let Some(open) = opens.remove(&volatile) else { continue };
            self.outbox.closed_opens.push(volatile);
            let Target::File(file) = open.target else { continue };
            self.forget(&file, volatile);
            let op = ObjectOp::Close { open: file.local_open, unlink: false };
            self.outbox.effects.push_back((None, Effect::Object { user: open.user, op }));
        }
    }

    /// Whatever this server knows of an open beside the open itself and the file's record.
    fn forget(&mut self, file: &OpenFile, volatile: u64) {
        self.forget_create_name(file.create_name, volatile);
        if file.watch.is_some() {
            self.watchers.retain(|watcher| *watcher != volatile);
            self.outbox.notices.push_back(Notice::Unwatched { volatile });
        }
        if let Some(lease) = file.lease {
            self.files.unuse_lease(lease, key(file.identity));
        }
    }

    fn forget_create_name(&mut self, create_name: Option<CreateName>, volatile: u64) {
        if let Some(name) = create_name
            && self.create_names.get(&name) == Some(&volatile)
        {
            self.create_names.remove(&name);
        }
    }

    /// Closes what no request waits for.
    pub(crate) fn retire_unasked(&mut self, open: Open) {
        let Some(Retired { user, op, deleted }) = self.retire(open) else { return };
        self.outbox.effects.push_back((None, Effect::Object { user, op }));
        let deleted = deleted.map(|(file, stream)| Effect::FileDeleted { file, stream });
        self.outbox.effects.extend(deleted.map(|effect| (None, effect)));
    }

    /// Notes a change, if anybody watches.
    pub(crate) fn report(&mut self, change: impl FnOnce() -> Change) {
        if self.is_watched() {
            self.note(change());
        }
    }

    /// Notes that data was written to what is open, if anybody watches.
    #[inline]
    pub(crate) fn report_written(&mut self, open: &Open) {
        if self.is_watched()
            && let Some(change) = Change::written(open)
        {
            self.note(change);
        }
    }

    fn is_watched(&self) -> bool {
        self.is_watched_elsewhere || !self.watchers.is_empty()
    }

    fn note(&mut self, change: Change) {
        if let Some(folder) = self.folders.get(&change.root) {
            self.outbox.changes.push(change.seen_from_host(folder));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Now;
    use crate::scene::Scene;

    #[test]
    fn a_share_is_closed_by_its_name_in_any_case() {
        for (asked, closed) in [("ÄPFEL", 1), ("äpfel", 1), ("apfel", 0)] {
            let mut scene = Scene::new();
            scene.open("file");
            scene.change_share(|share| {
                if share.root.is_some() {
                    share.name = "Äpfel".to_owned();
                }
            });
            assert_eq!(scene.server.handle_close_share(Now::default(), Some(asked)), closed);
        }
    }
}
