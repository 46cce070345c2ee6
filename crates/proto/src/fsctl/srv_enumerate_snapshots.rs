//! FSCTL_SRV_ENUMERATE_SNAPSHOTS: [MS-SMB2] 3.3.5.15.1.

use wire::ioctl::{FsctlCode, IoctlRequest};

use super::{INVALID, ImmediateFsctl, Output, output_max};
use crate::reject::Reject;
use crate::scope::InOpen;

/// Lists the snapshots of a share: there are none.
pub(crate) struct SrvEnumerateSnapshots;

/// Bytes of an SRV_SNAPSHOT_ARRAY without snapshots: three counts of zero, and the empty list,
/// padded to the size below which clients do not believe that it is one.
const EMPTY_LEN: usize = 16;

impl ImmediateFsctl for SrvEnumerateSnapshots {
    const CODE: FsctlCode = FsctlCode::SRV_ENUMERATE_SNAPSHOTS;
    type Scope<'s> = InOpen<'s>;

    fn answer(scope: InOpen<'_>, request: &IoctlRequest<'_>) -> Result<Output, Reject> {
        scope.open.file()?;
        if output_max(request) < EMPTY_LEN {
            return Err(INVALID);
        }
        Ok(Output::new(vec![0; EMPTY_LEN]))
    }
}
