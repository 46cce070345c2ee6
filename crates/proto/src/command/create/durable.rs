//! Opens that survive their connection: [MS-SMB2] 3.3.5.9.6, .7, .10, .12 and .13.
//!
//! Everything that another worker needs to reconnect such an open is in the file's record from the
//! start; a lost connection or a dying worker has nothing left to save.

use std::sync::Arc;
use std::time::Duration;

use arbitration::{
    ByteRangeLock, Durability, DurabilityKind, FileKey, Granted, Holding, LeaseId, LockSequences,
    OpenEntry, RequestedCaching,
};
use dtyp::{AccessMask, FileAttributes, Guid};
use engine::effect::{Effect, Reply};
use engine::files::{OpenClaim, ReconnectedOpen};
use engine::response::{Response, Step};
use engine::scope::InTree;
use model::audit::AuditedOpen;
use model::caching::lease_name;
use model::channel_sequence::ChannelSequence;
use model::connection::Negotiated;
use model::file_key::key;
use model::open::{CreateId, DurableState, OPEN_BYTES, Open, OpenFile, Target};
use model::reject::Reject;
use model::session::Session;
use model::share::Share;
use object::{
    Disposition, FileRange, ObjectOp, ObjectReply, OpenRequest, Opened, RangeLock, RequestedKind,
    UserId,
};
use wire::FileId;
use wire::create::{CreateAction, CreateOptions, CreateRequest, ShareAccess};
use wire::create_context::{
    AppInstanceId, CreateContextList, DurableFlags, DurableHandleReconnect,
    DurableHandleReconnectV2, DurableHandleRequest, DurableHandleRequestV2, DurableHandleResponse,
    DurableHandleResponseV2,
};
use wire::negotiate::Capabilities;

use super::contexts::Contexts;
use super::validate::{parse_name, parse_path, path_of};
use super::{Pending, Progress, caching};

/// Time for which a durable open of the first version is kept, as by Windows: its request has no
/// timeout.
const TIMEOUT_V1: Duration = Duration::from_secs(16 * 60);

/// Time for which an open is kept if its client leaves the choice to the server.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

/// Longest time for which a client can have an open kept.
const TIMEOUT_MAX: Duration = Duration::from_secs(300);

/// First wait for the end of an open's former connection; each further one is twice as long.
const END_WAIT: Duration = Duration::from_millis(2);

/// Highest number of these waits for one request.
const ENDS_AWAITED_MAX: u32 = 6;

/// Contexts of a request on durability.
#[derive(Clone, Debug, Default)]
pub(super) struct DurabilityContexts {
    client: Guid,
    request: Option<Request>,
    /// Name of the request, if it has a CreateGuid.
    pub(super) create_id: Option<CreateId>,
    pub(super) reconnect: Option<Reconnect>,
    pub(super) app_instance_id: Guid,
}

#[derive(Clone, Copy, Debug)]
enum Request {
    V1,
    V2 { timeout: Duration, persistent: bool, create_guid: Guid },
}

/// The durable open to reconnect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reconnect {
    persistent: u64,
    /// None in the first version, which may also reconnect opens of the second.
    create_guid: Option<Guid>,
    is_persistent: bool,
}

/// A durable open whose file the store is opening again.
#[derive(Debug)]
pub struct Reopening {
    file: FileKey,
    stream: u64,
    persistent: u64,
    pub(super) user: UserId,
    /// Contexts to answer, if the request is a replay of the CREATE that made the open.
    replay: Option<Box<(Contexts, DurabilityContexts)>>,
}

/// A reconnected open whose byte-range locks the store is taking again.
#[derive(Debug)]
pub struct Relocking {
    pub(super) volatile: u64,
    response: Response,
}

impl Reconnect {
    /// Returns the time after which a request may find its open, if it was not found now. A client
    /// that has lost its connection may be back before another worker has read the end of that
    /// connection, and gives the open up if it is refused. Who names one has it, as a rule.
    pub(super) fn wait_for_end(&self, share: &Share, awaited: u32) -> Option<Duration> {
        let may_come = share.durable_handles && (share.is_ca || !self.is_persistent);
        (may_come && awaited < ENDS_AWAITED_MAX).then(|| END_WAIT * (1 << awaited))
    }
}

