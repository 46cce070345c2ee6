//! Renames and hard links: [MS-FSA] 2.1.5.15.11 and 2.1.5.15.6.

use std::sync::Arc;

use arbitration::HostPath;
use dtyp::fscc::FileRenameInformation;
use dtyp::{AccessMask, NtStatus};
use engine::change::{Change, ChangeKind};
use engine::effect::{Effect, Reply};
use engine::response::Step;
use engine::scope::InTree;
use model::audit::AuditEvent;
use model::caching::lease_name;
use model::file_key::key;
use model::reject::Reject;
use model::share::Share;
use object::{FileIdentity, ObjectOp, ObjectPath, ObjectReply};

use super::name_conflicts::{self, AskedToClose};
use super::{Pending, decode, done};
use crate::command::create::{is_vetoed, parse_path, parse_posix_path};

/// The requested new name of a file.
#[derive(Debug)]
pub struct NewName {
    target: ObjectPath,
    replace: bool,
    links: bool,
    /// Directory of the target, after its lookup.
    directory: Option<FileIdentity>,
    /// Opens that had to close first.
    asked: AskedToClose,
}

/// Handles FileRenameInformation of [MS-FSCC] 2.4.
pub(super) fn start(
    mut scope: InTree<'_>,
    buffer: &[u8],
    mut asked: AskedToClose,
) -> Result<Step<Pending>, Reject> {
    let open = scope.open()?;
    open.verify_access(AccessMask::DELETE)?;
    let wanted = read(&mut scope, buffer, false)?;
    let open = scope.open()?;
    let (identity, volatile) = (open.file()?.identity, open.file_id.volatile);
    if scope.globals.files.break_for_name(identity, volatile)? {
        asked.file = key(identity);
        return Ok(Step::Suspend(Pending::AskedToClose(Box::new(asked))));
    }
    if name_conflicts::verify_alone(&mut scope, &mut asked)?
        || name_conflicts::clear_beneath(&mut scope, &mut asked)?
    {
        return Ok(Step::Suspend(Pending::AskedToClose(Box::new(asked))));
    }
    find_directory(scope, NewName { asked, ..wanted })
}

/// Handles FileLinkInformation of [MS-FSCC] 2.4.
pub(super) fn start_link(
    mut scope: InTree<'_>,
    buffer: &[u8],
    asked: AskedToClose,
) -> Result<Step<Pending>, Reject> {
    if scope.open()?.file()?.is_directory {
        return Err(Reject::LinkToDirectory);
    }
    let wanted = read(&mut scope, buffer, true)?;
    find_directory(scope, NewName { asked, ..wanted })
}

/// Parses a request: [MS-SMB2] 2.2.39. Names are relative to the share's root, and RootDirectory is
/// zero. A name that begins with a colon is a stream of the same file.
fn read(scope: &mut InTree<'_>, buffer: &[u8], links: bool) -> Result<NewName, Reject> {
    let information = decode(FileRenameInformation::decode(buffer))?;
    if information.root_directory != 0 {
        return Err(Reject::RootDirectoryNotZero(information.root_directory));
    }
    if information.file_name.is_empty() {
        return Err(Reject::TargetNameEmpty);
    }
    let replace = information.replace_if_exists();
    let path = &scope.open()?.file()?.path;
    let name = information.file_name.as_str();
    if path.is_posix() {
        let name = name.strip_prefix(['/', '\\']).unwrap_or(name);
        let target = parse_posix_path(name)?;
        return accept(scope, target, replace, links);
    }
    if name.starts_with(':') {
        if path.is_root() {
            return Err(Reject::StreamOfRoot);
        }
        let parsed = parse_path(&format!("x{name}"))?;
        // Data cannot move between a stream and the file itself, since they are stored apart.
        let stream = parsed.stream().ok_or(Reject::StreamToFile)?.to_owned();
        return Ok(NewName {
            target: path.with_stream(Some(stream)),
            replace,
            links,
            directory: None,
            asked: AskedToClose::default(),
        });
    }
    if path.stream().is_some() {
        // A stream cannot leave its file. Windows reports that as a sharing violation, because this
        // stream has the file open.
        return Err(Reject::RenameOfStream);
    }
    let target = parse_path(name.strip_prefix('\\').unwrap_or(name))?;
    accept(scope, target, replace, links)
}

