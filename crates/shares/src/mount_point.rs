//! The place of a directory in the file systems of the host.

use std::os::fd::AsFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, Stat, fstat, open, openat};
use rustix::io::Errno;
use store::Folder;

/// Place of a directory in its file system.
#[derive(Debug)]
pub struct Place {
    /// Its path, absolute and without symbolic links.
    pub path: PathBuf,
    /// The directory where its file system begins.
    pub mount_point: PathBuf,
}

impl Place {
    /// Returns the place of a directory; `None` if no path without symbolic links leads to it.
    pub(super) fn of(folder: &Folder) -> Option<Self> {
        Self::at(folder, folder.path())
    }

    /// Returns the place of an open directory, if this is its path.
    fn at(directory: &impl AsFd, path: PathBuf) -> Option<Self> {
        let own = fstat(directory).ok()?;
        let (mount_point, found) = descend(&path).ok()?;
        let is_same = (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino);
        is_same.then_some(Self { path, mount_point })
    }
}

/// Returns the directory where the file system begins that holds `path`, an absolute path without
/// symbolic links.
#[must_use]
pub fn mount_point(path: &Path) -> PathBuf {
    descend(path).map_or_else(|_| path.to_owned(), |(mount_point, _)| mount_point)
}

/// Follows a path that has no symbolic links. Returns the last directory on the way where another
/// file system begins, and the status of the end. Each name is looked up in the open directory
/// before it: nobody who moves directories meanwhile can have another one taken for the beginning.
fn descend(path: &Path) -> Result<(PathBuf, Stat), Errno> {
    if !path.is_absolute() {
        return Err(Errno::INVAL);
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = open(c"/", flags, Mode::empty())?;
    let mut status = fstat(&at)?;
    let mut reached = PathBuf::from("/");
    let mut mount_point = reached.clone();
    for component in path.components() {
        let name = match component {
            Component::RootDir | Component::CurDir => continue,
            Component::Normal(name) => name,
            Component::ParentDir | Component::Prefix(_) => return Err(Errno::INVAL),
        };
        at = openat(&at, name, flags, Mode::empty())?;
        reached.push(name);
        let next = fstat(&at)?;
        if next.st_dev != status.st_dev {
            mount_point.clone_from(&reached);
        }
        status = next;
    }
    Ok((mount_point, status))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::{Place, mount_point};

    #[test]
    fn a_path_that_leads_elsewhere_is_not_the_place_of_a_directory() {
        let folder = tempfile::tempdir().expect("there is space");
        let folder = fs::canonicalize(folder.path()).expect("it was just made");
        let [own, other, link] = ["own", "other", "link"].map(|name| folder.join(name));
        fs::create_dir(&own).and_then(|()| fs::create_dir(&other)).expect("there is space");
        symlink(&own, &link).expect("there is space");
        let opened = File::open(&own).expect("it was just made");
        let place = |path: &Path| Place::at(&opened, path.to_owned());
        assert!(place(&own).is_some_and(|it| own.starts_with(it.mount_point)));
        for elsewhere in [other, link, folder.join("other/../own"), "own".into(), "".into()] {
            assert!(place(&elsewhere).is_none(), "{elsewhere:?}");
        }
        fs::rename(&own, folder.join("moved")).expect("there is space");
        assert!(place(&own).is_none());
        assert!(place(&folder.join("moved")).is_some());
    }

    #[test]
    fn a_file_system_begins_at_its_mount_point() {
        for point in ["/", "/proc", "/sys"] {
            assert_eq!(mount_point(Path::new(point)), Path::new(point));
        }
        assert_eq!(mount_point(Path::new("/proc/sys/kernel")), Path::new("/proc"));
        let missing = Path::new("/proc/missing");
        assert_eq!(mount_point(missing), missing);
    }
}
