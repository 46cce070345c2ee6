//! The root of a share.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::rc::Rc;

use dtyp::{FileTime, NtStatus};
use rustix::fs::Statx;

use crate::cache::directories::{Directory, Inode};
use crate::cache::directory_paths::DirectoryPaths;
use crate::cache::no_xattr::NoXattr;
use crate::cache::regular_files::RegularFiles;
use crate::names::short_name;
use crate::settings::RootSettings;
use crate::sys::system;

/// The root of a share.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) settings: RootSettings,
    pub(crate) directory: Rc<Directory>,
    /// This is the share as it was then.
    pub(crate) snapshot: Option<FileTime>,
    /// The object that was looked at last had DOS attributes stored.
    pub(crate) stores_attributes: Cell<bool>,
    pub(crate) ways: RefCell<DirectoryPaths>,
    bare: RefCell<NoXattr>,
    pub(crate) regular: RefCell<RegularFiles>,
    has_fine_times: OnceCell<bool>,
}

impl Root {
    pub(crate) fn new(
        settings: RootSettings,
        directory: Rc<Directory>,
        snapshot: Option<FileTime>,
    ) -> Self {
        let (stores_attributes, ways) = (Cell::new(false), RefCell::default());
        let has_fine_times = OnceCell::new();
        let (bare, regular) = Default::default();
        Self {
            settings,
            directory,
            snapshot,
            stores_attributes,
            ways,
            bare,
            regular,
            has_fine_times,
        }
    }

    /// Whether an object that looks like `status` is known to have no extended attributes.
    pub(crate) fn is_known_bare(&self, status: &Statx) -> bool {
        self.bare.borrow().contains(status)
    }

    /// An object that looked like `status` before was seen to have no extended attributes.
    pub(crate) fn keep_bare(&self, status: &Statx) {
        let fd = self.directory.fd.as_fd();
        let is_here = Inode::of(status).device == self.directory.inode.device;
        if is_here && *self.has_fine_times.get_or_init(|| system::has_fine_times(fd)) {
            self.bare.borrow_mut().keep(status);
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
    /// The name under which clients see an entry.
    pub(crate) fn shown<'a>(&self, name: &'a OsStr) -> Cow<'a, str> {
        // A hidden entry was found by its stored name, which is shown instead.
        short_name::shown(&self.settings, name).unwrap_or_else(|| name.to_string_lossy())
    }
}
