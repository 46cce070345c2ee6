//! SMB2 CREATE: [MS-SMB2] 3.3.5.9.
//!
//! A machine of a few states ([`Pending`]). The store opens without truncating, so that sharing is
//! checked against the file that the name leads to before any data is lost. A request that must
//! wait for a break or a deletion closes its file, and begins again when the file's record has
//! changed: by then the name may lead elsewhere.
//!
//! ```text
//! begin ──> Opening ──> admission ──> (Confirming) ──> (Overwriting) ──> response
//!  ^ ^ │                    │              │
//!  │ │ │                    v              │ the name leads to another file by now
//!  │ └─┼─────────────── Suspended          │
//!  └───┼───────────────────────────────────┘
//!      ├─> CheckingLeaseName ──> begin    a lease key with another file name
//!      ├─> Reopening ──> response         a client returns to its durable open
//!      └─> Replaying ──> response         a repetition of a request with an open
//! ```

mod apple;
pub(crate) mod caching;
mod contexts;
// Public, because `Pending` has types of these modules.
pub mod durable;
mod pipe;
pub mod replay;
mod symbolic_link;
mod validate;

use std::sync::Arc;

use arbitration::{
    Admission, AdmissionRequest, Caching, FileKey, Granted, LeaseId, LockSequences, OpenFacts,
    Refusal, RequestedCaching, ShareMode,
};
use dtyp::{AccessMask, FileAttributes};
use engine::change::{AddedName, Change, ChangeKind};
use engine::effect::{Effect, Reply};
use engine::pending_command::{Abandoned, PendingCommand};
use engine::request::Incoming;
use engine::response::{Response, Step};
use engine::scope::InTree;
use model::caching::lease_name;
use model::channel_sequence::ChannelSequence;
use model::file_key::key;
use model::open::{CreateName, OPEN_BYTES, OPENS_MAX, Open, OpenFile, Target};
use model::posix;
use model::reject::Reject;
use model::tree_connect::TreeConnect;
use object::{Disposition, FileIdentity, Metadata, ObjectOp, ObjectReply, OpenRequest, Opened};
use wire::create::{
    CreateAction, CreateOptions, CreateRequest, CreateResponse, CreateResponseFlags, ShareAccess,
};
use wire::create_context::CreateContextList;
use wire::{Decode, FileId, OplockLevel};

use crate::command::Command;
use crate::dfs;

use caching::HeldCaching;
use contexts::Contexts;

pub(crate) use validate::{is_vetoed, parse_path, parse_posix_path};

/// Opens or creates a file, a directory or a pipe.
#[derive(Debug)]
pub struct Create;

/// State of a pending CREATE.
#[derive(Debug)]
pub enum Pending {
    /// The store is opening the file.
    Opening(Box<Opening>),
    /// The store reopens the file of a durable open whose client was disconnected.
    Reopening(durable::Reopening),
    /// The store reads the metadata of the open that the replayed request made.
    Replaying(Box<replay::Replaying>),
    /// The store resolves a further name under a lease, which must lead to the lease's file.
    CheckingLeaseName(LeaseId, Progress, Option<CreateName>),
    /// A break is outstanding, or a pending deletion must finish first.
    Suspended(Suspended),
    /// The store resolves the name once more, because a file was deleted while this one was
    /// opened.
    Confirming(Box<Entered>),
    /// The store is truncating the file.
    Overwriting(Box<Entered>),
}

/// Progress of a request that begins again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// True once it was suspended: from then on it waits for every lease break in progress
    /// ([`AdmissionRequest::has_waited`]). No replay can have opened meanwhile: each was refused
    /// because of this request.
    has_waited: bool,
    /// True once the file name of its lease was verified.
    lease_is_verified: bool,
}

/// A request that waits for a break or a deletion.
#[derive(Clone, Copy, Debug)]
pub struct Suspended {
    file: FileKey,
    create_name: Option<CreateName>,
}

