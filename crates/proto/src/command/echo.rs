//! SMB2 ECHO: [MS-SMB2] 3.3.5.17.

use std::convert::Infallible;

use engine::effect::Reply;
use engine::request::Incoming;
use engine::response::{Response, Step};
use engine::scope::InConnection;
use model::reject::Reject;
use wire::echo::{EchoRequest, EchoResponse};

use crate::command::Command;

/// Answers that the server is there.
#[derive(Debug)]
pub struct Echo;

impl Command for Echo {
    type Scope<'s> = InConnection<'s>;
    type Request<'a> = EchoRequest;
    type Pending = Infallible;

    fn start(
        _: InConnection<'_>,
        _: &Incoming,
        EchoRequest: EchoRequest,
    ) -> Result<Step<Infallible>, Reject> {
        Ok(Step::Done(Response::new(&EchoResponse)))
    }

    fn resume(
        _: InConnection<'_>,
        _: &Incoming,
        pending: Infallible,
        _: Reply,
    ) -> Result<Step<Infallible>, Reject> {
        match pending {}
    }
}
