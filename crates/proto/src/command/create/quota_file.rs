//! The file of quotas, by which Windows and Samba's smbcquotas reach those of a volume: [MS-FSCC]
//! 2.1.5.2 names its stream type, and NTFS the file.
//!
//! No such file is stored. Its open is one of the share's folder that may do nothing else.

use dtyp::{AccessMask, FileAttributes};
use object::Metadata;
use wire::OplockLevel;
use wire::create::{CreateOptions, CreateRequest, ShareAccess};
use wire::create_context::CreateContexts;

/// Name of the file, in the root of each volume.
const NAME: &str = "$Extend\\$Quota:$Q:$INDEX_ALLOCATION";

/// Returns the request to carry out for the file of quotas: one for the share's folder, without
/// rights to it and without contexts. `None` for other files.
pub(super) fn resolve<'a>(request: &CreateRequest<'a>) -> Option<CreateRequest<'a>> {
    is_name(request.name).then(|| CreateRequest {
        name: &[],
        desired_access: AccessMask::READ_ATTRIBUTES,
        share_access: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
        create_options: CreateOptions::empty(),
        requested_oplock_level: OplockLevel::NONE,
        create_contexts: CreateContexts::EMPTY,
        ..*request
    })
}

/// Returns the metadata of the file for the response, which are those that Samba shows.
pub(super) fn metadata() -> Metadata {
    let attributes = FileAttributes::HIDDEN
        | FileAttributes::SYSTEM
        | FileAttributes::DIRECTORY
        | FileAttributes::ARCHIVE;
    Metadata { attributes, ..Metadata::default() }
}

fn is_name(name: &[u8]) -> bool {
    name.len() == 2 * NAME.len()
        && dtyp::utf16::decode(name).is_ok_and(|name| name.eq_ignore_ascii_case(NAME))
}

#[cfg(test)]
mod tests {
    use dtyp::{AccessMask, utf16};
    use object::ObjectOp;
    use wire::Command;
    use wire::create::{CreateDisposition, CreateRequest, ImpersonationLevel};

    use super::NAME;
    use crate::scene::Scene;

    #[test]
    fn the_file_of_quotas_is_the_folder_of_the_share_without_rights_to_it() {
        let mut scene = Scene::new();
        let mut name = Vec::new();
        utf16::encode(&NAME.to_ascii_lowercase(), &mut name);
        let request = CreateRequest {
            name: &name,
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: AccessMask::READ_DATA | AccessMask::WRITE_DATA,
            create_disposition: CreateDisposition::OPEN,
            ..CreateRequest::default()
        };
        scene.send(Command::CREATE, &request);
        let (_, op) = scene.op();
        let ObjectOp::Open(open) = op else { panic!("{op:?}") };
        assert_eq!((open.path.as_str(), open.desired_access), ("", AccessMask::READ_ATTRIBUTES));
    }
}
