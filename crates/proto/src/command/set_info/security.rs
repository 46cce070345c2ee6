//! The security descriptor: [MS-SMB2] 3.3.5.21.3.

use bytes::Bytes;
use dtyp::AccessMask;
use dtyp::security_descriptor::SecurityDescriptor;
use dtyp::security_information::SecurityInformation;
use engine::response::Step;
use model::open::Open;
use model::reject::Reject;
use object::ObjectOp;
use wire::change_notify::CompletionFilter;
use wire::set_info::SetInfoRequest;

use super::{Pending, change};

/// Replaces the parts that the request names.
pub(super) fn start(open: &Open, request: &SetInfoRequest<'_>) -> Result<Step<Pending>, Reject> {
    let information = SecurityInformation::from_bits_retain(request.additional_information);
    open.verify_access(wanted_access(information))?;
    if SecurityDescriptor::decode(request.buffer).is_none() {
        return Err(Reject::SecurityDescriptorInvalid);
    }
    let op = ObjectOp::WriteSecurity {
        open: open.file()?.local_open,
        information: information.bits(),
        descriptor: Bytes::copy_from_slice(request.buffer),
    };
    Ok(change(open, op, CompletionFilter::SECURITY))
}

fn wanted_access(information: SecurityInformation) -> AccessMask {
    let by_owner = SecurityInformation::OWNER
        | SecurityInformation::GROUP
        | SecurityInformation::LABEL
        | SecurityInformation::BACKUP;
    let by_dac =
        SecurityInformation::DACL | SecurityInformation::ATTRIBUTE | SecurityInformation::BACKUP;
    let by_system =
        SecurityInformation::SACL | SecurityInformation::SCOPE | SecurityInformation::BACKUP;
    let mut wanted = AccessMask::empty();
    wanted.set(AccessMask::WRITE_OWNER, information.intersects(by_owner));
    wanted.set(AccessMask::WRITE_DAC, information.intersects(by_dac));
    wanted.set(AccessMask::ACCESS_SYSTEM_SECURITY, information.intersects(by_system));
    wanted
}
