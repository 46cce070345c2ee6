//! FSCTL_PIPE_TRANSCEIVE: [MS-SMB2] 3.3.5.15.10, [MS-FSCC] 2.3.51.

use dtyp::NtStatus;
use engine::scope::InOpen;
use model::reject::Reject;
use wire::ioctl::{FsctlCode, IoctlRequest};

use super::{ImmediateFsctl, Output, output_max, pipe};

/// Writes to a pipe and reads the response.
pub(crate) struct PipeTransceive;

impl ImmediateFsctl for PipeTransceive {
    const CODE: FsctlCode = FsctlCode::PIPE_TRANSCEIVE;
    type Scope<'s> = InOpen<'s>;

    fn answer(scope: InOpen<'_>, request: &IoctlRequest<'_>) -> Result<Output, Reject> {
        let pipe = pipe(scope.open)?;
        if pipe.pending_len() > 0 {
            // The data read must be the response to the data written.
            return Err(Reject::PipeBusy);
        }
        pipe.write(request.input)?;
        let bytes = pipe.read(output_max(request));
        if bytes.is_empty() && pipe.pending_len() == 0 {
            return Err(Reject::PipeEmpty);
        }
        // The rest is left for READ.
        let left = pipe.message_left() > 0 || bytes.is_empty();
        let status = if left { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS };
        Ok(Output::with_status(status, bytes))
    }
}
