//! The file of quotas, by which Windows and Samba's smbcquotas reach those of a volume: [MS-FSCC]
//! 2.1.5.2 names its stream type, and NTFS the file.
//!
//! No such file is stored. Its open is one of the share's folder that may do nothing else.

use dtyp::AccessMask;
use wire::OplockLevel;
use wire::create::{CreateOptions, CreateRequest, ShareAccess};
use wire::create_context::CreateContexts;

/// Name of the file, in the root of each volume.
const NAME: &str = "$Extend\\$Quota:$Q:$INDEX_ALLOCATION";

/// Returns the request to carry out: for the file of quotas one for the share's folder, without
/// rights to it and without contexts.
pub(super) fn resolve<'a>(request: &CreateRequest<'a>) -> CreateRequest<'a> {
    if !is_name(request.name) {
        return *request;
    }
    CreateRequest {
        name: &[],
        desired_access: AccessMask::READ_ATTRIBUTES,
        share_access: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
        create_options: CreateOptions::empty(),
        requested_oplock_level: OplockLevel::NONE,
        create_contexts: CreateContexts::EMPTY,
        ..*request
    }
}

fn is_name(name: &[u8]) -> bool {
    name.len() == 2 * NAME.len()
        && dtyp::utf16::decode(name).is_ok_and(|name| name.eq_ignore_ascii_case(NAME))
}
