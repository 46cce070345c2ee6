//! Oplocks and leases in CREATE: [MS-SMB2] 3.3.5.9, 3.3.5.9.8, 3.3.5.9.11.

use arbitration::{Caching, FileRecord, Granted, Holding, Lease, LeaseId, RequestedCaching};
use engine::files::Files;
use model::caching::{caching, lease_state, oplock_level};
use model::connection::Negotiated;
use model::file_key::key;
use model::open::Open;
use model::reject::Reject;
use wire::create::CreateRequest;
use wire::create_context::{LeaseContext, LeaseV2};
use wire::lease::{LeaseFlags, LeaseKey};
use wire::{Dialect, OplockLevel};

/// Returns the rights to cache that the client requests.
///
/// A lease needs 2.1, and its second version 3.0; a context that the dialect lacks is ignored.
/// Without a context, the oplock level for leases requests nothing.
pub(super) fn read_requested(
    level: OplockLevel,
    request: &CreateRequest<'_>,
    negotiated: &Negotiated,
) -> Result<RequestedCaching, Reject> {
    if level == OplockLevel::LEASE {
        return read_lease(request, negotiated);
    }
    Ok(match level {
        OplockLevel::II => RequestedCaching::Oplock(Caching::READ),
        OplockLevel::EXCLUSIVE => RequestedCaching::Oplock(Caching::EXCLUSIVE),
        OplockLevel::BATCH => RequestedCaching::Oplock(Caching::BATCH),
        _ => RequestedCaching::Nothing,
    })
}

/// Returns the lease of the context, at any oplock level of the request.
pub(super) fn read_lease(
    request: &CreateRequest<'_>,
    negotiated: &Negotiated,
) -> Result<RequestedCaching, Reject> {
    let context = request.create_contexts.find::<LeaseContext>().map_err(Reject::Malformed)?;
    let spoken = |it: &LeaseContext| match it.v2 {
        None => negotiated.dialect >= Dialect::SMB_2_1,
        Some(_) => negotiated.is_smb3(),
    };
    Ok(context
        .filter(spoken)
        .map_or(RequestedCaching::Nothing, |it| requested_lease(it, negotiated)))
}

fn requested_lease(context: LeaseContext, negotiated: &Negotiated) -> RequestedCaching {
    let id = LeaseId { client: negotiated.client_guid, key: context.lease_key.0 };
    let names_parent = context.lease_flags.contains(LeaseFlags::PARENT_LEASE_KEY_SET);
    let parent = context.v2.filter(|_| names_parent).map(|it| it.parent_lease_key.0);
    RequestedCaching::Lease {
        id,
        state: caching(context.lease_state),
        epoch: context.v2.map_or(0, |it| it.epoch),
        is_v2: context.v2.is_some(),
        parent,
    }
}

/// State of an open's caching and durability in its file's record.
#[derive(Clone, Copy, Debug)]
pub(super) struct CurrentCaching {
    pub(super) granted: Granted,
    /// True if a break is outstanding that the client was not notified of.
    pub(super) has_unsent_break: bool,
}

impl CurrentCaching {
    /// Reads the state from the record of the open's file, for a response.
    ///
    /// # Errors
    /// If the record cannot be read, or the open is not in it any more.
    pub(super) fn read(files: &mut Files, open: &Open) -> Result<Self, Reject> {
        let id = files.open_id(open.file_id.volatile);
        let file = key(open.file()?.identity);
        let is_reduced = |record: &FileRecord| {
            let entry = record.open(id);
            entry.is_some_and(|it| it.lease().is_none() && record.cache_of(it).is_reduced())
        };
        if files.read(file, is_reduced)? {
            files.change(file, |record, _| (record.end_break_by_response(id), true))?;
        }
        let current = files.read(file, |record| {
            let entry = record.open(id)?;
            let lease = match entry.holding {
                Holding::Lease(id) => record.lease(id).copied(),
                _ => None,
            };
            let cache = record.cache_of(entry);
            let is_durable = entry.durability.is_some();
            let granted = Granted { caching: cache.state, lease, is_durable };
            Some(Self { granted, has_unsent_break: cache.notice.is_some() })
        })?;
        current.ok_or(Reject::NoSuchOpen)
    }
}

/// Returns the oplock level for the response.
pub(super) fn level(granted: &Granted) -> OplockLevel {
    if granted.lease.is_some() {
        return OplockLevel::LEASE;
    }
    oplock_level(granted.caching)
}

/// Returns the lease context of the response.
pub(super) fn lease_context(lease: &Lease) -> LeaseContext {
    let mut lease_flags = LeaseFlags::empty();
    lease_flags.set(LeaseFlags::BREAK_IN_PROGRESS, lease.cache.breaking.is_some());
    lease_flags.set(LeaseFlags::PARENT_LEASE_KEY_SET, lease.is_v2 && lease.parent.is_some());
    let parent_lease_key = LeaseKey(lease.parent.unwrap_or_default());
    LeaseContext {
        lease_key: LeaseKey(lease.id.key),
        lease_state: lease_state(lease.cache.state),
        lease_flags,
        v2: lease.is_v2.then_some(LeaseV2 { parent_lease_key, epoch: lease.epoch }),
    }
}
