//! All calls that may run with the server's rights: there is no other way to them.
//!
//! A user may do some things by the rules of NT that POSIX reserves to owners or to root. Each is
//! tried with the user's own rights first. `granted` says whether NT's right for it was granted;
//! the checks that hold whatever was granted are here:
//!
//! - With the server's rights a file goes to the user who asks, or to the owner of the directory
//!   where "inherit owner" says so; and to a group only if the user is in it.
//! - A change of owner, mode or ACL leaves nothing but a directory setgid, and nothing setuid. This
//!   holds also for changes with the user's own rights: with `force user` they are somebody else's.
//! - What a creator may say of a new directory holds only if the directory is the user's, fresh and
//!   empty. Any other directory is refused as root.
//! - A directory that is setgid stays so, with the group that it has.
//!
//! The kernel has a part in this: without CAP_FSETID it takes these bits by itself where a group is
//! not the thread's, or data are written.

mod depot;

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Gid, IFlags, Mode, OFlags, Statx, Timestamps, Uid};
use rustix::fs::{RenameFlags, fcntl_getfl, fcntl_setfl, renameat_with};
use rustix::io::Errno;
use rustix::pipe::fcntl_setpipe_size;

pub(crate) use self::depot::{Depot, DepotAccess};
use super::{Impersonation, Rights};
use crate::model::secured_object::SecuredObject;
use crate::security::posix_acl::PosixAcl;
use crate::sys::entries::Entries;
use crate::sys::file_kind::{is_directory, is_file};
use crate::sys::kernel_locks;
use crate::sys::system;
use crate::sys::times;
use crate::sys::trusted_path;
use crate::sys::xattr::Xattrs;

/// The bits S_ISUID and S_ISGID of a mode.
const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;

/// Seconds between birth and last change of a directory that has just been made. FAT counts
/// changes by two seconds.
const FRESH_SECONDS_MAX: i64 = 2;

/// Groups for a user whose groups are not known, the first that the kernel takes: nobody belongs to
/// them. A container may have no ids beyond 16 bits, the last of which stands for none. 65,534 is
/// the group of guests.
const NO_GROUPS: [u32; 2] = [0xFFFF_FFFD, 0xFFFF];

/// Bytes of a file that tells of a snapshot: its time is within the first few hundred.
const SNAPSHOT_INFO_BYTES_MAX: usize = 4_096;

/// Permissions that an object is to have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Permissions<'a> {
    /// Three triples and the sticky bit; other bits are left out.
    Mode(u32),
    /// A POSIX ACL, or what a mode can say of it where the file system has none.
    Acl(&'a PosixAcl),
}

/// Owner and group of the host that follow from a descriptor; `None` leaves them as they are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NewOwners {
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
}

impl Impersonation {
    /// Makes `owners` the owners. With the server's rights, if ownership may be `taken`, the user
    /// gets the file and a group that is not the user's stays as it is, as in Samba.
    pub(crate) fn change_owners(
        &mut self,
        secured: SecuredObject<'_>,
        owners: NewOwners,
        taken: bool,
    ) -> Result<(), Errno> {
        match chown(secured.fd, owners) {
            Err(Errno::ACCESS | Errno::PERM) if taken && self.is_requester(owners.uid) => {
                let gid = owners.gid.filter(|gid| self.is_in_group(*gid));
                self.as_server(|| chown(secured.fd, NewOwners { gid, ..owners }))?;
            }
            result => result?,
        }
        self.clear_set_id(secured)
    }

    /// Gives a new object to the owner of its directory ("inherit owner"). It was made without the
    /// bits that [`Impersonation::change_owners`] clears.
    pub(crate) fn pass_to_owner(
        &mut self,
        secured: SecuredObject<'_>,
        directory: &Statx,
    ) -> Result<(), Errno> {
        if !self.can_have_made(secured.fd, secured.status, directory) {
            return Err(Errno::ACCESS);
        }
        let owners = NewOwners { uid: Some(directory.stx_uid), gid: None };
        self.as_server(|| chown(secured.fd, owners))
    }

    /// Changes mode or ACL of an object whose status is known.
    pub(crate) fn change_permissions(
        &mut self,
        secured: SecuredObject<'_>,
        wanted: Permissions<'_>,
        granted: bool,
    ) -> Result<(), Errno> {
        let change = || set_permissions(secured, wanted);
        // Root lacks CAP_FSETID, too, so it has to be in the group for the directory to stay
        // setgid.
        let is_root = self.enabled && self.effective().uid == 0 && keeps_set_gid(secured.status);
        if is_root {
            return self.as_server_in(secured.status.stx_gid, change);
        }
        match change() {
            Err(Errno::ACCESS | Errno::PERM) if granted => {
                self.as_server_in(group_kept(secured.status), change)
            }
            result => result,
        }
    }

