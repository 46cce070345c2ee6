//! Creating what does not exist: [MS-FSA] 2.1.5.1.1. Called by `Store::open`, see [`super`].
//!
//! The object is made with the mode of the share, then gets attributes, ACL and size. If one of
//! these steps fails, it is removed again. One that gets a descriptor has no name until then: see
//! [`super::unseen`].

use object::Metadata;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use dtyp::{AccessMask, FileAttributes, NtStatus};
use object::{OpenRequest, RequestedKind};
use rustix::fs::{AtFlags, Mode, OFlags, Statx};
use rustix::io::Errno;

use crate::Store;
use crate::cache::directories::Inode;
use crate::data::range;
use crate::errno::{During, Operation};
use crate::metadata::basic::{Stored, assemble, creation_time};
use crate::metadata::dos_attributes::{self, DosAttributes};
use crate::metadata::extended_attributes;
use crate::metadata::mode_attributes;
use crate::model::place::Parent;
use crate::model::place::Place;
use crate::model::root::Root;
use crate::model::secured_object::SecuredObject;
use crate::open::unseen::Unseen;
use crate::security::access::{self, NamedBy};
use crate::security::credentials::Permissions;
use crate::security::given_mode;
use crate::security::posix_acl;
use crate::settings::{InheritOwner, RootSettings};
use crate::sys::file_kind::{is_directory, kind_of};
use crate::sys::system;
use crate::sys::times;
use crate::sys::xattr::Xattrs;

/// Bits that no share grants or refuses: a query for the maximum, and a privilege.
const OF_NO_SHARE: AccessMask =
    AccessMask::MAXIMUM_ALLOWED.union(AccessMask::ACCESS_SYSTEM_SECURITY);

/// An object that passed all checks of its own, before its stream is found. Whether other opens
/// permit this one is decided by the engine.
pub(crate) struct OpenedObject {
    pub(crate) fd: OwnedFd,
    /// `fd` was opened with O_PATH: it gives no access to the data.
    pub(crate) path_only: bool,
    /// Rights that the open gets.
    pub(crate) granted_access: AccessMask,
    /// Rights that the user could have, within the share's limits.
    pub(crate) maximal_access: AccessMask,
    pub(crate) metadata: Metadata,
    /// It has no extended attributes, so nobody need look for streams and DOS attributes.
    pub(crate) lacks_xattrs: bool,
    /// Inode of the name itself: the link, if one was followed.
    pub(crate) name_inode: Inode,
}

/// The rest of a new object's state, once it has attributes, permissions and size.
struct Furnished {
    dos: DosAttributes,
    /// Its status is another one than before.
    is_changed: bool,
    lacks_xattrs: bool,
}

/// Result of an attempt to create an object.
pub(crate) enum Created {
    /// Another program was faster, or the name is a link to a missing target.
    Exists,
    New(OpenedObject),
}

impl Store {
    /// Makes the file or directory at a place that was free at the look-up.
    pub(crate) fn create(
        &mut self,
        root: &Root,
        request: &OpenRequest,
        place: &Place,
    ) -> Result<Created, NtStatus> {
        let Some(parent) = &place.parent else { return Err(NtStatus::OBJECT_NAME_NOT_FOUND) };
        verify(root, request)?;
        if request.desired_access.contains(AccessMask::ACCESS_SYSTEM_SECURITY)
            && self.impersonation.effective().uid != 0
        {
            return Err(NtStatus::PRIVILEGE_NOT_HELD);
        }
        let directory = request.kind == RequestedKind::Directory;
        access::verify_may_add(&mut self.impersonation, root, parent, directory)?;
        let sets_rights = self.sets_rights(root, request, parent);
        if sets_rights && let Some(created) = self.create_unseen(root, request, place, parent)? {
            return Ok(created);
        }
        let verified = self.names.holds(&parent.directory, &parent.status);
        let made = if directory {
            make_directory(root, parent, &place.name, writable_mode(root, request))
        } else {
            make_file(root, parent, &place.name, request)
        };
        let fd = match made {
            Err(Errno::EXIST) => {
                self.names.forget(&parent.directory);
                return Ok(Created::Exists);
            }
            result => result.during(Operation::Create)?,
        };
        self.names.changed(&parent.directory, verified, Some((&place.name, &root.settings)));
        let status = system::status_of(fd.as_fd()).during(Operation::Query)?;
        let is_new = self.verify_made((fd.as_fd(), &status), parent, sets_rights)?;
        let furnished = self.furnish(root, request, parent, (fd.as_fd(), is_new), &status);
        let opened = furnished.and_then(|furnished| {
            self.open_new(root, request, (place, parent), (fd, is_new), &status, furnished)
        });
        self.created(place, &status, opened)
    }

