//! Paths that were looked up: the directory, the name in it, the object.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::{OFlags, Statx};

use crate::cache::directories::{Directory, Inode};
use crate::model::root::Root;
use crate::model::subject::Subject;
use crate::sys::file_kind::is_directory;

/// The directory that holds a name.
#[derive(Debug)]
pub(crate) struct Parent {
    pub(crate) directory: Rc<Directory>,
    /// Its path as clients see it.
    pub(crate) path: String,
    pub(crate) status: Statx,
}

impl Parent {
    /// The directory, as its descriptor is asked for.
    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject { fd: self.directory.fd.as_fd(), path_only: true, status: &self.status }
    }

    /// The path of a name in it, as clients see it.
    pub(crate) fn join(&self, root: &Root, name: &OsStr) -> String {
        join(&self.path, &root.shown(name))
    }
}

/// Result of looking up a path.
#[derive(Debug)]
pub(crate) struct Place {
    /// `None` for the share's root.
    pub(crate) parent: Option<Parent>,
    /// The last component: as stored if it is there, as asked for otherwise; empty for the root.
    pub(crate) name: OsString,
    /// The last component as a new entry is to be called.
    pub(crate) wanted: OsString,
    pub(crate) entry: Option<Entry>,
}

/// An object that is there.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The object, opened with O_PATH, or for its data.
    pub(crate) fd: OwnedFd,
    /// Flags with which the data were opened; `None` for O_PATH.
    pub(crate) data: Option<OFlags>,
    pub(crate) status: Statx,
    /// Inode of the name itself: the link, if one was followed.
    pub(crate) named: Inode,
}

impl Place {
    /// The path as clients see it.
    pub(crate) fn path(&self, root: &Root) -> String {
        self.parent.as_ref().map_or_else(String::new, |parent| parent.join(root, &self.name))
    }
}

impl Entry {
    pub(crate) fn is_directory(&self) -> bool {
        is_directory(&self.status)
    }
}

/// Returns the path of a name in a directory.
pub(crate) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}