    /// Gives an object the ACL back that it had.
    pub(crate) fn put_back(
        &mut self,
        secured: SecuredObject<'_>,
        acl: &PosixAcl,
    ) -> Result<(), Errno> {
        let change = || set_permissions(secured, Permissions::Acl(acl));
        self.as_server_in(group_kept(secured.status), change)
    }

    /// Reads the stored NT descriptor. In `user.` that takes the right to read the file.
    pub(crate) fn read_descriptor(
        &mut self,
        xattrs: Xattrs<'_>,
        name: &str,
    ) -> Result<Vec<u8>, Errno> {
        match xattrs.get(name) {
            Err(Errno::ACCESS) => self.as_server(|| xattrs.get(name)),
            result => result,
        }
    }

    /// Stores the NT descriptor, which in `security.` only administrators may.
    pub(crate) fn store_descriptor(
        &mut self,
        xattrs: Xattrs<'_>,
        name: &str,
        value: &[u8],
        granted: bool,
    ) -> Result<(), Errno> {
        let store = || xattrs.set(name, value);
        if granted { self.as_server(store) } else { store() }
    }

    /// Stores DOS attributes, for opens with WRITE_ATTRIBUTES.
    pub(crate) fn store_attributes(
        &mut self,
        xattrs: Xattrs<'_>,
        name: &str,
        value: &[u8],
        granted: bool,
    ) -> Result<(), Errno> {
        self.try_as_user(granted, || xattrs.set(name, value))
    }

    /// Sets the times of an object: WRITE_ATTRIBUTES.
    pub(crate) fn set_times(
        &mut self,
        fd: BorrowedFd<'_>,
        times: &Timestamps,
        granted: bool,
    ) -> Result<(), Errno> {
        self.try_as_user(granted, || rustix::fs::utimensat(fd, c"", times, AtFlags::EMPTY_PATH))
    }

    /// Lets reads of an open file change its last access time, or not: WRITE_ATTRIBUTES.
    pub(crate) fn keep_access_time(
        &mut self,
        file: BorrowedFd<'_>,
        keep: bool,
        granted: bool,
    ) -> Result<(), Errno> {
        self.try_as_user(granted, || {
            let mut flags = fcntl_getfl(file)?;
            flags.set(OFlags::NOATIME, keep);
            fcntl_setfl(file, flags)
        })
    }

