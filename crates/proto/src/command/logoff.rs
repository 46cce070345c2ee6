//! SMB2 LOGOFF: [MS-SMB2] 3.3.5.6.

use std::convert::Infallible;

use engine::effect::Reply;
use engine::request::Incoming;
use engine::response::{Response, Step};
use engine::scope::InSession;
use model::reject::Reject;
use wire::logoff::{LogoffRequest, LogoffResponse};

use crate::command::Command;

/// Ends a session and its opens.
#[derive(Debug)]
pub struct Logoff;

impl Command for Logoff {
    type Scope<'s> = InSession<'s>;
    type Request<'a> = LogoffRequest;
    type Pending = Infallible;

    fn start(
        InSession { session, opens, globals, .. }: InSession<'_>,
        _: &Incoming,
        LogoffRequest: LogoffRequest,
    ) -> Result<Step<Infallible>, Reject> {
        globals.detach_durable(session.session_id, opens);
        globals.end_session(session, opens);
        // The session's key still signs this response.
        globals.outbox.ending_sessions.push(session.session_id);
        Ok(Step::Done(Response::new(&LogoffResponse)))
    }

    fn resume(
        _: InSession<'_>,
        _: &Incoming,
        pending: Infallible,
        _: Reply,
    ) -> Result<Step<Infallible>, Reject> {
        match pending {}
    }
}
