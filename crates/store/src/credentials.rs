//! Whose rights the thread has.
//!
//! The thread wears the credentials of the user whose request came last, and changes them only when
//! another user's request comes: nearly every client has one user. The effective user changes, so
//! the kernel drops the capabilities with it; there is no access check of ours that it does not repeat.

use dtyp::NtStatus;
use object::UserId;

use crate::settings::Credentials;
use crate::system;

/// The users that are known, and the one whose rights the thread has now.
#[derive(Debug)]
pub(crate) struct Wardrobe {
    enabled: bool,
    users: Vec<Credentials>,
    worn: Worn,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Worn {
    /// What the thread had when the store was made.
    Server,
    /// A change failed half way.
    Unknown,
    User(UserId),
}

impl Wardrobe {
    pub(crate) fn new(enabled: bool) -> Self {
        Self { enabled, users: Vec::new(), worn: Worn::Server }
    }

    /// The same id for the same credentials, so the list is bounded by the accounts that exist.
    pub(crate) fn register(&mut self, credentials: Credentials) -> UserId {
        let known = self.users.iter().position(|user| *user == credentials);
        let index = known.unwrap_or_else(|| {
            self.users.push(credentials);
            self.users.len() - 1
        });
        UserId(u32::try_from(index).expect("fewer users than 2^32"))
    }

    /// Gives the thread the rights of `user`. Nothing may run for the user when this fails.
    pub(crate) fn wear(&mut self, user: UserId) -> Result<(), NtStatus> {
        let index = usize::try_from(user.0).unwrap_or(usize::MAX);
        let Some(credentials) = self.users.get(index) else {
            return Err(NtStatus::ACCESS_DENIED);
        };
        if !self.enabled || self.worn == Worn::User(user) {
            return Ok(());
        }
        self.worn = Worn::Unknown;
        system::set_thread_credentials(credentials.uid, credentials.gid, &credentials.groups)
            .map_err(|_| NtStatus::ACCESS_DENIED)?;
        self.worn = Worn::User(user);
        Ok(())
    }

    /// Gives the thread the server's rights, for the few things that a user may do by the rules of
    /// SMB though not by those of POSIX. Whether it worked.
    pub(crate) fn wear_server(&mut self) -> bool {
        if !self.enabled || self.worn == Worn::Server {
            return self.enabled;
        }
        self.worn = Worn::Unknown;
        if system::set_thread_credentials(0, 0, &[]).is_ok() {
            self.worn = Worn::Server;
        }
        self.worn == Worn::Server
    }

    /// Runs one system call with the server's rights; `None` if that cannot be.
    pub(crate) fn as_server<T>(&mut self, call: impl FnOnce() -> T) -> Option<T> {
        let before = self.worn;
        if !self.wear_server() {
            return None;
        }
        let result = call();
        if let Worn::User(user) = before {
            // What follows in the same request must never run as root.
            self.wear(user).expect("credentials that were worn can be worn again");
        }
        Some(result)
    }

    /// The user whose rights the kernel checks at the moment.
    pub(crate) fn effective(&self) -> Effective {
        let worn = match self.worn {
            Worn::User(UserId(index)) => usize::try_from(index).ok(),
            Worn::Server | Worn::Unknown => None,
        };
        worn.and_then(|index| self.users.get(index)).map_or_else(
            || Effective {
                uid: rustix::process::geteuid().as_raw(),
                gid: rustix::process::getegid().as_raw(),
            },
            |user| Effective { uid: user.uid, gid: user.gid },
        )
    }
}

/// A user and its primary group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effective {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Drop for Wardrobe {
    fn drop(&mut self) {
        self.wear_server();
    }
}

#[cfg(test)]
mod tests {
    use super::{Credentials, Wardrobe};

    /// Needs root; without it there are no rights to put on or down.
    #[test]
    fn the_servers_rights_are_put_down_after_the_one_call() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let euid = || rustix::process::geteuid().as_raw();
        let mut wardrobe = Wardrobe::new(true);
        let groups = vec![12_346];
        let user = wardrobe.register(Credentials { uid: 12_345, gid: 12_345, groups });
        wardrobe.wear(user).expect("root may become anyone");
        assert_eq!((euid(), wardrobe.effective().uid), (12_345, 12_345));
        assert_eq!(wardrobe.as_server(euid), Some(0));
        assert_eq!((euid(), wardrobe.effective().uid), (12_345, 12_345));
        let groups = rustix::process::getgroups().expect("a few");
        assert_eq!(groups.iter().map(|group| group.as_raw()).collect::<Vec<_>>(), [12_346]);
        drop(wardrobe);
        assert_eq!(euid(), 0);
    }
}