    /// Has the file system compress a file, or not: WRITE_DATA.
    pub(crate) fn set_compressed(
        &mut self,
        file: BorrowedFd<'_>,
        compressed: bool,
        granted: bool,
    ) -> Result<(), Errno> {
        self.try_as_user(granted, || {
            let flags = match rustix::fs::ioctl_getflags(file) {
                Ok(flags) => flags,
                // A file system that knows of no flags compresses nothing.
                Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::NOSYS) if !compressed => return Ok(()),
                Err(errno) => return Err(errno),
            };
            let mut wanted = flags;
            wanted.set(IFlags::COMPRESSED, compressed);
            if wanted == flags { Ok(()) } else { rustix::fs::ioctl_setflags(file, wanted) }
        })
    }

    /// Removes a name from a directory: DELETE.
    pub(crate) fn unlink(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        flags: AtFlags,
        granted: bool,
    ) -> Result<(), Errno> {
        self.try_as_user(granted, || rustix::fs::unlinkat(directory, name, flags))
    }

    /// Moves a file to a name that must be free, in another directory: DELETE. The server's rights
    /// do it only for a user who may add to that directory.
    pub(crate) fn move_file(
        &mut self,
        from: (BorrowedFd<'_>, &OsStr),
        to: (BorrowedFd<'_>, &OsStr),
        granted: bool,
    ) -> Result<(), Errno> {
        let may_add = || system::may_access(to.0, libc::W_OK | libc::X_OK).is_ok();
        let granted = granted && may_add();
        let rename = || renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE);
        match self.try_as_user(granted, rename) {
            // File systems without NOREPLACE. Only with the user's own rights: somebody else's file
            // may take the name between the two calls.
            Err(Errno::INVAL | Errno::NOSYS) => match system::status_at(to.0, to.1) {
                Err(Errno::NOENT) => rustix::fs::renameat(from.0, from.1, to.0, to.1),
                result => result.and(Err(Errno::EXIST)),
            },
            result => result,
        }
    }

    /// Gives a file that was made without a name in a directory its name there, which must be free.
    /// The kernel lets a user link a file of another owner only if the user may write it.
    pub(crate) fn name_file(
        &mut self,
        file: BorrowedFd<'_>,
        (directory, name): (BorrowedFd<'_>, &OsStr),
    ) -> Result<(), Errno> {
        self.try_as_user(true, || system::link(file, directory, name))
    }

    /// Gives a directory with a temporary name its own one, which must be free. In a sticky
    /// directory that takes the server's rights if it went to another owner meanwhile.
    pub(crate) fn name_directory(
        &mut self,
        (directory, name): (BorrowedFd<'_>, &OsStr),
        temporary: &OsStr,
        granted: bool,
    ) -> Result<(), Errno> {
        self.try_as_user(granted, || {
            renameat_with(directory, temporary, directory, name, RenameFlags::NOREPLACE)
        })
    }

    /// Reads the beginning of a file beside a snapshot that tells its time. Snapper lets root alone
    /// read it; the time is no secret for users who may list the snapshots.
    pub(crate) fn read_snapshot_info(
        &mut self,
        directory: BorrowedFd<'_>,
        path: &Path,
    ) -> Result<Vec<u8>, Errno> {
        self.try_as_user(true, || {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
            let file = system::open_beneath(directory, path, flags, 0, false)?;
            if !is_file(&system::status_of(file.as_fd())?) || !trusted_path::is_owned(&file)? {
                return Err(Errno::ACCESS);
            }
            let mut content = vec![0; SNAPSHOT_INFO_BYTES_MAX];
            let length = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut *content))?;
            content.truncate(length);
            Ok(content)
        })
    }

    /// Gives a pipe so many bytes. The server may have more of pipes than a user
    /// (`fs.pipe-max-size`, `fs.pipe-user-pages-soft`), if it has privileges.
    pub(crate) fn resize_pipe(&mut self, pipe: impl AsFd, bytes: usize) -> Result<usize, Errno> {
        self.try_as_user(true, || fcntl_setpipe_size(&pipe, bytes))
    }

    /// Takes a lease of a file for the server, whoever owns it. The server also owns the signals by
    /// which the kernel reports its break.
    pub(crate) fn take_lease(&mut self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.as_server(|| kernel_locks::take_lease(file))
    }

    /// Gives up a lease of [`Impersonation::take_lease`]. If it fails, the kernel ends the lease
    /// after a time of its own.
    pub(crate) fn end_lease(&mut self, file: BorrowedFd<'_>) {
        let _ = self.as_server(|| {
            kernel_locks::end_lease(file);
            Ok(())
        });
    }

    /// Runs a call as the user, and once more with the server's rights if the kernel refused what
    /// was `granted` by the rules of NT.
    fn try_as_user<T>(
        &mut self,
        granted: bool,
        call: impl Fn() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match call() {
            Err(Errno::ACCESS | Errno::PERM) if granted => self.as_server(call),
            result => result,
        }
    }

    /// Runs a call with the rights of a file's owner, in no group, where the server acts for a user
    /// who is not known any more; EPERM for any other user, or if they cannot be put on. A server
    /// with one user for all clients has no other rights.
    pub(crate) fn as_owner<T>(
        &mut self,
        file: &Statx,
        call: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if !self.enabled {
            return call();
        }
        if self.effective().uid != 0 {
            return Err(Errno::PERM);
        }
        self.with_ids((file.stx_uid, &NO_GROUPS), call)
    }

    /// Makes a directory that belongs to the owner of a file, and to its group unless the parent is
    /// setgid. The caller has found that the owner may do so without being in any group
    /// ([`Impersonation::as_owner`]).
    pub(crate) fn make_directory_of_owner(
        &mut self,
        file: &Statx,
        (parent, name): (BorrowedFd<'_>, &OsStr),
        mode: u32,
    ) -> Result<(), Errno> {
        let make = || rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(mode));
        if !self.enabled {
            return make();
        }
        if self.effective().uid != 0 {
            return Err(Errno::PERM);
        }
        self.with_ids((file.stx_uid, &[file.stx_gid]), make)
    }

    /// Runs a call with the server's rights; EPERM if they cannot be put on.
    fn as_server<T>(&mut self, call: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        self.as_server_in(0, call)
    }

    /// The same, in a group. Without `enabled` the thread has the server's rights in any case.
    fn as_server_in<T>(
        &mut self,
        group: u32,
        call: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if !self.enabled || self.rights == Rights::Server && group == 0 {
            return call();
        }
        self.with_ids((0, &[group]), call)
    }

    /// Runs a call as this user, in the first group that the kernel takes, and takes the rights
    /// back that the thread had.
    fn with_ids<T>(
        &mut self,
        (user, groups): (u32, &[u32]),
        call: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let before = self.rights;
        self.rights = Rights::Unknown;
        let mut groups = groups.iter();
        let is_set = groups.any(|it| system::set_thread_credentials(user, *it, &[]).is_ok());
        let result = if is_set { call() } else { Err(Errno::PERM) };
        match before {
            // The rest of the request must never run as root.
            Rights::User(user) => {
                self.impersonate(user)
                    .expect("credentials that were taken once can be taken again");
            }
            Rights::Server | Rights::Unknown => {
                self.revert_to_server();
            }
        }
        result
    }

    /// Returns true if an object can be the one that the user has just made in a directory. A
    /// directory is opened by its name after it was made, and in between somebody may have put
    /// another one there: also one of the same user. So it has to be fresh and empty. Another empty
    /// directory is not told from it, and nothing in it is exposed.
    ///
    /// Not every file system leaves root a directory that it makes: for root it may have the owner
    /// of the directory around it.
    pub(crate) fn can_have_made(
        &self,
        object: BorrowedFd<'_>,
        status: &Statx,
        parent: &Statx,
    ) -> bool {
        if !is_directory(status) {
            return true;
        }
        let user = self.effective().uid;
        let other = if user == 0 { parent.stx_uid } else { user };
        looks_new(object, status, [user, other])
    }

    /// Whether this is the uid of the user who asks.
    fn is_requester(&self, uid: Option<u32>) -> bool {
        self.requester().is_some_and(|user| Some(user.credentials.uid) == uid)
    }

    /// Whether the requester belongs to a group; root belongs to all groups.
    fn is_in_group(&self, gid: u32) -> bool {
        self.requester().is_some_and(|user| {
            let credentials = &user.credentials;
            credentials.uid == 0 || credentials.gid == gid || credentials.groups.contains(&gid)
        })
    }

    /// Takes S_ISUID and S_ISGID from what has changed hands, unless it is a directory. The kernel
    /// leaves S_ISGID to files that their group may not execute.
    fn clear_set_id(&mut self, secured: SecuredObject<'_>) -> Result<(), Errno> {
        let status = system::status_of(secured.fd)?;
        let mode = u32::from(status.stx_mode);
        if is_directory(&status) || mode & SET_ID == 0 {
            return Ok(());
        }
        self.as_server(|| chmod(secured, mode & 0o7777 & !SET_ID))
    }
}

