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

#[cfg(test)]
mod tests {
    use dtyp::NtStatus;
    use model::now::Now;
    use object::{ObjectOp, ObjectReply};
    use wire::Command;
    use wire::flush::FlushRequest;

    use crate::scene::Scene;

    #[test]
    fn a_slow_request_has_one_interim_response_and_its_credits_come_with_it() {
        let mut scene = Scene::new();
        let file_id = scene.open("file");
        scene.send(Command::FLUSH, &FlushRequest { file_id });
        let (id, _) = scene.op();
        for is_first in [true, false] {
            scene.server.handle_slow(Now::default(), id.expect("a request waits"));
            let interim = scene.receive();
            assert_eq!(interim.is_some(), is_first);
            if let Some(interim) = interim {
                assert_eq!(interim.status(), NtStatus::PENDING);
                assert!(interim.header.async_id.is_some() && interim.header.credits > 0);
            }
        }
        scene.reply(id, Ok(ObjectReply::Done));
        let answer = scene.receive().expect("the store has answered");
        assert_eq!((answer.status(), answer.header.credits), (NtStatus::SUCCESS, 0));
        assert!(answer.header.async_id.is_some());
    }

    #[test]
    fn a_slow_request_is_answered_at_once_when_it_is_canceled_and_its_result_is_dropped() {
        let mut scene = Scene::new();
        let file_id = scene.open("file");
        scene.send(Command::FLUSH, &FlushRequest { file_id });
        let (id, _) = scene.op();
        scene.server.handle_slow(Now::default(), id.expect("a request waits"));
        let interim = scene.receive().expect("it takes long");
        for is_first in [true, false] {
            scene.cancel(&interim);
            let canceled = scene.receive().map(|answer| answer.status());
            assert_eq!(canceled, is_first.then_some(NtStatus::CANCELLED));
        }
        // The CLOSE waits for the store: its open is in use.
        let close = wire::close::CloseRequest { file_id, ..wire::close::CloseRequest::default() };
        scene.send(Command::CLOSE, &close);
        let interim = scene.receive().map(|answer| answer.status());
        assert_eq!(interim, Some(NtStatus::PENDING));
        scene.reply(id, Ok(ObjectReply::Done));
        assert!(scene.receive().is_none());
        let (id, op) = scene.op();
        assert!(matches!(op, ObjectOp::Close { .. }), "{op:?}");
        scene.reply(id, Ok(ObjectReply::Done));
        let closed = scene.receive().expect("its answer");
        assert_eq!((closed.status(), closed.header.command), (NtStatus::SUCCESS, Command::CLOSE));
    }
}