/// Parameters of a request, while the store opens its file.
#[derive(Debug)]
pub struct Opening {
    root: object::RootId,
    /// User of the tree connect's share, whose rights the kernel checks.
    user: object::UserId,
    disposition: Disposition,
    attributes: FileAttributes,
    share_access: ShareAccess,
    create_options: CreateOptions,
    contexts: Contexts,
    requested_caching: RequestedCaching,
    /// The contexts on durability, also if they request none.
    durability: durable::DurabilityContexts,
    /// As in [`Progress`], for admission and a further beginning.
    has_waited: bool,
    /// Number of deletions by all workers before the store looked the file up. A changed number
    /// leads to [`Pending::Confirming`].
    deletion_count: u32,
}

/// An open that is in the tables, before the response to its CREATE. There it excludes conflicting
/// opens, and the deletion of its name.
#[derive(Debug)]
pub struct Entered {
    opening: Box<Opening>,
    identity: FileIdentity,
    file_id: FileId,
    maximal_access: AccessMask,
}

/// The engine asks this of a pending request: [`PendingCommand`] says when.
impl PendingCommand for Pending {
    fn waits_for(&self) -> Option<FileKey> {
        match self {
            Self::Suspended(suspended) => Some(suspended.file),
            _ => None,
        }
    }

    fn changes(&self) -> Option<(FileIdentity, u64)> {
        match self {
            Self::Overwriting(entered) => Some((entered.identity, entered.file_id.volatile)),
            _ => None,
        }
    }

    fn abandon(self: Box<Self>, reply: Option<Reply>) -> Abandoned {
        match (*self, reply) {
            // The store has opened the file for nobody.
            (Self::Opening(opening), Some(Reply::Object(Ok(ObjectReply::Opened(opened))))) => {
                let added = opened.created.then(|| {
                    let (change, parent) = (addition(&opening, &opened), opened.parent);
                    Box::new(AddedName {
                        change,
                        parent,
                        parent_lease: opening.requested_caching.parent(),
                    })
                });
                let op = ObjectOp::Close { open: opened.open, unlink: false };
                let effect = Some(Effect::Object { user: opening.user, op });
                Abandoned { effect, added, ..Abandoned::default() }
            }
            (Self::Reopening(reopening), Some(Reply::Object(Ok(ObjectReply::Opened(opened))))) => {
                let op = ObjectOp::Close { open: opened.open, unlink: false };
                let effect = Some(Effect::Object { user: reopening.user, op });
                Abandoned { effect, ..Abandoned::default() }
            }
            (Self::Confirming(entered) | Self::Overwriting(entered), _) => {
                let unknown_open = Some(entered.file_id.volatile);
                Abandoned { unknown_open, ..Abandoned::default() }
            }
            _ => Abandoned::default(),
        }
    }
}

impl Command for Create {
    type Scope<'s> = InTree<'s>;
    type Request<'a> = CreateRequest<'a>;
    type Pending = Pending;

    fn start(
        scope: InTree<'_>,
        incoming: &Incoming,
        request: CreateRequest<'_>,
    ) -> Result<Step<Pending>, Reject> {
        // Now, since a trace otherwise takes the path from the open, and a failed CREATE has none.
        if incoming.trace.wants_path() {
            incoming.trace.set_path(dtyp::utf16::decode(request.name).unwrap_or_default());
        }
        begin(scope, incoming, &request, Progress::default())
    }

    fn resume(
        scope: InTree<'_>,
        incoming: &Incoming,
        pending: Pending,
        reply: Reply,
    ) -> Result<Step<Pending>, Reject> {
        match pending {
            Pending::Opening(opening) => match reply.object()? {
                ObjectReply::Opened(opened) => opened_by_store(scope, incoming, opening, opened),
                ObjectReply::Stopped(link) => Ok(symbolic_link::stopped(scope.connection, &link)),
                other => panic!("{other:?} does not answer an open"),
            },
            Pending::Suspended(_) => {
                let request = CreateRequest::decode(&incoming.message);
                let again = Progress { has_waited: true, lease_is_verified: false };
                begin(scope, incoming, &request.map_err(Reject::Malformed)?, again)
            }
            Pending::CheckingLeaseName(lease, progress, _) => {
                verify_lease_name(&scope, lease, reply)?;
                let request = CreateRequest::decode(&incoming.message);
                let verified = Progress { lease_is_verified: true, ..progress };
                begin(scope, incoming, &request.map_err(Reject::Malformed)?, verified)
            }
            Pending::Reopening(reopening) => durable::reopened(scope, reopening, reply),
            Pending::Replaying(replaying) => replay::replayed(scope, &replaying, reply),
            Pending::Confirming(entered) => confirmed(scope, incoming, entered, reply),
            Pending::Overwriting(entered) => overwritten(scope, &entered, reply),
        }
    }
}

