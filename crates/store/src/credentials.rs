//! Whose rights the thread has.
//!
//! The thread wears the credentials of the user whose request came last, and changes them only when
//! another user's request comes: nearly every client has one user. The effective user changes, so
//! the kernel drops the capabilities with it; there is no access check of ours that it does not repeat.

use dtyp::access_check::{Privileges, Token};
use dtyp::{NtStatus, Sid};
use object::UserId;
use rustix::io::Errno;

use crate::settings::Credentials;
use crate::system;

/// The users that are known, and the one whose rights the thread has now.
#[derive(Debug)]
pub(crate) struct Wardrobe {
    enabled: bool,
    users: Vec<User>,
    worn: Worn,
    /// Who asks, whether or not the rights could be put on.
    asking: Option<usize>,
}

/// A user that is known.
#[derive(Debug)]
struct User {
    credentials: Credentials,
    identity: Identity,
}

/// A user by SIDs.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) uid: u32,
    pub(crate) user: Sid,
    pub(crate) groups: Vec<Sid>,
    /// The administrator of the system: nothing is refused.
    pub(crate) is_root: bool,
}

impl Identity {
    fn of(credentials: &Credentials) -> Self {
        let unix = Sid::unix_user(credentials.uid);
        let is_root = credentials.uid == 0;
        let mut groups = Vec::new();
        let user = match &credentials.sid {
            Some(sid) => {
                groups.push(unix);
                sid.clone()
            }
            None => unix,
        };
        groups.push(Sid::unix_group(credentials.gid));
        groups.extend(credentials.groups.iter().map(|gid| Sid::unix_group(*gid)));
        groups.extend(credentials.sids.iter().cloned());
        if !groups.contains(&Sid::everyone()) {
            groups.push(Sid::everyone());
        }
        if is_root {
            groups.push(Sid::administrators());
        }
        groups.dedup();
        Self { uid: credentials.uid, user, groups, is_root }
    }

    /// The user as access checks want it.
    pub(crate) fn token(&self) -> Token<'_> {
        let privileges = Privileges {
            security: self.is_root,
            take_ownership: self.is_root,
            ..Privileges::default()
        };
        Token { user: &self.user, groups: &self.groups, privileges }
    }
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
        Self { enabled, users: Vec::new(), worn: Worn::Server, asking: None }
    }

    /// The same id for the same credentials, so the list is bounded by the accounts that exist.
    pub(crate) fn register(&mut self, credentials: Credentials) -> UserId {
        let known = self.users.iter().position(|user| user.credentials == credentials);
        let index = known.unwrap_or_else(|| {
            let identity = Identity::of(&credentials);
            self.users.push(User { credentials, identity });
            self.users.len() - 1
        });
        UserId(u32::try_from(index).expect("fewer users than 2^32"))
    }

    /// Gives the thread the rights of `user`. Nothing may run for the user when this fails.
    pub(crate) fn wear(&mut self, user: UserId) -> Result<(), NtStatus> {
        let index = usize::try_from(user.0).unwrap_or(usize::MAX);
        self.asking = None;
        let Some(User { credentials, .. }) = self.users.get(index) else {
            return Err(NtStatus::ACCESS_DENIED);
        };
        self.asking = Some(index);
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

    /// Runs one system call with the server's rights, which without `enabled` are those that the
    /// thread has in any case; EPERM if they cannot be put on.
    pub(crate) fn privileged<T>(
        &mut self,
        call: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if !self.enabled {
            return call();
        }
        self.as_server(call).unwrap_or(Err(Errno::PERM))
    }

    /// Runs one system call as the user, and once more with the server's rights if the kernel refused
    /// what the user `may` do by the rules of NT.
    pub(crate) fn with_rights<T>(
        &mut self,
        may: bool,
        call: impl Fn() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match call() {
            Err(Errno::ACCESS | Errno::PERM) if may => self.privileged(call),
            result => result,
        }
    }

    /// Whether there are rights of the server beside those of the users.
    pub(crate) fn has_server(&self) -> bool {
        self.enabled
    }

    /// By which SIDs the user is known who asks at the moment.
    pub(crate) fn identity(&self) -> Result<&Identity, NtStatus> {
        let asking = self.asking.and_then(|index| self.users.get(index));
        asking.map(|user| &user.identity).ok_or(NtStatus::ACCESS_DENIED)
    }

    /// A known user of this uid. There may be several, with other groups: the one who asks comes first.
    pub(crate) fn identity_of(&self, uid: u32) -> Option<&Identity> {
        let asking = self.asking.and_then(|index| self.users.get(index));
        let mut users = asking.into_iter().chain(&self.users);
        users.find(|user| user.credentials.uid == uid).map(|user| &user.identity)
    }

    /// The uid of the known user with this SID.
    pub(crate) fn uid_of(&self, sid: &Sid) -> Option<u32> {
        let user = self.users.iter().find(|user| user.identity.user == *sid)?;
        Some(user.credentials.uid)
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
            |user| Effective { uid: user.credentials.uid, gid: user.credentials.gid },
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
        let user = wardrobe.register(Credentials {
            uid: 12_345,
            gid: 12_345,
            groups,
            ..Credentials::default()
        });
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
