//! The protocol state of one worker: [MS-SMB2] 3.3.1.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arbitration::{FileKey, FileRecords};
use bytes::BytesMut;
use dtyp::ServerId;
use model::connection::{Connection, ConnectionId, Negotiated};
use model::entropy::Entropy;
use model::file_key::key;
use model::logon::Logon;
use model::memory_account::MemoryAccount;
use model::now::Now;
use model::open::{Open, Target};
use model::reject::{Disconnect, Reject};
use model::request_id::RequestId;
use model::session::Session;
use model::settings::ServerSettings;
use model::storage_load::StorageLoad;
use rustc_hash::FxHashMap;
use trace::Tracer;
use wire::FileId;

use crate::effect::{Effect, LentSession, Reply};
use crate::globals::Globals;
use crate::in_flight::RequestsInFlight;
use crate::notice::Notice;
use crate::pending_command::PendingCommand;
use crate::protection::FrameKeys;
use crate::request::{Incoming, Postponed};
use crate::response::{Response, Step, Transmit};
use crate::storage::Storage;

/// Length of a frame beyond its payload in bytes: headers, transform, further requests of a
/// compound.
const FRAME_OVERHEAD_MAX: u32 = 0x1_0000;

/// Highest length of a frame before a session exists, in bytes. A NEGOTIATE or SESSION_SETUP is far
/// smaller.
const FRAME_BEFORE_SESSION_MAX: u32 = 0x2_0000;

/// The commands of SMB2, by the code in a request's header. They stand above the engine.
pub trait Commands: Debug + Sync {
    /// Begins to serve a request, and puts the open that it names into `named`. `related` is set in
    /// a related request: the FileId of the previous request of the compound.
    ///
    /// # Errors
    /// The rule that the request breaks.
    fn start(
        &self,
        server: &mut Server,
        incoming: &Incoming,
        related: Option<Option<FileId>>,
        named: &mut Option<FileId>,
        storage: &mut dyn Storage,
    ) -> Result<Step, Reject>;

    /// Resumes a request that was pending.
    ///
    /// # Errors
    /// The rule that the request breaks, or the store's refusal.
    fn resume(
        &self,
        server: &mut Server,
        incoming: &Incoming,
        file_id: Option<FileId>,
        pending: Box<dyn PendingCommand>,
        reply: Reply,
    ) -> Result<Step, Reject>;

    /// Serves an SMB1 NEGOTIATE. Its client is answered with SMB2.
    ///
    /// # Errors
    /// If the connection must end.
    fn negotiate_smb1(
        &self,
        connection: &mut Connection,
        globals: &mut Globals,
        frame: &[u8],
        now: Now,
    ) -> Result<Response, Disconnect>;
}

/// A connection handed over by another worker.
#[derive(Debug)]
pub struct Passed {
    /// Address and port of the client.
    pub client: SocketAddr,
    /// Local address that the client connected to.
    pub server: SocketAddr,
    /// The NEGOTIATE with its header.
    pub message: BytesMut,
    /// True if it follows an SMB1 NEGOTIATE.
    pub after_smb1: bool,
}

/// [MS-SMB2] 3.3.1: the state of the server as one worker sees it.
#[derive(Debug)]
pub struct Server {
    /// `Server.ConnectionList`.
    pub(crate) connections: FxHashMap<ConnectionId, Connection>,
    /// `Server.GlobalSessionTable`, for the sessions of this client.
    pub(crate) sessions: FxHashMap<u64, Session>,
    /// `Server.GlobalOpenTable`, for the opens of this client; by volatile id.
    pub(crate) opens: FxHashMap<u64, Open>,
    /// The requests that wait for a reply or a wake-up.
    pub(crate) in_flight: RequestsInFlight,
    /// Rests of compounds that are served in turns: one of a connection at most, if the worker
    /// takes no further frame of it meanwhile ([`Server::has_postponed`]).
    pub(crate) postponed: VecDeque<Postponed>,
    pub(crate) globals: Globals,
    /// Deadlines of connections without a user.
    pub(crate) deadlines: FxHashMap<ConnectionId, Duration>,
    /// What serves a request once its scope is known.
    pub(crate) commands: &'static dyn Commands,
    request_count: u64,
    connection_count: u32,
}

