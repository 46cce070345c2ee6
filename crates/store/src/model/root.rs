//! The root of a share.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::{CString, OsStr};
use std::os::fd::AsFd;
use std::rc::Rc;

use dtyp::{FileTime, NtStatus};
use object::ObjectPath;
use rustix::fs::Statx;
use rustix::io::Errno;

use crate::cache::directories::{Directory, Inode};
use crate::cache::directory_paths::DirectoryPaths;
use crate::cache::file_caches::FileCaches;
use crate::names::short_name;
use crate::settings::RootSettings;
use crate::sys::system;
use crate::sys::xattr::Xattrs;

/// The root of a share.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) settings: RootSettings,
    pub(crate) directory: Rc<Directory>,
    /// This is the share as it was then.
    pub(crate) snapshot: Option<FileTime>,
    /// Directory of the share that this is an image of; the root for the share itself.
    pub(crate) folder: ObjectPath,
    /// Name of the snapshot that was found last, to be confirmed; empty if there was none.
    pub(crate) last_snapshot: RefCell<CString>,
    /// DOS attributes are in modes: none are to be stored, or the file system cannot.
    pub(crate) has_mode_attributes: bool,
    /// The object that was looked at last had DOS attributes stored.
    pub(crate) stores_attributes: Cell<bool>,
    pub(crate) directory_paths: RefCell<DirectoryPaths>,
    /// Caches of all roots of the store.
    pub(crate) files: Rc<FileCaches>,
    has_fine_times: OnceCell<bool>,
}

impl Root {
    pub(crate) fn new(
        settings: RootSettings,
        directory: Rc<Directory>,
        snapshot: Option<FileTime>,
        files: Rc<FileCaches>,
    ) -> Self {
        let (stores_attributes, directory_paths) = (Cell::new(false), RefCell::default());
        let has_fine_times = OnceCell::new();
        let stored = || Xattrs::new(directory.fd.as_fd(), true).get("user.DOSATTRIB");
        let has_mode_attributes =
            !settings.store_dos_attributes || stored() == Err(Errno::OPNOTSUPP);
        Self {
            settings,
            directory,
            snapshot,
            folder: ObjectPath::root(),
            last_snapshot: RefCell::default(),
            has_mode_attributes,
            stores_attributes,
            directory_paths,
            files,
            has_fine_times,
        }
    }

    /// Whether an object that looks like `status` is known to have no extended attributes.
    pub(crate) fn is_known_without_xattrs(&self, status: &Statx) -> bool {
        self.files.no_xattr.borrow().contains(status)
    }

    /// An object that looked like `status` before was seen to have no extended attributes.
    pub(crate) fn keep_without_xattrs(&self, status: &Statx) {
        let fd = self.directory.fd.as_fd();
        let is_here = Inode::of(status).device == self.directory.inode.device;
        if is_here && *self.has_fine_times.get_or_init(|| system::has_fine_times(fd)) {
            self.files.no_xattr.borrow_mut().keep(status);
        }
    }

    /// Refuses to change anything in a snapshot, or in a share that is read only.
    pub(crate) fn verify_changeable(&self) -> Result<(), NtStatus> {
        if self.snapshot.is_some() {
            return Err(NtStatus::MEDIA_WRITE_PROTECTED);
        }
        if self.settings.read_only { Err(NtStatus::ACCESS_DENIED) } else { Ok(()) }
    }
}

impl Root {
    /// The path in the share of an object that has this path from here.
    pub(crate) fn path_in_share(&self, path: ObjectPath) -> ObjectPath {
        let path = if self.folder.is_root() { path } else { path.below(&self.folder) };
        path.with_snapshot(self.snapshot)
    }

    /// The path from here of an object that has this path in the share.
    pub(crate) fn path_from_here<'p>(&self, path: &'p ObjectPath) -> &'p str {
        path.relative_to(&self.folder).unwrap_or_default()
    }

    /// The name under which clients see an entry.
    pub(crate) fn shown<'a>(&self, name: &'a OsStr) -> Cow<'a, str> {
        // A hidden entry was found by its stored name, which is shown instead.
        short_name::shown(&self.settings, name).unwrap_or_else(|| name.to_string_lossy())
    }
}
