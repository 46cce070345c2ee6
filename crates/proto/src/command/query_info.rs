//! Placeholder until written.
use crate::command::Command;
use crate::effect::Reply;
use crate::reject::Reject;
use crate::request::Incoming;
use crate::response::Step;
use crate::scope::InOpen;
use std::convert::Infallible;
use wire::query_info::QueryInfoRequest;
/// placeholder
#[derive(Debug)]
pub struct QueryInfo;
impl Command for QueryInfo {
    type Scope<'s> = InOpen<'s>;
    type Request<'a> = QueryInfoRequest<'a>;
    type Pending = Infallible;
    fn start(
        _: InOpen<'_>,
        _: &Incoming,
        _: QueryInfoRequest<'_>,
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
