//! Renaming and linking: [MS-FSA] 2.1.5.15.12 and 2.1.5.15.6.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::rc::Rc;

use dtyp::{AccessMask, FileAttributes, NtStatus};
use object::{LocalOpen, ObjectPath};
use rustix::fs::{AtFlags, CWD, StatxFlags};

use crate::Store;
use crate::cache::directories::{Directory, Inode};
use crate::errno::{During, Operation};
use crate::metadata::basic::stored_attributes;
use crate::metadata::reparse;
use crate::model::place::Parent;
use crate::model::place::Place;
use crate::model::root::Root;
use crate::model::secured_object::SecuredObject;
use crate::security::access::{self, NamedBy};
use crate::sys::system;
use crate::sys::xattr::Xattrs;

/// Former name of an object, by which its other opens are found and renamed.
struct OldName {
    parent: Rc<Directory>,
    name: OsString,
    name_inode: Inode,
    path: String,
}

/// Names are changed in the share as it is, which a snapshot is no part of.
fn verify_here(root: &Root) -> Result<(), NtStatus> {
    if root.snapshot.is_some() {
        return Err(NtStatus::NOT_SAME_DEVICE);
    }
    root.verify_changeable()
}

impl Store {
    /// Answers with the path as it is now.
    pub(crate) fn rename(
        &mut self,
        open: LocalOpen,
        target: &ObjectPath,
        replace: bool,
    ) -> Result<(ObjectPath, Option<String>), NtStatus> {
        let opened = self.opens.get(open)?;
        let root = opened.root.clone();
        verify_here(&root)?;
        if opened.stream.is_some() {
            // The path of the file stays, also on disk.
            return self.rename_stream(open, target, replace).map(|path| (path, None));
        }
        let Some(parent) = opened.parent.clone() else { return Err(NtStatus::ACCESS_DENIED) };
        if target.is_root() || target.stream().is_some() {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        let old = OldName {
            parent,
            name: opened.name.clone(),
            name_inode: opened.name_inode,
            path: opened.path.as_str().to_owned(),
        };
        verify_name(&old)?;
        let is_directory = opened.is_directory();
        let mut place = self.locate(&root, target, true)?;
        let new_name = &*place.new_name.clone();
        let new_parent = place.parent.take().ok_or(NtStatus::INVALID_PARAMETER)?;
        let verified =
            (self.names.verified(&old.parent), self.names.verified(&new_parent.directory));
        let same_directory = new_parent.directory.inode == old.parent.inode;
        if !same_directory {
            reparse::verify_parent_not_reparse(&root, &new_parent)?;
            access::verify_may_add(&mut self.impersonation, &root, &new_parent, is_directory)?;
        }
        // Found by another case of its own name: a change of case is a plain rename.
        let itself = same_directory && place.name == old.name;
        if place.entry.is_some() && !itself {
            verify_replaceable(&root, &place, replace, is_directory)?;
            self.verify_may_delete(&root, &place, &new_parent)?;
            self.replace(&old, &new_parent.directory, &place, new_name)?;
            if let Some(replaced) = &place.entry {
                self.remove_streams(&root, Xattrs::new(replaced.fd.as_fd(), true));
            }
        } else if !(same_directory && new_name == old.name) {
            move_name(&old.parent, &old.name, &new_parent.directory, new_name)?;
        }
        self.names.changed(&old.parent, verified.0, None);
        self.names.changed(&new_parent.directory, verified.1, Some((new_name, &root.settings)));
        let path = match target.is_posix() {
            true => target.as_str().to_owned(),
            false => new_parent.join(&root, new_name),
        };
        self.update_opens(open, &old, &new_parent.directory, new_name, &path)?;
        if self.opens.get(open)?.archive_on_write {
            // Windows and Samba regard a new name as a change, too.
            self.mark_changed(open)?;
        }
        let path = ObjectPath::from_stored(path, None).meant_as(target);
        let path_on_disk = new_parent.join_on_disk(new_name, &path);
        Ok((path, path_on_disk))
    }

    /// Verifies that the target of the rename may be deleted. Without NT descriptors the kernel
    /// decides.
    fn verify_may_delete(
        &mut self,
        root: &Root,
        place: &Place,
        parent: &Parent,
    ) -> Result<(), NtStatus> {
        let Some(entry) = &place.entry else { return Ok(()) };
        if root.settings.nt_acls.is_none() {
            return Ok(());
        }
        let secured =
            SecuredObject { fd: entry.fd.as_fd(), path_only: true, status: &entry.status };
        let rights =
            access::maximal_rights(&mut self.impersonation, root, secured, NamedBy::Entry(parent))?;
        if rights.contains(AccessMask::DELETE) { Ok(()) } else { Err(NtStatus::ACCESS_DENIED) }
    }

    /// Puts the object in the place of an existing one.
    fn replace(
        &self,
        old: &OldName,
        directory: &Directory,
        place: &Place,
        new_name: &OsStr,
    ) -> Result<(), NtStatus> {
        let (from, to) = (old.parent.fd.as_fd(), directory.fd.as_fd());
        let same = place.entry.as_ref().is_some_and(|entry| entry.name_inode == old.name_inode);
        if same {
            // Two names of one file: POSIX leaves both, a client expects one.
            rustix::fs::unlinkat(from, &old.name, AtFlags::empty()).during(Operation::Rename)?;
        } else {
            rustix::fs::renameat(from, &old.name, to, &place.name).during(Operation::Rename)?;
        }
        // The name that was there may differ in case from the one that the client gave.
        if place.name != new_name {
            move_name(directory, &place.name, directory, new_name)?;
        }
        Ok(())
    }

    /// Gives the opens of this process by the old name the new one, and those beneath a directory
    /// their new path.
    fn update_opens(
        &mut self,
        open: LocalOpen,
        old: &OldName,
        parent: &Rc<Directory>,
        name: &OsStr,
        path: &str,
    ) -> Result<(), NtStatus> {
        let root = self.opens.get(open)?.root_id;
        for other in self.opens.iter_mut() {
            let same_place = other.parent.as_ref().map(|parent| parent.inode);
            if other.name_inode == old.name_inode
                && same_place == Some(old.parent.inode)
                && other.name == old.name
            {
                other.parent = Some(parent.clone());
                name.clone_into(&mut other.name);
                let stream = other.path.stream().map(str::to_owned);
                if other.root_id == root {
                    let path = ObjectPath::from_stored(path.to_owned(), stream);
                    other.path = path.meant_as(&other.path);
                }
            } else if other.root_id == root
                && let Some(rest) = other.path.as_str().strip_prefix(&old.path)
                && rest.starts_with('/')
            {
                let stream = other.path.stream().map(str::to_owned);
                let path = ObjectPath::from_stored(format!("{path}{rest}"), stream);
                other.path = path.meant_as(&other.path);
            }
        }
        Ok(())
    }

    /// Gives an open the new `path` of its object, which another process has renamed. If the path
    /// leads elsewhere by now, the open keeps the old name; its removal fails later, without harm.
    pub(crate) fn relocate(&mut self, open: LocalOpen, path: &ObjectPath) -> Result<(), NtStatus> {
        let root = self.opens.get(open)?.root.clone();
        let place = self.locate(&root, path, true)?;
        let (Some(parent), Some(entry)) = (place.parent, place.entry) else {
            return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
        };
        let opened = self.opens.get_mut(open)?;
        if entry.name_inode != opened.name_inode {
            return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
        }
        opened.parent = Some(parent.directory);
        opened.name = place.name;
        opened.path = path.clone();
        Ok(())
    }

    /// A further name for a file.
    pub(crate) fn link(
        &mut self,
        open: LocalOpen,
        target: &ObjectPath,
        replace: bool,
    ) -> Result<(), NtStatus> {
        let opened = self.opens.get(open)?;
        let root = opened.root.clone();
        verify_here(&root)?;
        if opened.is_directory() {
            return Err(NtStatus::FILE_IS_A_DIRECTORY);
        }
        if target.is_root() || target.stream().is_some() || opened.stream.is_some() {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        let file = opened.fd.clone();
        let inode = opened.name_inode;
        let mut place = self.locate(&root, target, true)?;
        let parent = place.parent.take().ok_or(NtStatus::INVALID_PARAMETER)?;
        reparse::verify_parent_not_reparse(&root, &parent)?;
        access::verify_may_add(&mut self.impersonation, &root, &parent, false)?;
        let directory = parent.directory.fd.as_fd();
        let verified = self.names.verified(&parent.directory);
        let source = system::magic_path(file.as_fd());
        let flags = AtFlags::SYMLINK_FOLLOW;
        if let Some(entry) = &place.entry {
            verify_replaceable(&root, &place, replace, false)?;
            if entry.name_inode == inode {
                return Ok(());
            }
            self.verify_may_delete(&root, &place, &parent)?;
            // Linked under a name of our own and moved, so that the target is never absent.
            let temporary = format!(".choro-link-{}-{}", std::process::id(), open.index);
            rustix::fs::linkat(CWD, &source, directory, &temporary, flags)
                .during(Operation::Link)?;
            let moved = rustix::fs::renameat(directory, &temporary, directory, &place.name);
            if moved.is_err() {
                // The failure of the move is what is reported.
                let _ = rustix::fs::unlinkat(directory, &temporary, AtFlags::empty());
            }
            moved.during(Operation::Link)?;
            self.remove_streams(&root, Xattrs::new(entry.fd.as_fd(), true));
        } else {
            let name = &*place.new_name;
            rustix::fs::linkat(CWD, &source, directory, name, flags).during(Operation::Link)?;
            self.names.changed(&parent.directory, verified, Some((name, &root.settings)));
        }
        Ok(())
    }
}

/// The name that the open was made by must still lead to it.
fn verify_name(old: &OldName) -> Result<(), NtStatus> {
    let fd = old.parent.fd.as_fd();
    let status =
        rustix::fs::statx(fd, &old.name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS);
    let status = status.during(Operation::Rename)?;
    if Inode::of(&status) == old.name_inode { Ok(()) } else { Err(NtStatus::OBJECT_NAME_NOT_FOUND) }
}

/// Whether an existing target may be replaced.
fn verify_replaceable(
    root: &Root,
    place: &Place,
    replace: bool,
    source_is_directory: bool,
) -> Result<(), NtStatus> {
    let Some(entry) = &place.entry else { return Ok(()) };
    if !replace {
        return Err(NtStatus::OBJECT_NAME_COLLISION);
    }
    let stored = stored_attributes(root, Xattrs::new(entry.fd.as_fd(), true));
    let read_only = stored.attributes.unwrap_or_default().contains(FileAttributes::READONLY);
    if entry.is_directory() || source_is_directory || read_only {
        return Err(NtStatus::ACCESS_DENIED);
    }
    Ok(())
}

/// Renames to a name that must not exist.
fn move_name(
    from: &Directory,
    name: &OsStr,
    to: &Directory,
    new_name: &OsStr,
) -> Result<(), NtStatus> {
    // That it is free was seen a moment ago.
    let moved = system::rename_to_free((from.fd.as_fd(), name), (to.fd.as_fd(), new_name));
    moved.during(Operation::Rename)
}
