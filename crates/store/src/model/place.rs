//! Paths that were looked up: the directory, the name in it, the object.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use object::path::join;
use object::{ObjectKind, ObjectPath};
use rustix::fs::{OFlags, Statx};

use crate::cache::directories::{Directory, Inode};
use crate::model::root::Root;
use crate::model::secured_object::SecuredObject;

/// The directory that holds a name.
#[derive(Debug)]
pub(crate) struct Parent {
    pub(crate) directory: Rc<Directory>,
    /// Its path as clients see it.
    pub(crate) path: String,
    /// Its path on disk, if that is another.
    pub(crate) path_on_disk: Option<String>,
    pub(crate) status: Statx,
}

impl Parent {
    /// The directory, for its security descriptor.
    pub(crate) fn secured(&self) -> SecuredObject<'_> {
        SecuredObject { fd: self.directory.fd.as_fd(), path_only: true, status: &self.status }
    }

    /// The path of a name in it, as clients see it.
    pub(crate) fn join(&self, root: &Root, name: &OsStr) -> String {
        join(&self.path, &root.shown(name))
    }

    /// The path on disk of a name in it, if clients see another `path`. In one of theirs, `\`
    /// separates names.
    pub(crate) fn join_on_disk(&self, name: &OsStr, path: &ObjectPath) -> Option<String> {
        let is_shown = self.path_on_disk.is_none()
            && *name == *path.file_name()
            && !path.as_str().contains('\\');
        let parent = self.path_on_disk.as_ref().unwrap_or(&self.path);
        (!is_shown).then(|| join(parent, &name.to_string_lossy()))
    }
}

/// Result of looking up a path.
#[derive(Debug)]
pub(crate) struct Place {
    /// `None` for the share's root.
    pub(crate) parent: Option<Parent>,
    /// The last component: as stored if it exists, as requested otherwise; empty for the root.
    pub(crate) name: OsString,
    /// The last component in the spelling that a new entry gets.
    pub(crate) new_name: OsString,
    pub(crate) entry: Option<Entry>,
}

/// An object that was found.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The object, opened with O_PATH, or for its data.
    pub(crate) fd: OwnedFd,
    /// Flags with which the data were opened; `None` for O_PATH.
    pub(crate) data_flags: Option<OFlags>,
    pub(crate) kind: ObjectKind,
    pub(crate) status: Statx,
    /// Inode of the name itself: the link, if one was followed.
    pub(crate) name_inode: Inode,
}

impl Place {
    /// The path as clients see it.
    pub(crate) fn path(&self, root: &Root) -> String {
        self.parent.as_ref().map_or_else(String::new, |parent| parent.join(root, &self.name))
    }
}

impl Entry {
    pub(crate) fn is_directory(&self) -> bool {
        self.kind == ObjectKind::Directory
    }
}
