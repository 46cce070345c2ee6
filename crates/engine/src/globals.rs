//! State beyond connections, sessions and opens, and the queues of the worker.
//!
//! `Server` owns the one [`Globals`]; every scope lends it to its command. Handlers only push into
//! the [`Outbox`]: `events` serves `requests_to_wake`, `closed_opens`, `changes` and
//! `ending_sessions` before the event ends, and the worker takes the other queues by
//! `Server::poll_*`.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arbitration::{FileRecords, LeaseKey, UserRights};
use dtyp::ServerId;
use model::buffer_pool::BufferPool;
use model::connection::ConnectionId;
use model::entropy::Entropy;
use model::logon::Logon;
use model::logon_throttle::LogonThrottle;
use model::memory_account::MemoryAccount;
use model::now::Now;
use model::open::{CreateId, Open};
use model::pipe::Pipes;
use model::reject::Disconnect;
use model::request_id::RequestId;
use model::settings::ServerSettings;
use model::share::Share;
use model::storage_load::StorageLoad;
use model::traversals::Traversals;
use object::{FileIdentity, HostChange, ObjectPath, RootId, UserId};
use rustc_hash::FxHashMap;
use trace::{LogonOutcome, Tracer};
use wire::{FileId, Header};

use crate::change::Change;
use crate::effect::Effect;
use crate::files::Files;
use crate::notice::Notice;
use crate::request::Chain;
use crate::response::Transmit;
use crate::throttle::Throttle;
use crate::unconfirmed_breaks::BreakNotifications;

/// A session that has negotiated Apple's extensions.
#[derive(Clone, Copy, Debug, Default)]
pub struct AppleSession {
    /// True if the client has negotiated Apple's format of listings.
    pub has_own_listings: bool,
}

/// State beyond connections, sessions and opens: settings, file records, limits, queues of work.
#[derive(Debug)]
pub struct Globals {
    /// Settings of the administrator for the protocol.
    pub settings: Arc<ServerSettings>,
    /// The files that are open anywhere.
    pub files: Files,
    /// Breaks on their way to the client.
    pub breaks: BreakNotifications,
    /// Account of the client's memory in this worker.
    pub memory: MemoryAccount,
    /// Number of the client's open pipes.
    pub pipes: Pipes,
    /// Buffers for responses to READ.
    pub buffers: BufferPool,
    /// Requests delayed by a limit of their classes, or until their turn at the storage.
    pub throttle: Throttle,
    /// Memory of the client's requests that wait for slow storage, which limits its credits.
    pub storage_load: StorageLoad,
    /// Counts of failed logons of all workers.
    pub logon_throttle: LogonThrottle,
    /// Address of the last refused logon without a line in the log, because there were too many.
    pub unlogged_client: Option<SocketAddr>,
    /// Source of unguessable bytes for keys, nonces and ids.
    pub entropy: Entropy,
    /// Work for the worker, and for the end of the current handler.
    pub outbox: Outbox,
    /// Number of opens so far, for their ids.
    pub open_count: u64,
    /// Opens by the names of their CREATEs, the latest of each name.
    pub create_ids: HashMap<CreateId, u64>,
    /// Distinguishes this worker's persistent ids from those of others.
    pub file_id_base: u64,
    /// Opens with a watch, by volatile id. Without any watch, a change costs no more than a look at
    /// this empty list.
    pub watchers: Vec<u64>,
    /// Directories that users of watches may enter.
    pub traversals: Traversals,
    /// CREATEs that wait for a break and get an interim response at a time, the first one first.
    pub(crate) late_interims: VecDeque<(Duration, RequestId)>,
    /// Sessions that have negotiated Apple's extensions. Others have none of their effects: whoever
    /// knows a ClientGuid shares a worker with its client.
    pub apple_sessions: FxHashMap<u64, AppleSession>,
    /// Time at which the first ticket of a session's user ends.
    pub next_expiry: Option<Duration>,
    /// The highest logon over all connections, as the supervisor knows it.
    pub logon: Logon,
    /// True if another worker has a watch.
    pub is_watched_elsewhere: bool,
    /// Tracer of the requests' times. It reads a clock, but the engine never sees the time.
    pub trace: Tracer,
    /// Paths of the shares' roots on the host. A reused root is entered again, so there are never
    /// more than the store has roots.
    pub folders: HashMap<RootId, ObjectPath>,
    /// Rights of the users of all tree connects, as deletions keep them. As the store, this
    /// forgets no user.
    rights: FxHashMap<UserId, Arc<UserRights>>,
}

/// Queues for the worker, and for this server at the end of a handler.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Requests to the worker, each with the id of the request that waits for a reply, if any.
    pub effects: VecDeque<(Option<RequestId>, Effect)>,
    /// Frames to send, with their connections.
    pub transmits: VecDeque<Transmit>,
    /// Changes to report to the tables.
    pub notices: VecDeque<Notice>,
    /// Connections to end, with the reasons.
    pub closes: VecDeque<(ConnectionId, Disconnect, Logon)>,
    /// Suspended requests whose reason to wait may be gone.
    pub requests_to_wake: VecDeque<RequestId>,
    /// Closed opens, whose suspended requests must be woken.
    pub closed_opens: Vec<u64>,
    /// Changes for watches, here and elsewhere.
    pub changes: Vec<HostChange>,
    /// Sessions that end once the response to their LOGOFF is signed.
    pub ending_sessions: Vec<u64>,
    /// Those of `ending_sessions` that a new one of the same client replaces. Their durable opens
    /// stay: [MS-SMB2] 3.3.5.5.3 removes them as the loss of their connections would.
    pub replaced_sessions: Vec<u64>,
}

