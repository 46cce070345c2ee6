//! SMB2 OPLOCK_BREAK: acknowledgment of a break of an oplock or a lease: [MS-SMB2] 3.3.5.22.

use std::convert::Infallible;

use arbitration::{AckError, Caching, FileKey, LeaseId};
use engine::effect::Reply;
use engine::request::Incoming;
use engine::response::{Response, Step};
use engine::scope::InTree;
use engine::unconfirmed_breaks::Holder;
use model::caching::{caching, lease_state, oplock_level};
use model::file_key::key;
use model::open::Open;
use model::reject::Reject;
use wire::oplock_break::{BreakAcknowledgment, LeaseBreak, OplockBreak as OplockBreakBody};
use wire::{FileId, OplockLevel};

use crate::command::Command;

/// Acknowledges the break of an oplock or a lease.
#[derive(Debug)]
pub struct OplockBreak;

impl Command for OplockBreak {
    type Scope<'s> = InTree<'s>;
    type Request<'a> = BreakAcknowledgment;
    type Pending = Infallible;

    fn start(
        scope: InTree<'_>,
        _: &Incoming,
        request: BreakAcknowledgment,
    ) -> Result<Step<Infallible>, Reject> {
        match request {
            BreakAcknowledgment::Lease(body) => acknowledge_lease(scope, body),
            BreakAcknowledgment::Oplock(body) => acknowledge_oplock(scope, body),
        }
    }

    fn resume(
        _: InTree<'_>,
        _: &Incoming,
        pending: Infallible,
        _: Reply,
    ) -> Result<Step<Infallible>, Reject> {
        match pending {}
    }
}

/// Acknowledges the break of an oplock: [MS-SMB2] 3.3.5.22.1.
fn acknowledge_oplock(
    mut scope: InTree<'_>,
    body: OplockBreakBody,
) -> Result<Step<Infallible>, Reject> {
    let open = scope.open()?;
    let file_id = open.file_id;
    let file = open.file()?;
    if file.lease.is_some() {
        return Err(Reject::OplockIsLease);
    }
    let file = key(file.identity);
    let kept = match body.oplock_level {
        OplockLevel::NONE => Caching::empty(),
        OplockLevel::II => Caching::READ,
        OplockLevel::LEASE => return Err(Reject::OplockIsLease),
        level => {
            // An oplock of an impossible level is lost.
            settle_oplock(&mut scope, file, file_id, Caching::empty()).ok();
            keeps(&mut scope, Caching::empty());
            return Err(Reject::OplockLevelInvalid(level));
        }
    };
    settle_oplock(&mut scope, file, file_id, kept)?;
    keeps(&mut scope, kept);
    scope.globals.breaks.acknowledged(Holder::Oplock(file_id.volatile));
    let oplock_level = oplock_level(kept);
    Ok(Step::Done(Response::new(&OplockBreakBody { oplock_level, file_id })))
}

/// Notes the rights that an oplock keeps. A local program that has waited for the break gets the
/// file before other clients are notified: the kernel would make them wait as well.
fn keeps(scope: &mut InTree<'_>, kept: Caching) {
    let Some(open) = scope.file_id.and_then(|it| scope.opens.get_mut(&it.volatile)) else { return };
    open.note_caching(kept);
    scope.globals.end_kernel_lease(open);
}

fn settle_oplock(
    scope: &mut InTree<'_>,
    file: FileKey,
    file_id: FileId,
    kept: Caching,
) -> Result<(), Reject> {
    let files = &mut scope.globals.files;
    let (id, deadline) = (files.open_id(file_id.volatile), files.break_deadline());
    let settled = files.change(file, |record, notify| {
        let settled = record.acknowledge_oplock(id, kept, deadline, notify);
        if settled == Err(AckError::TooMuch) {
            // As above: the oplock is lost.
            let lost = record.acknowledge_oplock(id, Caching::empty(), deadline, notify);
            debug_assert_eq!(lost, Ok(()), "nothing is never too much");
        }
        (settled, matches!(settled, Ok(()) | Err(AckError::TooMuch)))
    })?;
    settled.map_err(|error| match error {
        AckError::NotBreaking => Reject::OplockNotBreaking,
        AckError::NotHeld => Reject::OplockNotHeld,
        AckError::TooMuch => Reject::OplockAcknowledgedTooHigh,
    })
}

/// Acknowledges the break of a lease: [MS-SMB2] 3.3.5.22.2.
fn acknowledge_lease(scope: InTree<'_>, body: LeaseBreak) -> Result<Step<Infallible>, Reject> {
    let client = scope.connection.negotiated().client_guid;
    let id = LeaseId { client, key: body.lease_key.0 };
    let files = &mut scope.globals.files;
    let (kept, deadline) = (caching(body.lease_state), files.break_deadline());
    let mut settled = Err(AckError::NotHeld);
    // The list has one entry for each open; each file is handled once.
    let mut leased = files.files_of_lease(id).to_vec();
    leased.sort_unstable();
    leased.dedup();
    for file in leased {
        settled = files.change(file, |record, notify| {
            let settled = record.acknowledge_lease(id, kept, deadline, notify);
            (settled, settled.is_ok())
        })?;
        if !matches!(settled, Err(AckError::NotHeld | AckError::NotBreaking)) {
            break;
        }
    }
    settled.map_err(|error| match error {
        AckError::NotHeld => Reject::NoSuchLease,
        AckError::NotBreaking => Reject::LeaseNotBreaking,
        AckError::TooMuch => Reject::LeaseAcknowledgedTooHigh,
    })?;
    let shares = |open: &&mut Open| open.file().is_ok_and(|it| it.lease == Some(id));
    scope.opens.values_mut().filter(shares).for_each(|open| open.note_caching(kept));
    scope.globals.breaks.acknowledged(Holder::Lease(id));
    Ok(Step::Done(Response::new(&LeaseBreak { lease_state: lease_state(kept), ..body })))
}