impl Pending {
    /// Returns the name of the CREATE until it has its response: replays are refused meanwhile. An
    /// open in the tables may be withdrawn yet, or its file not be truncated.
    fn create_name(&self) -> Option<CreateName> {
        match self {
            Self::Opening(opening) => opening.durability.create_name,
            Self::Suspended(suspended) => suspended.create_name,
            Self::CheckingLeaseName(_, _, create_name) => *create_name,
            Self::Confirming(entered) | Self::Overwriting(entered) => {
                entered.opening.durability.create_name
            }
            // The first request has its response.
            Self::Replaying(_) => None,
            Self::Reopening(reopening) => reopening.create_name(),
        }
    }
}

/// Checks the request as far as possible without the file, and then has the store open the file.
/// Changes nothing, so it can begin again at any time.
fn begin(
    scope: InTree<'_>,
    incoming: &Incoming,
    request: &CreateRequest<'_>,
    progress: Progress,
) -> Result<Step<Pending>, Reject> {
    if scope.opens.len() >= OPENS_MAX {
        return Err(Reject::TooManyOpens);
    }
    scope.globals.memory.verify_room(OPEN_BYTES)?;
    // IPC$ alone has no root; its opens are pipes.
    let Some(root) = scope.tree.share.root else { return pipe::open(scope, request) };
    let share = Arc::clone(&scope.tree.share);
    let mut request = *request;
    if share.is_dfs_root {
        request.name = dfs::local_name(incoming, &share, request.name);
    }
    let request = &request;
    let negotiated = scope.connection.negotiated();
    // Most requests have no contexts, and then none of their decoders is entered.
    let has_contexts = !request.create_contexts.is_empty();
    let durability = match has_contexts {
        true => durable::DurabilityContexts::read(request, negotiated, &share)?,
        false => durable::DurabilityContexts::nothing(negotiated),
    };
    // [MS-SMB2] 3.3.5.9.7: the other fields of such a request are ignored.
    if let Some(reconnect) = durability.reconnect {
        let lease = caching::read_lease(request, negotiated)?;
        return durable::reconnect(scope, request, &reconnect, &lease);
    }
    let requested_caching = match request.requested_oplock_level {
        OplockLevel::NONE => RequestedCaching::Nothing,
        level => caching::read_requested(level, request, negotiated)?,
    };
    let posix_request = match has_contexts {
        true => contexts::read_posix(request, negotiated)?,
        false => None,
    };
    let valid = validate::validate(request, &share, posix_request.is_some())?;
    let mut contexts = Contexts::default();
    if has_contexts {
        contexts = Contexts::read(request)?;
        contexts.posix = posix_request;
        contexts.answer_apple(&share, scope.globals);
    }
    // Not again after a wait: see `Progress`.
    if has_contexts
        && !progress.has_waited
        && let Some(earlier) =
            replay::find_replayed(&durability, &scope, incoming, &requested_caching)?
    {
        let asked = (contexts, durability, requested_caching);
        return replay::repeat(scope, request, earlier, asked);
    }
    let user = share.user;
    if let Some(lease) = requested_caching.lease().filter(|_| !progress.lease_is_verified)
        && scope.globals.files.lease_is_elsewhere(lease, &lease_name(&share, &valid.path))
    {
        // The lease may still be granted if this is a further name of its file.
        let op = ObjectOp::Lookup { root, path: valid.path.into() };
        let waiting = Pending::CheckingLeaseName(lease, progress, durability.create_name);
        return Ok(Step::Wait(Effect::Object { user, op }, waiting));
    }
    scope.globals.files.verify_room(scope.session.standing())?;
    let opening = Opening {
        root,
        user,
        disposition: valid.disposition,
        attributes: request.file_attributes,
        share_access: request.share_access,
        create_options: request.create_options,
        contexts,
        requested_caching,
        durability,
        has_waited: progress.has_waited,
        deletion_count: scope.globals.files.deletion_count(),
    };
    Ok(open_in_store(scope.tree, request, valid, opening))
}

