//! Control codes with which smbtorture makes a server behave as only old or odd ones do, to see that
//! clients bear it. They are Samba's, and refused like unknown ones unless `smbd:FSCTL_SMBTORTURE` is
//! on.

use wire::ioctl::{FsctlCode, IoctlRequest};

use super::{INVALID, ImmediateFsctl, Output, WithoutOpen, output_max};
use crate::reject::Reject;

/// Answers with as many bytes of 8 as the client has room for, and with padding before them.
pub(crate) struct TortureIoctlPadding;

/// Lets the data of all further READ responses of the connection begin behind padding.
pub(crate) struct TortureReadPadding;

/// Bytes of padding. [MS-SMB2] 2.2.20 and 2.2.32 let the offsets say where the data begin.
const PADDING: u8 = 8;

/// Output of [`TortureIoctlPadding`]: no more than a test needs.
const OUTPUT_BYTES_MAX: usize = 4_096;

impl ImmediateFsctl for TortureIoctlPadding {
    const CODE: FsctlCode = FsctlCode::SMBTORTURE_IOCTL_RESPONSE_BODY_PADDING8;
    type Scope<'s> = WithoutOpen<'s>;

    fn answer(scope: WithoutOpen<'_>, request: &IoctlRequest<'_>) -> Result<Output, Reject> {
        verify_allowed(&scope, request)?;
        let length = output_max(request).min(OUTPUT_BYTES_MAX);
        Ok(Output { padding: PADDING, ..Output::new(vec![PADDING; length]) })
    }
}

impl ImmediateFsctl for TortureReadPadding {
    const CODE: FsctlCode = FsctlCode::SMBTORTURE_GLOBAL_READ_RESPONSE_BODY_PADDING8;
    type Scope<'s> = WithoutOpen<'s>;

    fn answer(scope: WithoutOpen<'_>, request: &IoctlRequest<'_>) -> Result<Output, Reject> {
        verify_allowed(&scope, request)?;
        scope.connection.read_padding = PADDING;
        Ok(Output::none())
    }
}

fn verify_allowed(scope: &WithoutOpen<'_>, request: &IoctlRequest<'_>) -> Result<(), Reject> {
    if !scope.globals.settings.smbtorture_hooks {
        return Err(Reject::UnknownFsctl(request.ctl_code));
    }
    if request.input.is_empty() { Ok(()) } else { Err(INVALID) }
}
