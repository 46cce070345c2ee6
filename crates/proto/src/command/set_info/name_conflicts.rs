//! Opens that conflict with a new name: of the file itself, beneath a directory, of the new name's
//! directory, and of the file that is replaced. Those with cached handles are asked to close first.

use std::sync::Arc;
use std::time::Duration;

use arbitration::{
    Caching, Deleter, FileKey, FileRecord, HostPath, OpenEntry, OpenFacts, OpenId, ShareMode,
    conflict,
};
use dtyp::AccessMask;
use engine::files::Files;
use engine::scope::InTree;
use model::file_key::key;
use model::reject::Reject;
use object::FileIdentity;

/// Opens with cached handles whose clients have been asked to close them. Later ones refuse the new
/// name: otherwise a client could delay it without end, by one open after the other.
#[derive(Debug, Default)]
pub struct AskedToClose {
    /// File of an open that is asked to close now, or of a deletion in progress.
    pub(super) file: FileKey,
    /// Time after which nothing else beneath the renamed directory is waited for; set with the
    /// first.
    until: Option<Duration>,
    /// Opens beneath the renamed directory, once asked.
    beneath: Option<Vec<OpenId>>,
    /// Opens of the file to replace, once asked.
    target: Option<Vec<OpenId>>,
}

/// Use of a file by its rename or deletion.
const DELETING: ShareMode = ShareMode {
    granted_access: AccessMask::DELETE,
    share_read: true,
    share_write: true,
    share_delete: true,
};

/// Use of a directory by a new name in it: [MS-FSA] 2.1.5.15.12 opens it so.
const ADDING: ShareMode = ShareMode {
    granted_access: AccessMask::WRITE_DATA,
    share_read: true,
    share_write: true,
    share_delete: false,
};

/// Checks that all opens of the file share its deletion, and that no stream of it is open. Returns
/// whether the deletion of a stream has to end first: that finds it by the file's name.
pub(super) fn verify_alone(
    scope: &mut InTree<'_>,
    asked: &mut AskedToClose,
) -> Result<bool, Reject> {
    let open = scope.open()?;
    let volatile = open.file_id.volatile;
    let file = open.file()?;
    let identity = file.identity;
    let is_stream = file.path.stream().is_some();
    let files = &mut scope.globals.files;
    let id = files.open_id(volatile);
    let (is_excluded, has_streams, has_deletions) = files.read(key(identity), |record| {
        let has_streams = record.has_other_streams_open(identity.stream);
        let is_excluded = record.conflicts(id, identity.stream, DELETING);
        (is_excluded, has_streams, !record.deleters.is_empty())
    })?;
    if is_excluded {
        return Err(Reject::SharingViolation);
    }
    if has_streams && !is_stream {
        return Err(Reject::StreamsOpen);
    }
    if has_deletions {
        asked.await_deletions(files, key(identity), Reject::StreamsOpen)?;
    }
    Ok(has_deletions)
}

impl AskedToClose {
    /// Has the request wait until the deletions of a file have ended, in which nobody has it open:
    /// a new name above it would undo them. One whose storage or worker does not answer delays it
    /// as long as a break; then `refusal` is the error.
    fn await_deletions(
        &mut self,
        files: &mut Files,
        file: FileKey,
        refusal: Reject,
    ) -> Result<(), Reject> {
        if self.is_late(files) {
            return Err(refusal);
        }
        files.await_deletions(file)?;
        self.file = file;
        Ok(())
    }

    /// True once the request has waited as long as a break may take, so that many of those that do
    /// not answer do not take many times that.
    fn is_late(&mut self, files: &Files) -> bool {
        files.now() >= *self.until.get_or_insert_with(|| files.break_deadline())
    }
}

