//! The folder of the default share, and as whom it is served.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use nix::unistd::{Uid, User};
use rustix::fs::OFlags;

use super::{PATH_OF_ROOT, system_user};

/// Of a folder in the home of whoever runs the server.
pub(super) const OWN_MODE: u32 = 0o755;

/// Mode of a folder of the system user: local users of the folder join its group.
const SYSTEM_USER_MODE: u32 = 0o770;

/// Makes the folder, and those above it, unless it is there. Returns true if it was made.
///
/// # Errors
/// It cannot be made, or something else is there.
pub(super) fn make(path: &Path, mode: u32) -> anyhow::Result<bool> {
    let make = || {
        if let Some(above) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o755).create(above)?;
        }
        match DirBuilder::new().mode(mode).create(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
            Err(error) => Err(error),
        }
    };
    make().with_context(|| format!("cannot create {}", path.display()))
}

/// Creates the folder if it is missing. Returns the user that it is served as, who is not root.
///
/// A folder that belongs to root keeps its owner, except for [`PATH_OF_ROOT`] while it is empty: an
/// earlier version created that as root.
///
/// # Errors
/// The folder cannot be created or is not a directory, or there is no user to serve it as.
pub(super) fn prepare_for_root(path: &Path) -> anyhow::Result<String> {
    let is_new = make(path, 0o700)?;
    let looking = || format!("cannot examine {}", path.display());
    let owner = Uid::from_raw(fs::metadata(path).with_context(looking)?.uid());
    if !owner.is_root() {
        let user = User::from_uid(owner).context("cannot look up users")?;
        let user = user.with_context(|| {
            format!("the folder to share belongs to the user id {owner}, which has no name")
        })?;
        return Ok(user.name);
    }
    let user = system_user::find_or_make()?;
    if is_new {
        give(path, &user, Some(SYSTEM_USER_MODE))?;
    } else if path == Path::new(PATH_OF_ROOT)
        && !path.is_symlink()
        && is_empty(path).with_context(looking)?
    {
        give(path, &user, None)?;
        tracing::info!("gave the empty folder {} of root to {}", path.display(), user.name);
    } else if !may_write(&user, path) {
        let name = &user.name;
        tracing::warn!(
            "{path:?} belongs to root and is served as the system user {name}, who may not write \
             there. To let clients write: setfacl -R -m u:{name}:rwX -m d:u:{name}:rwX {path:?} \
             or, to make all of it the user's own: chown -R {name}: {path:?}"
        );
    }
    Ok(user.name)
}

/// Gives the folder itself, and not where a link of its name leads.
fn give(path: &Path, user: &User, mode: Option<u32>) -> anyhow::Result<()> {
    let flags = OFlags::NOFOLLOW | OFlags::DIRECTORY;
    let flags = i32::try_from(flags.bits()).expect("flags of open fit");
    let folder = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let give = |folder: File| {
        fchown(&folder, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
        mode.map_or(Ok(()), |mode| folder.set_permissions(Permissions::from_mode(mode)))
    };
    folder
        .and_then(give)
        .with_context(|| format!("cannot give {} to {}", path.display(), user.name))
}

fn is_empty(path: &Path) -> std::io::Result<bool> {
    Ok(fs::read_dir(path)?.next().is_none())
}

/// Returns true if the user can enter the folder and create a file in it. Also true if that cannot
/// be determined, because an unfounded warning helps nobody.
fn may_write(user: &User, path: &Path) -> bool {
    let status = Command::new("test")
        .arg("-w")
        .arg(path)
        .args(["-a", "-x"])
        .arg(path)
        .uid(user.uid.as_raw())
        .gid(user.gid.as_raw())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match status {
        Ok(status) => status.success(),
        Err(_) => true,
    }
}
