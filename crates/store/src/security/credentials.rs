//! The user that the thread impersonates.
//!
//! The thread keeps the credentials of the last request's user, and takes others only when another
//! user's request comes: nearly every client has one user. The effective user changes, so the
//! kernel drops the capabilities with it; there is no access check of ours that it does not repeat.
//! The few calls that run with the server's rights for a user are in `privileged`.

mod privileged;

use std::io;
use std::sync::Arc;

use dtyp::access_check::{Privileges, Token};
use dtyp::{NtStatus, Sid};
use object::UserId;
use tracing::warn;

pub(crate) use self::privileged::{Depot, DepotAccess, NewOwners, Permissions};
use crate::settings::{Credentials, DomainIds, Trustee};
use crate::sys::system;

/// The users that are known, and the one whose rights the thread has now.
#[derive(Debug)]
pub(crate) struct Impersonation {
    enabled: bool,
    users: Vec<User>,
    /// Memory of all `users` in bytes.
    users_bytes: usize,
    rights: Rights,
    domain_ids: Option<Arc<dyn DomainIds>>,
    /// User of the current request, even if impersonation failed.
    requester: Option<usize>,
}

/// A user that is known.
#[derive(Debug)]
struct User {
    credentials: Credentials,
    identity: Identity,
}

/// Highest number of bytes of all users that a client has had, and of their groups. A user in a
/// hundred groups has some 10 KiB.
const USERS_BYTES_MAX: usize = 32 << 20;

/// Id of a user that the store does not know.
const NOBODY: UserId = UserId(u32::MAX);

impl User {
    /// Memory that the user takes, about.
    fn bytes(&self) -> usize {
        let Credentials { groups, sids, .. } = &self.credentials;
        let sids = sids.len() + self.identity.groups.len();
        size_of::<Self>() + size_of_val(groups.as_slice()) + sids * size_of::<Sid>()
    }
}