/// Checks that nothing is open beneath a directory, except by clients to which paths mean as little
/// as to the one that renames it. As by Windows, opens with cached handles are asked to close, one
/// after the other; the result is then true. One that stays without caching refuses the rename, and
/// one that came meanwhile does so once all others have closed. Deletions of files beneath it that
/// have no open any more are waited for, since they find their files by their paths. All together
/// may take as long as a break.
///
/// This reads the records of all files, each without a lock. An index of opens by directory would
/// cost each CREATE and CLOSE an update for each directory of its path.
pub(super) fn clear_beneath(
    scope: &mut InTree<'_>,
    asked: &mut AskedToClose,
) -> Result<bool, Reject> {
    let open = scope.open()?;
    let share = Arc::clone(&open.share);
    let file = open.file()?;
    if !file.is_directory || file.path.stream().is_some() {
        return Ok(false);
    }
    let is_posix = file.path.is_posix();
    let facts = facts_of_open(scope)?;
    let directory = facts.host_path();
    let expects_lost_names =
        is_posix || scope.globals.expects_lost_names(scope.session.session_id, &share);
    let open_beneath = |record: &FileRecord, it: &OpenEntry| {
        // Only a path from the same folder, by the same name of the directory, gets its new one.
        // That of a deletion by another one would lead nowhere, and the file would stay.
        let may_lose_name = expects_lost_names
            && it.facts.expects_lost_names
            && it.facts.host_path().moves_with(directory)
            && !record.is_pending_by_other_path(it);
        let is_beneath = it.facts.host_path().is_beneath(directory)
            && record.keeps_its_name(it)
            && !may_lose_name;
        // Who is away cannot close.
        let may_close =
            record.cache_of(it).state.contains(Caching::HANDLE) && !it.is_disconnected();
        is_beneath.then_some((it.id, may_close))
    };
    let is_deleted_beneath = |it: &Deleter| it.requester.host_path().is_beneath(directory);
    let files = &mut scope.globals.files;
    let (mut found, mut deleted) = (Vec::new(), None);
    files.visit(|file, record| {
        let opens = record.opens.iter().filter_map(|it| open_beneath(record, it));
        found.extend(opens.map(|it| (file, it)));
        if record.deleters.iter().any(is_deleted_beneath) {
            deleted = Some(file);
        }
    })?;
    let is_known = |id: &OpenId| asked.beneath.as_ref().is_none_or(|it| it.contains(id));
    let known: Vec<_> = found.iter().filter(|(_, (id, _))| is_known(id)).collect();
    let Some(&&(file, (first, _))) = known.first() else {
        if !found.is_empty() {
            return Err(Reject::OpenBeneath);
        }
        let Some(file) = deleted else { return Ok(false) };
        asked.await_deletions(files, file, Reject::OpenBeneath)?;
        return Ok(true);
    };
    let may_close = !asked.is_late(files) && known.iter().all(|(_, (_, may_close))| *may_close);
    if !may_close || !files.break_conflicting_handles(file, &|it| it.id == first)? {
        return Err(Reject::OpenBeneath);
    }
    asked.file = file;
    asked.beneath = Some(known.iter().map(|(_, (id, _))| *id).collect());
    Ok(true)
}

/// Returns the facts of the open that the request uses, from its file's record: the path on disk is
/// nowhere else.
fn facts_of_open(scope: &mut InTree<'_>) -> Result<OpenFacts, Reject> {
    let open = scope.open()?;
    let (volatile, file) = (open.file_id.volatile, key(open.file()?.identity));
    let files = &scope.globals.files;
    let id = files.open_id(volatile);
    let facts = files.read(file, |record| record.open(id).map(|it| it.facts.clone()))?;
    facts.ok_or(Reject::NoSuchOpen)
}

/// Gives the opens beneath a renamed directory their new path.
pub(super) fn rename_beneath(
    scope: &mut InTree<'_>,
    old: HostPath<'_>,
    new: HostPath<'_>,
) -> Result<(), Reject> {
    let files = &mut scope.globals.files;
    let found = files.find_opens(|_, it| {
        let moved = it.facts.host_path().moved(old, new)?;
        Some((it.facts.path.clone(), moved))
    })?;
    for (file, (before, (path, on_disk))) in found {
        let before = HostPath { path: &before, on_disk: None, ..old };
        let after = HostPath { path: &path, on_disk: on_disk.as_deref(), ..new };
        files.change(file, |record, look| {
            record.renamed(before, after, look);
            ((), true)
        })?;
    }
    Ok(())
}

/// Checks that the directory of a new name may be changed. Returns whether opens with cached
/// handles have to close first.
pub(super) fn clear_directory(
    scope: &mut InTree<'_>,
    directory: FileIdentity,
) -> Result<bool, Reject> {
    let volatile = scope.open()?.file_id.volatile;
    let files = &mut scope.globals.files;
    if !files.conflicts(directory, volatile, ADDING)? {
        return Ok(false);
    }
    let id = files.open_id(volatile);
    let conflicts = |it: &OpenEntry| it.id != id && conflict(it.mode, ADDING);
    if files.break_conflicting_handles(key(directory), &conflicts)? {
        return Ok(true);
    }
    Err(Reject::SharingViolation)
}

/// Checks that the file to replace is not open. Returns whether opens with cached handles have to
/// close first; those that came meanwhile refuse the new name.
pub(super) fn clear_target(
    scope: &mut InTree<'_>,
    target: FileIdentity,
    asked: &mut AskedToClose,
) -> Result<bool, Reject> {
    let files = &mut scope.globals.files;
    if !files.is_open(key(target)) {
        return Ok(false);
    }
    let opens: Vec<OpenId> =
        files.read(key(target), |record| record.opens.iter().map(|it| it.id).collect())?;
    if asked.target.as_ref().is_some_and(|known| opens.iter().any(|it| !known.contains(it))) {
        return Err(Reject::TargetOpen);
    }
    if files.break_conflicting_handles(key(target), &|_| true)? {
        asked.file = key(target);
        asked.target = Some(opens);
        return Ok(true);
    }
    match files.is_open(key(target)) {
        true => Err(Reject::TargetOpen),
        // Its only opens were those of absent clients.
        false => Ok(false),
    }
}
