//! Replays of a CREATE whose response was lost: [MS-SMB2] 3.3.5.9.10.
//!
//! The CreateGuid of a durable handle's request is its identity, whether durability was granted or
//! not. The identity ends with the open. A request that arrives after its replay was answered and
//! the open closed is a new one, as far as a server can know; its client has given up the channel.

use arbitration::{Caching, Granted, RequestedCaching};
use engine::effect::{Effect, Reply};
use engine::request::Incoming;
use engine::response::Step;
use engine::scope::InTree;
use model::reject::Reject;
use object::{ObjectOp, ObjectReply};
use wire::HeaderFlags;
use wire::create::{CreateAction, CreateRequest};

use super::caching::CurrentCaching;
use super::contexts::Contexts;
use super::durable::{self, DurabilityContexts};
use super::{Pending, caching};

/// Earlier result of a request that is being replayed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Replayed {
    /// An open of this session, by its volatile id.
    Open(u64),
    /// A disconnected durable open, by its persistent id.
    Disconnected(u64),
}

/// Finds the earlier result of a replayed request: [MS-SMB2] 3.3.5.9.10.
///
/// The CreateGuid alone names the request; file, attributes and disposition are not compared.
/// Windows does the same, although the specification has it compare attributes and dispositions.
///
/// # Errors
/// If the request is not marked as a replay, belongs to another session or another lease, or
/// repeats one that is still pending.
pub(super) fn find_replayed(
    durability: &DurabilityContexts,
    scope: &InTree<'_>,
    incoming: &Incoming,
    requested_caching: &RequestedCaching,
) -> Result<Option<Replayed>, Reject> {
    let detects = scope.globals.settings.replay_detection;
    let Some(id) = durability.create_id.filter(|_| detects) else { return Ok(None) };
    // The specification does not cover this case: two pending requests would make two opens. The
    // client sends the replay again.
    let is_first = |create: &Pending| create.create_id() == Some(id);
    if scope.in_flight.pending().any(is_first) {
        return Err(Reject::FileNotAvailable);
    }
    let is_replay = incoming.header.flags.contains(HeaderFlags::REPLAY_OPERATION);
    let volatile = scope.globals.create_ids.get(&id);
    if let Some(open) = volatile.and_then(|volatile| scope.opens.get(volatile))
        && let Ok(file) = open.file()
        && file.replay.is_some()
    {
        if !is_replay || open.session_id != scope.session.session_id {
            return Err(Reject::DuplicateCreateGuid);
        }
        return match file.lease == requested_caching.lease() {
            true => Ok(Some(Replayed::Open(open.file_id.volatile))),
            false => Err(Reject::ReplayOfAnotherLease),
        };
    }
    match scope.globals.files.find_by_create_guid(id)? {
        Some(_) if !is_replay => Err(Reject::DuplicateCreateGuid),
        found => Ok(found.map(Replayed::Disconnected)),
    }
}

/// Answers a repeated CREATE with the open of the first one.
pub(super) fn repeat(
    scope: InTree<'_>,
    request: &CreateRequest<'_>,
    earlier: Replayed,
    (contexts, durability, requested_caching): (Contexts, DurabilityContexts, RequestedCaching),
) -> Result<Step<Pending>, Reject> {
    match earlier {
        Replayed::Open(volatile) => {
            replay(&scope, volatile, contexts, durability, requested_caching)
        }
        Replayed::Disconnected(persistent) => durable::reconnect_replayed(
            scope,
            request,
            persistent,
            contexts,
            durability,
            requested_caching,
        ),
    }
}

/// Answers a CREATE again: its open exists, and the store reads the current metadata.
fn replay(
    scope: &InTree<'_>,
    volatile: u64,
    contexts: Contexts,
    durability: DurabilityContexts,
    requested_caching: RequestedCaching,
) -> Result<Step<Pending>, Reject> {
    let open = scope.opens.get(&volatile).ok_or(Reject::NoSuchOpen)?;
    let file = open.file()?;
    let op = ObjectOp::QueryMetadata { open: file.local_open, with_ea_size: false };
    let action = file.replay.unwrap_or(CreateAction::OPENED);
    let replaying = Replaying { volatile, contexts, durability, requested_caching, action };
    Ok(Step::Wait(Effect::Object { user: open.user, op }, Pending::Replaying(Box::new(replaying))))
}

/// A replayed CREATE, while the store reads its file's metadata.
#[derive(Debug)]
pub struct Replaying {
    volatile: u64,
    contexts: Contexts,
    durability: DurabilityContexts,
    requested_caching: RequestedCaching,
    action: CreateAction,
}

/// Makes the response to a replay from the current metadata.
pub(super) fn replayed(
    scope: InTree<'_>,
    replaying: &Replaying,
    reply: Reply,
) -> Result<Step<Pending>, Reject> {
    let ObjectReply::Metadata(metadata) = reply.object()? else { panic!("it was asked for") };
    let open = scope.opens.get(&replaying.volatile).ok_or(Reject::NoSuchOpen)?;
    let current = CurrentCaching::read(&mut scope.globals.files, open)?;
    let granted = limited_to_request(current.granted, replaying);
    let file_id = open.file_id;
    let mut list = replaying.contexts.answer(&metadata, open.maximal_access);
    if let Some(lease) = &granted.lease {
        list.push(&caching::lease_context(lease));
    }
    if granted.is_durable {
        replaying.durability.answer(&mut list);
    }
    Ok(Step::Done(super::layout(file_id, &granted, replaying.action, &metadata, &list)))
}

/// Returns the rights for the response to a replay: an oplock no stronger than the current one and
/// no stronger than requested this time, as by Windows. Without a right to cache handles, the
/// response reports no durability.
fn limited_to_request(granted: Granted, replaying: &Replaying) -> Granted {
    let RequestedCaching::Oplock(wanted) = replaying.requested_caching else {
        let is_lease = granted.lease.is_some();
        let caching = if is_lease { granted.caching } else { Caching::empty() };
        let is_durable =
            granted.is_durable && (is_lease || replaying.durability.wants_persistent());
        return Granted { caching, is_durable, ..granted };
    };
    let caching = (granted.caching & wanted).as_oplock();
    let keeps = caching.contains(Caching::HANDLE) || replaying.durability.wants_persistent();
    Granted { caching, is_durable: granted.is_durable && keeps, ..granted }
}
