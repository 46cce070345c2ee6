//! FSCTL_GET_REPARSE_POINT, FSCTL_SET_REPARSE_POINT and FSCTL_DELETE_REPARSE_POINT: [MS-FSCC]
//! 2.3.29, 2.3.65 and 2.3.5.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use dtyp::fscc::{ReparseData, ReparseTag, SymbolicLinkReparse};
use dtyp::{AccessMask, NtStatus};
use engine::effect::{Effect, Reply};
use engine::scope::InOpen;
use model::open::Open;
use model::reject::Reject;
use object::{ObjectOp, ObjectReply};
use wire::ioctl::{FsctlCode, IoctlRequest};

use super::{Fsctl, Output, Progress, output_max};

/// Reports the data of a reparse point.
pub(crate) struct GetReparsePoint;

/// Turns a file into a reparse point.
pub(crate) struct SetReparsePoint;

/// Turns a reparse point into a plain file.
pub(crate) struct DeleteReparsePoint;

/// The store is reading the reparse point.
#[derive(Debug)]
pub(crate) struct Reading {
    /// Highest number of bytes that the client accepts.
    room: usize,
}

/// The store is changing the reparse point.
#[derive(Debug)]
pub(crate) struct Writing;

impl Fsctl for GetReparsePoint {
    const CODE: FsctlCode = FsctlCode::GET_REPARSE_POINT;
    type Scope<'s> = InOpen<'s>;
    type Pending = Reading;

    /// Requests the data from the store: [MS-FSA] 2.1.5.10.14.
    fn start(scope: InOpen<'_>, request: &IoctlRequest<'_>) -> Result<Progress<Reading>, Reject> {
        let op = ObjectOp::ReadReparsePoint { open: scope.open.file()?.local_open };
        let pending = Reading { room: output_max(request) };
        Ok(Progress::Wait(Effect::Object { user: scope.open.user, op }, pending))
    }

    /// Truncates data that does not fit, so that a client can learn the size; the header must fit.
    fn resume(
        _: InOpen<'_>,
        Reading { room }: Reading,
        reply: Reply,
    ) -> Result<Progress<Reading>, Reject> {
        let ObjectReply::ReparsePoint(mut bytes) = reply.object()? else {
            panic!("a reparse point was asked for");
        };
        if room < HEAD_LEN {
            return Err(Reject::OutputBufferTooSmall { need: HEAD_LEN, room });
        }
        let status = if bytes.len() > room { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS };
        bytes.truncate(room);
        Ok(Progress::Done(Output::with_status(status, bytes)))
    }
}

impl Fsctl for SetReparsePoint {
    const CODE: FsctlCode = FsctlCode::SET_REPARSE_POINT;
    type Scope<'s> = InOpen<'s>;
    type Pending = Writing;

    /// Checks the new reparse point: [MS-FSA] 2.1.5.10.37.
    fn start(scope: InOpen<'_>, request: &IoctlRequest<'_>) -> Result<Progress<Writing>, Reject> {
        let file = scope.open.file()?;
        verify_changeable(scope.open)?;
        let point = decode(request.input)?;
        if point.tag == ReparseTag::SYMLINK && SymbolicLinkReparse::decode(point.data).is_none() {
            return Err(Reject::ReparseDataInvalid);
        }
        let buffer = Bytes::copy_from_slice(request.input);
        let op = ObjectOp::WriteReparsePoint { open: file.local_open, buffer };
        Ok(Progress::Wait(Effect::Object { user: scope.open.user, op }, Writing))
    }

    fn resume(_: InOpen<'_>, Writing: Writing, reply: Reply) -> Result<Progress<Writing>, Reject> {
        reply.object()?;
        Ok(Progress::Done(Output::none()))
    }
}

impl Fsctl for DeleteReparsePoint {
    const CODE: FsctlCode = FsctlCode::DELETE_REPARSE_POINT;
    type Scope<'s> = InOpen<'s>;
    type Pending = Writing;

    /// Checks the reparse point to delete: [MS-FSA] 2.1.5.10.3.
    fn start(scope: InOpen<'_>, request: &IoctlRequest<'_>) -> Result<Progress<Writing>, Reject> {
        let open = scope.open.file()?.local_open;
        verify_changeable(scope.open)?;
        let point = decode(request.input)?;
        if !point.data.is_empty() {
            return Err(Reject::ReparseDataInvalid);
        }
        let op = ObjectOp::DeleteReparsePoint { open, tag: point.tag };
        Ok(Progress::Wait(Effect::Object { user: scope.open.user, op }, Writing))
    }

    fn resume(_: InOpen<'_>, Writing: Writing, reply: Reply) -> Result<Progress<Writing>, Reject> {
        reply.object()?;
        Ok(Progress::Done(Output::none()))
    }
}

/// Checks the right to change a reparse point. Either of two rights is enough.
fn verify_changeable(open: &Open) -> Result<(), Reject> {
    let wanted = AccessMask::WRITE_DATA | AccessMask::WRITE_ATTRIBUTES;
    if open.granted_access.intersects(wanted) {
        return Ok(());
    }
    Err(Reject::AccessNotGranted { wanted, granted: open.granted_access })
}

/// Decodes the input, with valid lengths and a permitted tag.
fn decode(input: &[u8]) -> Result<ReparseData<'_>, Reject> {
    if input.is_empty() {
        return Err(Reject::ReparsePointMissing);
    }
    if input.len() > ReparseData::BYTES_MAX {
        return Err(Reject::ReparseDataInvalid);
    }
    let point = ReparseData::decode(input).ok_or(Reject::ReparseDataInvalid)?;
    if matches!(point.tag, ReparseTag::RESERVED_ZERO | ReparseTag::RESERVED_ONE) {
        return Err(Reject::ReparseTagReserved(point.tag.0));
    }
    Ok(point)
}

/// Length of tag, data length and reserved field, in bytes.
const HEAD_LEN: usize = 8;
