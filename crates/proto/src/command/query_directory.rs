//! Placeholder until written.
use crate::command::Command;
use crate::effect::Reply;
use crate::reject::Reject;
use crate::request::Incoming;
use crate::response::Step;
use crate::scope::InOpen;
use std::convert::Infallible;
use wire::query_directory::QueryDirectoryRequest;
/// placeholder
#[derive(Debug)]
pub struct QueryDirectory;
impl Command for QueryDirectory {
    type Scope<'s> = InOpen<'s>;
    type Request<'a> = QueryDirectoryRequest<'a>;
    type Pending = Infallible;
    fn start(
        _: InOpen<'_>,
        _: &Incoming,
        _: QueryDirectoryRequest<'_>,
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
pub struct Enumeration;