impl Globals {
    /// Begins without any connection, session or open.
    pub(crate) fn new(
        settings: Arc<ServerSettings>,
        mut entropy: Entropy,
        records: Box<dyn FileRecords>,
        worker: ServerId,
    ) -> Self {
        let file_id_base = u64::from(u32::from_le_bytes(entropy.bytes())) << 32;
        Self {
            memory: MemoryAccount::new(settings.guest_memory_max),
            pipes: Pipes::default(),
            settings,
            files: Files::new(records, worker),
            breaks: BreakNotifications::default(),
            buffers: BufferPool::default(),
            throttle: Throttle::new(Box::new(Vec::new()), worker),
            storage_load: StorageLoad::default(),
            logon_throttle: LogonThrottle::new(Box::new(Vec::new())),
            unlogged_client: None,
            entropy,
            outbox: Outbox::default(),
            open_count: 0,
            create_ids: HashMap::new(),
            file_id_base,
            watchers: Vec::new(),
            traversals: Traversals::default(),
            late_interims: VecDeque::new(),
            apple_sessions: FxHashMap::default(),
            logon: Logon::Nobody,
            next_expiry: None,
            is_watched_elsewhere: false,
            trace: Tracer::default(),
            folders: HashMap::new(),
            rights: FxHashMap::default(),
        }
    }

    /// Has all tree connects of a user share the memory of its groups.
    pub fn share_rights(&mut self, share: &mut Share) {
        if let Some(requester) = share.requester.as_mut().map(Arc::make_mut)
            && let Some(rights) = &requester.rights
        {
            let known = self.rights.entry(share.user).or_insert_with(|| Arc::clone(rights));
            requester.rights = Some(Arc::clone(known));
        }
    }

    /// Returns whether a session has negotiated Apple's extensions.
    #[must_use]
    pub fn is_apple(&self, session_id: u64) -> bool {
        self.apple_sessions.contains_key(&session_id)
    }

    /// Returns whether file ids are zero for the client of a session.
    #[must_use]
    pub fn hides_file_ids(&self, session_id: u64, share: &Share) -> bool {
        let hides = share.apple.as_ref().is_some_and(|apple| apple.hides_file_ids);
        hides && self.is_apple(session_id)
    }

    /// Returns whether the client of a session expects files to be renamed and deleted under its
    /// opens.
    #[must_use]
    pub fn expects_lost_names(&self, session_id: u64, share: &Share) -> bool {
        let follows = share.apple.as_ref().is_some_and(|apple| apple.posix_opens);
        follows && self.is_apple(session_id)
    }

    /// Sets the memory limit of a client with a logged-on user, or without.
    pub fn limit_memory(&self, has_user: bool) {
        let Self { settings, memory, .. } = self;
        let limit = if has_user { settings.client_memory_max } else { settings.guest_memory_max };
        memory.set_limit(limit);
    }

    /// Returns whether anything beside a connection's own maximum limits its credits.
    #[inline]
    pub(crate) fn limits_credits(&self, now: Now) -> bool {
        self.throttle.limits_credits(now) || self.storage_load.limits_credits()
    }

    /// Returns whether requests for slow storage keep their credits, because they hold much.
    #[inline]
    pub(crate) fn keeps_credits(&self) -> bool {
        self.storage_load.limits_credits()
            && self.storage_load.is_full(self.memory.in_transit_max())
    }

    /// Returns the credits that a response should carry: those of its request, or no more than that
    /// has cost while slow storage holds much.
    #[inline]
    pub(crate) fn credits_wanted(&self, chain: &Chain, request: &Header) -> u16 {
        let cost = if chain.pays { request.credit_charge.max(1) } else { 1 };
        if self.keeps_credits() { request.credits.min(cost) } else { request.credits }
    }

    /// Returns an id for a new open. Ids are never reused: a client that keeps an old one must not
    /// reach another file with it.
    pub fn allocate_file_id(&mut self) -> FileId {
        self.open_count += 1;
        FileId { persistent: self.file_id_base | self.open_count, volatile: self.open_count }
    }

    /// Counts the outcome of a logon, for traces of this worker and for the server's metrics.
    pub fn count_logon(&self, outcome: LogonOutcome) {
        self.trace.logon(outcome);
        self.logon_throttle.count(outcome);
    }

    /// Notes a change, if anybody watches.
    pub fn report(&mut self, change: impl FnOnce() -> Change) {
        if self.is_watched() {
            self.note(change());
        }
    }

    /// Tells watches and holders of the directory's lease of a new name; its adder's own lease
    /// stays.
    pub fn report_added(
        &mut self,
        directory: Option<FileIdentity>,
        own_lease: Option<LeaseKey>,
        change: impl FnOnce() -> Change,
    ) {
        self.report(change);
        if let Some(directory) = directory {
            self.files.break_for_listing(directory, own_lease);
        }
    }

    /// Records a change of an open's file, of so many bytes or of none, if it is audited, and
    /// queues it for watches, if there is any.
    #[inline]
    pub fn report_written(&mut self, open: &mut Open, bytes: u64) {
        self.audit_written(open, bytes);
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
            self.outbox.changes.push(change.to_host_change(folder));
        }
    }
}
