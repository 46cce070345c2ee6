//! FSCTL_CREATE_OR_GET_OBJECT_ID and FSCTL_GET_OBJECT_ID: [MS-FSCC] 2.3.1 and 2.3.27, [MS-FSA]
//! 2.1.5.10.1 and 2.1.5.10.12.
//!
//! Object ids cannot be set or deleted: device and inode of a file serve as its id, and nothing is
//! stored.

use engine::scope::InOpen;
use model::reject::Reject;
use wire::ioctl::{FsctlCode, IoctlRequest};

use super::{ImmediateFsctl, Output};

/// Reports an identifier of a file that survives renames. Every file has one, so none is created.
pub(crate) struct CreateOrGetObjectId;

/// Reports an identifier of a file that survives renames.
pub(crate) struct GetObjectId;

impl ImmediateFsctl for CreateOrGetObjectId {
    const CODE: FsctlCode = FsctlCode::CREATE_OR_GET_OBJECT_ID;
    type Scope<'s> = InOpen<'s>;

    fn answer(scope: InOpen<'_>, _: &IoctlRequest<'_>) -> Result<Output, Reject> {
        object_id(&scope)
    }
}

impl ImmediateFsctl for GetObjectId {
    const CODE: FsctlCode = FsctlCode::GET_OBJECT_ID;
    type Scope<'s> = InOpen<'s>;

    fn answer(scope: InOpen<'_>, _: &IoctlRequest<'_>) -> Result<Output, Reject> {
        object_id(&scope)
    }
}

/// Makes FILE_OBJECTID_BUFFER of type 1: [MS-FSCC] 2.1.3.1.
fn object_id(scope: &InOpen<'_>) -> Result<Output, Reject> {
    let identity = scope.open.file()?.identity;
    let (device, inode) = (identity.device.to_le_bytes(), identity.inode.to_le_bytes());
    let object_id = [inode, device].concat();
    let birth_volume_id = [device, [0; 8]].concat();
    let domain_id = vec![0; 16];
    Ok(Output::new([object_id.clone(), birth_volume_id, object_id, domain_id].concat()))
}
