//! FSCTL_FILE_LEVEL_TRIM: [MS-FSCC] 2.3.73, [MS-FSA] 2.1.5.10.6.

use dtyp::AccessMask;
use wire::ioctl::{FsctlCode, IoctlRequest};

use super::{INVALID, ImmediateFsctl, Output, output_max, two_offsets};
use crate::reject::Reject;
use crate::scope::InOpen;

/// Hears which ranges a client does not need any more. It is a hint about storage, and the storage
/// below a file system has its own ways to learn of that: the ranges are counted and left alone.
pub(crate) struct FileLevelTrim;

/// Bytes of one range.
const RANGE_LEN: usize = 16;

impl ImmediateFsctl for FileLevelTrim {
    const CODE: FsctlCode = FsctlCode::FILE_LEVEL_TRIM;
    type Scope<'s> = InOpen<'s>;

    fn answer(scope: InOpen<'_>, request: &IoctlRequest<'_>) -> Result<Output, Reject> {
        if scope.open.file()?.is_directory {
            return Err(INVALID);
        }
        scope.open.verify_access(AccessMask::WRITE_DATA)?;
        let (key, rest) = request.input.split_first_chunk::<4>().ok_or(INVALID)?;
        let (count, ranges) = rest.split_first_chunk::<4>().ok_or(INVALID)?;
        let wanted = usize::try_from(u32::from_le_bytes(*count)).unwrap_or(usize::MAX);
        if *key != [0; 4] || wanted == 0 || wanted > ranges.len() / RANGE_LEN {
            return Err(INVALID);
        }
        for range in ranges.chunks_exact(RANGE_LEN).take(wanted) {
            two_offsets(range)?;
        }
        let bytes = if output_max(request) < count.len() { Vec::new() } else { count.to_vec() };
        Ok(Output::new(bytes))
    }
}
