//! Folder of an object's streams, and the proofs that it and its files are the object's.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{OFlags, Statx};
use rustix::io::Errno;

use super::super::{FRESH_SECONDS_MAX, is_fresh};
use super::directories::{CallRights, WRITABLE, Way, pass_to_owner};
use super::{DEPOT_STREAMS_MAX, entries_of, if_there, is_stream, verify_name};
use crate::sys::system;

/// Looks at something that another process of the server is about to give away. They take a quarter
/// of a second at most: on a busy disk that process may wait between the two calls.
const SETTLE_ATTEMPTS_MAX: u32 = 300;

/// First looks, without a pause between them: usually enough.
const SETTLE_YIELDS_MAX: u32 = 100;

/// Pause between two of the further looks.
const SETTLE_PAUSE: Duration = Duration::from_millis(1);

/// Folder of an object's streams.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) fd: OwnedFd,
    /// Owner and permissions of the folder.
    status: Statx,
    /// Owner and permissions of the object.
    pub(super) base: Statx,
    /// It is in a depot of the server's.
    pub(super) is_servers: bool,
    /// It is below a directory of a third party: only what belongs to this user or to the owner of
    /// the object is used.
    suspects_others_than: Option<u32>,
}

impl Folder {
    /// # Errors
    /// ACCESS for a folder that a third party could have put there.
    pub(super) fn new(
        fd: OwnedFd,
        base: Statx,
        (way, rights): (&Way, CallRights),
    ) -> Result<Self, Errno> {
        let status = system::status_of(fd.as_fd())?;
        let is_servers = rights == CallRights::Server;
        let user = match rights {
            CallRights::User(user) if way.is_third_partys => Some(user),
            _ => None,
        };
        let folder = Self { fd, status, base, is_servers, suspects_others_than: user };
        let status = folder.settled(folder.fd.as_fd(), status)?;
        folder.verify_owner(&status)?;
        Ok(Self { status, ..folder })
    }

    /// Refuses what a third party could have put there.
    pub(super) fn verify_owner(&self, status: &Statx) -> Result<(), Errno> {
        let is_suspect = self
            .suspects_others_than
            .is_some_and(|user| ![user, self.base.stx_uid].contains(&status.stx_uid));
        if is_suspect { Err(Errno::ACCESS) } else { Ok(()) }
    }

    /// Whether calls in the folder have the server's rights. Whoever else may write it can have
    /// moved a file there that others must not read, which nothing tells from a stream.
    pub(super) fn takes_server(&self) -> bool {
        self.is_servers && self.is_of_owner_alone()
    }

    fn is_of_owner_alone(&self) -> bool {
        self.is_owners() && u32::from(self.status.stx_mode) & WRITABLE == 0
    }

    /// Whether the folder belongs to the owner of the object. That of somebody else has lost its
    /// own object, or a user of Samba has made it.
    pub(super) fn is_owners(&self) -> bool {
        self.status.stx_uid == self.base.stx_uid
    }

    /// Whether a file in the folder is a stream of the object's owner, who alone can have put it
    /// there.
    pub(super) fn is_owners_stream(&self, file: &Statx) -> bool {
        self.is_of_owner_alone() && file.stx_uid == self.base.stx_uid
    }

    /// Gives the folder, and the streams of the object's former owner in it, to the present owner.
    /// The folder goes first: nobody else changes its entries afterwards.
    ///
    /// # Errors
    /// PERM for a folder that another user than the former owner may have filled; what the kernel
    /// says if the owner cannot have it (DQUOT, among others).
    pub(super) fn give_along(&self, former: u32) -> Result<(), Errno> {
        if self.status.stx_uid != former || u32::from(self.status.stx_mode) & WRITABLE != 0 {
            return Err(Errno::PERM);
        }
        let opened = system::reopen(self.fd.as_fd(), OFlags::RDONLY | OFlags::DIRECTORY)?;
        pass_to_owner(self.fd.as_fd(), &self.base, false)?;
        for name in entries_of(opened.as_fd(), DEPOT_STREAMS_MAX)? {
            let flags = OFlags::PATH | OFlags::NOFOLLOW;
            let file = match system::open_beneath(opened.as_fd(), &name, flags, 0, false) {
                Err(Errno::LOOP) => continue,
                found => match if_there(found)? {
                    Some(file) => file,
                    None => continue,
                },
            };
            let status = system::status_of(file.as_fd())?;
            if verify_name(&name).is_ok() && is_stream(&status) && status.stx_uid == former {
                pass_to_owner(file.as_fd(), &self.base, false)?;
            }
        }
        Ok(())
    }

    /// Permissions of a new file in the folder: with the server's rights it is opened for whoever
    /// has a right to the object, so nobody else needs any.
    pub(super) fn mode_of_file(&self) -> u32 {
        if self.takes_server() { 0o600 } else { u32::from(self.base.stx_mode) & 0o666 }
    }

    /// Status of a stream's file, or of the folder itself, which had `status` a moment ago. In a
    /// depot of the server's another process may just have made it, and gives it to the owner of
    /// the object within these attempts.
    pub(super) fn settled(&self, fd: BorrowedFd<'_>, mut status: Statx) -> Result<Statx, Errno> {
        let maker = rustix::process::geteuid().as_raw();
        let may_be_given = self.is_servers && maker != self.base.stx_uid;
        for attempt in 0..SETTLE_ATTEMPTS_MAX {
            if !may_be_given || status.stx_uid != maker || !is_new(&status) {
                break;
            }
            match attempt {
                0..SETTLE_YIELDS_MAX => std::thread::yield_now(),
                _ => std::thread::sleep(SETTLE_PAUSE),
            }
            status = system::status_of(fd)?;
        }
        Ok(status)
    }
}

/// Whether something was made within the last seconds. Anything older stays with its owner.
fn is_new(status: &Statx) -> bool {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse).tv_sec;
    let age = status.stx_ctime.tv_sec.abs_diff(now);
    is_fresh(status) && age <= FRESH_SECONDS_MAX.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::{FRESH_SECONDS_MAX, is_new};
    use crate::sys::system;

    #[test]
    fn only_something_made_within_the_last_seconds_is_new() {
        let file = tempfile::tempfile().expect("there is space");
        let mut status = system::status_of(file.as_fd()).expect("open");
        assert!(is_new(&status));
        status.stx_btime.tv_sec -= FRESH_SECONDS_MAX + 1;
        status.stx_ctime.tv_sec -= FRESH_SECONDS_MAX + 1;
        assert!(!is_new(&status), "made and last changed before");
    }
}
