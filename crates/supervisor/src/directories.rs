//! The directories that a server writes to.
//!
//! A user who can put something else in the place of one of them decides what the server reads and
//! writes as root. So each is reached from `/` on, name by name, and each directory and link on the
//! way belongs to root or to the server's user and is written to by nobody else. After that its
//! path means the same for as long as the server runs.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail, ensure};
use rustix::fs::{self, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use settings::Directories;

/// Of directories that anybody may look into.
const OPEN_MODE: u32 = 0o755;

/// Mode of `private dir`: the owner only.
const PRIVATE_MODE: u32 = 0o700;

/// Links on the way to one directory; as many as the kernel follows.
const LINKS_MAX: usize = 40;

const STICKY: u32 = 0o1000;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

/// Makes sure that all directories exist and that nobody else can write to them.
///
/// `private dir` holds secrets and is for its owner alone; the others may be read, because tools
/// like `choro status` run as whoever may read the tables in them.
pub(super) fn create(directories: &Directories) -> anyhow::Result<()> {
    for directory in [&directories.state, &directories.lock, &directories.pid, &directories.cache] {
        create_one(directory, OPEN_MODE)?;
    }
    create_one(&directories.private, PRIVATE_MODE)
}

/// Makes a directory of its own with exactly `mode`; an existing one keeps its mode if that is
/// stricter.
fn create_one(directory: &Path, mode: u32) -> anyhow::Result<()> {
    let name = directory.display();
    let opened = open_or_make(directory, mode)
        .with_context(|| format!("cannot use the directory {name}"))?;
    let stat = fs::fstat(&opened).with_context(|| format!("cannot examine {name}"))?;
    let has = stat.st_mode & 0o7777;
    if has & STICKY != 0 {
        bail!("{name} is a shared directory (mode {has:04o}); the server needs one of its own");
    }
    if has & 0o777 & !mode == 0 {
        return Ok(());
    }
    let readable = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fs::openat(&opened, c".", readable, Mode::empty())
        .and_then(|directory| fs::fchmod(directory, Mode::from_raw_mode(has & mode)))
        .with_context(|| {
            format!("cannot restrict {name}, which is open to others (mode {has:04o})")
        })
}

/// Opens a directory, after creating it and its parents if they are missing.
fn open_or_make(directory: &Path, mode: u32) -> anyhow::Result<OwnedFd> {
    let root = || fs::open(c"/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let (mut at, mut path) = (root()?, PathBuf::from("/"));
    let mut to_go = names(&std::path::absolute(directory)?);
    let mut links = 0;
    while let Some(name) = to_go.pop() {
        let mode = if to_go.is_empty() { mode } else { OPEN_MODE };
        let next_path = path.join(&name);
        let next = open_or_make_in(&at, &name, mode)
            .with_context(|| format!("cannot create {}", next_path.display()))?;
        let stat = fs::fstat(&next)?;
        verify_owner(&next_path, &stat)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                verify_writers(&next_path, &stat)?;
                (at, path) = (next, next_path);
            }
            FileType::Symlink => {
                links += 1;
                ensure!(links <= LINKS_MAX, "{} has too many symbolic links", next_path.display());
                let target = fs::readlinkat(&next, c"", Vec::new())?.into_bytes();
                let target = PathBuf::from(OsString::from_vec(target));
                if target.is_absolute() {
                    (at, path) = (root()?, PathBuf::from("/"));
                }
                to_go.extend(names(&target));
            }
            _ => bail!("{} is not a directory", next_path.display()),
        }
    }
    Ok(at)
}

/// The names of a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let is_name = |it: &Component<'_>| matches!(it, Component::Normal(_) | Component::ParentDir);
    path.components().rev().filter(is_name).map(|it| it.as_os_str().to_owned()).collect()
}

/// Opens the entry of this name, also if it is a link; makes a directory if there is none. A
/// directory is opened as one, which triggers mounts on demand, such as homes of autofs.
fn open_or_make_in(at: &OwnedFd, name: &OsStr, mode: u32) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open_as = |flags| fs::openat(at, name.as_bytes(), flags, Mode::empty());
    let open = || match open_as(flags | OFlags::DIRECTORY) {
        Err(Errno::NOTDIR) => open_as(flags),
        opened => opened,
    };
    match open() {
        Err(Errno::NOENT) => {}
        opened => return opened,
    }
    match fs::mkdirat(at, name.as_bytes(), Mode::from_raw_mode(mode)) {
        Ok(()) | Err(Errno::EXIST) => open(),
        Err(error) => Err(error),
    }
}

/// It belongs to root, or to whom the server runs as.
fn verify_owner(path: &Path, stat: &Stat) -> anyhow::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    ensure!(
        stat.st_uid == 0 || stat.st_uid == own,
        "{} belongs to the user with id {}, who could replace it",
        path.display(),
        stat.st_uid
    );
    Ok(())
}

