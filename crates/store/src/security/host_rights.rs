//! A user's permissions on any path of this machine, with the entry that decides on them: for
//! questions of administrators. No request of a client comes here.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, Statx, StatxAttributes};

use crate::Store;
use crate::security::access::permissions;
use crate::security::posix_acl::{PosixAcl, SystemAcl, Tag};
use crate::settings::Credentials;
use crate::sys::file_kind::is_directory;
use crate::sys::system;
use crate::sys::xattr::Xattrs;
use object::UserId;

/// Bytes of the trial: one block of most file systems.
const TRIAL_BYTES: usize = 4_096;

/// Permissions of one user on one object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HostRights {
    /// Id of the object's owner.
    pub owner: u32,
    /// Id of the object's group.
    pub group: u32,
    /// Permission bits, with setuid, setgid and the sticky bit.
    pub mode: u16,
    pub is_directory: bool,
    /// Bits that the kernel grants the user: 4 read, 2 write, 1 execute or search.
    pub granted: u16,
    /// Entry of mode or POSIX ACL that decides.
    pub entry: HostEntry,
    /// Bits of that entry which the mask of the ACL removes.
    pub masked: u16,
    /// True if the file system has POSIX ACLs.
    pub has_acls: bool,
    /// The attribute `i` of chattr(1): nobody may change the object.
    pub immutable: bool,
    /// The attribute `a` of chattr(1): data may only be appended.
    pub append_only: bool,
}

/// Entry of a mode or a POSIX ACL, as acl(5) selects it for a user.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HostEntry {
    /// The user is root, whom no entry binds.
    Root,
    /// The user owns the object.
    Owner,
    /// The ACL names the user.
    User,
    /// The user is in the object's group.
    OwningGroup,
    /// The ACL names a group of the user: this one, or the first of several.
    Group(u32),
    /// No other entry is for the user.
    Other,
}

impl Store {
    /// Asks the kernel for a user's permissions on the object of a path, links followed.
    ///
    /// # Errors
    /// The server itself does not reach the object, or the user cannot be impersonated.
    pub fn host_rights(&mut self, user: UserId, path: &Path) -> io::Result<HostRights> {
        if !self.revert_to_server() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let fd = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let status = system::status_of(fd.as_fd())?;
        let acl = SystemAcl::read(Xattrs::new(fd.as_fd(), true), &status)?.access;
        let has_acls = acl.is_some();
        let acl = acl.unwrap_or_else(|| PosixAcl::from_mode(status.stx_mode));
        self.impersonation.impersonate(user).map_err(|_| io::ErrorKind::PermissionDenied)?;
        let granted = permissions(self.impersonation.effective(), fd.as_fd(), &status);
        let index = usize::try_from(user.0).unwrap_or(usize::MAX);
        let credentials = self.impersonation.users().nth(index);
        let (entry, masked) = credentials
            .map_or((HostEntry::Other, 0), |credentials| deciding(credentials, &acl, &status));
        Ok(HostRights {
            owner: status.stx_uid,
            group: status.stx_gid,
            mode: status.stx_mode & 0o7777,
            is_directory: is_directory(&status),
            granted,
            entry,
            masked,
            has_acls,
            immutable: status.stx_attributes.contains(StatxAttributes::IMMUTABLE),
            append_only: status.stx_attributes.contains(StatxAttributes::APPEND),
        })
    }

    /// Makes a file without a name in a directory as a user, and writes a block to it: a full file
    /// system, a quota and a mount for reading refuse that. The file is gone at once.
    ///
    /// # Errors
    /// As the kernel refuses it; [`io::ErrorKind::Unsupported`] where the file system has no such
    /// files.
    pub fn try_new_file(&mut self, user: UserId, directory: &Path) -> io::Result<()> {
        self.impersonation.impersonate(user).map_err(|_| io::ErrorKind::PermissionDenied)?;
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR)?;
        rustix::io::write(&file, &[0; TRIAL_BYTES])?;
        Ok(())
    }
}

/// Selects the entry for a user, and the bits that its mask removes: acl(5), "ACCESS CHECK
/// ALGORITHM". Several entries for groups count as one here; the kernel has decided already.
fn deciding(user: &Credentials, acl: &PosixAcl, status: &Statx) -> (HostEntry, u16) {
    let is_member = |gid: u32| user.gid == gid || user.groups.contains(&gid);
    let selected = |tag: Tag| match tag {
        Tag::Owner => (status.stx_uid == user.uid).then_some(HostEntry::Owner),
        Tag::User(uid) => (uid == user.uid).then_some(HostEntry::User),
        Tag::OwningGroup => is_member(status.stx_gid).then_some(HostEntry::OwningGroup),
        Tag::Group(gid) => is_member(gid).then_some(HostEntry::Group(gid)),
        Tag::Mask => None,
        Tag::Other => Some(HostEntry::Other),
    };
    if user.uid == 0 {
        return (HostEntry::Root, 0);
    }
    // The entries are in the order of the algorithm.
    let first = acl.effective().zip(acl.unmasked()).find_map(|((tag, effective), unmasked)| {
        selected(tag).map(|entry| (entry, unmasked & !effective))
    });
    first.unwrap_or((HostEntry::Other, 0))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

    use super::{Credentials, HostEntry, PosixAcl, Tag, deciding};

    #[test]
    fn the_entry_of_a_user_is_the_first_that_the_kernel_would_take() {
        let mut status = statx(CWD, ".", AtFlags::empty(), StatxFlags::BASIC_STATS).expect("there");
        (status.stx_uid, status.stx_gid) = (10, 20);
        let acl = PosixAcl::new(vec![
            (Tag::Owner, 7),
            (Tag::User(11), 6),
            (Tag::OwningGroup, 5),
            (Tag::Group(21), 4),
            (Tag::Other, 0),
        ]);
        for (uid, groups, want) in [
            (10, vec![20], HostEntry::Owner),
            (11, vec![20], HostEntry::User),
            (12, vec![20], HostEntry::OwningGroup),
            (12, vec![21], HostEntry::Group(21)),
            (12, vec![22], HostEntry::Other),
            (0, vec![22], HostEntry::Root),
        ] {
            let user = Credentials { uid, gid: 99, groups, ..Credentials::default() };
            assert_eq!(deciding(&user, &acl, &status), (want, 0), "{uid}");
        }
    }
}
