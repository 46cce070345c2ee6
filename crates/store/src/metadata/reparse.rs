//! Reparse points.
//!
//! Two things are one to clients: a symbolic link of the host, and a file or an empty directory
//! whose extended attribute `user.SmbReparse` holds what a client made of it, as Samba keeps it:
//! the bytes of REPARSE_DATA_BUFFER, beside the attribute REPARSE_POINT in `user.DOSATTRIB`. The
//! former are followed where that is allowed; the latter only clients can follow.

use crate::metadata::reparse_attribute::NFS_SPECFILE_BLK;
use crate::metadata::reparse_attribute::NFS_SPECFILE_CHR;
use crate::metadata::reparse_attribute::NFS_SPECFILE_FIFO;
use crate::metadata::reparse_attribute::NFS_SPECFILE_SOCK;
use crate::metadata::reparse_attribute::stored_tag;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

use dtyp::fscc::{ReparseData, ReparseTag, SymbolicLinkReparse};
use dtyp::{FileAttributes, FileTime, NtStatus};
use object::{
    LocalOpen, ObjectKind, ObjectPath, ObjectReply, ObjectResult, OpenRequest, RootId, SymbolicLink,
};
use rustix::io::Errno;

use crate::Store;
use crate::errno::{During, Operation};
use crate::metadata::basic::{Stored, stored_attributes};
use crate::metadata::reparse_attribute;
use crate::model::listing::Listing;
use crate::model::opens::Open;
use crate::model::place::Parent;
use crate::model::root::Root;
use crate::sys::system;
use crate::sys::times;
use crate::sys::xattr::Xattrs;

/// Prefix of the target of a DFS link.
const REFERRAL: &str = "msdfs:";

impl Store {
    /// FSCTL_GET_REPARSE_POINT: [MS-FSA] 2.1.5.10.14.
    pub(crate) fn read_reparse_point(&self, open: LocalOpen) -> Result<Vec<u8>, NtStatus> {
        let open = self.opens.get(open)?;
        let mut data = Vec::new();
        let tag = match open.kind {
            ObjectKind::File | ObjectKind::Directory => return stored(open),
            ObjectKind::SymbolicLink => {
                host_link(open.fd()).during(Operation::Query)?.encode(&mut data);
                ReparseTag::SYMLINK
            }
            kind => {
                encode_special(open.fd(), kind, &mut data)?;
                ReparseTag::NFS
            }
        };
        let mut buffer = Vec::new();
        ReparseData { tag, data: &data }.encode(&mut buffer);
        Ok(buffer)
    }

    /// FSCTL_SET_REPARSE_POINT: [MS-FSA] 2.1.5.10.37. Of a directory only if it is empty; then the
    /// client's links to directories work, which Samba refuses. The root of a share is no link.
    pub(crate) fn write_reparse_point(
        &mut self,
        open: LocalOpen,
        buffer: &[u8],
    ) -> Result<(), NtStatus> {
        let opened = self.opens.get(open)?;
        opened.root.verify_changeable()?;
        let may = matches!(opened.kind, ObjectKind::File | ObjectKind::Directory);
        if !may || opened.path.is_root() || !opened.root.settings.store_dos_attributes {
            return Err(NtStatus::ACCESS_DENIED);
        }
        let new = ReparseData::decode(buffer).ok_or(NtStatus::IO_REPARSE_DATA_INVALID)?;
        let is_directory = opened.is_directory();
        if new.tag == ReparseTag::MOUNT_POINT && !is_directory {
            return Err(NtStatus::NOT_A_DIRECTORY);
        }
        if is_directory {
            verify_empty(opened)?;
        }
        if stored_tag(opened.xattrs()).is_some_and(|tag| tag != new.tag) {
            return Err(NtStatus::IO_REPARSE_TAG_MISMATCH);
        }
        opened.xattrs().set(reparse_attribute::NAME, buffer).during(Operation::SetMetadata)?;
        self.change_dos_attributes(open, |attributes, _| {
            *attributes |= FileAttributes::REPARSE_POINT;
        })?;
        if is_directory { self.part_times(open) } else { Ok(()) }
    }

    /// Makes the write time of a directory differ from its change time, which
    /// [`verify_parent_not_reparse`] relies on. Both are the same if the directory was made within
    /// the same tick of the kernel's clock.
    fn part_times(&mut self, open: LocalOpen) -> Result<(), NtStatus> {
        let status = system::status_of(self.opens.get(open)?.fd()).during(Operation::Query)?;
        let last_write = times::last_write(&status);
        if last_write != times::change(&status) {
            return Ok(());
        }
        self.set_times(open, None, Some(FileTime(last_write.0.saturating_sub(1))))
    }