/// Makes the operation of the store that opens or creates the file.
fn open_in_store(
    tree: &TreeConnect,
    request: &CreateRequest<'_>,
    valid: validate::ValidCreate,
    opening: Opening,
) -> Step<Pending> {
    let open = OpenRequest {
        root: opening.root,
        path: valid.path.with_snapshot(opening.contexts.snapshot),
        posix_mode: opening.contexts.posix.and_then(posix::created_mode),
        disposition: valid.disposition,
        kind: valid.kind,
        desired_access: valid.desired_access,
        share_access_max: tree.maximal_access,
        attributes: request.file_attributes,
        allocation_size: opening.contexts.allocation_size,
        open_reparse_point: request.create_options.contains(CreateOptions::OPEN_REPARSE_POINT),
        delete_on_close: request.create_options.contains(CreateOptions::DELETE_ON_CLOSE),
        write_through: request.create_options.contains(CreateOptions::WRITE_THROUGH),
        takes_up: false,
        security: opening.contexts.security.clone(),
        extended_attributes: opening.contexts.extended_attributes.clone(),
    };
    let (user, op) = (opening.user, ObjectOp::Open(Box::new(open)));
    Step::Wait(Effect::Object { user, op }, Pending::Opening(Box::new(opening)))
}

/// Checks sharing once the store has opened the file, adds the open to the tables, and overwrites
/// the file if necessary.
fn opened_by_store(
    mut scope: InTree<'_>,
    incoming: &Incoming,
    opening: Box<Opening>,
    opened: Box<Opened>,
) -> Result<Step<Pending>, Reject> {
    if opened.created {
        // The name stays even if the request is refused: others may use the file by now.
        let own_lease = opening.requested_caching.parent();
        scope.globals.report_added(opened.parent, own_lease, || addition(&opening, &opened));
    }
    let file_id = scope.globals.allocate_file_id();
    let link = opened.path.link(opened.parent, opened.metadata.identity);
    let action = create_action(&opening, opened.created);
    let granted = match admit(&mut scope, incoming, &opening, &opened, (file_id, link, action)) {
        Ok(Verdict::Granted(granted)) => granted,
        other => {
            let op = ObjectOp::Close { open: opened.open, unlink: false };
            let close = Effect::Object { user: opening.user, op };
            // No request waits for the end of the close.
            scope.globals.outbox.effects.push_back((None, close));
            let file = key(opened.metadata.identity);
            let suspended = Suspended { file, create_name: opening.durability.create_name };
            return other.map(|_| Step::Suspend(Pending::Suspended(suspended)));
        }
    };
    let is_overwriting = !opened.created && opening.disposition.overwrites();
    // The name may be gone by now, and the file opened here have no name. A snapshot keeps its own.
    let is_uncertain = !opened.created
        && opening.contexts.snapshot.is_none()
        && scope.globals.files.deletion_count() != opening.deletion_count;
    let lookup = is_uncertain
        .then(|| ObjectOp::Lookup { root: opening.root, path: opened.path.clone().into() });
    let metadata = opened.metadata.clone();
    let maximal_access = opened.maximal_access;
    let is_being_made = is_uncertain || is_overwriting;
    enter(&mut scope, &opening, *opened, &granted, (file_id, link), (action, is_being_made));
    if !is_being_made {
        let response = respond(&opening, file_id, maximal_access, &granted, action, &metadata);
        return Ok(Step::Done(response));
    }
    let entered = Entered { opening, identity: metadata.identity, file_id, maximal_access };
    let entered = Box::new(entered);
    match lookup {
        None => overwrite(&scope, entered),
        Some(op) => {
            let effect = Effect::Object { user: entered.opening.user, op };
            Ok(Step::Wait(effect, Pending::Confirming(entered)))
        }
    }
}

/// Returns the change of the directory in which the store has created the file.
fn addition(opening: &Opening, opened: &Opened) -> Change {
    Change {
        root: opening.root,
        path: opened.path.clone(),
        is_directory: opened.metadata.is_directory(),
        kind: ChangeKind::Added,
    }
}

