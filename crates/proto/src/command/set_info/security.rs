//! The security descriptor: [MS-SMB2] 3.3.5.21.3.

use bytes::Bytes;
use dtyp::AccessMask;
use dtyp::security_descriptor::SecurityDescriptor;
use dtyp::security_information::SecurityInformation;
use engine::response::Step;
use engine::scope::InTree;
use model::open::Open;
use model::reject::Reject;
use object::ObjectOp;
use wire::change_notify::CompletionFilter;
use wire::set_info::SetInfoRequest;

use super::{Pending, change, done};

/// Replaces the parts that the request names.
pub(super) fn start(
    mut scope: InTree<'_>,
    request: &SetInfoRequest<'_>,
) -> Result<Step<Pending>, Reject> {
    let is_apple = scope.globals.is_apple(scope.session.session_id);
    let open = scope.open()?;
    let mut information = SecurityInformation::from_bits_retain(request.additional_information);
    open.verify_access(wanted_access(information))?;
    let Some(descriptor) = SecurityDescriptor::decode(request.buffer) else {
        return Err(Reject::SecurityDescriptorInvalid);
    };
    if is_apple && is_ignored(open, &descriptor) {
        information.remove(SecurityInformation::DACL);
        if information.is_empty() {
            return done();
        }
    }
    let op = ObjectOp::WriteSecurity {
        open: open.file()?.local_open,
        information: information.bits(),
        descriptor: Bytes::copy_from_slice(request.buffer),
        nfs_entries: is_apple && open.share.apple.as_ref().is_some_and(|apple| apple.nfs_entries),
    };
    Ok(change(open, op, CompletionFilter::SECURITY))
}

/// Returns whether the list of a descriptor has no entries, and therefore is ignored. macOS sends
/// such lists to remove its own entries; taken by the letter, nobody may use the file afterwards.
fn is_ignored(open: &Open, descriptor: &SecurityDescriptor) -> bool {
    let ignores = open.share.apple.as_ref().is_some_and(|apple| apple.ignores_empty_lists);
    ignores && descriptor.dacl.as_ref().is_some_and(|list| list.aces.is_empty())
}

fn wanted_access(information: SecurityInformation) -> AccessMask {
    let by_owner = SecurityInformation::OWNER
        | SecurityInformation::GROUP
        | SecurityInformation::LABEL
        | SecurityInformation::BACKUP;
    let by_dac =
        SecurityInformation::DACL | SecurityInformation::ATTRIBUTE | SecurityInformation::BACKUP;
    let by_system = SecurityInformation::SACL
        | SecurityInformation::SCOPE
        | SecurityInformation::PROCESS_TRUST_LABEL
        | SecurityInformation::ACCESS_FILTER
        | SecurityInformation::BACKUP;
    let mut wanted = AccessMask::empty();
    wanted.set(AccessMask::WRITE_OWNER, information.intersects(by_owner));
    wanted.set(AccessMask::WRITE_DAC, information.intersects(by_dac));
    wanted.set(AccessMask::ACCESS_SYSTEM_SECURITY, information.intersects(by_system));
    wanted
}
