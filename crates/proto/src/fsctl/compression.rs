//! FSCTL_GET_COMPRESSION and FSCTL_SET_COMPRESSION: [MS-FSCC] 2.3.17 and 2.3.63.

use dtyp::{AccessMask, NtStatus};
use wire::ioctl::{FsctlCode, IoctlRequest};

use super::{INVALID, ImmediateFsctl, Output};
use crate::reject::Reject;
use crate::scope::InOpen;

/// Tells how a file is compressed: not at all.
pub(crate) struct GetCompression;

/// Compresses a file, or not. "Not" is what can be had.
pub(crate) struct SetCompression;

/// COMPRESSION_FORMAT_NONE.
const NONE: u16 = 0;

/// COMPRESSION_FORMAT_LZNT1, the last there is.
const LZNT1: u16 = 2;

impl ImmediateFsctl for GetCompression {
    const CODE: FsctlCode = FsctlCode::GET_COMPRESSION;
    type Scope<'s> = InOpen<'s>;

    fn answer(scope: InOpen<'_>, _: &IoctlRequest<'_>) -> Result<Output, Reject> {
        scope.open.file()?;
        Ok(Output::new(NONE.to_le_bytes().to_vec()))
    }
}

impl ImmediateFsctl for SetCompression {
    const CODE: FsctlCode = FsctlCode::SET_COMPRESSION;
    type Scope<'s> = InOpen<'s>;

    fn answer(scope: InOpen<'_>, request: &IoctlRequest<'_>) -> Result<Output, Reject> {
        scope.open.file()?;
        scope.open.verify_access(AccessMask::WRITE_DATA)?;
        let (format, _) = request.input.split_first_chunk::<2>().ok_or(INVALID)?;
        match u16::from_le_bytes(*format) {
            NONE => Ok(Output::none()),
            format if format <= LZNT1 => Err(Reject::Status(NtStatus::NOT_SUPPORTED)),
            _ => Err(INVALID),
        }
    }
}