/// Returns true if a directory can be one that was just made: one of the owners has it, and it is
/// fresh and empty.
fn looks_new(directory: BorrowedFd<'_>, status: &Statx, owners: [u32; 2]) -> bool {
    owners.contains(&status.stx_uid) && is_fresh(status) && has_no_entries(directory)
}

/// Returns true unless the last change came long after the birth. To put an older directory in the
/// place of another changes it: a rename sets its ctime. Both times are the file system's own; true
/// where it keeps no birth times.
fn is_fresh(status: &Statx) -> bool {
    let (birth, change) = (status.stx_btime.tv_sec, status.stx_ctime.tv_sec);
    times::birth(status).is_none() || change.saturating_sub(birth) <= FRESH_SECONDS_MAX
}

/// Returns true if a directory can be read and has no entries.
fn has_no_entries(directory: BorrowedFd<'_>) -> bool {
    let reopened = system::reopen(directory, OFlags::RDONLY | OFlags::DIRECTORY);
    reopened.is_ok_and(|it| matches!(Entries::default().next(it.as_fd()), Ok(None)))
}

/// Whether the object is a directory whose entries get its group.
fn keeps_set_gid(status: &Statx) -> bool {
    is_directory(status) && u32::from(status.stx_mode) & libc::S_ISGID != 0
}

/// The group to be in so that a directory stays setgid; root's for everything else.
fn group_kept(status: &Statx) -> u32 {
    if keeps_set_gid(status) { status.stx_gid } else { 0 }
}