impl Reopening {
    /// Returns the name of the open's CREATE, if a replay of that CREATE reconnects it.
    pub(super) fn create_id(&self) -> Option<CreateId> {
        self.replay.as_ref().and_then(|it| it.1.create_id)
    }
}

impl DurabilityContexts {
    /// Returns the value for a request without contexts.
    pub(super) fn nothing(negotiated: &Negotiated) -> Self {
        Self { client: negotiated.client_guid, ..Self::default() }
    }

    /// Reads the contexts. Those of the second version need 3.x and are ignored in older dialects.
    pub(super) fn read(
        request: &CreateRequest<'_>,
        negotiated: &Negotiated,
        share: &Share,
    ) -> Result<Self, Reject> {
        let offered = negotiated.server_capabilities.contains(Capabilities::PERSISTENT_HANDLES);
        let may_persist = share.is_ca && share.durable_handles && offered;
        let contexts = request.create_contexts;
        let malformed = Reject::Malformed;
        let v1 = contexts.find::<DurableHandleRequest>().map_err(malformed)?;
        let reconnect_v1 = contexts.find::<DurableHandleReconnect>().map_err(malformed)?;
        let (mut v2, mut reconnect_v2, mut app_instance) = (None, None, None);
        if negotiated.is_smb3() {
            v2 = contexts.find::<DurableHandleRequestV2>().map_err(malformed)?;
            reconnect_v2 = contexts.find::<DurableHandleReconnectV2>().map_err(malformed)?;
            app_instance = contexts.find::<AppInstanceId>().map_err(malformed)?;
        }
        let is_v1 = v1.is_some() || reconnect_v1.is_some();
        let is_mixed = is_v1 && (v2.is_some() || reconnect_v2.is_some());
        if is_mixed || (v2.is_some() && reconnect_v2.is_some()) {
            return Err(Reject::DurableContextsExclude);
        }
        let reconnect = match (reconnect_v1, reconnect_v2) {
            (Some(it), _) => Some(Reconnect {
                persistent: it.file_id.persistent,
                create_guid: None,
                is_persistent: false,
            }),
            (None, Some(it)) => Some(Reconnect {
                persistent: it.file_id.persistent,
                create_guid: Some(it.create_guid),
                is_persistent: it.flags.contains(DurableFlags::PERSISTENT),
            }),
            (None, None) => None,
        };
        let request = match (v1, v2) {
            (Some(_), _) => Some(Request::V1),
            (None, Some(it)) => Some(Request::V2 {
                timeout: timeout(it.timeout_ms),
                persistent: may_persist && it.flags.contains(DurableFlags::PERSISTENT),
                create_guid: it.create_guid,
            }),
            (None, None) => None,
        };
        let client = negotiated.client_guid;
        let create_guid = v2.map(|it| it.create_guid).filter(|it| !it.is_zero());
        let create_id = create_guid.map(|create_guid| CreateId { client, create_guid });
        let app_instance_id = app_instance.map_or(Guid::ZERO, |it| it.app_instance_id);
        Ok(Self { client, request, create_id, reconnect, app_instance_id })
    }

    /// Returns the durability for the file's record, if the open may be durable at all. Whether it
    /// is depends on the caching that it gets.
    pub(super) fn durability(
        &self,
        share: &Share,
        session: &Session,
        is_directory: bool,
    ) -> Option<Durability> {
        // Guests are excluded: anyone can be a guest any number of times, and leave more opens
        // behind each time.
        let owner = session.owner.clone()?;
        let request = self.request.filter(|_| share.durable_handles)?;
        // [MS-SMB2] 3.3.5.9.10 knows no durable directories; Windows has persistent ones.
        if is_directory && !self.wants_persistent() {
            return None;
        }
        let (kind, timeout, create_guid) = match request {
            Request::V1 => (DurabilityKind::Durable, TIMEOUT_V1, Guid::ZERO),
            Request::V2 { timeout, persistent: true, create_guid } => {
                (DurabilityKind::Persistent, timeout, create_guid)
            }
            Request::V2 { timeout, create_guid, .. } => {
                (DurabilityKind::DurableV2, timeout, create_guid)
            }
        };
        Some(Durability {
            expires_at: None,
            timeout,
            kind,
            create_guid,
            owner,
            position: 0,
            lock_sequences: LockSequences::default(),
        })
    }

