//! Placeholder until written.
use crate::command::Command;
use crate::effect::Reply;
use crate::reject::Reject;
use crate::request::Incoming;
use crate::response::Step;
use crate::scope::InOpen;
use std::convert::Infallible;
use wire::change_notify::ChangeNotifyRequest;
/// placeholder
#[derive(Debug)]
pub struct ChangeNotify;
impl Command for ChangeNotify {
    type Scope<'s> = InOpen<'s>;
    type Request<'a> = ChangeNotifyRequest;
    type Pending = Infallible;
    fn start(
        _: InOpen<'_>,
        _: &Incoming,
        _: ChangeNotifyRequest,
    ) -> Result<Step<Infallible>, Reject> {
        Err(Reject::Status(dtyp::NtStatus::NOT_SUPPORTED))
    }
    fn resume(
        _: InOpen<'_>,
        _: &Incoming,
        p: Infallible,
        _: Reply,
    ) -> Result<Step<Infallible>, Reject> {
        match p {}
    }
}
/// placeholder
#[derive(Debug)]
pub struct Watch;
