//! FSCTL_SET_ZERO_DATA: [MS-FSCC] 2.3.71, [MS-FSA] 2.1.5.10.38.

use arbitration::ByteRange;
use dtyp::AccessMask;
use engine::effect::{Effect, Reply};
use engine::scope::InOpen;
use model::reject::Reject;
use object::ObjectOp;
use wire::ioctl::{FsctlCode, IoctlRequest};

use super::{Fsctl, Output, Progress, two_offsets};

/// Makes a range read as zeros.
pub(crate) struct SetZeroData;

/// The store is writing the zeros.
#[derive(Debug)]
pub(crate) struct Zeroing;

impl Fsctl for SetZeroData {
    const CODE: FsctlCode = FsctlCode::SET_ZERO_DATA;
    type Scope<'s> = InOpen<'s>;
    type Pending = Zeroing;

    fn start(scope: InOpen<'_>, request: &IoctlRequest<'_>) -> Result<Progress<Zeroing>, Reject> {
        let InOpen { open, globals, .. } = scope;
        let file = open.file()?;
        if file.is_directory {
            return Err(Reject::NotOnDirectories);
        }
        open.verify_access(AccessMask::WRITE_DATA)?;
        let (from, to) = two_offsets(request.input)?;
        let length = to.checked_sub(from).ok_or(Reject::RangeReversed { from, to })?;
        let range = ByteRange { offset: from, length };
        let volatile = open.file_id.volatile;
        let access = globals.files.access(file.identity, volatile, range, true);
        globals.files.verify_unlocked(file.identity, access)?;
        globals.files.break_before_change(file.identity, volatile)?;
        let op = ObjectOp::ZeroRange { open: file.local_open, from, to };
        Ok(Progress::Wait(Effect::Object { user: open.user, op }, Zeroing))
    }

    fn resume(
        scope: InOpen<'_>,
        Zeroing: Zeroing,
        reply: Reply,
    ) -> Result<Progress<Zeroing>, Reject> {
        reply.object()?;
        scope.globals.report_written(scope.open, 0);
        Ok(Progress::Done(Output::none()))
    }
}
