//! FSCTL_QUERY_ALLOCATED_RANGES: [MS-FSCC] 2.3.52, [MS-FSA] 2.1.5.10.22.

use dtyp::{AccessMask, NtStatus};
use engine::effect::{Effect, Reply};
use engine::scope::InOpen;
use model::reject::Reject;
use object::{ObjectOp, ObjectReply};
use wire::ioctl::{FsctlCode, IoctlRequest};

use super::{Fsctl, Output, Progress, end_of, output_max, two_offsets};

/// Reports the ranges of a file that have storage.
pub(crate) struct QueryAllocatedRanges;

/// State of a query while the store looks for ranges.
#[derive(Debug)]
pub(crate) struct Pending {
    room: usize,
}

const RANGE_LEN: usize = 16;

impl Fsctl for QueryAllocatedRanges {
    const CODE: FsctlCode = FsctlCode::QUERY_ALLOCATED_RANGES;
    type Scope<'s> = InOpen<'s>;
    type Pending = Pending;

    fn start(scope: InOpen<'_>, request: &IoctlRequest<'_>) -> Result<Progress<Pending>, Reject> {
        let file = scope.open.file()?;
        if file.is_directory {
            return Err(Reject::NotOnDirectories);
        }
        scope.open.verify_access(AccessMask::READ_DATA)?;
        let (from, length) = two_offsets(request.input)?;
        let to = end_of(from, length)?;
        if length == 0 {
            return Ok(Progress::Done(Output::none()));
        }
        let room = output_max(request);
        let ranges_max = room / RANGE_LEN;
        let op = ObjectOp::AllocatedRanges {
            open: file.local_open,
            from,
            to,
            // One more than fits, to learn whether there are more.
            ranges_max: u32::try_from(ranges_max + 1).expect("bounded by max_transact_size"),
        };
        let effect = Effect::Object { user: scope.open.user, op };
        Ok(Progress::Wait(effect, Pending { room }))
    }

    fn resume(
        _: InOpen<'_>,
        Pending { room }: Pending,
        reply: Reply,
    ) -> Result<Progress<Pending>, Reject> {
        let ObjectReply::Ranges(ranges) = reply.object()? else { panic!("ranges were asked for") };
        let ranges_max = room / RANGE_LEN;
        if !ranges.is_empty() && ranges_max == 0 {
            return Err(Reject::OutputBufferTooSmall { need: RANGE_LEN, room });
        }
        let status =
            if ranges.len() > ranges_max { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS };
        let fitting = ranges.into_iter().take(ranges_max);
        let bytes =
            fitting.flat_map(|(offset, length)| [offset, length]).flat_map(u64::to_le_bytes);
        Ok(Progress::Done(Output::with_status(status, bytes.collect())))
    }
}
