//! FSCTL_FILE_LEVEL_TRIM: [MS-FSCC] 2.3.13, [MS-FSA] 2.1.5.10.6.

use std::collections::VecDeque;

use arbitration::ByteRange;
use dtyp::AccessMask;
use engine::effect::{Effect, Reply};
use engine::scope::InOpen;
use model::reject::Reject;
use object::ObjectOp;
use wire::ioctl::{FsctlCode, IoctlRequest};

use super::{Fsctl, Output, Progress, end_of, invalid, output_max, two_offsets, verify_room};

/// Frees the storage of ranges that a client does not need any more.
pub(crate) struct FileLevelTrim;

/// A trim whose ranges the store frees one after the other.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Begins and ends of the ranges that the store has not begun yet.
    left: VecDeque<(u64, u64)>,
    processed: u32,
    /// True if the client has room for the number of ranges.
    returns_count: bool,
}

const RANGE_LEN: usize = 16;

const OUTPUT_LEN: usize = 4;

impl Fsctl for FileLevelTrim {
    const CODE: FsctlCode = FsctlCode::FILE_LEVEL_TRIM;
    type Scope<'s> = InOpen<'s>;
    type Pending = Pending;

    fn start(scope: InOpen<'_>, request: &IoctlRequest<'_>) -> Result<Progress<Pending>, Reject> {
        if scope.open.file()?.is_directory {
            return Err(Reject::NotOnDirectories);
        }
        scope.open.verify_access(AccessMask::WRITE_DATA)?;
        let left = ranges(request.input)?;
        let room = output_max(request);
        if room > 0 {
            verify_room(request, OUTPUT_LEN)?;
        }
        next(scope, Pending { left, processed: 0, returns_count: room > 0 })
    }

    fn resume(
        scope: InOpen<'_>,
        mut pending: Pending,
        reply: Reply,
    ) -> Result<Progress<Pending>, Reject> {
        reply.object()?;
        pending.processed += 1;
        next(scope, pending)
    }
}

/// Reads the ranges of the input. The size of a request bounds their number.
fn ranges(input: &[u8]) -> Result<VecDeque<(u64, u64)>, Reject> {
    let (key, rest) = input.split_first_chunk::<4>().ok_or_else(|| invalid(input))?;
    let (count, ranges) = rest.split_first_chunk::<4>().ok_or_else(|| invalid(input))?;
    let count = usize::try_from(u32::from_le_bytes(*count)).unwrap_or(usize::MAX);
    if *key != [0; 4] || count == 0 || count > ranges.len() / RANGE_LEN {
        return Err(invalid(input));
    }
    let read = |range| {
        let (from, length) = two_offsets(range)?;
        Ok((from, end_of(from, length)?))
    };
    ranges.chunks_exact(RANGE_LEN).take(count).map(read).collect()
}

/// Has the store trim the next range, or reports the number of ranges at the end.
fn next(scope: InOpen<'_>, mut pending: Pending) -> Result<Progress<Pending>, Reject> {
    let InOpen { open, globals, .. } = scope;
    let Some((from, to)) = pending.left.pop_front() else {
        globals.report_written(open, 0);
        let bytes = if pending.returns_count {
            pending.processed.to_le_bytes().to_vec()
        } else {
            Vec::new()
        };
        return Ok(Progress::Done(Output::new(bytes)));
    };
    let file = open.file()?;
    // Discarding a range counts as writing to it, for the locks of others.
    let range = ByteRange { offset: from, length: to - from };
    let volatile = open.file_id.volatile;
    let access = globals.files.access(file.identity, volatile, range, true);
    globals.files.verify_unlocked(file.identity, access)?;
    globals.files.break_before_change(file.identity, volatile)?;
    let op = ObjectOp::Trim { open: file.local_open, from, to };
    Ok(Progress::Wait(Effect::Object { user: open.user, op }, pending))
}
