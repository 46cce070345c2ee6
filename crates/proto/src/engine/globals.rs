//! What belongs to no connection, session or open, and what leaves the server.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use arbitration::FileRecords;
use dtyp::ServerId;
use object::{HostChange, ObjectPath, RootId};
use trace::{LogonOutcome, Tracer};
use wire::FileId;

use crate::engine::change::Change;
use crate::engine::effect::Effect;
use crate::engine::files::Files;
use crate::engine::notice::Notice;
use crate::engine::response::Transmit;
use crate::engine::unconfirmed_breaks::BreakNotifications;
use crate::model::buffer_pool::BufferPool;
use crate::model::connection::ConnectionId;
use crate::model::entropy::Entropy;
use crate::model::logon::Logon;
use crate::model::logon_throttle::LogonThrottle;
use crate::model::memory_account::MemoryAccount;
use crate::model::open::{CreateName, Open};
use crate::model::passages::Passages;
use crate::model::pipe::Pipes;
use crate::model::reject::Disconnect;
use crate::model::request_id::RequestId;
use crate::model::settings::ServerSettings;

/// What belongs to no connection, session or open.
#[derive(Debug)]
pub struct Globals {
    /// What the administrator decided.
    pub settings: Arc<ServerSettings>,
    /// The files that are open anywhere.
    pub files: Files,
    /// Breaks on their way to the client.
    pub breaks: BreakNotifications,
    /// What the client makes this worker hold in memory.
    pub memory: MemoryAccount,
    /// The pipes that it has open.
    pub pipes: Pipes,
    /// Buffers for answers to READ.
    pub buffers: BufferPool,
    /// Requests that are over a limit of their classes, or wait for their turn at the storage.
    pub gate: qos::Gate<RequestId>,
    /// Logons that failed.
    pub(crate) logon_throttle: LogonThrottle,
    /// Address of the last refused logon that was not told, because too many came.
    pub refused_untold: Option<SocketAddr>,
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
    /// Directories that users of watches may enter.
    pub passages: Passages,
    /// The client is Apple's, and was told that listings are in its form.
    pub apple_listings: bool,
    /// The highest logon over all connections, as the supervisor knows it.
    pub logon: Logon,
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

impl Globals {
    /// What there is before anybody has come.
    pub(crate) fn new(
        settings: Arc<ServerSettings>,
        mut entropy: Entropy,
        records: Box<dyn FileRecords>,
        server: ServerId,
    ) -> Self {
        let file_id_base = u64::from(u32::from_le_bytes(entropy.bytes())) << 32;
        Self {
            memory: MemoryAccount::new(settings.guest_memory_max),
            pipes: Pipes::default(),
            settings,
            files: Files::new(records, server),
            breaks: BreakNotifications::default(),
            buffers: BufferPool::default(),
            gate: qos::Gate::new(Box::new(Vec::new()), server),
            logon_throttle: LogonThrottle::new(Box::new(Vec::new())),
            refused_untold: None,
            entropy,
            outbox: Outbox::default(),
            open_count: 0,
            create_names: HashMap::new(),
            file_id_base,
            watchers: Vec::new(),
            passages: Passages::default(),
            apple_listings: false,
            logon: Logon::Nobody,
            is_watched_elsewhere: false,
            trace: Tracer::default(),
            folders: HashMap::new(),
        }
    }

    /// The client may take as much memory as one may over whose connections a user has logged on,
    /// or none.
    pub(crate) fn limit_memory(&self, has_user: bool) {
        let Self { settings, memory, .. } = self;
        let limit = if has_user { settings.client_memory_max } else { settings.guest_memory_max };
        memory.set_limit(limit);
    }

    /// An id for a new open. Never given twice: a client that keeps an old one must not meet
    /// another file with it.
    pub(crate) fn allocate_file_id(&mut self) -> FileId {
        self.open_count += 1;
        FileId { persistent: self.file_id_base | self.open_count, volatile: self.open_count }
    }

    /// Counts what became of a logon, for whoever traces this worker or looks at the server.
    pub(crate) fn count_logon(&self, outcome: LogonOutcome) {
        self.trace.logon(outcome);
        self.logon_throttle.count(outcome);
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

    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched_elsewhere || !self.watchers.is_empty()
    }

    fn note(&mut self, change: Change) {
        if let Some(folder) = self.folders.get(&change.root) {
            self.outbox.changes.push(change.seen_from_host(folder));
        }
    }
}