/// Goes on with an open whose name still leads to its file, and begins again otherwise. The name
/// stays from now on, since its deletion would need the close of this open.
fn confirmed(
    scope: InTree<'_>,
    incoming: &Incoming,
    entered: Box<Entered>,
    reply: Reply,
) -> Result<Step<Pending>, Reject> {
    match reply.object() {
        Ok(ObjectReply::Metadata(found)) if found.identity == entered.identity => {
            match entered.opening.disposition.overwrites() {
                true => overwrite(&scope, entered),
                false => answer(scope, &entered, &found),
            }
        }
        _ => {
            scope.globals.withdraw(entered.file_id.volatile, scope.opens);
            let request = CreateRequest::decode(&incoming.message).map_err(Reject::Malformed)?;
            let has_waited = entered.opening.has_waited;
            begin(scope, incoming, &request, Progress { has_waited, lease_is_verified: false })
        }
    }
}

/// Makes the operation of the store that truncates the file.
fn overwrite(scope: &InTree<'_>, entered: Box<Entered>) -> Result<Step<Pending>, Reject> {
    let opening = &entered.opening;
    let open = scope.opens.get(&entered.file_id.volatile).ok_or(Reject::NoSuchOpen)?;
    let op = ObjectOp::Overwrite {
        open: open.file()?.local_open,
        supersede: opening.disposition == Disposition::Supersede,
        attributes: opening.attributes,
        extended_attributes: opening.contexts.extended_attributes.clone(),
        allocation_size: opening.contexts.allocation_size,
    };
    let effect = Effect::Object { user: opening.user, op };
    Ok(Step::Wait(effect, Pending::Overwriting(entered)))
}

/// Refuses a name that leads to another file than the lease does. [MS-SMB2] 3.3.5.9.8 has a client
/// use a key for one file name. Further names of the same file are accepted, because Linux clients
/// derive lease keys from inodes.
fn verify_lease_name(scope: &InTree<'_>, lease: LeaseId, reply: Reply) -> Result<(), Reject> {
    match reply.object() {
        Ok(ObjectReply::Metadata(metadata))
            if scope.globals.files.files_of_lease(lease).contains(&key(metadata.identity)) =>
        {
            Ok(())
        }
        _ => Err(Reject::LeaseKeyInUse),
    }
}

/// Returns the action for the response.
fn create_action(opening: &Opening, created: bool) -> CreateAction {
    match opening.disposition {
        _ if created => CreateAction::CREATED,
        Disposition::Supersede => CreateAction::SUPERSEDED,
        disposition if disposition.overwrites() => CreateAction::OVERWRITTEN,
        _ => CreateAction::OPENED,
    }
}

/// Decision on an open beside the existing opens, unless it is refused.
enum Verdict {
    Granted(Granted),
    /// A break is outstanding, or a pending deletion must finish first.
    MustWait,
}