    /// True if the request asks for a durable open.
    pub(super) fn is_requested(&self) -> bool {
        self.request.is_some()
    }

    /// True if a persistent open was requested and the share has them.
    pub(super) fn wants_persistent(&self) -> bool {
        matches!(self.request, Some(Request::V2 { persistent: true, .. }))
    }

    /// Returns the durability to keep in the open.
    pub(super) fn durable_state(&self) -> DurableState {
        DurableState { is_persistent: self.wants_persistent() }
    }

    /// Adds the context of the response to a request that was granted.
    pub(super) fn answer(&self, list: &mut CreateContextList) {
        match self.request {
            Some(Request::V1) => list.push(&DurableHandleResponse),
            Some(Request::V2 { timeout, persistent, .. }) => {
                let mut flags = DurableFlags::empty();
                flags.set(DurableFlags::PERSISTENT, persistent);
                let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
                list.push(&DurableHandleResponseV2 { timeout_ms, flags });
            }
            None => {}
        }
    }

    /// Closes opens that an earlier instance of the same application left on another client:
    /// [MS-SMB2] 3.3.5.9.13.
    ///
    /// The specification demands the same share and path, and the right to read the file. So the
    /// file's record decides, once the store has opened the file, and no other record is read. The
    /// user may be another one: nodes of a cluster log on as accounts of their own.
    pub(super) fn evict_predecessors(
        &self,
        scope: &mut InTree<'_>,
        opened: &Opened,
    ) -> Result<(), Reject> {
        let may_read = opened.maximal_access.contains(AccessMask::FILE_GENERIC_READ);
        if opened.created || !may_read {
            return Ok(());
        }
        let share = &scope.tree.share.name;
        let path = opened.path.to_windows();
        let is_one = |it: &OpenEntry| {
            it.facts.app_instance_id == self.app_instance_id
                && it.facts.client != self.client
                && it.facts.share == *share
                && it.facts.path == path
                && !it.evicted
        };
        let file = key(opened.metadata.identity);
        scope.globals.files.evict(file, is_one)
    }
}

fn timeout(timeout_ms: u32) -> Duration {
    match timeout_ms {
        0 => TIMEOUT_DEFAULT,
        given => Duration::from_millis(given.into()).min(TIMEOUT_MAX),
    }
}

/// Finds a durable open and reopens its file: [MS-SMB2] 3.3.5.9.7, 3.3.5.9.12. One that is not
/// found may be soon.
pub(super) fn reconnect(
    scope: InTree<'_>,
    request: &CreateRequest<'_>,
    reconnect: &Reconnect,
    requested_caching: &RequestedCaching,
    progress: Progress,
) -> Result<Step<Pending>, Reject> {
    let wait = reconnect.wait_for_end(&scope.tree.share, progress.awaited_ends);
    let found = find_and_reopen(scope, request, reconnect, requested_caching);
    match (found, wait) {
        (Err(Reject::NoSuchDurableOpen), Some(time)) => {
            Ok(Step::Wait(Effect::Sleep(time), Pending::AwaitingEnd(progress)))
        }
        (found, _) => found,
    }
}

fn find_and_reopen(
    scope: InTree<'_>,
    request: &CreateRequest<'_>,
    reconnect: &Reconnect,
    requested_caching: &RequestedCaching,
) -> Result<Step<Pending>, Reject> {
    let persistent = match reconnect.create_guid {
        // [MS-SMB2] 3.3.5.9.12: a persistent open may be named by its CreateGuid alone.
        Some(create_guid) if reconnect.is_persistent => {
            let client = scope.connection.negotiated().client_guid;
            let files = &scope.globals.files;
            match files.find_disconnected(reconnect.persistent) {
                Some(_) => reconnect.persistent,
                None => files
                    .find_by_create_guid(CreateId { client, create_guid })?
                    .ok_or(Reject::NoSuchDurableOpen)?,
            }
        }
        _ => reconnect.persistent,
    };
    reopen(scope, request, &Reconnect { persistent, ..*reconnect }, requested_caching, None)
}

