//! SMB2 CREATE: [MS-SMB2] 3.3.5.9.
//!
//! A machine of a few states ([`Pending`]). The store opens without truncating, so that sharing is
//! checked against the file that the name leads to before any data is lost. A request that must
//! wait for a break or a deletion closes its file, and begins again when the file's record has
//! changed: by then the name may lead elsewhere.
//!
//! ```text
//! begin ──> Opening ──> admission ──> (Confirming) ──> (Claiming) ──> (Overwriting) ──> response
//!  ^ ^ │                    │              │
//!  │ │ │                    v              │ the name leads to another file by now
//!  │ └─┼─────────────── Suspended          │
//!  └───┼───────────────────────────────────┘
//!      ├─> CheckingLeaseName ──> begin    a lease key with another file name
//!      ├─> AwaitingEnd ──> begin          the open to return to may lose its connection yet
//!      ├─> Reopening ──> response         a client returns to its durable open
//!      └─> Replaying ──> response         a repetition of a request with an open
//! ```

mod apple;
pub(crate) mod caching;
mod claim;
mod contexts;
// Public, because `Pending` has types of these modules.
pub mod durable;
mod pipe;
mod quota_file;
pub mod replay;
mod symbolic_link;
mod validate;

use std::sync::Arc;

use arbitration::{
    Admission, AdmissionRequest, Caching, FileKey, Granted, LeaseId, LockSequences, OpenFacts,
    RecordsError, Refusal, RequestedCaching, ShareMode,
};
use dtyp::{AccessMask, FileAttributes, NtStatus};
use engine::change::{AddedName, Change, ChangeKind};
use engine::effect::{Effect, Reply};
use engine::pending_command::{Abandoned, PendingCommand};
use engine::request::Incoming;
use engine::response::{Response, Step};
use engine::scope::InTree;
use model::audit::Audit;
use model::caching::lease_name;
use model::channel_sequence::ChannelSequence;
use model::file_key::key;
use model::open::{CreateId, OPEN_BYTES, OPENS_MAX, Open, OpenFile, Target};
use model::posix;
use model::reject::Reject;
use model::tree_connect::TreeConnect;
use object::{
    Disposition, FileIdentity, KernelClaim, Metadata, ObjectOp, ObjectReply, OpenRequest, Opened,
};
use wire::create::{
    CreateAction, CreateOptions, CreateRequest, CreateResponse, CreateResponseFlags, ShareAccess,
};
use wire::create_context::CreateContextList;
use wire::{Decode, FileId, OplockLevel};

use crate::command::Command;
use crate::dfs;

use caching::CurrentCaching;
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
    /// A persistent open is not disconnected yet; the former connection may have ended already.
    AwaitingEnd(Progress),
    /// The store shows the locks of a reconnected open to local programs.
    Relocking(Box<durable::Relocking>),
    /// The store reads the metadata of the open that the replayed request made.
    Replaying(Box<replay::Replaying>),
    /// The store resolves a further name under a lease, which must lead to the lease's file.
    CheckingLeaseName(LeaseId, Progress, Option<CreateId>),
    /// A break is outstanding, or a pending deletion must finish first.
    Suspended(Suspended),
    /// The store resolves the name once more, because a file was deleted while this one was
    /// opened.
    Confirming(Box<Entered>),
    /// The store excludes local programs from the file.
    Claiming(Box<Entered>),
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
    /// Number of waits for the end of a persistent open's former connection.
    awaited_ends: u32,
}

/// A request that waits for a break or a deletion.
#[derive(Clone, Copy, Debug)]
pub struct Suspended {
    file: FileKey,
    create_id: Option<CreateId>,
    /// True if another program has a lease of the file, which it has been asked to give up.
    is_leased: bool,
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
    /// True for the file of quotas, whose open is one of the share's folder.
    is_quota_file: bool,
    /// Audit of the share, if it has one.
    audit: Option<Arc<Audit>>,
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
    /// The file as the store has opened it.
    metadata: Metadata,
    /// Exclusion of local programs, until the store has it.
    claim: KernelClaim,
    /// True for an existing file that is truncated yet.
    overwrites: bool,
}