/// Checks the target: it must be neither the share's root nor vetoed.
fn accept(
    scope: &InTree<'_>,
    target: ObjectPath,
    replace: bool,
    links: bool,
) -> Result<NewName, Reject> {
    if target.is_root() {
        return Err(Reject::RootCannotBeTarget);
    }
    if is_vetoed(&scope.tree.share, &target) {
        return Err(Reject::NameVetoed);
    }
    Ok(NewName { target, replace, links, directory: None, asked: AskedToClose::default() })
}

/// Looks up the directory of the new name.
fn find_directory(mut scope: InTree<'_>, wanted: NewName) -> Result<Step<Pending>, Reject> {
    let root = scope.tree.share.root.ok_or(Reject::NotOnPipes)?;
    let parent = wanted.target.parent().filter(|_| wanted.target.stream().is_none());
    let Some(path) = parent else { return find_target(scope, wanted) };
    let user = scope.open()?.user;
    let op = ObjectOp::Lookup { root, path: path.into() };
    Ok(Step::Wait(Effect::Object { user, op }, Pending::Directory(wanted.into())))
}

/// Checks the directory of the new name. If it is missing, the store refuses the rename later.
pub(super) fn directory_found(
    mut scope: InTree<'_>,
    mut wanted: NewName,
    reply: Reply,
) -> Result<Step<Pending>, Reject> {
    if let Ok(ObjectReply::Metadata(metadata)) = reply.object() {
        let directory = metadata.identity;
        if !wanted.links && name_conflicts::clear_directory(&mut scope, directory)? {
            wanted.asked.file = key(directory);
            return Ok(Step::Suspend(Pending::AskedToClose(Box::new(wanted.asked))));
        }
        wanted.directory = Some(metadata.identity);
    }
    find_target(scope, wanted)
}

/// Looks up the file to replace, which must not be open.
fn find_target(mut scope: InTree<'_>, wanted: NewName) -> Result<Step<Pending>, Reject> {
    let root = scope.tree.share.root.ok_or(Reject::NotOnPipes)?;
    if !wanted.replace || wanted.target.stream().is_some() {
        return set_name(scope, wanted);
    }
    let user = scope.open()?.user;
    let op = ObjectOp::Lookup { root, path: wanted.target.clone().into() };
    Ok(Step::Wait(Effect::Object { user, op }, Pending::Target(wanted.into())))
}

/// Checks the file that has the new name already, if any.
pub(super) fn target_found(
    mut scope: InTree<'_>,
    mut wanted: NewName,
    reply: Reply,
) -> Result<Step<Pending>, Reject> {
    match reply.object() {
        Ok(ObjectReply::Metadata(metadata)) => {
            let target = metadata.identity;
            let itself = scope.open()?.file()?.identity == target;
            if !itself && name_conflicts::clear_target(&mut scope, target, &mut wanted.asked)? {
                return Ok(Step::Suspend(Pending::AskedToClose(Box::new(wanted.asked))));
            }
        }
        Ok(other) => panic!("{other:?} does not answer a notify-up"),
        Err(Reject::Object(NtStatus::OBJECT_NAME_NOT_FOUND)) => {}
        Err(reject) => return Err(reject),
    }
    set_name(scope, wanted)
}

fn set_name(mut scope: InTree<'_>, wanted: NewName) -> Result<Step<Pending>, Reject> {
    let open = scope.open()?;
    let (user, local_open) = (open.user, open.file()?.local_open);
    let (target, replace) = (wanted.target.clone().into(), wanted.replace);
    if wanted.links {
        let op = ObjectOp::Link { open: local_open, target, replace };
        return Ok(Step::Wait(Effect::Object { user, op }, Pending::Linking(wanted.into())));
    }
    let op = ObjectOp::Rename { open: local_open, target, replace };
    Ok(Step::Wait(Effect::Object { user, op }, Pending::Renaming(wanted.into())))
}

