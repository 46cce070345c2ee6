//! Look-up of paths, never leaving the share.
//!
//! The kernel resolves beneath the share's root (`openat2` with RESOLVE_BENEATH), so neither `..`
//! nor a symbolic link nor a directory that is moved meanwhile leads out. Links are followed if
//! they stay beneath the root; those that do not stop the client (see `reparse`), unless an
//! administrator lets them lead anywhere ("wide links"). An absolute link that names a path in the
//! share is followed as the relative one that it could be.
//!
//! Everything that has a path begins here: `Store::resolve` for opens, `Store::locate` for others.
//! The result is a `Place`: the directory, open; the name as stored; and the object, if there is
//! one. Directories, ordinary files and names without regard to case come from `cache` if they can.
//! Metadata of `Store::lookup` have the same identity as those of an open of the same path: the
//! engine compares them.

use crate::model::place::Entry;
use crate::model::place::Parent;
use crate::model::place::Place;
use crate::model::root::Root;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use dtyp::NtStatus;
use object::path::join;
use object::{Metadata, ObjectKind, ObjectPath, RootId, UserId, has_temporary, is_temporary};
use rustix::fs::{Mode, OFlags, ResolveFlags, Statx};
use rustix::io::Errno;

use crate::Store;
use crate::cache::directories::{Directory, Inode};
use crate::errno::{During, Operation};
use crate::names::short_name;
use crate::security::access;
use crate::sys::file_kind::{is_file, kind_of};
use crate::sys::system;

/// Highest number of absolute links in one look-up, as the kernel's limit for links of any kind.
const ABSOLUTE_LINKS_MAX: u32 = 40;

impl Place {
    /// True if the link at this place can be followed to an object.
    pub(crate) fn is_followed(&self, root: &Root) -> bool {
        self.parent.as_ref().is_some_and(|parent| {
            follow(root, parent.directory.fd.as_fd(), &self.name, &self.path(root)).is_ok()
        })
    }
}

impl Store {
    /// Returns the share of an id.
    pub(crate) fn root(&self, root: RootId) -> Result<Rc<Root>, NtStatus> {
        self.root_at(root).cloned().ok_or(NtStatus::NETWORK_NAME_DELETED)
    }

    /// Finds the directory and, if it is there, the object of a path. With `link_itself` a symbolic
    /// link is the result, otherwise its target.
    pub(crate) fn locate(
        &mut self,
        root: &Root,
        path: &ObjectPath,
        link_itself: bool,
    ) -> Result<Place, NtStatus> {
        self.resolve(root, path, link_itself, false, None)
    }

    /// As [`Store::locate`], for an open. With `expects_new`, a directory that is known to lack the
    /// name is not searched: its creation shows if the name exists all the same. With `data_flags`,
    /// an ordinary file is opened with these flags at once, if that is permitted.
    pub(crate) fn resolve(
        &mut self,
        root: &Root,
        path: &ObjectPath,
        link_itself: bool,
        expects_new: bool,
        data_flags: Option<OFlags>,
    ) -> Result<Place, NtStatus> {
        let exact = path.is_posix();
        let path = match exact || root.settings.character_mappings.is_empty() {
            true => Cow::Borrowed(path.as_str()),
            false => root.settings.character_mappings.to_disk(path.as_str()),
        };
        let Some((parent, requested)) = split(&path) else {
            return root_place(root);
        };
        let parent = match parent {
            "" => root_parent(root)?,
            parent => self.parent(root, parent, exact)?,
        };
        let Parent { directory, status, .. } = &parent;
        let is_new = expects_new && self.names.lacks(directory, status, requested, &root.settings);
        let name = OsString::from(requested);
        let opened = match is_new {
            true => Err(Errno::NOENT),
            false => open_entry(root, &parent, &name, data_flags),
        };
        match opened {
            Ok(entry) if entry.kind == ObjectKind::File && !is_temporary(requested.as_bytes()) => {
                let new_name = name.clone();
                Ok(Place { parent: Some(parent), name, new_name, entry: Some(entry) })
            }
            opened => {
                let last =
                    LastComponent { name: requested, is_new, exact, link_itself, data_flags };
                self.resolve_other(root, parent, opened, &last)
            }
        }
    }