/// Checks whether this open may exist beside the others, and what it may cache: [MS-FSA] 2.1.5.1.2.
/// A granted open is in its file's record from then on, and in its lease.
fn admit(
    scope: &mut InTree<'_>,
    incoming: &Incoming,
    opening: &Opening,
    opened: &Opened,
    (file_id, link, action): (FileId, u64, CreateAction),
) -> Result<Verdict, Reject> {
    let overwrites = !opened.created && opening.disposition.overwrites();
    // [MS-FSA] 2.1.5.1.2.1. For hidden and system files the store checks: the metadata do not tell
    // them from those that the share alone hides (`hide dot files`), which may be overwritten.
    if overwrites && opened.metadata.attributes.contains(FileAttributes::READONLY) {
        return Err(Reject::OverwriteOfReadOnly);
    }
    if !opening.durability.app_instance_id.is_zero() {
        opening.durability.evict_predecessors(scope, opened)?;
    }
    let file = key(opened.metadata.identity);
    let share = &scope.tree.share;
    let follows_posix = opened.path.is_posix() || scope.globals.follows_posix(share);
    let files = &mut scope.globals.files;
    let is_directory = opened.metadata.is_directory() && opened.path.stream().is_none();
    let mut caching_max =
        if is_directory { share.directory_caching_max } else { share.caching_max };
    if let Some(lease) = opening.requested_caching.lease()
        && (!scope.globals.settings.permits_lease(is_directory)
            || files.lease_has_other_files(lease, file))
    {
        caching_max = Caching::empty();
    }
    let mut ask = AdmissionRequest {
        id: files.open_id(file_id.volatile),
        standing: scope.session.standing(),
        stream: opened.metadata.identity.stream,
        mode: share_mode(opened.granted_access, opening.share_access),
        overwrites,
        is_new: opened.created || overwrites,
        size: opened.metadata.allocation_size.max(opened.metadata.end_of_file),
        is_directory,
        delete_on_close: opening.create_options.contains(CreateOptions::DELETE_ON_CLOSE),
        caching: opening.requested_caching,
        caching_max,
        shared_reading: share.shared_reading,
        has_waited: opening.has_waited,
        now: files.now(),
        deadline: files.break_deadline(),
        facts: OpenFacts {
            link,
            client: scope.connection.negotiated().client_guid,
            app_instance_id: opening.durability.app_instance_id,
            session_id: scope.session.session_id,
            tree_id: scope.tree.tree_id,
            persistent: file_id.persistent,
            share: share.name.clone(),
            folder: share.folder.as_str().to_owned(),
            path: opened.path.to_windows(),
            is_posix: opened.path.is_posix(),
            follows_posix,
            create_options: opening.create_options.bits(),
            create_action: action.0,
            opened_at: incoming.now.wall,
        },
    };
    let durability = match opening.durability.is_requested() {
        true => opening.durability.durability(share, scope.session, is_directory),
        false => None,
    };
    match files.admit(file, &mut ask, durability)? {
        Admission::Granted(granted) => {
            if let Some(lease) = granted.lease {
                files.use_lease(lease.id, lease_name(share, &opened.path), file);
            }
            Ok(Verdict::Granted(granted))
        }
        Admission::Wait => Ok(Verdict::MustWait),
        Admission::Refused(Refusal::DeletePending) => Err(Reject::DeletePending),
        Admission::Refused(Refusal::NotAvailable) => Err(Reject::FileNotAvailable),
        Admission::Refused(Refusal::Sharing) => Err(Reject::SharingViolation),
        Admission::Refused(Refusal::TooMany) => Err(Reject::TooManyOpens),
    }
}

/// Returns the part of the open that conflicts with others.
fn share_mode(granted_access: AccessMask, share_access: ShareAccess) -> ShareMode {
    ShareMode {
        granted_access,
        share_read: share_access.contains(ShareAccess::READ),
        share_write: share_access.contains(ShareAccess::WRITE),
        share_delete: share_access.contains(ShareAccess::DELETE),
    }
}

/// Makes the Open, and adds it to the engine's tables: `Globals::create_names` and the opens of the
/// scope. Its entry in the file's record is there already.
fn enter(
    scope: &mut InTree<'_>,
    opening: &Opening,
    opened: Opened,
    granted: &Granted,
    (file_id, link): (FileId, u64),
    (action, is_being_made): (CreateAction, bool),
) {
    let options = opening.create_options;
    let create_name = opening.durability.create_name;
    if let Some(name) = create_name {
        scope.globals.create_names.insert(name, file_id.volatile);
    }
    let file = OpenFile {
        local_open: opened.open,
        identity: opened.metadata.identity,
        // A stream of a directory holds data.
        is_directory: opened.metadata.is_directory() && opened.path.stream().is_none(),
        path: opened.path,
        share_access: opening.share_access,
        create_options: options,
        delete_on_close: options.contains(CreateOptions::DELETE_ON_CLOSE),
        lease: granted.lease.map(|it| it.id),
        link,
        parent: opened.parent,
        parent_lease: opening.requested_caching.parent(),
        is_modified: false,
        is_being_made,
        create_name,
        replay: create_name.map(|_| action),
        durable: granted.is_durable.then(|| opening.durability.as_held()),
        position: 0,
        mode: 0,
        enumeration: None,
        attributes_listed: 0,
        watch: None,
        // Grows with each lock.
        locks: scope.globals.memory.keep_anyway(0),
        lock_sequences: LockSequences::default(),
    };
    let open = Open {
        file_id,
        classes: scope.tree.classes.of_file(file.path.as_str()),
        memory: scope.globals.memory.keep_anyway(OPEN_BYTES + file.path.as_str().len()),
        session_id: scope.session.session_id,
        tree_id: scope.tree.tree_id,
        share: Arc::clone(&scope.tree.share),
        user: opening.user,
        target: Target::File(Box::new(file)),
        granted_access: opened.granted_access,
        maximal_access: opened.maximal_access,
        channel_sequence: ChannelSequence::default(),
        is_closing: false,
    };
    scope.opens.insert(file_id.volatile, open);
}