/// Updates all opens of the file and those below it after a rename.
pub(super) fn renamed(
    mut scope: InTree<'_>,
    wanted: &NewName,
    reply: Reply,
) -> Result<Step<Pending>, Reject> {
    let ObjectReply::Renamed(path, on_disk) = reply.object()? else {
        panic!("{wanted:?} was asked for")
    };
    let InTree { opens, globals, file_id, .. } = &mut scope;
    let open = file_id.and_then(|it| opens.get(&it.volatile)).ok_or(Reject::NoSuchOpen)?;
    let (root, volatile) = (open.share.root, open.file_id.volatile);
    let share = Arc::clone(&open.share);
    let file = open.file()?;
    globals.audit_change(file, AuditEvent::Rename, Some(&path));
    let (old, is_directory) = (file.path.clone(), file.is_directory);
    let (identity, parent, parent_lease) = (file.identity, file.parent, file.parent_lease);
    let link = file.link;
    for other in scope.opens.values_mut().filter(|other| other.share.root == root) {
        let Ok(file) = other.file_mut() else { continue };
        move_path(&mut file.path, &old, &path);
        if let Some(lease) = file.lease.filter(|_| file.identity == identity) {
            scope.globals.files.rename_lease(lease, lease_name(&share, &file.path));
        }
        if let Some(directory) = wanted.directory.filter(|_| file.identity == identity) {
            if file.link == link {
                file.link = path.link(Some(directory), identity);
            }
            file.parent = Some(directory);
        }
    }
    let (old_name, new_name) = (old.to_windows(), path.to_windows());
    // A stream is renamed within its file, whose name stays.
    let renamed = || path.link(wanted.directory.or(parent), identity);
    let is_stream = old.stream().is_some();
    let links = (!is_stream).then(|| (link, renamed()));
    let id = scope.globals.files.open_id(volatile);
    let before = scope.globals.files.change(key(identity), |record, notify| {
        let before = record.open(id).and_then(|it| it.facts.path_on_disk.clone());
        let new = if is_stream { &before } else { &on_disk };
        let new = path_in(&share, &new_name, new.as_deref());
        record.renamed(path_in(&share, &old_name, None), new, notify);
        if let Some((from, to)) = links {
            record.relinked(from, to);
        }
        (before, true)
    })?;
    if is_directory
        && (path.is_posix() || scope.globals.expects_lost_names(scope.session.session_id, &share))
    {
        let old = path_in(&share, &old_name, before.as_deref());
        let new = path_in(&share, &new_name, on_disk.as_deref());
        name_conflicts::rename_beneath(&mut scope, old, new)?;
    }
    for directory in [parent, wanted.directory].into_iter().flatten() {
        scope.globals.files.break_for_listing(directory, parent_lease);
    }
    if let Some(root) = root {
        let kind = ChangeKind::Renamed { to: path };
        scope.globals.report(|| Change { root, path: old, is_directory, kind });
    }
    done()
}

fn path_in<'p>(share: &'p Share, path: &'p str, on_disk: Option<&'p str>) -> HostPath<'p> {
    HostPath { folder: share.folder.as_str(), path, on_disk }
}

/// Replaces `old` by `new` in a path that equals `old` or lies below it.
fn move_path(path: &mut ObjectPath, old: &ObjectPath, new: &ObjectPath) {
    if old.stream().is_some() {
        if path == old {
            *path = new.clone();
        }
        return;
    }
    let Some(rest) = path.as_str().strip_prefix(old.as_str()) else { return };
    if rest.is_empty() || rest.starts_with('/') {
        let moved = format!("{}{rest}", new.as_str());
        let moved = ObjectPath::from_stored(moved, path.stream().map(str::to_owned));
        *path = moved.meant_as(path);
    }
}

/// Reports the new link of the file.
pub(super) fn linked(
    scope: &mut InTree<'_>,
    wanted: &NewName,
    reply: Reply,
) -> Result<Step<Pending>, Reject> {
    reply.object()?;
    let InTree { opens, globals, file_id, .. } = &mut *scope;
    let open = file_id.and_then(|it| opens.get(&it.volatile)).ok_or(Reject::NoSuchOpen)?;
    let file = open.file()?;
    globals.audit_change(file, AuditEvent::Link, Some(&wanted.target));
    let (root, parent_lease) = (open.share.root, file.parent_lease);
    if let Some(directory) = wanted.directory {
        scope.globals.files.break_for_listing(directory, parent_lease);
    }
    if let Some(root) = root {
        let path = wanted.target.clone();
        let kind = ChangeKind::Added;
        scope.globals.report(|| Change { root, path, is_directory: false, kind });
    }
    done()
}