/// Reconnects the open of a replayed CREATE, whose client knows only the CreateGuid: [MS-SMB2]
/// 3.3.5.9.10.
pub(super) fn reconnect_replayed(
    scope: InTree<'_>,
    request: &CreateRequest<'_>,
    persistent: u64,
    contexts: Contexts,
    durability: DurabilityContexts,
    requested_caching: RequestedCaching,
) -> Result<Step<Pending>, Reject> {
    let is_persistent = durability.wants_persistent();
    let create_guid = durability.create_id.map(|it| it.create_guid);
    let reconnect = Reconnect { persistent, create_guid, is_persistent };
    reopen(scope, request, &reconnect, &requested_caching, Some(Box::new((contexts, durability))))
}

fn reopen(
    scope: InTree<'_>,
    request: &CreateRequest<'_>,
    reconnect: &Reconnect,
    requested_caching: &RequestedCaching,
    replay: Option<Box<(Contexts, DurabilityContexts)>>,
) -> Result<Step<Pending>, Reject> {
    let root = scope.tree.share.root.ok_or(Reject::NotOnPipes)?;
    let not_found = Reject::NoSuchDurableOpen;
    let persistent = reconnect.persistent;
    let file = scope.globals.files.find_disconnected(persistent).ok_or(not_found)?;
    let is_it = |it: &&OpenEntry| it.facts.persistent == persistent;
    let entry = scope.globals.files.read(file, |record| {
        let entry = record.opens.iter().find(is_it)?;
        let lease = match entry.holding {
            Holding::Lease(id) => record.lease(id).copied(),
            _ => None,
        };
        Some((entry.clone(), lease.map(|it| it.is_v2)))
    })?;
    let (entry, lease_is_v2) = entry.ok_or(not_found)?;
    verify(&scope, &entry, lease_is_v2, request, reconnect, requested_caching)?;
    let share = &scope.tree.share;
    let open = OpenRequest {
        root,
        path: path_of(&entry.facts),
        posix_mode: None,
        disposition: Disposition::Open,
        kind: RequestedKind::Any,
        desired_access: entry.mode.granted_access,
        share_access_max: scope.tree.maximal_access,
        attributes: FileAttributes::empty(),
        allocation_size: 0,
        open_reparse_point: CreateOptions::from_bits_retain(entry.facts.create_options)
            .contains(CreateOptions::OPEN_REPARSE_POINT),
        delete_on_close: false,
        write_through: CreateOptions::from_bits_retain(entry.facts.create_options)
            .contains(CreateOptions::WRITE_THROUGH),
        is_reconnect: true,
        security: None,
        extended_attributes: Vec::new(),
    };
    let user = share.user;
    let op = ObjectOp::Open(Box::new(open));
    let reopening = Reopening { file, stream: entry.stream, persistent, user, replay };
    Ok(Step::Wait(Effect::Object { user, op }, Pending::Reopening(reopening)))
}

/// Checks a reconnect in the order of [MS-SMB2] 3.3.5.9.7 and 3.3.5.9.12.
fn verify(
    scope: &InTree<'_>,
    entry: &OpenEntry,
    lease_is_v2: Option<bool>,
    request: &CreateRequest<'_>,
    reconnect: &Reconnect,
    requested_caching: &RequestedCaching,
) -> Result<(), Reject> {
    let not_found = Err(Reject::NoSuchDurableOpen);
    let Some(durability) = &entry.durability else { return not_found };
    let client = scope.connection.negotiated().client_guid;
    let lease = match entry.holding {
        Holding::Lease(id) => Some(id),
        _ => None,
    };
    if lease.is_some() && entry.facts.client != client {
        return not_found;
    }
    let is_persistent = durability.kind == DurabilityKind::Persistent;
    if reconnect.create_guid.is_some_and(|it| it != durability.create_guid)
        || (is_persistent && !reconnect.is_persistent)
        || durability.expires_at.is_none_or(|until| until <= scope.globals.files.now())
        || entry.facts.share != scope.tree.share.name
    {
        return not_found;
    }
    if scope.session.owner.as_ref() != Some(&durability.owner) {
        return Err(Reject::DurableOpenOfAnotherUser);
    }
    if lease.map(|id| LeaseId { client, ..id }) != requested_caching.lease()
        || lease_is_v2 != asked_version(requested_caching)
    {
        return not_found;
    }
    if lease.is_some() {
        let share = &scope.tree.share;
        let name = lease_name(share, &parse_name(request.name, share)?.0);
        if name != lease_name(share, &parse_path(&entry.facts.path)?) {
            return Err(Reject::DurableOpenOfAnotherName);
        }
    }
    Ok(())
}

