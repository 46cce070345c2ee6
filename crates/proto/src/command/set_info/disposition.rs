//! Marking a file for deletion: [MS-FSA] 2.1.5.15.3.

use dtyp::fscc::{FileDispositionInformation, FileDispositionInformationEx};
use dtyp::{AccessMask, FileAttributes, NtStatus};
use object::{ObjectOp, ObjectReply};

use super::{Pending, decode, done};
use crate::effect::{Effect, Reply};
use crate::reject::Reject;
use crate::response::Step;
use crate::scope::InTree;

/// FileDispositionInformation.
pub(super) fn start(scope: InTree<'_>, buffer: &[u8]) -> Result<Step<Pending>, Reject> {
    let wanted = decode(FileDispositionInformation::decode(buffer))?.delete_pending;
    mark(scope, wanted, false)
}

/// FileDispositionInformationEx. Deletion as POSIX does it, while others have the file open, is
/// not offered.
pub(super) fn start_ex(scope: InTree<'_>, buffer: &[u8]) -> Result<Step<Pending>, Reject> {
    let flags = decode(FileDispositionInformationEx::decode(buffer))?.flags;
    if flags & FileDispositionInformationEx::POSIX_SEMANTICS != 0 {
        return Err(Reject::Status(NtStatus::NOT_SUPPORTED));
    }
    let wanted = flags & FileDispositionInformationEx::DELETE != 0;
    let ignores = flags & FileDispositionInformationEx::IGNORE_READONLY_ATTRIBUTE != 0;
    mark(scope, wanted, ignores)
}

fn mark(
    mut scope: InTree<'_>,
    delete: bool,
    ignores_read_only: bool,
) -> Result<Step<Pending>, Reject> {
    let open = scope.open()?;
    open.verify_access(AccessMask::DELETE)?;
    let user = open.user;
    let file = open.file_mut()?;
    if !delete {
        let identity = file.identity;
        file.delete_on_close = false;
        if let Some(record) = scope.globals.files.get_mut(identity) {
            record.delete_pending = false;
        }
        return done();
    }
    if file.path.is_root() && file.path.stream().is_none() {
        return Err(Reject::Status(NtStatus::ACCESS_DENIED));
    }
    if ignores_read_only && !file.is_directory {
        return doom(scope);
    }
    let op = ObjectOp::QueryMetadata { open: file.local_open };
    Ok(Step::Wait(Effect::Object { user, op }, Pending::Deletability))
}

/// A read-only file stays, and of a directory it must be seen whether it is empty.
pub(super) fn judge(mut scope: InTree<'_>, reply: Reply) -> Result<Step<Pending>, Reject> {
    let ObjectReply::Metadata(metadata) = reply.object()? else { panic!("it was asked for") };
    if metadata.attributes.contains(FileAttributes::READONLY) {
        return Err(Reject::Status(NtStatus::CANNOT_DELETE));
    }
    let open = scope.open()?;
    let file = open.file()?;
    if !file.is_directory || file.path.stream().is_some() {
        return doom(scope);
    }
    let op = ObjectOp::IsEmpty { open: file.local_open };
    Ok(Step::Wait(Effect::Object { user: open.user, op }, Pending::Emptiness))
}

/// A directory with something in it stays.
pub(super) fn judge_directory(scope: InTree<'_>, reply: Reply) -> Result<Step<Pending>, Reject> {
    match reply.object()? {
        ObjectReply::Empty(true) => doom(scope),
        ObjectReply::Empty(false) => Err(Reject::Status(NtStatus::DIRECTORY_NOT_EMPTY)),
        other => panic!("{other:?} does not say whether a directory is empty"),
    }
}

/// The name goes with the last open.
fn doom(mut scope: InTree<'_>) -> Result<Step<Pending>, Reject> {
    let identity = scope.open()?.file()?.identity;
    let record = scope.globals.files.get_mut(identity).expect("an open file has a record");
    record.delete_pending = true;
    done()
}
