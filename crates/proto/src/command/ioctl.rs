//! Placeholder until written.
use crate::command::Command;
use crate::effect::Reply;
use crate::reject::Reject;
use crate::request::Incoming;
use crate::response::Step;
use crate::scope::InOpen;
use std::convert::Infallible;
use wire::ioctl::IoctlRequest;
/// placeholder
#[derive(Debug)]
pub struct Ioctl;
impl Command for Ioctl {
    type Scope<'s> = InOpen<'s>;
    type Request<'a> = IoctlRequest<'a>;
    type Pending = Infallible;
    fn start(_: InOpen<'_>, _: &Incoming, _: IoctlRequest<'_>) -> Result<Step<Infallible>, Reject> {
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