/// Answers a CREATE whose file the store has truncated.
fn overwritten(
    scope: InTree<'_>,
    entered: &Entered,
    reply: Reply,
) -> Result<Step<Pending>, Reject> {
    let metadata = match reply.object() {
        Ok(ObjectReply::Metadata(metadata)) => metadata,
        Ok(other) => panic!("{other:?} does not answer an overwrite"),
        Err(reject) => {
            scope.globals.withdraw(entered.file_id.volatile, scope.opens);
            return Err(reject);
        }
    };
    if let Some(open) = scope.opens.get(&entered.file_id.volatile) {
        scope.globals.report_written(open);
        let file = open.file()?;
        if let Some(parent) = file.parent {
            scope.globals.files.break_for_listing(parent, file.parent_lease);
        }
    }
    answer(scope, entered, &metadata)
}

/// Answers a CREATE whose open was in the tables before, and was subject to breaks there.
fn answer(
    scope: InTree<'_>,
    entered: &Entered,
    metadata: &Metadata,
) -> Result<Step<Pending>, Reject> {
    let Entered { opening, identity, file_id, maximal_access } = entered;
    let open = scope.opens.get_mut(&file_id.volatile).ok_or(Reject::NoSuchOpen)?;
    open.file_mut()?.is_being_made = false;
    let action = create_action(opening, false);
    // The response states the rights that breaks have left. A break that the client was not told
    // of, because it did not know the open, follows the response.
    let HeldCaching { granted, is_unheard } = HeldCaching::read(&scope.globals.files, open)?;
    if is_unheard {
        scope.globals.files.check_again(key(*identity));
    }
    let response = respond(opening, *file_id, *maximal_access, &granted, action, metadata);
    Ok(Step::Done(response))
}

/// Makes the response with the contexts that were requested and granted.
fn respond(
    opening: &Opening,
    file_id: FileId,
    maximal_access: AccessMask,
    granted: &Granted,
    action: CreateAction,
    metadata: &Metadata,
) -> Response {
    let mut contexts = CreateContextList::new();
    if opening.contexts.have_answers() {
        contexts = opening.contexts.answer(metadata, maximal_access);
    }
    if let Some(lease) = &granted.lease {
        contexts.push(&caching::lease_context(lease));
    }
    if granted.is_durable {
        opening.durability.answer(&mut contexts);
    }
    layout(file_id, granted, action, metadata, &contexts)
}

/// Lays out the response: [MS-SMB2] 2.2.14.
fn layout(
    file_id: FileId,
    granted: &Granted,
    action: CreateAction,
    metadata: &Metadata,
    contexts: &CreateContextList,
) -> Response {
    let mut flags = CreateResponseFlags::empty();
    let is_reparse_point = metadata.attributes.contains(FileAttributes::REPARSE_POINT);
    flags.set(CreateResponseFlags::REPARSEPOINT, is_reparse_point);
    let has_caching = granted.lease.is_some() || !granted.caching.is_empty();
    let oplock_level = if has_caching { caching::level(granted) } else { OplockLevel::NONE };
    Response::new(&CreateResponse {
        oplock_level,
        flags,
        create_action: action,
        creation_time: metadata.creation_time,
        last_access_time: metadata.last_access_time,
        last_write_time: metadata.last_write_time,
        change_time: metadata.change_time,
        allocation_size: metadata.allocation_size,
        end_of_file: metadata.end_of_file,
        file_attributes: metadata.attributes,
        file_id,
        create_contexts: contexts.contexts(),
    })
    .naming(file_id)
}
