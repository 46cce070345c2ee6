//! FSCTL_SRV_ENUMERATE_SNAPSHOTS: [MS-SMB2] 3.3.5.15.1.

use engine::effect::{Effect, Reply};
use engine::scope::InOpen;
use model::reject::Reject;
use object::{ObjectOp, ObjectReply};
use wire::ioctl::{FsctlCode, IoctlRequest, SnapshotArray};

use super::{Fsctl, Output, Progress, output_max, verify_room};

/// Lists the snapshots in which a file exists.
pub(crate) struct SrvEnumerateSnapshots;

/// The store is looking for snapshots.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Highest number of bytes that the client accepts.
    room: usize,
}

impl Fsctl for SrvEnumerateSnapshots {
    const CODE: FsctlCode = FsctlCode::SRV_ENUMERATE_SNAPSHOTS;
    type Scope<'s> = InOpen<'s>;
    type Pending = Listing;

    fn start(scope: InOpen<'_>, request: &IoctlRequest<'_>) -> Result<Progress<Listing>, Reject> {
        let open = scope.open.file()?.local_open;
        let room = output_max(request);
        verify_room(request, SnapshotArray::EMPTY_BYTES)?;
        let op = ObjectOp::ListSnapshots { open };
        Ok(Progress::Wait(Effect::Object { user: scope.open.user, op }, Listing { room }))
    }

    fn resume(
        _: InOpen<'_>,
        Listing { room }: Listing,
        reply: Reply,
    ) -> Result<Progress<Listing>, Reject> {
        let ObjectReply::Snapshots(snapshots) = reply.object()? else {
            panic!("snapshots were asked for");
        };
        let mut bytes = Vec::new();
        SnapshotArray::fitting(snapshots, room).encode(&mut bytes);
        Ok(Progress::Done(Output::new(bytes)))
    }
}