/// Nobody else can write to it. In a sticky directory, such as `/tmp`, they can, but not remove or
/// rename what is ours there.
fn verify_writers(path: &Path, stat: &Stat) -> anyhow::Result<()> {
    let mode = stat.st_mode & 0o7777;
    let own_group = rustix::process::getegid().as_raw();
    let is_our_group = stat.st_gid == 0 || stat.st_gid == own_group;
    let group_writes = mode & GROUP_WRITES != 0 && !is_our_group;
    let others_write = mode & OTHERS_WRITE != 0;
    ensure!(
        mode & STICKY != 0 || !(group_writes || others_write),
        "{} is writable by others (mode {mode:04o}, group {}), who could replace it",
        path.display(),
        stat.st_gid
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
    use std::path::Path;

    use super::{OPEN_MODE, create, create_one};
    use settings::Directories;

    /// A user of every system who is not root.
    const NOBODY: u32 = 65_534;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it exists").permissions().mode() & 0o7777
    }

    fn make(path: &Path, mode: u32) {
        fs::create_dir(path).expect("it is new");
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
    }

    #[track_caller]
    fn refuses(directory: &Path, why: &str) {
        let error = create_one(directory, OPEN_MODE).expect_err("it is not safe");
        assert!(format!("{error:#}").contains(why), "{error:#}");
    }

    #[test]
    fn the_private_directory_is_for_its_owner_alone() {
        let root = tempfile::tempdir().expect("there is space");
        let directories = Directories {
            state: root.path().join("state"),
            lock: root.path().join("run/lock"),
            private: root.path().join("private"),
            pid: root.path().join("run"),
            cache: root.path().join("cache"),
        };
        make(&directories.private, 0o755);
        create(&directories).expect("it is ours");
        assert_eq!(mode(&directories.private), 0o700);
        assert_eq!(mode(&directories.lock), 0o755);
    }

    #[test]
    fn a_directory_shared_by_all_users_is_not_the_servers() {
        let root = tempfile::tempdir().expect("there is space");
        let shared = root.path().join("tmp");
        make(&shared, 0o1777);
        refuses(&shared, "the server needs one of its own");
        assert_eq!(mode(&shared), 0o1777);
        // One of its own below it will do.
        create_one(&shared.join("choro"), OPEN_MODE).expect("nobody can take its name");
    }

    #[test]
    fn nobody_else_can_write_to_a_directory_or_to_one_above_it() {
        let root = tempfile::tempdir().expect("there is space");
        let open = root.path().join("open");
        make(&open, 0o777);
        refuses(&open, "is writable by others");
        refuses(&open.join("below/choro"), "is writable by others");
        assert!(!open.join("below").exists(), "something was made there");
    }

    #[test]
    fn another_users_directory_anywhere_in_the_path_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return; // Nobody else can give a directory to somebody.
        }
        let root = tempfile::tempdir().expect("there is space");
        let theirs = root.path().join("theirs");
        make(&theirs, 0o700);
        chown(&theirs, Some(NOBODY), Some(NOBODY)).expect("we are root");
        refuses(&theirs, "belongs to the user with id 65534");
        refuses(&theirs.join("choro"), "belongs to the user with id 65534");
        let of_group = root.path().join("group");
        make(&of_group, 0o775);
        chown(&of_group, None, Some(NOBODY)).expect("we are root");
        refuses(&of_group.join("choro"), "group 65534");
    }

    #[test]
    fn links_of_ours_are_followed_and_those_of_others_are_not() {
        let root = tempfile::tempdir().expect("there is space");
        make(&root.path().join("var"), 0o755);
        for (target, name) in [("../run", "run"), ("loop", "loop")] {
            symlink(target, root.path().join("var").join(name)).expect("it is new");
        }
        create_one(&root.path().join("var/run/choro"), OPEN_MODE).expect("it is ours");
        assert!(root.path().join("run/choro").is_dir());
        let absolute = root.path().join("absolute");
        symlink(root.path().join("run"), &absolute).expect("it is new");
        create_one(&absolute.join("other"), OPEN_MODE).expect("it is ours");
        assert!(root.path().join("run/other").is_dir());
        refuses(&root.path().join("var/loop/choro"), "too many symbolic links");
        if rustix::process::geteuid().is_root() {
            lchown(&absolute, Some(NOBODY), Some(NOBODY)).expect("we are root");
            refuses(&absolute.join("other"), "belongs to the user with id 65534");
        }
        fs::write(root.path().join("file"), "").expect("there is space");
        refuses(&root.path().join("file"), "is not a directory");
    }
}
