//! SMB2 IOCTL: [MS-SMB2] 3.3.5.15.
//!
//! Each control code has a module of its own in [`crate::fsctl`]; this one frames requests and
//! responses.

use engine::effect::Reply;
use engine::pending_command::PendingCommand;
use engine::request::Incoming;
use engine::response::{Response, Step};
use engine::scope::InTree;
use model::reject::Reject;
use wire::Decode;
use wire::ioctl::{IoctlFlags, IoctlRequest, IoctlResponse};

use crate::command::Command;
use crate::fsctl::{self, Output, Progress};

/// Executes a control code for a client.
#[derive(Debug)]
pub struct Ioctl;

/// A control code that waits for the store.
#[derive(Debug)]
pub struct Pending(fsctl::Pending);

impl PendingCommand for Pending {}

impl Command for Ioctl {
    type Scope<'s> = InTree<'s>;
    type Request<'a> = IoctlRequest<'a>;
    type Pending = Pending;

    fn start(
        scope: InTree<'_>,
        incoming: &Incoming,
        request: IoctlRequest<'_>,
    ) -> Result<Step<Pending>, Reject> {
        if request.flags != IoctlFlags::IS_FSCTL {
            return Err(Reject::IoctlNotFsctl(request.flags));
        }
        let file_id = scope.file_id;
        let progress = fsctl::start(scope, incoming, &request)?;
        let request = IoctlRequest { file_id: file_id.unwrap_or(request.file_id), ..request };
        step(&request, progress)
    }

    fn resume(
        scope: InTree<'_>,
        incoming: &Incoming,
        Pending(pending): Pending,
        reply: Reply,
    ) -> Result<Step<Pending>, Reject> {
        let request = IoctlRequest::decode(&incoming.message).map_err(Reject::Malformed)?;
        let file_id = scope.file_id;
        let progress = fsctl::resume(scope, pending, reply)?;
        let request = IoctlRequest { file_id: file_id.unwrap_or(request.file_id), ..request };
        step(&request, progress)
    }
}

fn step(
    request: &IoctlRequest<'_>,
    progress: Progress<fsctl::Pending>,
) -> Result<Step<Pending>, Reject> {
    let Output { status, reject, bytes, padding } = match progress {
        Progress::Done(output) => output,
        Progress::Wait(effect, pending) => return Ok(Step::Wait(effect, Pending(pending))),
    };
    let (need, room) = (bytes.len(), fsctl::output_max(request));
    if need > room {
        return Err(Reject::OutputBufferTooSmall { need, room });
    }
    let response = IoctlResponse {
        ctl_code: request.ctl_code,
        file_id: request.file_id,
        input: &[],
        output: &bytes,
        padding,
    };
    let response = Response::with_status(status, &response);
    Ok(match reject {
        Some(reject) => Step::Refused(reject, response),
        None => Step::Done(response),
    })
}