    /// FSCTL_DELETE_REPARSE_POINT: [MS-FSA] 2.1.5.10.3.
    pub(crate) fn delete_reparse_point(
        &mut self,
        open: LocalOpen,
        tag: ReparseTag,
    ) -> Result<(), NtStatus> {
        let opened = self.opens.get(open)?;
        opened.root.verify_changeable()?;
        if !matches!(opened.kind, ObjectKind::File | ObjectKind::Directory) {
            return Err(NtStatus::NOT_A_REPARSE_POINT);
        }
        match stored_tag(opened.xattrs()) {
            None => return Err(NtStatus::NOT_A_REPARSE_POINT),
            Some(other) if other != tag => return Err(NtStatus::IO_REPARSE_TAG_MISMATCH),
            Some(_) => {}
        }
        opened.xattrs().remove(reparse_attribute::NAME).during(Operation::SetMetadata)?;
        self.change_dos_attributes(open, |attributes, _| {
            attributes.remove(FileAttributes::REPARSE_POINT);
        })
    }

    /// Returns the link that a client must follow itself, if its open failed with `status` because
    /// of a link.
    pub(crate) fn stopped(&mut self, request: &OpenRequest, status: NtStatus) -> ObjectResult {
        if self.find_referral(request.root, &request.path).is_ok() {
            return Err(NtStatus::PATH_NOT_COVERED);
        }
        let on_link = status == NtStatus::STOPPED_ON_SYMLINK;
        // A file on the way may be a link that only clients know.
        if !on_link && status != NtStatus::OBJECT_PATH_NOT_FOUND {
            return Err(status);
        }
        let found = self.root(request.root).and_then(|root| {
            let (root, path) = self.version(&root, &request.path)?;
            Ok(self.find_link(&root, &path).map(|(_, link)| link))
        });
        match found {
            Ok(Some(link)) => Ok(ObjectReply::Stopped(Box::new(link))),
            _ if on_link => Err(NtStatus::ACCESS_DENIED),
            _ => Err(status),
        }
    }

    /// Returns the target of the DFS link in a path. Only links of the host count: a user with the
    /// right to write files must not redirect other users to a server of his own.
    pub(crate) fn find_referral(&mut self, root: RootId, path: &ObjectPath) -> ObjectResult {
        let root = self.root(root)?;
        let link = Some(&root).filter(|root| root.settings.dfs_links);
        let link = link.and_then(|root| self.find_link(root, path));
        match link.filter(|(kind, it)| *kind == ObjectKind::SymbolicLink && is_referral(&it.link)) {
            Some((_, link)) => Ok(ObjectReply::Stopped(Box::new(link))),
            None => Err(NtStatus::OBJECT_PATH_NOT_FOUND),
        }
    }

    /// The first link of a path that is not followed, and whether it is one of the host or a file
    /// that a client made one.
    fn find_link(
        &mut self,
        root: &Rc<Root>,
        path: &ObjectPath,
    ) -> Option<(ObjectKind, SymbolicLink)> {
        let posix = path;
        let path = path.as_str();
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for end in ends {
            let (prefix, behind) = path.split_at(end);
            let prefix = ObjectPath::from_stored(prefix.to_owned(), None).meant_as(posix);
            let place = self.locate(root, &prefix, true).ok()?;
            let is_last = behind.is_empty();
            let leads_nowhere = posix.is_posix() && is_last || !place.is_followed(root);
            let entry = place.entry?;
            let fd = entry.fd.as_fd();
            let kind = entry.kind;
            let link = match kind {
                ObjectKind::SymbolicLink if leads_nowhere => host_link(fd).ok(),
                ObjectKind::File | ObjectKind::Directory => client_link(root, fd),
                _ => None,
            };
            if let Some(link) = link {
                let unparsed_path = behind.replace('/', "\\");
                return Some((kind, SymbolicLink { link, unparsed_path }));
            }
        }
        None
    }
}

/// Refuses a directory with entries, also such as clients do not see.
fn verify_empty(directory: &Open) -> Result<(), NtStatus> {
    let mut listing = Listing::new(directory.fd()).during(Operation::List)?;
    match listing.entries.next(listing.fd.as_fd()).during(Operation::List)? {
        Some(_) => Err(NtStatus::DIRECTORY_NOT_EMPTY),
        None => Ok(()),
    }
}

