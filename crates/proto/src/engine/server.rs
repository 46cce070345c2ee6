//! The protocol state of one worker: [MS-SMB2] 3.3.1.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arbitration::{FileKey, FileRecords};
use bytes::BytesMut;
use dtyp::ServerId;
use rustc_hash::FxHashMap;
use trace::Tracer;

use crate::engine::effect::{Effect, LentSession};
use crate::engine::globals::Globals;
use crate::engine::notice::Notice;
use crate::engine::protection::Opener;
use crate::engine::request::InFlight;
use crate::engine::response::Transmit;
use crate::model::connection::{Connection, ConnectionId, Negotiated};
use crate::model::entropy::Entropy;
use crate::model::file_key::key;
use crate::model::logon::Logon;
use crate::model::memory_account::MemoryAccount;
use crate::model::open::{Open, Target};
use crate::model::reject::Disconnect;
use crate::model::request_id::RequestId;
use crate::model::session::Session;
use crate::model::settings::ServerSettings;

/// Bytes of a frame beyond its payload: headers, transform, a compound's further requests.
const FRAME_OVERHEAD_MAX: u32 = 0x1_0000;

/// Bytes of a frame before a session exists. A NEGOTIATE or SESSION_SETUP is far smaller.
const FRAME_BEFORE_SESSION_MAX: u32 = 0x2_0000;

/// A connection that another worker passed on.
#[derive(Debug)]
pub struct Passed {
    /// Address and port of the client.
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
    /// Times at which connections without a user are looked at.
    pub(crate) deadlines: FxHashMap<ConnectionId, Duration>,
    request_count: u64,
    connection_count: u32,
}

impl Server {
    /// Returns a server without connections.
    #[must_use]
    pub fn new(
        settings: Arc<ServerSettings>,
        entropy: Entropy,
        records: Box<dyn FileRecords>,
        server: ServerId,
    ) -> Self {
        Self {
            connections: FxHashMap::default(),
            sessions: FxHashMap::default(),
            opens: FxHashMap::default(),
            in_flight: FxHashMap::default(),
            globals: Globals::new(settings, entropy, records, server),
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
        self.limit_memory();
    }

    /// The account of what the client makes this worker hold in memory.
    #[must_use]
    pub fn memory(&self) -> &MemoryAccount {
        &self.globals.memory
    }

    /// Gives the client the memory that is for its sessions.
    pub(crate) fn limit_memory(&self) {
        self.globals.limit_memory(self.sessions.values().any(Session::is_users));
    }

    /// Takes the refused logons without a notice, of all workers, from the address of the last one
    /// here. `None` if there are none, or a line about that address would be one too many: then the
    /// next notice about it counts them.
    #[must_use]
    pub fn take_refusals_untold(&mut self, now: Duration) -> Option<(SocketAddr, u64)> {
        let client = self.globals.refused_untold.take()?;
        let untold = self.globals.logon_throttle.untold_to_log(now, client);
        (untold > 0).then_some((client, untold))
    }

    /// A session of this worker, for another one that has to refuse to bind to it.
    #[must_use]
    pub fn lend_session(&self, session_id: u64) -> Option<LentSession> {
        let session = self.sessions.get(&session_id)?;
        let Negotiated { dialect, cipher, .. } = *session.negotiated;
        Some(LentSession { dialect, cipher, signing_key: session.signing_key.clone()? })
    }

    /// Returns what opens the frames of a connection, so that another thread can do it.
    #[must_use]
    pub fn opener(&self, connection: ConnectionId) -> Opener {
        Opener::new(connection, self.sessions.values())
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

    /// Returns the time at which [`Server::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let deadline = self.deadlines.values().min().copied();
        let breaks = self.globals.files.next_timeout();
        let held = self.next_release();
        [deadline, breaks, held, self.globals.buffers.next_timeout()].into_iter().flatten().min()
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
        let connection = self.connections.get(&connection);
        let has_session = connection.is_some_and(|it| it.progress.logon() != Logon::Nobody);
        match connection.and_then(|it| it.negotiated.as_ref()) {
            Some(it) if has_session => {
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

    pub(crate) fn next_connection_id(&mut self) -> ConnectionId {
        self.connection_count += 1;
        ConnectionId(self.connection_count)
    }

    pub(crate) fn next_request_id(&mut self) -> RequestId {
        self.request_count += 1;
        RequestId(self.request_count)
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
}
