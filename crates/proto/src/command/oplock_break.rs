//! SMB2 OPLOCK_BREAK acknowledgment: [MS-SMB2] 3.3.5.22.
//!
//! No oplock and no lease is granted yet, so there is none that could be breaking.

use std::convert::Infallible;

use dtyp::NtStatus;
use wire::oplock_break::BreakAcknowledgment;

use crate::command::Command;
use crate::effect::Reply;
use crate::reject::Reject;
use crate::request::Incoming;
use crate::response::Step;
use crate::scope::InTree;

/// Acknowledges the break of an oplock or a lease.
#[derive(Debug)]
pub struct OplockBreak;

impl Command for OplockBreak {
    type Scope<'s> = InTree<'s>;
    type Request<'a> = BreakAcknowledgment;
    type Pending = Infallible;

    fn start(
        mut scope: InTree<'_>,
        _: &Incoming,
        request: BreakAcknowledgment,
    ) -> Result<Step<Infallible>, Reject> {
        match request {
            BreakAcknowledgment::Lease(_) => Err(Reject::Status(NtStatus::OBJECT_NAME_NOT_FOUND)),
            BreakAcknowledgment::Oplock(_) => {
                scope.open()?;
                Err(Reject::Status(NtStatus::INVALID_OPLOCK_PROTOCOL))
            }
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