    /// Whether a new object gets a descriptor, another owner, or a mode that it cannot be made
    /// with, so that nobody may open it by its first mode.
    fn sets_rights(&self, root: &Root, request: &OpenRequest, parent: &Parent) -> bool {
        let RootSettings { nt_acls, inherit_owner, .. } = &root.settings;
        let passes_on = *inherit_owner != InheritOwner::No
            && parent.status.stx_uid != self.impersonation.effective().uid;
        let changes_mode = request.kind == RequestedKind::Directory
            && given_mode(root, request) != writable_mode(root, request);
        nt_acls.is_some() || request.security.is_some() || passes_on || changes_mode
    }

    /// Makes an object that nobody can open before it has its descriptor. `None` if the file system
    /// cannot.
    fn create_unseen(
        &mut self,
        root: &Root,
        request: &OpenRequest,
        place: &Place,
        parent: &Parent,
    ) -> Result<Option<Created>, NtStatus> {
        let (directory, name) = (parent.directory.fd.as_fd(), place.name.as_os_str());
        let verified = self.names.holds(&parent.directory, &parent.status);
        let made = make_unseen(root, request, parent).during(Operation::Create)?;
        let Some(unseen) = made else { return Ok(None) };
        let status = system::status_of(unseen.fd.as_fd()).during(Operation::Query)?;
        let is_new = self.verify_made((unseen.fd.as_fd(), &status), parent, true)?;
        let furnished =
            match self.furnish(root, request, parent, (unseen.fd.as_fd(), is_new), &status) {
                Ok(furnished) => furnished,
                Err(status_code) => {
                    unseen.remove(&mut self.impersonation, directory, is_new);
                    return Err(status_code);
                }
            };
        let named = unseen.give_name(&mut self.impersonation, (directory, name), is_new);
        if named != Ok(true) {
            unseen.remove(&mut self.impersonation, directory, is_new);
        }
        match named {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(Errno::EXIST) => {
                self.names.forget(&parent.directory);
                return Ok(Some(Created::Exists));
            }
            Err(errno) => return Err(errno).during(Operation::Create),
        }
        self.names.changed(&parent.directory, verified, Some((name, &root.settings)));
        let fd = unseen.into_opened((directory, name));
        // A name changes an object, too.
        let furnished = Furnished { is_changed: true, ..furnished };
        let opened =
            self.open_new(root, request, (place, parent), (fd, is_new), &status, furnished);
        self.created(place, &status, opened).map(Some)
    }