fn asked_version(requested_caching: &RequestedCaching) -> Option<bool> {
    match requested_caching {
        RequestedCaching::Lease { is_v2, .. } => Some(*is_v2),
        _ => None,
    }
}

/// Moves the open into this session, once its file is open again.
pub(super) fn reopened(
    mut scope: InTree<'_>,
    reopening: Reopening,
    reply: Reply,
) -> Result<Step<Pending>, Reject> {
    let opened = match reply.object() {
        Ok(ObjectReply::Opened(opened)) => *opened,
        // The path may be another file's by now, or have a link that stops the open.
        Ok(_) | Err(_) => return Err(Reject::NoSuchDurableOpen),
    };
    let mut file_id = scope.globals.allocate_file_id();
    file_id.persistent = reopening.persistent;
    let taken = match reconnect_entry(&mut scope, &reopening, &opened, file_id.volatile) {
        Ok(taken) => taken,
        Err(reject) => {
            let op = ObjectOp::Close { open: opened.open, unlink: false };
            let close = Effect::Object { user: reopening.user, op };
            scope.globals.outbox.effects.push_back((None, close));
            return Err(reject);
        }
    };
    let metadata = opened.metadata.clone();
    let maximal_access = opened.maximal_access;
    add_open(&mut scope, &reopening, opened, &taken, file_id);
    let (mut list, action) = match &reopening.replay {
        Some(replay) => (replay.0.answer(&metadata, maximal_access), create_action(&taken.entry)),
        None => (CreateContextList::new(), CreateAction::OPENED),
    };
    if let Some(lease) = &taken.lease {
        list.push(&caching::lease_context(lease));
    }
    if let Some(replay) = &reopening.replay {
        replay.1.answer(&mut list);
    }
    let granted = Granted { caching: taken.cache.state, lease: taken.lease, is_durable: true };
    let response = super::layout(file_id, &granted, action, &metadata, &list);
    match lock_again(&scope, file_id.volatile)? {
        None => Ok(Step::Done(response)),
        Some(effect) => {
            let relocking = Relocking { volatile: file_id.volatile, response };
            Ok(Step::Wait(effect, Pending::Relocking(Box::new(relocking))))
        }
    }
}

/// Makes the operation of the store that shows the locks of a reconnected open to local programs
/// again: they ended with its file. `None` if there are none.
fn lock_again(scope: &InTree<'_>, volatile: u64) -> Result<Option<Effect>, Reject> {
    let open = scope.opens.get(&volatile).ok_or(Reject::NoSuchDurableOpen)?;
    let file = open.file()?;
    if file.locks.bytes() == 0 || !open.shows_locks() {
        return Ok(None);
    }
    let id = scope.globals.files.open_id(volatile);
    let locks = scope.globals.files.read(key(file.identity), |record| {
        let own = record.locks.iter().filter(|it| it.open == id);
        let lock = |it: &ByteRangeLock| {
            let range = FileRange { offset: it.range.offset, length: it.range.length };
            RangeLock { range, exclusive: it.exclusive }
        };
        own.map(lock).collect()
    })?;
    let op = ObjectOp::Lock { open: file.local_open, locks };
    Ok(Some(Effect::Object { user: open.user, op }))
}

/// Answers the return of a client whose locks were taken again. If a local program has locked the
/// bytes meanwhile, the client loses its open: it must not go on as if its lock had lasted.
pub(super) fn locked_again(
    scope: InTree<'_>,
    relocking: Relocking,
    reply: Reply,
) -> Result<Step<Pending>, Reject> {
    if reply.object().is_err() {
        scope.globals.withdraw(relocking.volatile, scope.opens);
        return Err(Reject::NoSuchDurableOpen);
    }
    Ok(Step::Done(relocking.response))
}

