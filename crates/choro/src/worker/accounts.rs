//! From a name that a client gives to an account: the user database and the system's users.

use dtyp::Sid;
use proto::Account;
use store::{Credentials, Store};
use tracing::warn;

use super::mapped_names::MappedNames;
use super::unix::{self, UnixUser};
use crate::settings::Settings;
use crate::users::UserDatabase;

/// The accounts of the server.
#[derive(Debug)]
pub(super) struct Accounts {
    users: Option<UserDatabase>,
    names: MappedNames,
    guest_account: String,
    domain: String,
    is_root: bool,
}

impl Accounts {
    /// Opens the user database. Without one there are no users, and a message says so.
    pub(super) fn open(settings: &Settings) -> Self {
        let users = match UserDatabase::open(&settings.users_path()) {
            Ok(users) => Some(users),
            Err(error) => {
                warn!("no users: {error}");
                None
            }
        };
        Self {
            users,
            names: MappedNames::of(&settings.config),
            guest_account: settings.config.global.guest_account.clone(),
            domain: settings.config.global.workgroup.clone(),
            is_root: rustix::process::geteuid().is_root(),
        }
    }

    /// Whether the server may act as others: it was root when this was made.
    pub(super) fn is_root(&self) -> bool {
        self.is_root
    }

    /// Whom clients mean by the names they give.
    pub(super) fn names(&self) -> &MappedNames {
        &self.names
    }

    /// The account of who gives this name, if there is one.
    pub(super) fn find(&mut self, store: &mut Store, name: &str) -> Option<Account> {
        let user = self.names.user(name);
        let entry = match self.users.as_mut()?.find(&user) {
            Ok(entry) => entry?,
            Err(error) => {
                warn!("user database: {error}");
                return None;
            }
        };
        let unix = self.unix_user(&entry.name);
        let is_known = self.is_root && unix.name == entry.name;
        let account = self.account(store, entry.name, &unix);
        let Account { sid, user, .. } = &account;
        let identity = if is_known { sid.to_string() } else { format!("{sid} {user}") };
        Some(Account {
            identity,
            requested_user: name.to_lowercase(),
            nt_hash: Some(entry.nt_hash),
            disabled: !entry.enabled,
            ..account
        })
    }

    /// The account of guests.
    pub(super) fn guest(&self, store: &mut Store) -> Option<Account> {
        let mut unix = self.unix_user(&self.guest_account);
        unix.credentials.sids = Credentials::well_known_of_guests();
        let name = self.guest_account.clone();
        Some(Account { is_guest: true, ..self.account(store, name, &unix) })
    }

    /// Whose rights the kernel checks for a user of ours.
    ///
    /// A user that the system does not know acts as the guest account: it can be used on shares
    /// with `force user`, and elsewhere reaches what everyone may.
    fn unix_user(&self, name: &str) -> UnixUser {
        if !self.is_root {
            return unix::own_user();
        }
        for name in [name, &self.guest_account] {
            match unix::find_user(name) {
                Ok(Some(user)) => return user,
                Ok(None) => {}
                Err(error) => warn!("{error:#}"),
            }
        }
        // 65534 is nobody's on every Linux.
        let (id, groups) = (65_534, vec![65_534]);
        let credentials = Credentials { uid: id, gid: id, groups, ..Credentials::default() };
        UnixUser { name: "nobody".to_owned(), home: String::new(), credentials }
    }

    fn account(&self, store: &mut Store, user: String, unix: &UnixUser) -> Account {
        let credentials = &unix.credentials;
        let mut groups = vec![Sid::unix_group(credentials.gid)];
        groups.extend(credentials.groups.iter().map(|gid| Sid::unix_group(*gid)));
        groups.dedup();
        Account {
            requested_user: user.clone(),
            user,
            domain: self.domain.clone(),
            identity: "guest".to_owned(),
            nt_hash: None,
            unix: store.register_user(credentials.clone()),
            sid: Sid::unix_user(credentials.uid),
            groups,
            disabled: false,
            is_guest: false,
        }
    }
}