/// A user's SIDs, for access checks.
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

    /// A guest or an anonymous user, whatever account it has on this system.
    pub(crate) fn is_guest(&self) -> bool {
        self.groups.contains(&Sid::guests())
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
enum Rights {
    /// The credentials that the thread had when the store was made.
    Server,
    /// A change failed half way.
    Unknown,
    User(UserId),
}

impl Impersonation {
    /// `enabled`: the thread is to have the rights of users. It gives CAP_FSETID up for good, so
    /// that the kernel lets it make nothing setgid that its users could not.
    pub(crate) fn new(enabled: bool) -> Self {
        if enabled {
            system::give_up_fsetid().expect("a thread may have fewer capabilities");
        }
        Self {
            enabled,
            users: Vec::new(),
            users_bytes: 0,
            rights: Rights::Server,
            domain_ids: None,
            requester: None,
        }
    }

    pub(crate) fn with_domain_ids(mut self, domain_ids: Option<Arc<dyn DomainIds>>) -> Self {
        self.domain_ids = domain_ids;
        self
    }

    /// The user or group of the domain with this SID.
    pub(crate) fn of_domain(&self, sid: &Sid) -> Option<Trustee> {
        let is_of_domain = sid.authority() == 5 && sid.subauthorities().first() == Some(&21);
        self.domain_ids.as_ref().filter(|_| is_of_domain)?.id_of(sid)
    }

    /// The same id for the same credentials. No user is forgotten, because opens and requests may
    /// have the id; beyond [`USERS_BYTES_MAX`] a new one gets an id that may do nothing.
    pub(crate) fn register(&mut self, credentials: Credentials) -> UserId {
        let known = self.users.iter().position(|user| user.credentials == credentials);
        let Some(index) = known.or_else(|| self.add(credentials)) else { return NOBODY };
        UserId(u32::try_from(index).expect("fewer users than 2^32"))
    }

    fn add(&mut self, credentials: Credentials) -> Option<usize> {
        let user = User { identity: Identity::of(&credentials), credentials };
        let bytes = self.users_bytes + user.bytes();
        if bytes > USERS_BYTES_MAX {
            let known = self.users.len();
            warn!("a client has used {known} users, with their groups: a further one is refused");
            return None;
        }
        self.users_bytes = bytes;
        self.users.push(user);
        Some(self.users.len() - 1)
    }

    /// The known users, in the order of their ids.
    pub(crate) fn users(&self) -> impl ExactSizeIterator<Item = &Credentials> {
        self.users.iter().map(|user| &user.credentials)
    }

    /// Whether the thread has the rights of `user` for the current request.
    pub(crate) fn is_for(&self, user: UserId) -> bool {
        self.enabled && self.rights == Rights::User(user) && self.requester.is_some()
    }

    /// Gives the thread the rights of `user`. Nothing may run for the user when this fails.
    pub(crate) fn impersonate(&mut self, user: UserId) -> Result<(), NtStatus> {
        let index = usize::try_from(user.0).unwrap_or(usize::MAX);
        self.requester = None;
        let Some(User { credentials, .. }) = self.users.get(index) else {
            return Err(NtStatus::ACCESS_DENIED);
        };
        self.requester = Some(index);
        if !self.enabled || self.rights == Rights::User(user) {
            return Ok(());
        }
        self.rights = Rights::Unknown;
        system::set_thread_credentials(credentials.uid, credentials.gid, &credentials.groups)
            .map_err(|_| NtStatus::ACCESS_DENIED)?;
        self.rights = Rights::User(user);
        Ok(())
    }

    /// Gives the thread the server's rights, for work that is not a user's. Whether it worked.
    pub(crate) fn revert_to_server(&mut self) -> bool {
        if !self.enabled || self.rights == Rights::Server {
            return self.enabled;
        }
        self.rights = Rights::Unknown;
        if system::set_thread_credentials(0, 0, &[]).is_ok() {
            self.rights = Rights::Server;
        }
        self.rights == Rights::Server
    }

    /// Whether there are rights of the server beside those of the users.
    pub(crate) fn has_server(&self) -> bool {
        self.enabled
    }

    /// Returns the SIDs of the current request's user.
    pub(crate) fn identity(&self) -> Result<&Identity, NtStatus> {
        self.requester().map(|user| &user.identity).ok_or(NtStatus::ACCESS_DENIED)
    }

    fn requester(&self) -> Option<&User> {
        self.requester.and_then(|index| self.users.get(index))
    }

    /// A known user of this uid. Several may have the uid, with different groups: the current
    /// request's user comes first.
    pub(crate) fn identity_of(&self, uid: u32) -> Option<&Identity> {
        let mut users = self.requester().into_iter().chain(&self.users);
        users.find(|user| user.credentials.uid == uid).map(|user| &user.identity)
    }

    /// The uid of the known user with this SID.
    pub(crate) fn uid_of(&self, sid: &Sid) -> Option<u32> {
        let user = self.users.iter().find(|user| user.identity.user == *sid)?;
        Some(user.credentials.uid)
    }

    /// The user whose rights the kernel checks at the moment.
    pub(crate) fn effective(&self) -> Effective {
        let user = self.current().map(|user| &user.credentials);
        user.map_or_else(Effective::of_thread, |it| Effective { uid: it.uid, gid: it.gid })
    }

    /// The user whose rights the thread has; `None` with those of the server.
    fn current(&self) -> Option<&User> {
        let Rights::User(UserId(index)) = self.rights else { return None };
        self.users.get(usize::try_from(index).ok()?)
    }
}

/// A user and its primary group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effective {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Gives a new thread the server's rights. It begins with those of the user that the thread which
/// has started it impersonates.
///
/// # Errors
/// The kernel refuses. Nothing that needs the server's rights may run on the thread then.
pub fn take_server_rights() -> io::Result<()> {
    // Without being root nobody impersonates.
    if rustix::process::getuid().is_root() {
        system::set_thread_credentials(0, 0, &[])?;
    }
    Ok(())
}

impl Effective {
    fn of_thread() -> Self {
        Self { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }
}

impl Drop for Impersonation {
    fn drop(&mut self) {
        self.revert_to_server();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(uid: u32, groups: u32) -> Credentials {
        Credentials { uid, gid: uid, groups: (0..groups).collect(), ..Credentials::default() }
    }

    #[test]
    fn users_take_bounded_memory_and_one_beyond_it_may_do_nothing() {
        let mut impersonation = Impersonation::new(false);
        let ids: Vec<UserId> =
            (1..100).map(|uid| impersonation.register(member(uid, 65_536))).collect();
        let known = ids.iter().filter(|id| **id != NOBODY).count();
        assert!((2..50).contains(&known), "{known}");
        assert!(impersonation.users_bytes <= USERS_BYTES_MAX);
        assert_eq!(impersonation.users().len(), known);
        assert_eq!(impersonation.impersonate(NOBODY), Err(NtStatus::ACCESS_DENIED));
        assert_eq!(impersonation.register(member(1, 65_536)), ids[0], "known ones still log on");
        assert_eq!(impersonation.impersonate(ids[0]), Ok(()));
        assert_ne!(impersonation.register(member(1, 10)), NOBODY, "there is room for a small one");
    }
}