    /// Resolves a name that is not an ordinary file's, or not stored in this exact spelling.
    fn resolve_other(
        &mut self,
        root: &Root,
        parent: Parent,
        mut opened: Result<Entry, Errno>,
        &LastComponent { name: requested, is_new, exact, link_itself, data_flags }: &LastComponent<
            '_,
        >,
    ) -> Result<Place, NtStatus> {
        if is_temporary(requested.as_bytes()) {
            return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
        }
        let mut new_name = if exact { requested.into() } else { root.settings.new_name(requested) };
        let mut name = OsString::from(requested);
        let Parent { directory, status, .. } = &parent;
        if matches!(opened, Err(Errno::NOENT)) && !exact {
            let found = match is_new {
                true => Ok(None),
                false => self.names.find(directory, status, requested, &root.settings),
            };
            match found.during(Operation::Open)? {
                Some(stored) => {
                    opened = open_entry(root, &parent, &stored, data_flags);
                    name = stored;
                }
                None => {
                    // A short name may be cached from another share, where its long name is not
                    // vetoed.
                    let former_long_name = self.names.former_long_name(directory, requested);
                    let former_long_name =
                        former_long_name.filter(|it| !short_name::is_vetoed(&root.settings, it));
                    new_name = former_long_name.unwrap_or(new_name);
                    name.clone_from(&new_name);
                }
            }
        }
        let mut entry = match opened {
            Ok(entry) => entry,
            Err(Errno::NOENT) => {
                return Ok(Place { parent: Some(parent), name, new_name, entry: None });
            }
            Err(errno) => return Err(errno).during(Operation::Open),
        };
        // POSIX clients resolve links themselves.
        if entry.kind == ObjectKind::SymbolicLink && !link_itself && !exact {
            let path = parent.join(root, &name);
            let target = follow(root, parent.directory.fd.as_fd(), &name, &path);
            let (fd, status) = target.during(Operation::Open)?;
            entry = Entry { kind: kind_of(&status), fd, status, ..entry };
        }
        let entry = Some(entry);
        Ok(Place { parent: Some(parent), name, new_name, entry })
    }

    /// Opens the directory at `path`: first with exact names, then, unless `exact`, component by
    /// component without regard to case and with short names. Characters of `path` are mapped to
    /// those on disk already.
    pub(crate) fn parent(
        &mut self,
        root: &Root,
        path: &str,
        exact: bool,
    ) -> Result<Parent, NtStatus> {
        if path.is_empty() {
            return root_parent(root);
        }
        if has_temporary(path) {
            return Err(NtStatus::OBJECT_PATH_NOT_FOUND);
        }
        let (now, from) = (Instant::now(), root.directory.fd.as_fd());
        let mut directory_paths = root.directory_paths.borrow_mut();
        if let Some((directory, status)) = directory_paths.find(from, path, now) {
            let (path, path_on_disk) = shown_path(root, path, exact);
            return Ok(Parent { directory, path, path_on_disk, status });
        }
        let (directory, (path, path_on_disk)) = match open_directory(root, path) {
            Ok(fd) => {
                let resolved = self.intern_directory(fd)?;
                directory_paths.keep(from, path, (&resolved.0, &resolved.1), now);
                (resolved, shown_path(root, path, exact))
            }
            Err(Errno::NOENT) if !exact => self.walk(root, path)?,
            Err(errno) => return Err(errno).during(Operation::Parent),
        };
        let (directory, status) = directory;
        Ok(Parent { directory, path, path_on_disk, status })
    }

    fn walk(&mut self, root: &Root, path: &str) -> Result<(Resolved, PathsOf), NtStatus> {
        let mut directory = status_of_root(root)?;
        let mut stored = OsString::new();
        let mut shown = String::new();
        for component in path.split('/') {
            let mut name = OsString::from(component);
            let mut fd = open_directory(root, join_stored(&stored, &name));
            if matches!(fd, Err(Errno::NOENT)) {
                let found = self.names.find(&directory.0, &directory.1, component, &root.settings);
                name = found.during(Operation::Parent)?.ok_or(NtStatus::OBJECT_PATH_NOT_FOUND)?;
                fd = open_directory(root, join_stored(&stored, &name));
            }
            directory = self.intern_directory(fd.during(Operation::Parent)?)?;
            shown = join(&shown, &root.shown(&name));
            stored = join_stored(&stored, &name);
        }
        let on_disk = stored.to_string_lossy();
        let on_disk = (on_disk != *shown).then(|| on_disk.into_owned());
        Ok((directory, (shown, on_disk)))
    }

    fn intern_directory(&mut self, fd: OwnedFd) -> Result<Resolved, NtStatus> {
        let status = system::status_of(fd.as_fd()).during(Operation::Parent)?;
        Ok((self.directories.intern(fd, &status), status))
    }