    /// Whether the user can have made an object that was opened by its name after that. If not, the
    /// kernel would still permit root everything on it, and its owner to set rights: that is
    /// refused, and the object stays.
    fn verify_made(
        &self,
        (fd, status): (BorrowedFd<'_>, &Statx),
        parent: &Parent,
        sets_rights: bool,
    ) -> Result<bool, NtStatus> {
        let user = self.impersonation.effective().uid;
        let is_owner = status.stx_uid == user;
        if user != 0 && !sets_rights {
            return Ok(!is_directory(status) || is_owner);
        }
        let is_new = self.impersonation.can_have_made(fd, status, &parent.status);
        if !is_new && (user == 0 || is_owner) {
            return Err(NtStatus::ACCESS_DENIED);
        }
        Ok(is_new)
    }

    /// The result for an object that has its name: it is removed again after a failure.
    fn created(
        &mut self,
        place: &Place,
        status: &Statx,
        opened: Result<OpenedObject, NtStatus>,
    ) -> Result<Created, NtStatus> {
        if opened.is_err() {
            self.discard(place, Inode::of(status));
        }
        opened.map(Created::New)
    }

    /// Gives a new object its attributes, permissions and size; `is_new` if the user can have made
    /// it.
    fn furnish(
        &mut self,
        root: &Root,
        request: &OpenRequest,
        parent: &Parent,
        (fd, is_new): (BorrowedFd<'_>, bool),
        status: &Statx,
    ) -> Result<Furnished, NtStatus> {
        let directory = is_directory(status);
        let xattrs = Xattrs::new(fd, false);
        extended_attributes::set_all(root, xattrs, &request.extended_attributes)?;
        let dos = store_attributes(root, request, xattrs, status)?;
        let secured = SecuredObject { fd, path_only: false, status };
        let final_mode = given_mode(root, request);
        let final_mode = final_mode.filter(|mode| Some(*mode) != writable_mode(root, request));
        let final_mode = final_mode.or_else(|| read_only_mode(root, request, status));
        if let Some(mode) = final_mode {
            let permissions = Permissions::Mode(mode);
            let changed = self.impersonation.change_permissions(secured, permissions, false);
            changed.during(Operation::Create)?;
        }
        if request.allocation_size > 0 && !directory {
            range::reserve(fd, request.allocation_size)?;
        }
        let changed = self.secure_created(root, request, parent, secured, is_new)?;
        // Each of these changes the change time of the object, which is in the response.
        let stored = dos.attributes.is_some()
            || final_mode.is_some()
            || root.settings.nt_acls.is_some()
            || !request.extended_attributes.is_empty();
        let is_changed = changed || stored || request.allocation_size > 0;
        Ok(Furnished { dos, is_changed, lacks_xattrs: !stored })
    }

    /// Opens a new object that has all that it gets, and its name; `before` is its status before
    /// that.
    fn open_new(
        &mut self,
        root: &Root,
        request: &OpenRequest,
        (place, parent): (&Place, &Parent),
        (fd, is_new): (OwnedFd, bool),
        before: &Statx,
        furnished: Furnished,
    ) -> Result<OpenedObject, NtStatus> {
        let Furnished { dos, is_changed, lacks_xattrs } = furnished;
        let status = match is_changed {
            true => system::status_of(fd.as_fd()).during(Operation::Query)?,
            false => *before,
        };
        let dos = match root.has_mode_attributes {
            true => Stored::find(root, Some(&status), Xattrs::new(fd.as_fd(), false)).dos,
            false => dos,
        };
        let secured = SecuredObject { fd: fd.as_fd(), path_only: false, status: &status };
        let maximal =
            access::maximal_rights(&mut self.impersonation, root, secured, NamedBy::Entry(parent))?;
        // The creator gets the requested rights, even if the final mode lacks them.
        let required = request.desired_access.difference(AccessMask::MAXIMUM_ALLOWED);
        let system = required & AccessMask::ACCESS_SYSTEM_SECURITY;
        let of_creator = if is_new { required } else { AccessMask::empty() };
        let maximal_access = (maximal | of_creator) & request.share_access_max;
        let maximum = request.desired_access.contains(AccessMask::MAXIMUM_ALLOWED);
        let wanted = if maximum { AccessMask::all() } else { required };
        let granted_access = maximal_access & wanted | system;
        let metadata = assemble(root, &place.name, kind_of(&status), &status, dos);
        let name_inode = Inode::of(&status);
        if lacks_xattrs {
            root.keep_without_xattrs(&status);
        }
        let path_only = false;
        Ok(OpenedObject {
            fd,
            path_only,
            granted_access,
            maximal_access,
            metadata,
            lacks_xattrs,
            name_inode,
        })
    }

    /// Removes a created object after a failure of the rest of the request.
    pub(crate) fn discard(&mut self, place: &Place, inode: Inode) {
        if let Some(parent) = &place.parent {
            // A failure leaves the object for an administrator to see; the client gets the first
            // error.
            let _ = self.unlink(&parent.directory, &place.name, inode, false);
        }
    }
}

/// Checks a request before anything is created.
fn verify(root: &Root, request: &OpenRequest) -> Result<(), NtStatus> {
    let required = request.desired_access.difference(OF_NO_SHARE);
    root.verify_changeable()?;
    let deletes = if request.delete_on_close { AccessMask::DELETE } else { AccessMask::empty() };
    if !request.share_access_max.contains(required | deletes) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let read_only = request.attributes.contains(FileAttributes::READONLY);
    if request.delete_on_close && read_only && !root.settings.delete_readonly {
        return Err(NtStatus::CANNOT_DELETE);
    }
    let directory = request.kind == RequestedKind::Directory;
    if directory && request.attributes.contains(FileAttributes::TEMPORARY) {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    if !request.extended_attributes.is_empty() && !root.settings.ea_support {
        return Err(NtStatus::EAS_NOT_SUPPORTED);
    }
    Ok(())
}

/// The mode that a POSIX client gives.
fn given_mode(root: &Root, request: &OpenRequest) -> Option<u32> {
    let directory = request.kind == RequestedKind::Directory;
    request.posix_mode.map(|mode| given_mode::of_new(&root.settings, mode, directory))
}

/// The mode of a new object with READONLY, where that is not stored and a client gives no mode.
fn read_only_mode(root: &Root, request: &OpenRequest, status: &Statx) -> Option<u32> {
    let read_only = request.attributes.contains(FileAttributes::READONLY);
    if !root.has_mode_attributes || !read_only || request.posix_mode.is_some() {
        return None;
    }
    let mode = u32::from(status.stx_mode) & 0o7777;
    let attributes = request.attributes | FileAttributes::ARCHIVE;
    let mode = mode_attributes::mode_with(&root.settings, mode, attributes, kind_of(status));
    let forced = if is_directory(status) { 0 } else { root.settings.force_create_mode };
    Some(mode | forced)
}

/// As [`given_mode()`], but writable for the owner, who still has to store attributes: the kernel
/// checks the mode even for the creator of a file.
fn writable_mode(root: &Root, request: &OpenRequest) -> Option<u32> {
    given_mode(root, request).map(|mode| mode | 0o200)
}

fn make_file(
    root: &Root,
    parent: &Parent,
    name: &OsStr,
    request: &OpenRequest,
) -> Result<OwnedFd, Errno> {
    let mode = file_mode(root, request, parent);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR;
    system::open_beneath(parent.directory.fd.as_fd(), name, flags, mode, true)
}

/// Makes the object of a request that has no name yet; `None` if the file system cannot.
fn make_unseen(
    root: &Root,
    request: &OpenRequest,
    parent: &Parent,
) -> Result<Option<Unseen>, Errno> {
    if request.kind != RequestedKind::Directory {
        let mode = file_mode(root, request, parent);
        return Unseen::file(parent.directory.fd.as_fd(), mode);
    }
    let mode = writable_mode(root, request);
    Unseen::directory(&parent.status, |name| make_directory(root, parent, name, mode))
}

/// The mode that a file is made with.
fn file_mode(root: &Root, request: &OpenRequest, parent: &Parent) -> u32 {
    let posix_mode = writable_mode(root, request);
    posix_mode.unwrap_or_else(|| own_file_mode(root, parent, request.attributes)) & 0o1777
}

/// The mode of a file that the client gives none.
fn own_file_mode(root: &Root, parent: &Parent, attributes: FileAttributes) -> u32 {
    let RootSettings { create_mask, force_create_mode, .. } = root.settings;
    let mode = mode(root, parent, 0o666, create_mask, force_create_mode);
    if !root.has_mode_attributes {
        return mode;
    }
    let attributes = attributes | FileAttributes::ARCHIVE;
    mode | mode_attributes::bits_of(&root.settings, attributes) & create_mask
}

/// Returns the mode of a new directory. The kernel decides on its group and its setgid bit; setuid
/// is not inherited. The creator of a directory with an inherited mode can write there, as in
/// Samba.
fn directory_mode(root: &Root, parent: &Parent) -> u32 {
    let RootSettings { directory_mask, force_directory_mode, inherit_permissions, .. } =
        root.settings;
    let writable = if inherit_permissions { 0o200 } else { 0 };
    mode(root, parent, 0o1777, directory_mask, force_directory_mode) | writable
}

/// The mode of a new entry, of the bits that one of its kind can have.
fn mode(root: &Root, parent: &Parent, bits: u32, mask: u32, forced: u32) -> u32 {
    if passes_acl_on(root, parent) {
        return bits & 0o777 | forced;
    }
    if root.settings.inherit_permissions {
        return u32::from(parent.status.stx_mode) & bits;
    }
    bits & 0o777 & mask | forced
}

/// "inherit acls": the kernel gives new entries the default ACL of their directory, limited by the
/// mode of the request.
fn passes_acl_on(root: &Root, parent: &Parent) -> bool {
    root.settings.inherit_acls && posix_acl::has_default(parent.secured().xattrs())
}

fn make_directory(
    root: &Root,
    parent: &Parent,
    name: &OsStr,
    posix_mode: Option<u32>,
) -> Result<OwnedFd, Errno> {
    let mode = posix_mode.unwrap_or_else(|| directory_mode(root, parent));
    let fd = parent.directory.fd.as_fd();
    rustix::fs::mkdirat(fd, name, Mode::from_raw_mode(mode & 0o1777))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    system::open_beneath(fd, name, flags, 0, true).inspect_err(|_| {
        // A mask without the owner's read bit: nobody could use the directory.
        let _ = rustix::fs::unlinkat(fd, name, AtFlags::REMOVEDIR);
    })
}

/// Stores the attributes, unless their absence says the same: that spares a write for nearly every
/// file. To Samba absence does not say ARCHIVE, so where everything is kept for it they are always
/// stored.
fn store_attributes(
    root: &Root,
    request: &OpenRequest,
    xattrs: Xattrs<'_>,
    status: &Statx,
) -> Result<DosAttributes, NtStatus> {
    let mut wanted = request.attributes & FileAttributes::SETTABLE;
    if is_directory(status) {
        wanted |= FileAttributes::DIRECTORY;
    } else {
        wanted |= FileAttributes::ARCHIVE;
    }
    let default = wanted == FileAttributes::DIRECTORY || wanted == dos_attributes::DEFAULT_FILE;
    let said_by_absence = default && root.settings.nt_acls.is_none();
    if said_by_absence && times::birth(status).is_some() || root.has_mode_attributes {
        return Ok(DosAttributes::default());
    }
    let creation_time = Some(creation_time(status));
    let dos = DosAttributes { attributes: Some(wanted), creation_time, ..DosAttributes::default() };
    match xattrs.set(dos_attributes::NAME, &dos.encode()) {
        Ok(()) => Ok(dos),
        Err(Errno::OPNOTSUPP) => Ok(DosAttributes::default()),
        Err(errno) => Err(errno).during(Operation::SetMetadata),
    }
}