/// Assigns the open's entry in the file's record to this session, unless the name leads to another
/// file by now.
fn reconnect_entry(
    scope: &mut InTree<'_>,
    reopening: &Reopening,
    opened: &Opened,
    volatile: u64,
) -> Result<ReconnectedOpen, Reject> {
    let Reopening { file, stream, persistent, .. } = *reopening;
    let identity = opened.metadata.identity;
    if key(identity) != file || identity.stream != stream {
        return Err(Reject::NoSuchDurableOpen);
    }
    let link = opened.path.link(opened.parent, identity);
    let (session_id, tree_id) = (scope.session.session_id, scope.tree.tree_id);
    let files = &mut scope.globals.files;
    let claim = OpenClaim { link, persistent, volatile, session_id, tree_id };
    let taken = files.reconnect(file, claim)?;
    if let Some(lease) = &taken.lease {
        files.add_to_lease(lease.id, lease_name(&scope.tree.share, &opened.path), file);
    }
    Ok(taken)
}

/// Makes the Open from its entry in the file's record, and adds it to the tables.
fn add_open(
    scope: &mut InTree<'_>,
    reopening: &Reopening,
    opened: Opened,
    ReconnectedOpen { entry, cache, lease, lock_memory, .. }: &ReconnectedOpen,
    file_id: FileId,
) {
    let create_id = create_id(entry);
    if let Some(id) = create_id {
        scope.globals.create_ids.insert(id, file_id.volatile);
    }
    let durability = entry.durability.as_ref();
    let programs = scope.tree.share.local_programs;
    let file = OpenFile {
        local_open: opened.open,
        identity: opened.metadata.identity,
        is_directory: opened.metadata.is_directory() && opened.path.stream().is_none(),
        path: opened.path,
        share_access: share_access(entry),
        create_options: CreateOptions::from_bits_retain(entry.facts.create_options),
        delete_on_close: entry.delete_on_close,
        lease: lease.map(|it| it.id),
        link: entry.facts.link,
        parent: opened.parent,
        parent_lease: lease.and_then(|it| it.parent),
        is_modified: false,
        create_id,
        replay: reopening.replay.is_some().then(|| create_action(entry)),
        durable: durability.map(durable_state),
        position: durability.map_or(0, |it| it.position),
        mode: 0,
        enumeration: None,
        attributes_listed: 0,
        next_quota_user: 0,
        watch: None,
        is_being_made: false,
        locks: scope.globals.memory.keep_beyond_limit(*lock_memory),
        lock_sequences: durability.map(|it| it.lock_sequences.clone()).unwrap_or_default(),
        checked_access: programs.lock_checks.with_caching(cache.state),
        has_kernel_lease: false,
        audit: scope.tree.share.audit.clone().map(|audit| Box::new(AuditedOpen::new(audit))),
    };
    let open = Open {
        file_id,
        classes: scope.tree.classes.of_path(file.path.as_str()),
        memory: scope.globals.memory.keep_beyond_limit(OPEN_BYTES + file.path.as_str().len()),
        channel_sequence: ChannelSequence::default(),
        is_closing: false,
        session_id: scope.session.session_id,
        tree_id: scope.tree.tree_id,
        share: Arc::clone(&scope.tree.share),
        user: reopening.user,
        target: Target::File(Box::new(file)),
        granted_access: entry.mode.granted_access,
        maximal_access: opened.maximal_access,
    };
    scope.opens.insert(file_id.volatile, open);
}

fn create_action(entry: &OpenEntry) -> CreateAction {
    CreateAction(entry.facts.create_action)
}

fn create_id(entry: &OpenEntry) -> Option<CreateId> {
    let create_guid = entry.durability.as_ref()?.create_guid;
    let client = entry.facts.client;
    (!create_guid.is_zero()).then_some(CreateId { client, create_guid })
}

fn durable_state(durability: &Durability) -> DurableState {
    DurableState { is_persistent: durability.kind == DurabilityKind::Persistent }
}

fn share_access(entry: &OpenEntry) -> ShareAccess {
    let mut access = ShareAccess::empty();
    access.set(ShareAccess::READ, entry.mode.share_read);
    access.set(ShareAccess::WRITE, entry.mode.share_write);
    access.set(ShareAccess::DELETE, entry.mode.share_delete);
    access
}
