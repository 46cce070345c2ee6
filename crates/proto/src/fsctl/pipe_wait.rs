//! FSCTL_PIPE_WAIT: [MS-SMB2] 3.3.5.15.13, [MS-FSCC] 2.3.49.

use model::reject::Reject;
use wire::ioctl::{FsctlCode, IoctlRequest};

use super::{ImmediateFsctl, Output, WithoutOpen, invalid};

/// Waits until a pipe can be opened. The supported pipes always can, so no request waits.
pub(crate) struct PipeWait;

impl ImmediateFsctl for PipeWait {
    const CODE: FsctlCode = FsctlCode::PIPE_WAIT;
    type Scope<'s> = WithoutOpen<'s>;

    fn answer(scope: WithoutOpen<'_>, request: &IoctlRequest<'_>) -> Result<Output, Reject> {
        if !scope.is_pipe_share {
            return Err(Reject::NotOnFiles);
        }
        let invalid = invalid(request.input);
        let wait = wire::ioctl::PipeWait::decode(request.input).map_err(|_| invalid)?;
        let name = dtyp::utf16::decode(wait.name).map_err(|_| invalid)?;
        match rpc::PipeName::from_name(&name) {
            Some(_) => Ok(Output::none()),
            None => Err(Reject::NoSuchPipe),
        }
    }
}