impl Server {
    /// Returns a server without connections.
    #[must_use]
    pub fn new(
        commands: &'static dyn Commands,
        settings: Arc<ServerSettings>,
        entropy: Entropy,
        records: Box<dyn FileRecords>,
        worker: ServerId,
    ) -> Self {
        Self {
            connections: FxHashMap::default(),
            sessions: FxHashMap::default(),
            opens: FxHashMap::default(),
            in_flight: RequestsInFlight::default(),
            postponed: VecDeque::new(),
            globals: Globals::new(settings, entropy, records, worker),
            deadlines: FxHashMap::default(),
            commands,
            request_count: 0,
            connection_count: 0,
        }
    }

    /// Sets the tracer of the requests' times, which are not measured by default. Existing sessions
    /// keep their counters.
    pub fn set_tracer(&mut self, trace: Tracer) {
        self.globals.files.set_tracer(trace);
        self.globals.trace = trace;
    }

    /// Replaces the settings. The results of NEGOTIATE stay.
    pub fn handle_settings(&mut self, settings: Arc<ServerSettings>) {
        self.globals.settings = settings;
        self.globals.throttle.credits_change();
        self.limit_memory();
    }

    /// Returns the administrator's settings for the protocol.
    #[must_use]
    pub fn settings(&self) -> &ServerSettings {
        &self.globals.settings
    }

    /// Returns whether no request waits.
    #[inline]
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Returns the account of the client's memory in this worker.
    #[must_use]
    pub fn memory(&self) -> &MemoryAccount {
        &self.globals.memory
    }

    /// Returns the sum of the memory of the client's requests that wait for slow storage.
    #[must_use]
    pub fn storage_load(&self) -> &StorageLoad {
        &self.globals.storage_load
    }

    /// Sets the client's memory limit according to its sessions.
    pub(crate) fn limit_memory(&self) {
        self.globals.limit_memory(self.sessions.values().any(Session::is_users));
    }

    /// Takes the refused logons without a notice, of all workers, from the address of the last one
    /// here. `None` if there are none, or a line about that address would be one too many: then the
    /// next notice about it counts them.
    #[must_use]
    pub fn take_unlogged_refusals(&mut self, now: Duration) -> Option<(SocketAddr, u64)> {
        let client = self.globals.unlogged_client.take()?;
        let unlogged = self.globals.logon_throttle.unlogged_to_log(now, client);
        (unlogged > 0).then_some((client, unlogged))
    }

    /// Returns whether the audit may have one more record that a client without a user caused, and
    /// counts it with those of all workers.
    #[must_use]
    pub fn may_record(&self, now: Duration, client: SocketAddr) -> bool {
        self.globals.logon_throttle.may_record(now, client)
    }

    /// Returns a session of this worker, for another one that has to refuse a binding to it.
    #[must_use]
    pub fn lend_session(&self, session_id: u64) -> Option<LentSession> {
        // Anybody could sign for an anonymous user.
        let session = self.sessions.get(&session_id).filter(|session| session.is_users())?;
        let Negotiated { dialect, cipher, .. } = *session.negotiated;
        Some(LentSession { dialect, cipher, signing_key: session.signing_key.clone()? })
    }

    /// Returns the keys for a connection's frames, so that another thread can decrypt and verify
    /// them.
    #[must_use]
    pub fn frame_keys(&self, connection: ConnectionId) -> FrameKeys {
        FrameKeys::new(connection, self.sessions.values())
    }

    /// Takes the next request to the worker, with the id of the request that waits for its reply,
    /// if any.
    pub fn poll_effect(&mut self) -> Option<(Option<RequestId>, Effect)> {
        self.globals.outbox.effects.pop_front()
    }

