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
    let (open_id, attributes) = (open.file()?.local_open, decode(buffer)?);
    let op = ObjectOp::WriteExtendedAttributes { open: open_id, attributes };
    Ok(change(open, op, CompletionFilter::EA))
}

/// Decodes a list of extended attributes, also that of a CREATE. Each becomes a hundred bytes, so
/// longer lists than a file can keep are refused before.
///
/// # Errors
/// The list is too long or malformed.
pub(crate) fn decode(list: &[u8]) -> Result<Vec<ExtendedAttribute>, Reject> {
    if list.len() > LIST_BYTES_MAX {
        return Err(Reject::ExtendedAttributesTooLarge(list.len()));
    }
    FullEaList(list)
        .iter()
        .map(|ea| {
            let ea = ea?;
            Ok(ExtendedAttribute { flags: ea.flags, name: ea.name, value: ea.value })
        })
        .collect()
}

/// Highest length of a list of attributes, or of names, in bytes. [MS-FSA] 2.1.5.15.5 allows 64 KiB
/// less 5 bytes of extended attributes for a file; an entry may have one byte more in Linux, and
/// its name.
pub(crate) const LIST_BYTES_MAX: usize = 66_048;