/// The engine asks this of a pending request: [`PendingCommand`] says when.
impl PendingCommand for Pending {
    fn waits_for(&self) -> Option<FileKey> {
        match self {
            Self::Suspended(suspended) => Some(suspended.file),
            _ => None,
        }
    }

    fn waits_for_program(&self) -> bool {
        matches!(self, Self::Suspended(suspended) if suspended.is_leased)
    }

    fn file_being_changed(&self) -> Option<(FileIdentity, u64)> {
        match self {
            Self::Overwriting(entered) => Some((entered.identity, entered.file_id.volatile)),
            _ => None,
        }
    }

    fn abandon(self: Box<Self>, reply: Option<Reply>) -> Abandoned {
        match (*self, reply) {
            (Self::Relocking(relocking), _) => {
                Abandoned { unknown_open: Some(relocking.volatile), ..Abandoned::default() }
            }
            // The store has opened the file for nobody.
            (Self::Opening(opening), Some(Reply::Object(Ok(ObjectReply::Opened(opened))))) => {
                let added = opened.created.then(|| {
                    let (change, parent) = (addition(&opening, &opened), opened.parent);
                    Box::new(AddedName {
                        change,
                        parent,
                        parent_lease: opening.requested_caching.parent(),
                        audit: opening.audit.clone(),
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
            (
                Self::Claiming(entered) | Self::Confirming(entered) | Self::Overwriting(entered),
                _,
            ) => {
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
                ObjectReply::Leased(identity) => wait_for_lease(scope, &opening, identity),
                other => panic!("{other:?} does not answer an open"),
            },
            Pending::Suspended(_) => {
                let request = CreateRequest::decode(&incoming.message);
                let again = Progress { has_waited: true, ..Progress::default() };
                begin(scope, incoming, &request.map_err(Reject::Malformed)?, again)
            }
            Pending::CheckingLeaseName(lease, progress, _) => {
                verify_lease_name(&scope, lease, reply)?;
                let request = CreateRequest::decode(&incoming.message);
                let verified = Progress { lease_is_verified: true, ..progress };
                begin(scope, incoming, &request.map_err(Reject::Malformed)?, verified)
            }
            Pending::AwaitingEnd(progress) => {
                let request = CreateRequest::decode(&incoming.message);
                let awaited_ends = progress.awaited_ends + 1;
                let again = Progress { awaited_ends, ..progress };
                begin(scope, incoming, &request.map_err(Reject::Malformed)?, again)
            }
            Pending::Reopening(reopening) => durable::reopened(scope, reopening, reply),
            Pending::Relocking(relocking) => durable::locked_again(scope, *relocking, reply),
            Pending::Replaying(replaying) => replay::replayed(scope, &replaying, reply),
            Pending::Confirming(entered) => confirmed(scope, incoming, entered, reply),
            Pending::Claiming(entered) => claimed(scope, entered, reply),
            Pending::Overwriting(entered) => overwritten(scope, &entered, reply),
        }
    }
}

impl Pending {
    /// Returns the identity of the CREATE until it has its response: replays are refused meanwhile.
    /// An open in the tables may be withdrawn yet, or its file not be truncated.
    fn create_id(&self) -> Option<CreateId> {
        match self {
            Self::Opening(opening) => opening.durability.create_id,
            Self::Suspended(suspended) => suspended.create_id,
            Self::CheckingLeaseName(_, _, create_id) => *create_id,
            Self::Claiming(entered) | Self::Confirming(entered) | Self::Overwriting(entered) => {
                entered.opening.durability.create_id
            }
            // The first request has its response.
            Self::Relocking(_) | Self::Replaying(_) | Self::AwaitingEnd(_) => None,
            Self::Reopening(reopening) => reopening.create_id(),
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
    verify_room(&scope)?;
    // IPC$ alone has no root; its opens are pipes.
    let Some(root) = scope.tree.share.root else { return pipe::open(scope, request) };
    let share = Arc::clone(&scope.tree.share);
    let named = match share.is_dfs_root {
        true => CreateRequest { name: dfs::local_name(incoming, &share, request.name), ..*request },
        false => *request,
    };
    let quota_file = quota_file::resolve(&named);
    let request = quota_file.as_ref().unwrap_or(&named);
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
        return durable::reconnect(scope, request, &reconnect, &lease, progress);
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
        contexts.answer_apple(&share, scope.session.session_id, scope.globals);
    }
    // Not again after a wait: see `Progress`.
    if has_contexts
        && !progress.has_waited
        && let Some(earlier) =
            replay::find_replayed(&durability, &scope, incoming, &requested_caching)?
    {
        let parameters = (contexts, durability, requested_caching);
        return replay::repeat(scope, request, earlier, parameters);
    }
    if let Some(lease) = requested_caching.lease().filter(|_| !progress.lease_is_verified)
        && scope.globals.files.lease_has_other_name(lease, &lease_name(&share, &valid.path))
    {
        // The lease may still be granted if this is a further name of its file.
        let op = ObjectOp::Lookup { root, path: valid.path.into() };
        let waiting = Pending::CheckingLeaseName(lease, progress, durability.create_id);
        return Ok(Step::Wait(Effect::Object { user: share.user, op }, waiting));
    }
    if !scope.globals.files.permits_open(scope.session.standing) {
        return Err(Reject::Records(RecordsError::Full));
    }
    let opening = Opening {
        root,
        user: share.user,
        disposition: valid.disposition,
        attributes: request.file_attributes,
        share_access: request.share_access,
        create_options: request.create_options,
        contexts,
        requested_caching,
        durability,
        has_waited: progress.has_waited,
        is_quota_file: quota_file.is_some(),
        audit: share.audit.clone(),
        deletion_count: scope.globals.files.deletion_count(),
    };
    Ok(open_in_store(scope.tree, request, valid, opening))
}

/// Checks that there may be one more open, for the client and in memory.
fn verify_room(scope: &InTree<'_>) -> Result<(), Reject> {
    if scope.opens.len() >= OPENS_MAX {
        return Err(Reject::TooManyOpens);
    }
    scope.globals.memory.verify_room(OPEN_BYTES)
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
        is_reconnect: false,
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
    if opened.created && scope.tree.share.checks_directory {
        verify_directory_stays(&mut scope, &opening, &opened)?;
    }
    if opened.created {
        // The name stays even if the request is refused: others may use the file by now.
        let own_lease = opening.requested_caching.parent();
        scope.globals.report_added(opened.parent, own_lease, || addition(&opening, &opened));
        if let Some(audit) = &opening.audit {
            let is_directory = opened.metadata.is_directory();
            scope.globals.audit_created(audit, &opened.path, is_directory);
        }
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
            let create_id = opening.durability.create_id;
            let suspended = Suspended { file, create_id, is_leased: false };
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
    let claim = claim::claim(&scope.tree.share, &opening, &opened, &granted);
    let is_being_made = is_uncertain || is_overwriting || !claim.is_empty();
    add_open(&mut scope, &opening, *opened, &granted, (file_id, link), (action, is_being_made));
    if !is_being_made {
        let response = respond(&opening, file_id, maximal_access, &granted, action, &metadata);
        return Ok(Step::Done(response));
    }
    let entered = Entered {
        opening,
        identity: metadata.identity,
        file_id,
        maximal_access,
        metadata,
        claim,
        overwrites: is_overwriting,
    };
    let entered = Box::new(entered);
    match lookup {
        None => finish(scope, entered),
        Some(op) => {
            let effect = Effect::Object { user: entered.opening.user, op };
            Ok(Step::Wait(effect, Pending::Confirming(entered)))
        }
    }
}

/// Goes on with an open in the tables: excludes local programs, truncates the file, answers.
fn finish(mut scope: InTree<'_>, mut entered: Box<Entered>) -> Result<Step<Pending>, Reject> {
    let claim = std::mem::take(&mut entered.claim);
    if !claim.is_empty() {
        let open = scope.opens.get(&entered.file_id.volatile).ok_or(Reject::NoSuchOpen)?;
        let op = ObjectOp::Claim { open: open.file()?.local_open, claim };
        let effect = Effect::Object { user: entered.opening.user, op };
        return Ok(Step::Wait(effect, Pending::Claiming(entered)));
    }
    match entered.overwrites {
        true => overwrite(&scope, entered),
        false => answer(&mut scope, &entered, &entered.metadata),
    }
}

/// Goes on once the store has excluded local programs, or could not.
fn claimed(
    mut scope: InTree<'_>,
    entered: Box<Entered>,
    reply: Reply,
) -> Result<Step<Pending>, Reject> {
    let volatile = entered.file_id.volatile;
    match reply.object() {
        Ok(ObjectReply::Claimed { leased }) => {
            claim::leased(&mut scope, entered.identity, volatile, leased)?;
            finish(scope, entered)
        }
        Ok(other) => panic!("{other:?} does not answer a claim"),
        Err(reject) => {
            scope.globals.withdraw(volatile, scope.opens);
            let is_locked = reject == Reject::Object(NtStatus::SHARING_VIOLATION);
            Err(if is_locked { Reject::SharingViolationByProgram } else { reject })
        }
    }
}

/// Waits until another program has given up its lease of the file: the worker of another client, by
/// the break of an oplock, or a local program.
fn wait_for_lease(
    scope: InTree<'_>,
    opening: &Opening,
    identity: FileIdentity,
) -> Result<Step<Pending>, Reject> {
    let (file, files) = (key(identity), &mut scope.globals.files);
    let worker = files.worker();
    files.change(file, |record, _| {
        let is_open = !record.opens.is_empty();
        if is_open {
            record.wait(worker);
        }
        ((), is_open)
    })?;
    let create_id = opening.durability.create_id;
    Ok(Step::Suspend(Pending::Suspended(Suspended { file, create_id, is_leased: true })))
}

/// Refuses a file that the store has created in a directory that is delete pending, and has it
/// removed unless another client has opened it already.
fn verify_directory_stays(
    scope: &mut InTree<'_>,
    opening: &Opening,
    opened: &Opened,
) -> Result<(), Reject> {
    let files = &scope.globals.files;
    let is_pending = |directory| files.is_directory_delete_pending(directory);
    if !opened.parent.is_some_and(is_pending) {
        return Ok(());
    }
    let unlink = !files.is_open(key(opened.metadata.identity));
    let op = ObjectOp::Close { open: opened.open, unlink };
    scope.globals.outbox.effects.push_back((None, Effect::Object { user: opening.user, op }));
    Err(Reject::DeletePending)
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

/// Continues with an open whose name still leads to its file, and begins again otherwise. The name
/// stays from now on, since its deletion would need the close of this open.
fn confirmed(
    scope: InTree<'_>,
    incoming: &Incoming,
    mut entered: Box<Entered>,
    reply: Reply,
) -> Result<Step<Pending>, Reject> {
    match reply.object() {
        Ok(ObjectReply::Metadata(found)) if found.identity == entered.identity => {
            entered.metadata = *found;
            finish(scope, entered)
        }
        _ => {
            scope.globals.withdraw(entered.file_id.volatile, scope.opens);
            let request = CreateRequest::decode(&incoming.message).map_err(Reject::Malformed)?;
            let has_waited = entered.opening.has_waited;
            begin(scope, incoming, &request, Progress { has_waited, ..Progress::default() })
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
    // [MS-FSA] 2.1.5.1.2.1. The store checks hidden and system files: in the metadata they look
    // like files that the share alone hides (`hide dot files`), which may be overwritten.
    if overwrites && opened.metadata.attributes.contains(FileAttributes::READONLY) {
        return Err(Reject::OverwriteOfReadOnly);
    }
    if !opening.durability.app_instance_id.is_zero() {
        opening.durability.evict_predecessors(scope, opened)?;
    }
    let (file, share) = (key(opened.metadata.identity), &scope.tree.share);
    let expects_lost_names =
        opened.path.is_posix() || scope.globals.expects_lost_names(scope.session.session_id, share);
    let files = &mut scope.globals.files;
    let is_directory = opened.metadata.is_directory() && opened.path.stream().is_none();
    let mut caching_max = share.caching_max_of(is_directory);
    if let Some(lease) = opening.requested_caching.lease()
        && (!scope.globals.settings.permits_lease(is_directory)
            || claim::excludes_leases(share, is_directory)
            || files.lease_has_other_files(lease, file))
    {
        caching_max = Caching::empty();
    }
    let mut request = AdmissionRequest {
        id: files.open_id(file_id.volatile),
        standing: scope.session.standing,
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
            user: scope.session.user_number,
            app_instance_id: opening.durability.app_instance_id,
            session_id: scope.session.session_id,
            tree_id: scope.tree.tree_id,
            persistent: file_id.persistent,
            share: share.name.clone(),
            folder: share.folder.as_str().to_owned(),
            path: opened.path.to_windows(),
            path_on_disk: opened.path_on_disk.clone(),
            is_posix: opened.path.is_posix(),
            expects_lost_names,
            create_options: opening.create_options.bits(),
            create_action: action.0,
            opened_at: incoming.now.wall,
        },
    };
    let requested = Some(&opening.durability).filter(|it| it.is_requested());
    let durability = requested.and_then(|it| it.durability(share, scope.session, is_directory));
    match files.admit(file, &mut request, durability)? {
        Admission::Granted(granted) => {
            if let Some(lease) = granted.lease {
                files.add_to_lease(lease.id, lease_name(share, &opened.path), file);
            }
            Ok(Verdict::Granted(granted))
        }
        Admission::Wait => Ok(Verdict::MustWait),
        Admission::Refused(refusal) => Err(reject_of(refusal)),
    }
}

fn reject_of(refusal: Refusal) -> Reject {
    match refusal {
        Refusal::DeletePending => Reject::DeletePending,
        Refusal::NotAvailable => Reject::FileNotAvailable,
        Refusal::Sharing => Reject::SharingViolation,
        Refusal::TooManyOpens => Reject::TooManyOpens,
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

/// Makes the Open, and adds it to the engine's tables: `Globals::create_ids` and the opens of the
/// scope. Its entry in the file's record is there already.
fn add_open(
    scope: &mut InTree<'_>,
    opening: &Opening,
    opened: Opened,
    granted: &Granted,
    (file_id, link): (FileId, u64),
    (action, is_being_made): (CreateAction, bool),
) {
    let options = opening.create_options;
    let create_id = opening.durability.create_id;
    let audit = opening.audit.as_ref().map(|audit| scope.globals.audit_opened(audit, &opened));
    if let Some(id) = create_id {
        scope.globals.create_ids.insert(id, file_id.volatile);
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
        create_id,
        replay: create_id.map(|_| action),
        durable: granted.is_durable.then(|| opening.durability.durable_state()),
        position: 0,
        mode: 0,
        enumeration: None,
        attributes_listed: 0,
        next_quota_user: 0,
        watch: None,
        // Grows with each lock.
        locks: scope.globals.memory.keep_beyond_limit(0),
        lock_sequences: LockSequences::default(),
        checked_access: scope.tree.share.local_programs.lock_checks.with_caching(granted.caching),
        has_kernel_lease: false,
        audit,
    };
    let classes = match scope.tree.classes.depends_on_name() {
        true => scope.tree.classes.of_path(file.path.as_str()),
        false => scope.tree.classes.always.clone(),
    };
    let open = Open {
        file_id,
        classes,
        memory: scope.globals.memory.keep_beyond_limit(OPEN_BYTES + file.path.as_str().len()),
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
    mut scope: InTree<'_>,
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
    if let Some(open) = scope.opens.get_mut(&entered.file_id.volatile) {
        scope.globals.report_written(open, 0);
        let file = open.file()?;
        if let Some(parent) = file.parent {
            scope.globals.files.break_for_listing(parent, file.parent_lease);
        }
    }
    answer(&mut scope, entered, &metadata)
}

/// Answers a CREATE whose open was in the tables already, where breaks may have reduced its
/// caching.
fn answer(
    scope: &mut InTree<'_>,
    entered: &Entered,
    metadata: &Metadata,
) -> Result<Step<Pending>, Reject> {
    let Entered { opening, identity, file_id, maximal_access, .. } = entered;
    let open = scope.opens.get_mut(&file_id.volatile).ok_or(Reject::NoSuchOpen)?;
    open.file_mut()?.is_being_made = false;
    let action = create_action(opening, false);
    // The response states the rights that breaks have left. A break whose notification was not
    // sent, because the client did not know the open, follows the response.
    let CurrentCaching { granted, has_unsent_break } =
        CurrentCaching::read(&mut scope.globals.files, open)?;
    open.note_caching(granted.caching);
    if has_unsent_break {
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
    if opening.is_quota_file {
        return layout(file_id, granted, action, &quota_file::metadata(), &contexts);
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
