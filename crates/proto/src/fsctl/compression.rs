//! FSCTL_GET_COMPRESSION and FSCTL_SET_COMPRESSION: [MS-FSCC] 2.3.17 and 2.3.63, [MS-FSA]
//! 2.1.5.10.9 and 2.1.5.10.32.
//!
//! Clients see every compression of a file system as LZNT1, because the protocol has no name for
//! others.

use dtyp::{AccessMask, FileAttributes};
use engine::effect::{Effect, Reply};
use engine::scope::InOpen;
use model::reject::Reject;
use object::{ObjectOp, ObjectReply};
use wire::ioctl::{FsctlCode, IoctlRequest};

use super::{Fsctl, Output, Progress, invalid, verify_room};

/// Reports whether a file is compressed.
pub(crate) struct GetCompression;

/// Turns the compression of a file on or off.
pub(crate) struct SetCompression;

/// The store reads or sets the compression.
#[derive(Debug)]
pub(crate) struct PendingCompression;

const NONE: u16 = 0;

const DEFAULT: u16 = 1;

const LZNT1: u16 = 2;

impl Fsctl for GetCompression {
    const CODE: FsctlCode = FsctlCode::GET_COMPRESSION;
    type Scope<'s> = InOpen<'s>;
    type Pending = PendingCompression;

    fn start(
        scope: InOpen<'_>,
        request: &IoctlRequest<'_>,
    ) -> Result<Progress<PendingCompression>, Reject> {
        let open = scope.open.file()?.local_open;
        verify_room(request, size_of::<u16>())?;
        let op = ObjectOp::QueryMetadata { open, with_ea_size: false };
        Ok(Progress::Wait(Effect::Object { user: scope.open.user, op }, PendingCompression))
    }

    fn resume(
        _: InOpen<'_>,
        PendingCompression: PendingCompression,
        reply: Reply,
    ) -> Result<Progress<PendingCompression>, Reject> {
        let ObjectReply::Metadata(metadata) = reply.object()? else {
            panic!("metadata were asked for");
        };
        let is_compressed = metadata.attributes.contains(FileAttributes::COMPRESSED);
        let state = if is_compressed { LZNT1 } else { NONE };
        Ok(Progress::Done(Output::new(state.to_le_bytes().to_vec())))
    }
}

impl Fsctl for SetCompression {
    const CODE: FsctlCode = FsctlCode::SET_COMPRESSION;
    type Scope<'s> = InOpen<'s>;
    type Pending = PendingCompression;

    fn start(
        scope: InOpen<'_>,
        request: &IoctlRequest<'_>,
    ) -> Result<Progress<PendingCompression>, Reject> {
        let open = scope.open.file()?.local_open;
        scope.open.verify_access(AccessMask::WRITE_DATA)?;
        let input = request.input;
        let (format, _) = input.split_first_chunk::<2>().ok_or_else(|| invalid(input))?;
        let compressed = match u16::from_le_bytes(*format) {
            NONE => false,
            DEFAULT | LZNT1 => true,
            unknown => return Err(Reject::CompressionFormatUnknown(unknown)),
        };
        let op = ObjectOp::SetCompression { open, compressed };
        Ok(Progress::Wait(Effect::Object { user: scope.open.user, op }, PendingCompression))
    }

    fn resume(
        _: InOpen<'_>,
        PendingCompression: PendingCompression,
        reply: Reply,
    ) -> Result<Progress<PendingCompression>, Reject> {
        reply.object()?;
        Ok(Progress::Done(Output::none()))
    }
}