/// Refuses a missing name in a directory that is a reparse point: the directory itself is empty,
/// and the name is to be looked up in its target. [`Store::stopped`] then finds the link.
///
/// A new extended attribute changes the change time alone, a new or removed entry the write time
/// to the same. So nothing is read in a directory whose last change was one of its entries.
pub(crate) fn verify_parent_not_reparse(root: &Root, parent: &Parent) -> Result<(), NtStatus> {
    let status = &parent.status;
    if parent.path.is_empty() || times::change(status) == times::last_write(status) {
        return Ok(());
    }
    let xattrs = Xattrs::new(parent.directory.fd.as_fd(), true);
    let Stored { dos, .. } = Stored::find(root, Some(&parent.status), xattrs);
    verify_not_reparse(xattrs, dos.attributes.unwrap_or_default())
        .map_err(|_| NtStatus::OBJECT_PATH_NOT_FOUND)
}

/// Whether a link of the host is one of a DFS namespace, as Samba has them.
fn is_referral(link: &SymbolicLinkReparse) -> bool {
    link.substitute_name.get(..REFERRAL.len()).is_some_and(|it| it.eq_ignore_ascii_case(REFERRAL))
}

/// Returns whether an entry of a directory is a link of a DFS namespace.
pub(crate) fn is_referral_at(root: &Root, directory: BorrowedFd<'_>, name: &OsStr) -> bool {
    let read = || rustix::fs::readlinkat(directory, name, Vec::new()).ok();
    let begins = |target: &[u8]| {
        target.get(..REFERRAL.len()).is_some_and(|it| it.eq_ignore_ascii_case(REFERRAL.as_bytes()))
    };
    root.settings.dfs_links && read().is_some_and(|target| begins(target.as_bytes()))
}

/// Refuses to open a reparse point as the object that it would be: [MS-FSA] 2.1.5.1.2.
pub(crate) fn verify_not_reparse(
    xattrs: Xattrs<'_>,
    stored: FileAttributes,
) -> Result<(), NtStatus> {
    if !stored.contains(FileAttributes::REPARSE_POINT) {
        return Ok(());
    }
    match stored_tag(xattrs) {
        None => Ok(()),
        Some(ReparseTag::SYMLINK) => Err(NtStatus::STOPPED_ON_SYMLINK),
        Some(_) => Err(NtStatus::IO_REPARSE_TAG_NOT_HANDLED),
    }
}

fn stored(open: &Open) -> Result<Vec<u8>, NtStatus> {
    let buffer = match open.xattrs().get(reparse_attribute::NAME) {
        Err(Errno::NODATA | Errno::OPNOTSUPP) => return Err(NtStatus::NOT_A_REPARSE_POINT),
        result => result.during(Operation::Query)?,
    };
    // Anyone with the right to write the file may have set the value.
    match ReparseData::decode(&buffer) {
        Some(_) => Ok(buffer),
        None => Err(NtStatus::IO_REPARSE_DATA_INVALID),
    }
}

/// Returns the symbolic link that a client made of a file or a directory, if it is one.
fn client_link(root: &Root, fd: BorrowedFd<'_>) -> Option<SymbolicLinkReparse> {
    let xattrs = Xattrs::new(fd, true);
    let stored = stored_attributes(root, xattrs).attributes?;
    if !stored.contains(FileAttributes::REPARSE_POINT) {
        return None;
    }
    let buffer = xattrs.get(reparse_attribute::NAME).ok()?;
    let point = ReparseData::decode(&buffer)?;
    (point.tag == ReparseTag::SYMLINK).then(|| SymbolicLinkReparse::decode(point.data))?
}

/// Returns a link of the host in the form of clients. An absolute target keeps its text, except for
/// the separators: clients interpret it.
fn host_link(fd: BorrowedFd<'_>) -> Result<SymbolicLinkReparse, Errno> {
    let target = rustix::fs::readlinkat(fd, c"", Vec::new())?;
    let target = target.to_str().map_err(|_| Errno::ILSEQ)?;
    let is_relative = !target.starts_with('/');
    let name = target.replace('/', "\\");
    Ok(SymbolicLinkReparse { substitute_name: name.clone(), print_name: name, is_relative })
}

fn encode_special(
    fd: BorrowedFd<'_>,
    kind: ObjectKind,
    data: &mut Vec<u8>,
) -> Result<(), NtStatus> {
    let (kind, is_device) = match kind {
        ObjectKind::BlockDevice => (NFS_SPECFILE_BLK, true),
        ObjectKind::CharacterDevice => (NFS_SPECFILE_CHR, true),
        ObjectKind::Fifo => (NFS_SPECFILE_FIFO, false),
        _ => (NFS_SPECFILE_SOCK, false),
    };
    data.extend_from_slice(&kind.to_le_bytes());
    if is_device {
        let status = system::status_of(fd).during(Operation::Query)?;
        for number in [status.stx_rdev_major, status.stx_rdev_minor] {
            data.extend_from_slice(&number.to_le_bytes());
        }
    }
    Ok(())
}
