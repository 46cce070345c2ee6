//! Names: [MS-FSA] 2.1.5.15.11 and 2.1.5.15.6.

use arbitration::ShareMode;
use dtyp::fscc::FileRenameInformation;
use dtyp::{AccessMask, NtStatus};
use object::{ObjectOp, ObjectPath, ObjectReply};

use super::{Pending, decode, done};
use crate::change::{Change, ChangeKind};
use crate::command::create::parse_path;
use crate::effect::{Effect, Reply};
use crate::reject::Reject;
use crate::response::Step;
use crate::scope::InTree;

/// The name that is wanted.
#[derive(Debug)]
pub struct Wanted {
    target: ObjectPath,
    replace: bool,
    links: bool,
}

/// FileRenameInformation.
pub(super) fn start(mut scope: InTree<'_>, buffer: &[u8]) -> Result<Step<Pending>, Reject> {
    let open = scope.open()?;
    open.verify_access(AccessMask::DELETE)?;
    let wanted = read(&mut scope, buffer, false)?;
    verify_alone(&mut scope)?;
    find_target(scope, wanted)
}

/// FileLinkInformation.
pub(super) fn start_link(mut scope: InTree<'_>, buffer: &[u8]) -> Result<Step<Pending>, Reject> {
    if scope.open()?.file()?.is_directory {
        return Err(Reject::Status(NtStatus::FILE_IS_A_DIRECTORY));
    }
    let wanted = read(&mut scope, buffer, true)?;
    find_target(scope, wanted)
}

/// [MS-SMB2] 2.2.39: names are relative to the share's root, and RootDirectory is zero. A name that
/// begins with a colon is a stream of the same file.
fn read(scope: &mut InTree<'_>, buffer: &[u8], links: bool) -> Result<Wanted, Reject> {
    let information = decode(FileRenameInformation::decode(buffer))?;
    if information.root_directory != 0 || information.file_name.is_empty() {
        return Err(Reject::Status(NtStatus::INVALID_PARAMETER));
    }
    let replace = information.replace_if_exists();
    let path = &scope.open()?.file()?.path;
    let name = information.file_name.as_str();
    let target = match name.strip_prefix(':') {
        Some(_) if path.is_root() => return Err(Reject::Status(NtStatus::INVALID_PARAMETER)),
        Some(_) => parse_path(&format!("x{name}"))?.stream().map(str::to_owned),
        None => {
            let target = parse_path(name.strip_prefix('\\').unwrap_or(name))?;
            if target.is_root() {
                return Err(Reject::Status(NtStatus::INVALID_PARAMETER));
            }
            return Ok(Wanted { target, replace, links });
        }
    };
    Ok(Wanted { target: path.with_stream(target), replace, links })
}

/// Whoever has the file open must share its deletion; and nothing may be open beneath a directory.
fn verify_alone(scope: &mut InTree<'_>) -> Result<(), Reject> {
    let open = scope.open()?;
    let volatile = open.file_id.volatile;
    let root = open.share.root;
    let file = open.file()?;
    let (identity, is_directory) = (file.identity, file.is_directory);
    let prefix = format!("{}/", file.path.as_str());
    let mode = ShareMode {
        granted_access: AccessMask::DELETE,
        share_read: true,
        share_write: true,
        share_delete: true,
    };
    let record = scope.globals.files.get(identity);
    if record.is_some_and(|record| record.conflicts(volatile, mode)) {
        return Err(Reject::SharingViolation);
    }
    let is_beneath = |path: &ObjectPath| path.as_str().starts_with(&prefix);
    let mut others = scope.opens.values().filter(|other| other.share.root == root);
    if is_directory && others.any(|it| it.file().is_ok_and(|file| is_beneath(&file.path))) {
        return Err(Reject::Status(NtStatus::ACCESS_DENIED));
    }
    Ok(())
}

/// What is to be replaced must not be open: first look who it is.
fn find_target(mut scope: InTree<'_>, wanted: Wanted) -> Result<Step<Pending>, Reject> {
    let root = scope.tree.share.root.ok_or(Reject::NotOnPipes)?;
    if !wanted.replace || wanted.target.stream().is_some() {
        return set_name(scope, wanted);
    }
    let user = scope.open()?.user;
    let op = ObjectOp::Lookup { root, path: wanted.target.clone() };
    Ok(Step::Wait(Effect::Object { user, op }, Pending::Target(wanted)))
}

/// Judges the file that is in the way, if one is.
pub(super) fn target_found(
    mut scope: InTree<'_>,
    wanted: Wanted,
    reply: Reply,
) -> Result<Step<Pending>, Reject> {
    match reply.object() {
        Ok(ObjectReply::Metadata(metadata)) => {
            let itself = scope.open()?.file()?.identity == metadata.identity;
            let is_open = scope.globals.files.get(metadata.identity).is_some();
            if !itself && is_open {
                return Err(Reject::Status(NtStatus::ACCESS_DENIED));
            }
        }
        Ok(other) => panic!("{other:?} does not answer a look-up"),
        Err(Reject::Object(NtStatus::OBJECT_NAME_NOT_FOUND)) => {}
        Err(reject) => return Err(reject),
    }
    set_name(scope, wanted)
}

fn set_name(mut scope: InTree<'_>, wanted: Wanted) -> Result<Step<Pending>, Reject> {
    let open = scope.open()?;
    let (user, local_open) = (open.user, open.file()?.local_open);
    let (target, replace) = (wanted.target.clone(), wanted.replace);
    if wanted.links {
        let op = ObjectOp::Link { open: local_open, target, replace };
        return Ok(Step::Wait(Effect::Object { user, op }, Pending::Linking(wanted)));
    }
    let op = ObjectOp::Rename { open: local_open, target, replace };
    Ok(Step::Wait(Effect::Object { user, op }, Pending::Renaming(wanted)))
}

/// The file has its new name: whoever has it open, or something beneath it, sees that.
pub(super) fn renamed(
    mut scope: InTree<'_>,
    wanted: &Wanted,
    reply: Reply,
) -> Result<Step<Pending>, Reject> {
    let ObjectReply::Renamed(path) = reply.object()? else { panic!("{wanted:?} was asked for") };
    let open = scope.open()?;
    let root = open.share.root;
    let file = open.file()?;
    let (old, is_directory) = (file.path.clone(), file.is_directory);
    for other in scope.opens.values_mut().filter(|other| other.share.root == root) {
        if let Ok(file) = other.file_mut() {
            move_path(&mut file.path, &old, &path);
        }
    }
    if let Some(root) = root {
        let kind = ChangeKind::Renamed { to: path };
        scope.globals.report(|| Change { root, path: old, is_directory, kind });
    }
    done()
}

/// A path that is `old`, or leads through it, leads through `new` now.
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
        *path = ObjectPath::from_stored(moved, path.stream().map(str::to_owned));
    }
}

/// The file has a further name.
pub(super) fn linked(
    scope: &mut InTree<'_>,
    wanted: &Wanted,
    reply: Reply,
) -> Result<Step<Pending>, Reject> {
    reply.object()?;
    let root = scope.open()?.share.root;
    if let Some(root) = root {
        let path = wanted.target.clone();
        let kind = ChangeKind::Added;
        scope.globals.report(|| Change { root, path, is_directory: false, kind });
    }
    done()
}
