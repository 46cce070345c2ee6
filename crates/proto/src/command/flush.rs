//! SMB2 FLUSH: [MS-SMB2] 3.3.5.11.

use dtyp::AccessMask;
use engine::effect::{Effect, Reply};
use engine::pending_command::PendingCommand;
use engine::request::Incoming;
use engine::response::{Response, Step};
use engine::scope::InOpen;
use model::open::Target;
use model::reject::Reject;
use object::ObjectOp;
use wire::flush::{FlushRequest, FlushResponse};

use crate::command::Command;

/// Puts a file on stable storage.
#[derive(Debug)]
pub struct Flush;

/// The store is flushing the file.
#[derive(Debug)]
pub struct Pending;

impl PendingCommand for Pending {}

impl Command for Flush {
    type Scope<'s> = InOpen<'s>;
    type Request<'a> = FlushRequest;
    type Pending = Pending;

    fn start(
        InOpen { open, .. }: InOpen<'_>,
        _: &Incoming,
        _: FlushRequest,
    ) -> Result<Step<Pending>, Reject> {
        let Target::File(file) = &open.target else {
            // Data written to a pipe was consumed at once.
            return Ok(Step::Done(Response::new(&FlushResponse)));
        };
        // For a directory these are the rights to add a file or a directory.
        let writing = AccessMask::WRITE_DATA | AccessMask::APPEND_DATA;
        if !open.granted_access.intersects(writing) {
            open.verify_access(AccessMask::WRITE_DATA)?;
        }
        let op = ObjectOp::Flush { open: file.local_open };
        Ok(Step::Wait(Effect::Object { user: open.user, op }, Pending))
    }

    fn resume(
        _: InOpen<'_>,
        _: &Incoming,
        Pending: Pending,
        reply: Reply,
    ) -> Result<Step<Pending>, Reject> {
        reply.object()?;
        Ok(Step::Done(Response::new(&FlushResponse)))
    }
}
