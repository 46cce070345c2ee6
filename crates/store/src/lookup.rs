//! From a path to a place in a directory, never leaving the share.
//!
//! The kernel resolves beneath the share's root (`openat2` with RESOLVE_BENEATH), so neither `..` nor a
//! symbolic link nor a directory that is moved meanwhile leads out. Links are followed if they
//! stay beneath the root; an absolute link does not, even if it names a path in the share: ACCESS_DENIED.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use dtyp::NtStatus;
use object::{Metadata, ObjectPath, RootId};
use rustix::fs::{OFlags, Statx};
use rustix::io::Errno;

use crate::Store;
use crate::directories::{Directory, Inode};
use crate::errno::{During, Operation};
use crate::metadata::{is_directory, is_link};
use crate::settings::RootSettings;
use crate::system;

/// The root of a share.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) settings: RootSettings,
    pub(crate) directory: Rc<Directory>,
}

/// The directory that holds a name.
#[derive(Debug)]
pub(crate) struct Parent {
    pub(crate) directory: Rc<Directory>,
    /// Its path as it is stored.
    pub(crate) path: String,
    pub(crate) status: Statx,
}

impl Parent {
    /// The path of a name in it.
    pub(crate) fn join(&self, name: &str) -> String {
        join(&self.path, name)
    }
}

/// What a path leads to.
#[derive(Debug)]
pub(crate) struct Place {
    /// `None` for the share's root.
    pub(crate) parent: Option<Parent>,
    /// The last component: as stored if it is there, as asked for otherwise; empty for the root.
    pub(crate) name: String,
    pub(crate) entry: Option<Entry>,
}

/// An object that is there.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The object, opened with O_PATH.
    pub(crate) fd: OwnedFd,
    pub(crate) status: Statx,
    /// What the name itself leads to: the link, if one was followed.
    pub(crate) named: Inode,
}

impl Place {
    pub(crate) fn path(&self) -> String {
        self.parent.as_ref().map_or_else(String::new, |parent| parent.join(&self.name))
    }
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

impl Store {
    /// The share.
    pub(crate) fn root(&self, root: RootId) -> Result<Rc<Root>, NtStatus> {
        let index = usize::try_from(root.0).unwrap_or(usize::MAX);
        self.roots.get(index).cloned().flatten().ok_or(NtStatus::NETWORK_NAME_DELETED)
    }

    /// Finds the directory and, if it is there, the object of a path. The link itself is
    /// found if `link_itself`, otherwise what it leads to.
    pub(crate) fn locate(
        &mut self,
        root: &Root,
        path: &ObjectPath,
        link_itself: bool,
    ) -> Result<Place, NtStatus> {
        let Some((parent, name)) = split(path.as_str()) else {
            return root_place(root);
        };
        let parent = self.parent(root, parent)?;
        let mut name = name.to_owned();
        let mut opened = open_entry(&parent, &name);
        if matches!(opened, Err(Errno::NOENT)) && !root.settings.case_sensitive {
            let found = self.names.find_folded(&parent.directory, &name).during(Operation::Open)?;
            if let Some(stored) = found {
                opened = open_entry(&parent, &stored);
                name = stored;
            }
        }
        let (fd, status) = match opened {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Ok(Place { parent: Some(parent), name, entry: None }),
            Err(errno) => return Err(errno).during(Operation::Open),
        };
        let named = Inode::of(&status);
        let (fd, status) = if is_link(&status) && !link_itself {
            follow(root, &parent.join(&name)).during(Operation::Open)?
        } else {
            (fd, status)
        };
        let entry = Some(Entry { fd, status, named });
        Ok(Place { parent: Some(parent), name, entry })
    }

    /// Opens the directory at `path`: as it is written if possible, else component by component
    /// without regard to case.
    pub(crate) fn parent(&mut self, root: &Root, path: &str) -> Result<Parent, NtStatus> {
        if path.is_empty() {
            let status = system::status_of(root.directory.fd.as_fd()).during(Operation::Parent)?;
            return Ok(Parent { directory: root.directory.clone(), path: String::new(), status });
        }
        let (directory, path) = match open_directory(root, path) {
            Ok(fd) => (self.share(fd)?, path.to_owned()),
            Err(Errno::NOENT) if !root.settings.case_sensitive => self.walk(root, path)?,
            Err(errno) => return Err(errno).during(Operation::Parent),
        };
        let status = system::status_of(directory.fd.as_fd()).during(Operation::Parent)?;
        Ok(Parent { directory, path, status })
    }

    fn walk(&mut self, root: &Root, path: &str) -> Result<(Rc<Directory>, String), NtStatus> {
        let mut directory = root.directory.clone();
        let mut stored = String::new();
        for component in path.split('/') {
            let mut next = join(&stored, component);
            let mut fd = open_directory(root, &next);
            if matches!(fd, Err(Errno::NOENT)) {
                let found = self.names.find_folded(&directory, component);
                let found = found.during(Operation::Parent)?;
                next = join(&stored, &found.ok_or(NtStatus::OBJECT_PATH_NOT_FOUND)?);
                fd = open_directory(root, &next);
            }
            directory = self.share(fd.during(Operation::Parent)?)?;
            stored = next;
        }
        Ok((directory, stored))
    }

    fn share(&mut self, fd: OwnedFd) -> Result<Rc<Directory>, NtStatus> {
        let status = system::status_of(fd.as_fd()).during(Operation::Parent)?;
        Ok(self.directories.share(fd, Inode::of(&status)))
    }

    /// Metadata of a path without opening it.
    pub(crate) fn lookup(&mut self, root: RootId, path: &ObjectPath) -> Result<Metadata, NtStatus> {
        let root = self.root(root)?;
        let place = self.locate(&root, path, !root.settings.follow_symlinks)?;
        let entry = place.entry.as_ref().ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
        self.metadata_of(&root, &place.name, entry, path.stream())
    }
}

fn root_place(root: &Root) -> Result<Place, NtStatus> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let fd = system::open_beneath(root.directory.fd.as_fd(), "", flags, 0, false);
    let fd = fd.during(Operation::Open)?;
    let status = system::status_of(fd.as_fd()).during(Operation::Open)?;
    let named = Inode::of(&status);
    Ok(Place { parent: None, name: String::new(), entry: Some(Entry { fd, status, named }) })
}

/// The directory's path and the last component; `None` for the root.
fn split(path: &str) -> Option<(&str, &str)> {
    (!path.is_empty()).then(|| path.rsplit_once('/').unwrap_or(("", path)))
}

fn open_directory(root: &Root, path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let follow = root.settings.follow_symlinks;
    system::open_beneath(root.directory.fd.as_fd(), path, flags, 0, follow)
}

fn open_entry(parent: &Parent, name: &str) -> Result<(OwnedFd, Statx), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let fd = system::open_beneath(parent.directory.fd.as_fd(), name, flags, 0, true)?;
    let status = system::status_of(fd.as_fd())?;
    Ok((fd, status))
}

/// What a link leads to. From the root and by its whole path, because a link may go up and down again
/// within the share.
pub(crate) fn follow(root: &Root, path: &str) -> Result<(OwnedFd, Statx), Errno> {
    let follow = root.settings.follow_symlinks;
    let fd = system::open_beneath(root.directory.fd.as_fd(), path, OFlags::PATH, 0, follow)?;
    let status = system::status_of(fd.as_fd())?;
    Ok((fd, status))
}

impl Entry {
    pub(crate) fn is_directory(&self) -> bool {
        is_directory(&self.status)
    }
}
