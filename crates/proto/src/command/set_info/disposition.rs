//! Setting and clearing delete pending: [MS-FSA] 2.1.5.15.3.

use dtyp::fscc::{FileDispositionInformation, FileDispositionInformationEx};
use dtyp::{AccessMask, FileAttributes};
use engine::effect::{Effect, Reply};
use engine::response::Step;
use engine::scope::InTree;
use model::file_key::key;
use model::open::OpenFile;
use model::reject::Reject;
use object::{ObjectOp, ObjectReply};
use wire::create::CreateOptions;

use super::{Pending, decode, done};

/// Handles FileDispositionInformation of [MS-FSCC] 2.4.
pub(super) fn start(scope: InTree<'_>, buffer: &[u8]) -> Result<Step<Pending>, Reject> {
    let wanted = decode(FileDispositionInformation::decode(buffer))?.delete_pending;
    mark(scope, wanted, false)
}

/// Handles FileDispositionInformationEx of [MS-FSCC] 2.4. Deletion with POSIX semantics, while
/// other opens exist, is not supported.
pub(super) fn start_ex(scope: InTree<'_>, buffer: &[u8]) -> Result<Step<Pending>, Reject> {
    let flags = decode(FileDispositionInformationEx::decode(buffer))?.flags;
    if flags & FileDispositionInformationEx::POSIX_SEMANTICS != 0 {
        return Err(Reject::PosixDeletion);
    }
    let wanted = flags & FileDispositionInformationEx::DELETE != 0;
    if flags & FileDispositionInformationEx::ON_CLOSE != 0 {
        return set_delete_on_close(scope, wanted);
    }
    let ignores = flags & FileDispositionInformationEx::IGNORE_READONLY_ATTRIBUTE != 0;
    mark(scope, wanted, ignores)
}

/// Changes FILE_DELETE_ON_CLOSE of an open, if its CREATE had that option.
fn set_delete_on_close(mut scope: InTree<'_>, wanted: bool) -> Result<Step<Pending>, Reject> {
    let open = scope.open()?;
    open.verify_access(AccessMask::DELETE)?;
    let file = open.file_mut()?;
    if !file.create_options.contains(CreateOptions::DELETE_ON_CLOSE) {
        return Err(Reject::NotDeleteOnClose);
    }
    file.delete_on_close = wanted;
    done()
}

/// Sets or clears delete pending, a flag of the file. FILE_DELETE_ON_CLOSE is a flag of the open
/// and stays: it sets delete pending again at the close.
fn mark(
    mut scope: InTree<'_>,
    delete: bool,
    ignores_read_only: bool,
) -> Result<Step<Pending>, Reject> {
    let open = scope.open()?;
    open.verify_access(AccessMask::DELETE)?;
    let user = open.user;
    let file = open.file()?;
    if !delete {
        let (identity, link) = (file.identity, file.link);
        scope.globals.files.set_delete_pending(identity, link, false, None)?;
        mark_audited(&mut scope, false)?;
        return done();
    }
    if file.path.snapshot().is_some() {
        return Err(Reject::SnapshotCannotChange);
    }
    if file.path.is_root() && file.path.stream().is_none() {
        return Err(Reject::RootCannotBeDeleted);
    }
    let op = ObjectOp::QueryMetadata { open: file.local_open, with_ea_size: false };
    Ok(Step::Wait(Effect::Object { user, op }, Pending::Deletability { ignores_read_only }))
}

/// Refuses to delete a read-only file, and checks whether a directory is empty.
pub(super) fn verify_deletable(
    mut scope: InTree<'_>,
    ignores_read_only: bool,
    reply: Reply,
) -> Result<Step<Pending>, Reject> {
    let ObjectReply::Metadata(metadata) = reply.object()? else { panic!("it was asked for") };
    let permits = ignores_read_only || scope.tree.share.delete_readonly;
    if !permits && metadata.attributes.contains(FileAttributes::READONLY) {
        return Err(Reject::ReadOnlyDeletion);
    }
    let open = scope.open()?;
    let file = open.file()?;
    if !file.is_directory || file.path.stream().is_some() {
        return set_delete_pending(scope);
    }
    let op = ObjectOp::IsEmpty { open: file.local_open };
    Ok(Step::Wait(Effect::Object { user: open.user, op }, Pending::Emptiness))
}

/// Refuses to delete a directory with entries.
pub(super) fn verify_empty(scope: InTree<'_>, reply: Reply) -> Result<Step<Pending>, Reject> {
    match reply.object()? {
        ObjectReply::Empty(true) => set_delete_pending(scope),
        ObjectReply::Empty(false) => Err(Reject::DirectoryNotEmpty),
        other => panic!("{other:?} does not say whether a directory is empty"),
    }
}

/// Makes the file delete pending; its last close removes the name. Clients must release cached
/// handles first, because those would delay the deletion.
fn set_delete_pending(mut scope: InTree<'_>) -> Result<Step<Pending>, Reject> {
    let open = scope.open()?;
    let volatile = open.file_id.volatile;
    let requester = open.share.requester.clone();
    let OpenFile { identity, parent_lease, .. } = *open.file()?;
    if scope.globals.files.break_for_name(identity, volatile)? {
        return Ok(Step::Suspend(Pending::Handles(key(identity))));
    }
    scope.globals.files.request_deletion((identity, volatile), parent_lease, requester)?;
    mark_audited(&mut scope, true)?;
    done()
}

/// Notes for the audit that the open has made its file delete pending, or has taken that back.
fn mark_audited(scope: &mut InTree<'_>, has_marked: bool) -> Result<(), Reject> {
    if let Some(audited) = &mut scope.open()?.file_mut()?.audit {
        audited.has_marked = has_marked;
    }
    Ok(())
}
