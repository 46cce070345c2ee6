//! FSCTL_SET_SPARSE: [MS-FSCC] 2.3.68, [MS-FSA] 2.1.5.10.36.

use dtyp::AccessMask;
use engine::effect::{Effect, Reply};
use engine::scope::InOpen;
use model::reject::Reject;
use object::ObjectOp;
use wire::ioctl::{FsctlCode, IoctlRequest};

use super::{Fsctl, Output, Progress};

/// Sets or clears the sparse flag of a file.
pub(crate) struct SetSparse;

/// The store is setting the flag.
#[derive(Debug)]
pub(crate) struct Setting;

impl Fsctl for SetSparse {
    const CODE: FsctlCode = FsctlCode::SET_SPARSE;
    type Scope<'s> = InOpen<'s>;
    type Pending = Setting;

    fn start(scope: InOpen<'_>, request: &IoctlRequest<'_>) -> Result<Progress<Setting>, Reject> {
        let open = scope.open;
        let file = open.file()?;
        if file.is_directory {
            return Err(Reject::NotOnDirectories);
        }
        let wanted =
            AccessMask::WRITE_DATA | AccessMask::APPEND_DATA | AccessMask::WRITE_ATTRIBUTES;
        if !open.granted_access.intersects(wanted) {
            return Err(Reject::AccessNotGranted { wanted, granted: open.granted_access });
        }
        // Without input the file becomes sparse; only the first byte of an input counts.
        let sparse = request.input.first().is_none_or(|byte| *byte != 0);
        let op = ObjectOp::SetSparse { open: file.local_open, sparse };
        Ok(Progress::Wait(Effect::Object { user: open.user, op }, Setting))
    }

    fn resume(_: InOpen<'_>, Setting: Setting, reply: Reply) -> Result<Progress<Setting>, Reject> {
        reply.object()?;
        Ok(Progress::Done(Output::none()))
    }
}
