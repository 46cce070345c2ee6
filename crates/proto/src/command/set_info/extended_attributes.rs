//! FileFullEaInformation: [MS-FSA] 2.1.5.15.5.

use dtyp::AccessMask;
use dtyp::fscc::FullEaList;
use engine::response::Step;
use model::open::Open;
use model::reject::Reject;
use object::{ExtendedAttribute, ObjectOp};
use wire::change_notify::CompletionFilter;

use super::{Pending, change};

/// Sets extended attributes; an empty value removes one.
pub(super) fn start(open: &Open, buffer: &[u8]) -> Result<Step<Pending>, Reject> {
    open.verify_access(AccessMask::WRITE_EA)?;
    if !open.share.extended_attributes {
        return Err(Reject::ExtendedAttributesOff);
    }
    let attributes: Result<Vec<_>, Reject> = FullEaList(buffer)
        .iter()
        .map(|ea| {
            let ea = ea?;
            Ok(ExtendedAttribute { flags: ea.flags, name: ea.name, value: ea.value })
        })
        .collect();
    let op = ObjectOp::WriteExtendedAttributes {
        open: open.file()?.local_open,
        attributes: attributes?,
    };
    Ok(change(open, op, CompletionFilter::EA))
}
