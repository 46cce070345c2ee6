//! Opens that conflict with a new name: of the file itself, beneath a directory, of the new name's
//! directory, and of the file that is replaced. Those with cached handles are asked to close first.

use std::sync::Arc;
use std::time::Duration;

use arbitration::{
    Caching, FileKey, FileRecord, OpenEntry, OpenFacts, OpenId, ShareMode, conflict,
};
use dtyp::AccessMask;
use engine::scope::InTree;
use model::file_key::key;
use model::reject::Reject;
use model::share::Share;
use object::FileIdentity;
use object::path::join;

/// Opens with cached handles whose clients have been asked to close them. Later ones refuse the new
/// name: otherwise a client could delay it without end, by one open after the other.
#[derive(Debug, Default)]
pub struct AskedToClose {
    /// File of an open that is asked to close now.
    pub(super) file: FileKey,
    /// Time after which nobody else beneath the renamed directory is asked; set with the first.
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

/// Checks that all opens of the file share its deletion, and that no stream of it is open.
pub(super) fn verify_alone(scope: &mut InTree<'_>) -> Result<(), Reject> {
    let open = scope.open()?;
    let volatile = open.file_id.volatile;
    let file = open.file()?;
    let identity = file.identity;
    let is_stream = file.path.stream().is_some();
    let files = &scope.globals.files;
    let id = files.open_id(volatile);
    let (is_excluded, has_streams) = files.read(key(identity), |record| {
        let has_streams = record.has_other_streams_open(identity.stream);
        (record.conflicts(id, identity.stream, DELETING), has_streams)
    })?;
    if is_excluded {
        return Err(Reject::SharingViolation);
    }
    if has_streams && !is_stream {
        return Err(Reject::StreamsOpen);
    }
    Ok(())
}

/// Checks that nothing is open beneath a directory, except by clients to which paths mean as little
/// as to the one that renames it. As by Windows, opens with cached handles are asked to close, one
/// after the other; the result is then true. One that stays without caching refuses the rename, and
/// one that came meanwhile does so once all others have closed. All together may take as long as a
/// break.
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
    let directory = join(share.folder.as_str(), file.path.as_str());
    let is_posix = file.path.is_posix();
    let expects_lost_names =
        is_posix || scope.globals.expects_lost_names(scope.session.session_id, &share);
    let beneath = |record: &FileRecord, it: &OpenEntry| {
        // Only a path from the same folder gets the new name of the directory. That of a deletion
        // from another one would lead nowhere, and the file would stay.
        let may_lose_name = expects_lost_names
            && it.facts.expects_lost_names
            && is_within(it, &share)
            && !record.is_pending_by_other_path(it);
        let is_beneath =
            is_on_host_beneath(it, &directory) && record.keeps_its_name(it) && !may_lose_name;
        // Who is away cannot close.
        let may_close =
            record.cache_of(it).state.contains(Caching::HANDLE) && !it.is_disconnected();
        is_beneath.then_some((it.id, may_close))
    };
    let files = &mut scope.globals.files;
    let found = files.find_opens(beneath)?;
    let is_known = |id: &OpenId| asked.beneath.as_ref().is_none_or(|it| it.contains(id));
    let known: Vec<_> = found.iter().filter(|(_, (id, _))| is_known(id)).collect();
    let Some(&&(file, (first, _))) = known.first() else {
        return if found.is_empty() { Ok(false) } else { Err(Reject::OpenBeneath) };
    };
    // As long as one that does not answer may delay it, so that many do not take many times that.
    let is_late = files.now() >= *asked.until.get_or_insert_with(|| files.break_deadline());
    let may_close = !is_late && known.iter().all(|(_, (_, may_close))| *may_close);
    if !may_close || !files.break_conflicting_handles(file, &|it| it.id == first)? {
        return Err(Reject::OpenBeneath);
    }
    asked.file = file;
    asked.beneath = Some(known.iter().map(|(_, (id, _))| *id).collect());
    Ok(true)
}

/// True if the file was opened in the same folder, perhaps through another share of it. A share may
/// lead each user to another folder.
fn is_within(entry: &OpenEntry, share: &Share) -> bool {
    entry.facts.folder == share.folder.as_str()
}

/// True if the file is beneath this directory of the host, through whatever share it was opened: a
/// folder may have several, and that of one may be in that of another.
fn is_on_host_beneath(entry: &OpenEntry, directory: &str) -> bool {
    let OpenFacts { folder, path, .. } = &entry.facts;
    let separator = (!folder.is_empty()).then_some(b'/');
    let path = path.bytes().map(|byte| if byte == b'\\' { b'/' } else { byte });
    let mut path = folder.bytes().chain(separator).chain(path);
    directory.bytes().all(|byte| path.next() == Some(byte)) && path.next() == Some(b'/')
}

/// Gives the opens beneath a renamed directory their new path.
pub(super) fn rename_beneath(
    scope: &mut InTree<'_>,
    share: &Share,
    (old, new): (&str, &str),
) -> Result<(), Reject> {
    let prefix = format!("{old}\\");
    let files = &mut scope.globals.files;
    let found = files.find_opens(|_, it| {
        let rest = it.facts.path.strip_prefix(&prefix).filter(|_| is_within(it, share))?;
        Some((it.facts.path.clone(), format!("{new}\\{rest}")))
    })?;
    for (file, (old, new)) in found {
        files.change(file, |record, look| {
            record.renamed(share.folder.as_str(), &old, &new, look);
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