    /// Takes the next frame to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.globals.outbox.transmits.pop_front()
    }

    /// Takes the next change for the tables.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.globals.outbox.notices.pop_front()
    }

    /// Takes the next connection to end, which is in no table any more.
    pub fn poll_close(&mut self) -> Option<(ConnectionId, Disconnect, Logon)> {
        self.globals.outbox.closes.pop_front()
    }

    /// Returns the time at which [`Server::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let deadline = self.deadlines.values().min().copied();
        let breaks = self.globals.files.next_timeout();
        let held = self.globals.throttle.next_release();
        let buffers = self.globals.buffers.next_timeout();
        let expiry = self.globals.next_expiry;
        let interim = self.globals.late_interims.front().map(|(at, _)| *at);
        [deadline, breaks, held, buffers, expiry, interim].into_iter().flatten().min()
    }

    /// Returns the connection for the response to a pending request, if it is not lost.
    #[must_use]
    pub fn connection_of(&self, request: RequestId) -> Option<ConnectionId> {
        self.in_flight.get(request).map(|it| it.chain.connection)
    }

    /// Returns whether a user has logged on over a connection. Until then it may be a stranger's.
    #[must_use]
    pub fn has_user_over(&self, connection: ConnectionId) -> bool {
        let connection = self.connections.get(&connection);
        connection.is_some_and(|it| it.progress.logon() == Logon::User)
    }

    /// Returns whether [`Server::serve_postponed`] has something to serve, of this connection or of
    /// any.
    #[must_use]
    pub fn has_postponed(&self, connection: Option<ConnectionId>) -> bool {
        let is_of = |it: &Postponed| connection.is_none_or(|id| it.chain.connection == id);
        self.postponed.iter().any(is_of)
    }

    /// Returns whether a connection belongs to a stranger, or to a guest beside a user. They must
    /// not keep the user waiting.
    #[must_use]
    pub fn is_secondary(&self, connection: ConnectionId) -> bool {
        let logon = self.connections.get(&connection).map(|it| it.progress.logon());
        match logon {
            Some(Logon::User) | None => false,
            Some(Logon::Guest) => self.globals.logon == Logon::User,
            Some(Logon::Nobody) => true,
        }
    }

    /// Returns the highest length of a frame of this connection in bytes, without the transport's
    /// length. A longer one must not be buffered: the connection must end.
    #[must_use]
    pub fn frame_len_max(&self, connection: ConnectionId) -> u32 {
        let connection = self.connections.get(&connection);
        let has_session = connection.is_some_and(|it| it.progress.logon() != Logon::Nobody);
        match connection.and_then(|it| it.negotiated.as_ref()) {
            Some(it) if has_session => {
                it.max_write_size.max(it.max_transact_size) + FRAME_OVERHEAD_MAX
            }
            _ => FRAME_BEFORE_SESSION_MAX,
        }
    }

    /// Returns the opens of files that this worker serves, by volatile id, for a comparison with
    /// the files' records.
    pub fn file_opens(&self) -> impl Iterator<Item = (FileKey, u64)> {
        self.opens.values().filter_map(|open| match &open.target {
            Target::File(file) => Some((key(file.identity), open.file_id.volatile)),
            Target::Pipe(_) => None,
        })
    }

    /// Returns the path of a file's open in its share, as clients write it.
    #[must_use]
    pub fn path_of(&self, volatile: u64) -> Option<String> {
        Some(self.opens.get(&volatile)?.file().ok()?.path.to_windows())
    }

    /// Returns whether no connection and no request is left.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.connections.is_empty() && self.in_flight.is_empty()
    }

    pub(crate) fn next_connection_id(&mut self) -> ConnectionId {
        self.connection_count += 1;
        ConnectionId(self.connection_count)
    }

    pub(crate) fn next_request_id(&mut self) -> RequestId {
        self.request_count += 1;
        RequestId(self.request_count)
    }
}