fn set_permissions(secured: SecuredObject<'_>, wanted: Permissions<'_>) -> Result<(), Errno> {
    let now = u32::from(secured.status.stx_mode) & 0o7777;
    let set_gid = if keeps_set_gid(secured.status) { libc::S_ISGID } else { 0 };
    let set_mode = |bits: u32| {
        let mode = bits & 0o1777 | set_gid;
        if mode == now { Ok(()) } else { chmod(secured, mode) }
    };
    let sticky = now & libc::S_ISVTX;
    match wanted {
        Permissions::Mode(mode) => set_mode(mode),
        Permissions::Acl(acl) => {
            // An ACL leaves these bits alone.
            if now & SET_ID & !set_gid != 0 {
                chmod(secured, now & !SET_ID | set_gid)?;
            }
            match acl.store(secured.xattrs()) {
                // A file system without ACLs, or one that has no room for this: the three triples
                // must do.
                Err(Errno::OPNOTSUPP | Errno::NOSPC | Errno::TOOBIG) => {
                    set_mode(sticky | u32::from(acl.nearest_mode()))
                }
                result => result,
            }
        }
    }
}

fn chown(fd: BorrowedFd<'_>, owners: NewOwners) -> Result<(), Errno> {
    let (uid, gid) = (owners.uid.map(Uid::from_raw), owners.gid.map(Gid::from_raw));
    rustix::fs::chownat(fd, c"", uid, gid, AtFlags::EMPTY_PATH)
}

fn chmod(secured: SecuredObject<'_>, mode: u32) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(mode);
    match secured.path_only {
        true => rustix::fs::chmodat(CWD, system::magic_path(secured.fd), mode, AtFlags::empty()),
        false => rustix::fs::fchmod(secured.fd, mode),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use crate::security::credentials::Impersonation;
    use crate::settings::Credentials;
    use crate::sys::system;

    #[test]
    fn root_has_not_just_made_an_older_directory_or_a_full_one_or_that_of_a_third() {
        let folder = tempfile::tempdir().expect("there is space");
        let opened = std::fs::File::open(folder.path()).expect("it was just made");
        let mut made = system::status_of(opened.as_fd()).expect("open");
        let mut impersonation = Impersonation::new(false);
        let root = Credentials { uid: 0, gid: 0, ..Credentials::default() };
        let root = impersonation.register(root);
        impersonation.rights = super::Rights::User(root);
        let owned_by = |made: &super::Statx, uid| {
            let mut status = *made;
            status.stx_uid = uid;
            status
        };
        let parent = owned_by(&made, 1_000);
        made.stx_uid = 0;
        made.stx_mask |= rustix::fs::StatxFlags::BTIME.bits();
        made.stx_btime = made.stx_ctime;
        let can_have_made =
            |made: &super::Statx| impersonation.can_have_made(opened.as_fd(), made, &parent);
        assert!(can_have_made(&made));
        assert!(can_have_made(&owned_by(&made, 1_000)));
        assert!(!can_have_made(&owned_by(&made, 1_001)));
        std::fs::write(folder.path().join("file"), "").expect("there is space");
        assert!(!can_have_made(&made), "a new one is empty");
        std::fs::remove_file(folder.path().join("file")).expect("it is ours");
        made.stx_btime.tv_sec -= super::FRESH_SECONDS_MAX + 1;
        assert!(!can_have_made(&made), "it was moved here");
        impersonation.rights = super::Rights::Server;
    }

    /// Needs root; without it there are no rights to put on or down.
    #[test]
    fn the_servers_rights_are_put_down_after_the_one_call() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let euid = || rustix::process::geteuid().as_raw();
        let mut impersonation = Impersonation::new(true);
        let groups = vec![12_346];
        let user = impersonation.register(Credentials {
            uid: 12_345,
            gid: 12_345,
            groups,
            ..Credentials::default()
        });
        impersonation.impersonate(user).expect("root may become anyone");
        assert_eq!((euid(), impersonation.effective().uid), (12_345, 12_345));
        assert_eq!(impersonation.as_server(|| Ok(euid())), Ok(0));
        assert_eq!((euid(), impersonation.effective().uid), (12_345, 12_345));
        let groups = rustix::process::getgroups().expect("a few");
        assert_eq!(groups.iter().map(|group| group.as_raw()).collect::<Vec<_>>(), [12_346]);
        drop(impersonation);
        assert_eq!(euid(), 0);
    }
}
