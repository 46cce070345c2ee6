//! FSCTL_SRV_REQUEST_RESUME_KEY: [MS-SMB2] 3.3.5.15.5.

use engine::scope::InOpen;
use model::reject::Reject;
use wire::FileId;
use wire::ioctl::{FsctlCode, IoctlRequest, RequestResumeKeyResponse, ResumeKey};

use super::{ImmediateFsctl, Output, verify_room};

/// Returns a key by which a copy names this open as its source.
pub(crate) struct SrvRequestResumeKey;

impl ImmediateFsctl for SrvRequestResumeKey {
    const CODE: FsctlCode = FsctlCode::SRV_REQUEST_RESUME_KEY;
    type Scope<'s> = InOpen<'s>;

    fn answer(scope: InOpen<'_>, request: &IoctlRequest<'_>) -> Result<Output, Reject> {
        scope.open.file()?;
        verify_room(request, RequestResumeKeyResponse::SIZE)?;
        let resume_key = resume_key(scope.open.file_id);
        let mut bytes = Vec::with_capacity(RequestResumeKeyResponse::SIZE);
        RequestResumeKeyResponse { resume_key }.encode(&mut bytes);
        Ok(Output::new(bytes))
    }
}

/// Makes `Open.ResumeKey` from the open's ids. It need not be a secret, because it is valid only in
/// the open's own session.
fn resume_key(file_id: FileId) -> ResumeKey {
    let mut key = [0; 24];
    key[..8].copy_from_slice(&file_id.persistent.to_le_bytes());
    key[8..16].copy_from_slice(&file_id.volatile.to_le_bytes());
    ResumeKey(key)
}

/// Returns the ids of the open that a key belongs to.
pub(super) fn file_id(key: ResumeKey) -> Option<FileId> {
    let (persistent, rest) = key.0.split_first_chunk::<8>()?;
    let (volatile, _) = rest.split_first_chunk::<8>()?;
    let file_id = FileId {
        persistent: u64::from_le_bytes(*persistent),
        volatile: u64::from_le_bytes(*volatile),
    };
    (resume_key(file_id) == key).then_some(file_id)
}