    /// True if a user may list a directory and enter each one above it; `None` for a missing
    /// directory.
    pub fn may_list(&mut self, user: UserId, root: RootId, path: &ObjectPath) -> Option<bool> {
        if self.impersonation.impersonate(user).is_err() {
            return Some(false);
        }
        let root = self.root(root).ok()?;
        let exact = path.is_posix();
        let path = match exact {
            true => Cow::Borrowed(path.as_str()),
            false => root.settings.character_mappings.to_disk(path.as_str()),
        };
        match self.parent(&root, &path, exact) {
            Ok(directory) => {
                Some(access::may_list(&mut self.impersonation, &root, &directory).unwrap_or(false))
            }
            Err(NtStatus::OBJECT_PATH_NOT_FOUND) => None,
            Err(_) => Some(false),
        }
    }

    /// Metadata of a path without opening it.
    pub(crate) fn lookup(&mut self, root: RootId, path: &ObjectPath) -> Result<Metadata, NtStatus> {
        let (root, path) = &self.version(&self.root(root)?, path)?;
        let place = self.locate(root, path, !root.settings.follow_symlinks)?;
        let entry = place.entry.as_ref().ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
        self.metadata_of(root, &place.name, entry, path.stream())
    }
}

/// A directory, and its status when it was opened.
type Resolved = (Rc<Directory>, Statx);

/// The path of a directory as clients see it, and the one on disk if that is another.
type PathsOf = (String, Option<String>);

/// The last component of a path, with the options of its look-up.
struct LastComponent<'n> {
    name: &'n str,
    /// The directory is known to lack the name.
    is_new: bool,
    /// Only this spelling counts: neither case nor short names are tried.
    exact: bool,
    /// The result is a link itself, not its target.
    link_itself: bool,
    /// Flags to open the data of an ordinary file with.
    data_flags: Option<OFlags>,
}

/// The paths of a directory that a client has named by this one on disk. Of `exact` names no
/// characters are mapped.
fn shown_path(root: &Root, path: &str, exact: bool) -> PathsOf {
    if exact || root.settings.character_mappings.is_empty() {
        return (path.to_owned(), None);
    }
    let shown: Vec<_> = path.split('/').map(|name| root.shown(OsStr::new(name))).collect();
    let shown = shown.join("/");
    let on_disk = (shown != path).then(|| path.to_owned());
    (shown, on_disk)
}

fn root_parent(root: &Root) -> Result<Parent, NtStatus> {
    let (directory, status) = status_of_root(root)?;
    Ok(Parent { directory, path: String::new(), path_on_disk: None, status })
}

fn status_of_root(root: &Root) -> Result<Resolved, NtStatus> {
    let status = system::status_of(root.directory.fd.as_fd()).during(Operation::Parent)?;
    Ok((root.directory.clone(), status))
}

fn root_place(root: &Root) -> Result<Place, NtStatus> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let fd = system::open_beneath(root.directory.fd.as_fd(), "", flags, 0, false);
    let fd = fd.during(Operation::Open)?;
    let status = system::status_of(fd.as_fd()).during(Operation::Open)?;
    let name_inode = Inode::of(&status);
    let entry =
        Some(Entry { fd, data_flags: None, kind: ObjectKind::Directory, name_inode, status });
    Ok(Place { parent: None, name: OsString::new(), new_name: OsString::new(), entry })
}

/// The directory's path and the last component; `None` for the root.
fn split(path: &str) -> Option<(&str, &str)> {
    (!path.is_empty()).then(|| path.rsplit_once('/').unwrap_or(("", path)))
}

fn join_stored(directory: &OsStr, name: &OsStr) -> OsString {
    let mut path = directory.to_owned();
    if !path.is_empty() {
        path.push("/");
    }
    path.push(name);
    path
}

fn open_directory(root: &Root, path: impl AsRef<OsStr>) -> Result<OwnedFd, Errno> {
    open_followed(root, path.as_ref(), OFlags::PATH | OFlags::DIRECTORY)
}

/// Opens the object of a path of the share, following the permitted links.
fn open_followed(root: &Root, path: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let fd = root.directory.fd.as_fd();
    let follow = root.settings.follow_symlinks;
    let opened = system::open_beneath(fd, path, flags, 0, follow);
    if !matches!(opened, Err(Errno::XDEV)) || !follow {
        return opened;
    }
    if root.settings.wide_links {
        return system::open_anywhere(fd, path, flags);
    }
    // RESOLVE_BENEATH refuses every absolute link, even back into the share.
    let mut path = path.to_str().ok_or(Errno::XDEV)?.to_owned();
    for _ in 0..ABSOLUTE_LINKS_MAX {
        path = without_absolute_link(root, &path).ok_or(Errno::XDEV)?;
        match system::open_beneath(fd, &path, flags, 0, true) {
            Err(Errno::XDEV) => {}
            result => return result,
        }
    }
    Err(Errno::LOOP)
}

/// Returns the path with its first absolute link replaced by the target, if that is in the share.
fn without_absolute_link(root: &Root, path: &str) -> Option<String> {
    let fd = root.directory.fd.as_fd();
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let share = std::fs::read_link(system::magic_path(fd)).ok()?;
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    for end in ends {
        let (prefix, behind) = path.split_at(end);
        let link = system::open_beneath(fd, prefix, flags, 0, true).ok()?;
        let target = match rustix::fs::readlinkat(&link, c"", Vec::new()) {
            // An object of another kind than a link.
            Err(Errno::NOENT | Errno::INVAL) => continue,
            result => result.ok()?,
        };
        let target = Path::new(OsStr::from_bytes(target.to_bytes()));
        if target.is_absolute() {
            let inside = target.strip_prefix(share).ok()?.to_str()?;
            let behind = behind.trim_start_matches('/');
            return Some(if behind.is_empty() { inside.to_owned() } else { join(inside, behind) });
        }
    }
    None
}

/// Opens an entry of a directory, without following a link; an ordinary file with `data_flags`.
fn open_entry(
    root: &Root,
    parent: &Parent,
    name: &OsStr,
    data_flags: Option<OFlags>,
) -> Result<Entry, Errno> {
    let (directory, fd) = (parent.directory.inode, parent.directory.fd.as_fd());
    let is_known = data_flags.is_some() && root.files.regular.borrow().contains(directory, name);
    if is_known
        && let Some(flags) = data_flags
        && let Some(entry) = open_regular(fd, name, flags)
    {
        return Ok(entry);
    }
    open_unknown(root, parent, name, data_flags.filter(|_| !is_known))
}

/// As [`open_entry`], for a name that is not known as that of an ordinary file, or not any more.
fn open_unknown(
    root: &Root,
    parent: &Parent,
    name: &OsStr,
    data_flags: Option<OFlags>,
) -> Result<Entry, Errno> {
    let (directory, fd) = (parent.directory.inode, parent.directory.fd.as_fd());
    if let Some(flags) = data_flags
        && is_file(&system::status_at(fd, name)?)
        && let Some(entry) = open_regular(fd, name, flags)
    {
        root.files.regular.borrow_mut().keep(directory, name);
        return Ok(entry);
    }
    root.files.regular.borrow_mut().forget(directory, name);
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let fd = system::open_beneath(fd, name, flags, 0, true)?;
    let status = system::status_of(fd.as_fd())?;
    let kind = kind_of(&status);
    if kind == ObjectKind::File {
        root.files.regular.borrow_mut().keep(directory, name);
    }
    Ok(Entry { fd, data_flags: None, kind, name_inode: Inode::of(&status), status })
}

/// Opens an ordinary file for its data. `None` for other objects, and after a refusal. One name
/// without links needs no second attempt; AGAIN says that a local program holds a lease, which it
/// gives up in its time.
pub(crate) fn open_regular(
    directory: BorrowedFd<'_>,
    name: &OsStr,
    data_flags: OFlags,
) -> Option<Entry> {
    let flags = data_flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let open = || rustix::fs::openat2(directory, name, flags, Mode::empty(), resolve);
    let fd = rustix::io::retry_on_intr(open).ok()?;
    let status = system::status_of(fd.as_fd()).ok().filter(is_file)?;
    let name_inode = Inode::of(&status);
    Some(Entry { fd, data_flags: Some(data_flags), kind: ObjectKind::File, name_inode, status })
}

/// Opens the target of a link. From `directory` the kernel refuses a link with `..`, so the second
/// attempt begins at the share's root, with the link's whole `path`. It succeeds only if mapping
/// the names in `path` gives those on disk.
pub(crate) fn follow(
    root: &Root,
    directory: BorrowedFd<'_>,
    name: &OsStr,
    path: &str,
) -> Result<(OwnedFd, Statx), Errno> {
    let beneath = root.settings.follow_symlinks;
    let fd = match system::open_beneath(directory, name, OFlags::PATH, 0, beneath) {
        Err(Errno::XDEV) => {
            let path = root.settings.character_mappings.to_disk(path);
            open_followed(root, OsStr::new(&*path), OFlags::PATH)?
        }
        result => result?,
    };
    let status = system::status_of(fd.as_fd())?;
    Ok((fd, status))
}
