//! From a name that a client gives to an account: the server's users and the system's.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use dtyp::{NtStatus, Sid};
use messaging::DomainAccount;
use proto::Account;
use settings::Settings;
use store::{Credentials, Store};
use tracing::{debug, warn};
use users::{Fingerprint, KnownUser, KnownUsers, UserSource};

use super::mapped_names::MappedNames;
use super::own_users::OwnUsers;
use super::samba_users::SambaUsers;
use super::served;
use super::share_security;
use super::unix::{self, UnixUser};

/// The accounts of the server.
#[derive(Debug)]
pub struct Accounts {
    source: UserSource,
    /// `None` until they could be read once.
    users: Option<KnownUsers>,
    /// File state at the last update of `unix::set_own_users` and `samba_users`.
    own_users_from: Option<Fingerprint>,
    samba_users: SambaUsers,
    names: MappedNames,
    guest_account: String,
    domain: String,
    is_root: bool,
    find_user: FindUser,
    /// Path of the descriptors of shares.
    share_security: PathBuf,
}

/// Looks up a user of the system.
type FindUser = fn(&str) -> anyhow::Result<Option<UnixUser>>;

/// The users of this server cannot be read, so nobody knows whether one has a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UsersUnavailable;

impl fmt::Display for UsersUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the users of this server cannot be read")
    }
}

impl Accounts {
    /// The accounts by the users that `logond` publishes without their password hashes.
    pub fn open(settings: &Settings) -> Self {
        let source = UserSource::published_in(&settings.directories.lock);
        Self::with(settings, source, SambaUsers::default())
    }

    /// The accounts by the user database itself, for commands of an administrator.
    pub fn of_database(settings: &Settings) -> Self {
        Self::with(settings, UserSource::Database(settings.users_path()), SambaUsers::default())
    }

    /// Follows a change of the configuration.
    pub fn reopen(&mut self, settings: &Settings) {
        let source = UserSource::published_in(&settings.directories.lock);
        *self = Self::with(settings, source, self.samba_users.clone());
    }

    fn with(settings: &Settings, source: UserSource, samba_users: SambaUsers) -> Self {
        unix::set_own_users(OwnUsers::default());
        unix::set_guest_account(&settings.config.global.guest_account);
        Self {
            source,
            users: None,
            own_users_from: None,
            samba_users,
            names: MappedNames::of(&settings.config),
            guest_account: settings.config.global.guest_account.clone(),
            domain: settings.config.global.workgroup.clone(),
            is_root: rustix::process::geteuid().is_root(),
            find_user: unix::find_user,
            share_security: share_security::path_of(&settings.directories.state),
        }
    }

    /// Returns the users in their file as it is now.
    fn users(&mut self) -> Result<&KnownUsers, UsersUnavailable> {
        let read = match &mut self.users {
            Some(users) => users.refresh(),
            None => KnownUsers::open(self.source.clone()).map(|users| self.users = Some(users)),
        };
        // `logond` says why it has published none.
        let read = read.inspect_err(|error| debug!("cannot read the users: {error}"));
        read.map_err(|_| UsersUnavailable)?;
        self.update_own_users();
        self.users.as_ref().ok_or(UsersUnavailable)
    }

    /// Gives the users of the database to `unix`, if they have changed.
    fn update_own_users(&mut self) {
        let Some(users) = &self.users else { return };
        if users.fingerprint() != self.own_users_from {
            self.own_users_from = users.fingerprint();
            unix::set_own_users(OwnUsers::of(users.users()));
            self.samba_users.replace(users.users());
        }
    }

    /// Returns the users to whom Samba gave SIDs. They change with the database.
    pub fn samba_users(&self) -> &SambaUsers {
        &self.samba_users
    }

    /// True if the server may act as other users: it was root when this was made.
    pub(super) fn is_root(&self) -> bool {
        self.is_root
    }

    /// Path of the descriptors of shares.
    pub(super) fn share_security(&self) -> &Path {
        &self.share_security
    }

    /// Returns the map from names that clients give to users.
    pub(super) fn names(&self) -> &MappedNames {
        &self.names
    }

    /// Returns the users whose passwords may prove a name: several, where groups of `username map`
    /// decide between them. The system's name service is not asked before the proof, because its
    /// delay would reveal the names of users.
    ///
    /// # Errors
    /// If the map cannot be read: one who may be a user must not become a guest.
    pub fn candidates(&self, name: &str) -> Result<Vec<String>, UsersUnavailable> {
        let users = self.names.candidates(name);
        users.inspect_err(|error| warn!("{error:#}")).map_err(|_| UsersUnavailable)
    }

    /// Returns the first user that a name may mean; `None` if the server has none of them.
    ///
    /// # Errors
    /// If the users or the map cannot be read.
    pub fn known(&mut self, name: &str) -> Result<Option<KnownUser>, UsersUnavailable> {
        let candidates = self.candidates(name)?;
        let users = self.users()?;
        Ok(candidates.iter().find_map(|user| users.find(user)).cloned())
    }

    /// Returns the user that a name means, of those whose password was right.
    fn meant(&self, mut users: Vec<String>, requested_user: &str) -> anyhow::Result<String> {
        if self.names.candidates(requested_user)?.len() > 1 {
            let meant = self.names.proved_user(requested_user)?.to_lowercase();
            users.retain(|user| user.to_lowercase() == meant);
        }
        users.into_iter().next().context("groups map the name to another user")
    }

    /// Returns the account of a user with the right password. `None` if the name service fails, or
    /// groups map the name to a user with another password: the user must not get the rights of
    /// another.
    pub fn find(
        &mut self,
        store: &mut Store,
        users: Vec<String>,
        requested_user: String,
    ) -> Option<Account> {
        // For ids: `logond` has published the user before its answer.
        self.users().inspect_err(|error| warn!("{error}")).ok()?;
        let user = self.meant(users, &requested_user);
        let user = user.inspect_err(|error| debug!("{error:#}")).ok()?;
        let unix = self.unix_user(&user).inspect_err(|error| warn!("{error:#}")).ok()?;
        let is_known = self.is_root && unix.name == user;
        let account = self.account(store, user, &unix);
        let Account { sid, user, .. } = &account;
        let identity = if is_known { sid.to_string() } else { format!("{sid} {user}") };
        Some(Account { identity, requested_user, ..account })
    }

    /// Returns the account of a user of the domain. Its SIDs are those of the domain, and its ids
    /// those of winbindd. The system's name service is asked only about a name without a domain
    /// (`winbind use default domain`), which another user of this system may have.
    ///
    /// # Errors
    /// STATUS_LOGON_FAILURE if another user has the name, STATUS_NO_LOGON_SERVERS if the name
    /// service fails, or the user database cannot be read, which may have the name, too.
    pub fn of_domain(
        &mut self,
        store: &mut Store,
        domain_account: DomainAccount,
    ) -> Result<Account, NtStatus> {
        let DomainAccount { user, domain, sid, groups, uid, gid, gids } = domain_account;
        // Shares may name further users, with ids of their own.
        let known = self.users().map(|_| ());
        if self.is_root && !user.contains('\\') {
            known.map_err(|UsersUnavailable| NtStatus::NO_LOGON_SERVERS)?;
            match (self.find_user)(&user) {
                Ok(Some(other)) if other.credentials.uid != uid => {
                    warn!("{user} of the domain {domain} has the name of a user of this system");
                    return Err(NtStatus::LOGON_FAILURE);
                }
                Ok(_) => {}
                Err(error) => {
                    warn!("{error:#}");
                    return Err(NtStatus::NO_LOGON_SERVERS);
                }
            }
        }
        let ids = if self.is_root {
            Credentials { uid, gid, groups: gids, ..Credentials::default() }
        } else {
            unix::own_user().credentials
        };
        let sids = groups.iter().cloned().chain(Credentials::well_known()).collect();
        let credentials = Credentials { sid: Some(sid.clone()), sids, ..ids };
        let unix = UnixUser { name: user.clone(), home: String::new(), credentials };
        let account = self.account(store, user, &unix);
        Ok(Account {
            requested_user: account.user.to_lowercase(),
            domain,
            identity: sid.to_string(),
            sid,
            groups: account.groups.iter().cloned().chain(groups).collect(),
            ..account
        })
    }

    /// Returns the account of a user of the Kerberos realm: a user of this system with the
    /// principal's name, or the one that `username map` gives to `REALM\name` or to the name. Only
    /// the map makes somebody root.
    ///
    /// # Errors
    /// STATUS_LOGON_FAILURE without such a user, STATUS_NO_LOGON_SERVERS if the name service fails,
    /// or the map or the user database cannot be read, which may give the user other ids.
    pub fn of_principal(
        &mut self,
        store: &mut Store,
        name: &str,
        realm: &str,
    ) -> Result<Account, NtStatus> {
        let failed = |error| {
            warn!("{error:#}");
            NtStatus::NO_LOGON_SERVERS
        };
        self.users().map_err(|UsersUnavailable| NtStatus::NO_LOGON_SERVERS)?;
        let full = format!("{realm}\\{name}");
        let mut user = self.names.proved_user(&full).map_err(failed)?;
        if *user == full {
            user = self.names.proved_user(name).map_err(failed)?;
        }
        let unix = (self.find_user)(&user).map_err(failed)?;
        let mut unix = unix.ok_or_else(|| {
            debug!("{name}@{realm} is no user of this system");
            NtStatus::LOGON_FAILURE
        })?;
        if unix.credentials.uid == 0 && *user == *name {
            warn!("{name}@{realm} would be root: only `username map` makes somebody root");
            return Err(NtStatus::LOGON_FAILURE);
        }
        if !self.is_root {
            unix = unix::own_user();
        }
        let account = self.account(store, user.into_owned(), &unix);
        let identity = format!("{} {full}", account.sid);
        Ok(Account {
            requested_user: name.to_lowercase(),
            domain: realm.to_owned(),
            identity,
            ..account
        })
    }

    /// Learns which users have ids of their own, for the logon of a guest: shares may force them.
    pub fn learn_users(&mut self) {
        // Without them, such shares refuse the guest.
        let _ = self.users();
    }

    /// Returns the account of guests; `None` if the name service fails.
    pub fn guest(&self, store: &mut Store) -> Option<Account> {
        let unix = served::serving(true, || self.unix_user(&self.guest_account));
        // Strangers must not fill the log.
        let mut unix = unix.inspect_err(|error| debug!("{error:#}")).ok()?;
        unix.credentials.sids = Credentials::well_known_of_guests();
        let name = self.guest_account.clone();
        Some(Account { is_guest: true, ..self.account(store, name, &unix) })
    }

    /// Returns the user of the system whose rights the kernel checks for one of the database.
    ///
    /// A user unknown to the system acts as the guest account: it can be used on shares with `force
    /// user`, and elsewhere reaches what everyone may.
    ///
    /// # Errors
    /// If the name service failed, or did not answer in time.
    fn unix_user(&self, name: &str) -> anyhow::Result<UnixUser> {
        if !self.is_root {
            return Ok(unix::own_user());
        }
        for name in [name, &self.guest_account] {
            if let Some(user) = (self.find_user)(name)? {
                return Ok(user);
            }
        }
        // 65534 is nobody's on every Linux.
        let (id, groups) = (65_534, vec![65_534]);
        let credentials = Credentials { uid: id, gid: id, groups, ..Credentials::default() };
        Ok(UnixUser { name: "nobody".to_owned(), home: String::new(), credentials })
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
            unix: store.register_user(credentials.clone()),
            sid: Sid::unix_user(credentials.uid),
            groups: groups.into(),
            is_guest: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use config::Config;
    use dtyp::{NtStatus, Sid};
    use messaging::DomainAccount;
    use store::{Store, StoreSettings};

    use super::super::name_service::{Answer, Question};
    use super::super::samba_users::SambaUsers;
    use super::super::share_users::own_user;
    use process::SystemUser;
    use std::path::{Path, PathBuf};

    use super::{
        Accounts, Credentials, KnownUsers, MappedNames, UnixUser, UserSource, UsersUnavailable,
        unix,
    };

    fn accounts(find_user: super::FindUser) -> Accounts {
        let (config, _) =
            Config::parse("[global]\nguest account = nobody\n", "test").expect("it is one");
        let source = UserSource::Database(PathBuf::from("/nonexistent"));
        Accounts {
            users: Some(KnownUsers::open(source.clone()).expect("it is empty")),
            source,
            own_users_from: None,
            samba_users: SambaUsers::default(),
            names: MappedNames::of(&config),
            guest_account: config.global.guest_account.clone(),
            domain: "WORKGROUP".to_owned(),
            is_root: true,
            find_user,
            share_security: PathBuf::new(),
        }
    }

    /// A user of the domain whom winbindd calls `name`.
    fn domain_user(name: &str) -> DomainAccount {
        let [alice, users] = [1_103, 513].map(|rid| Sid::new(5, &[21, 1, 2, 3, rid]));
        DomainAccount {
            user: name.to_owned(),
            domain: "ADLAB".to_owned(),
            sid: alice,
            groups: vec![users],
            uid: 1_001_103,
            gid: 1_000_513,
            gids: vec![1_000_513],
        }
    }

    #[test]
    fn a_user_of_the_domain_with_the_name_of_a_local_user_is_refused() {
        let mut store = Store::new(StoreSettings::default());
        let mut local = accounts(|name| {
            let uid = if name == "root" { 0 } else { 1_001_103 };
            let credentials = Credentials { uid, ..Credentials::default() };
            Ok(Some(UnixUser { name: name.to_owned(), home: String::new(), credentials }))
        });
        let refused = local.of_domain(&mut store, domain_user("root")).expect_err("not root");
        assert_eq!(refused, NtStatus::LOGON_FAILURE);
        // The name service knows the user from winbindd.
        local.of_domain(&mut store, domain_user("alice")).expect("it is the same user");
        let mut unknown = accounts(|_| anyhow::bail!("no answer"));
        let refused = unknown.of_domain(&mut store, domain_user("alice")).expect_err("unsure");
        assert_eq!(refused, NtStatus::NO_LOGON_SERVERS);
    }

    #[test]
    fn a_user_of_the_domain_keeps_its_ids_in_a_share_that_forces_the_group() {
        let mut store = Store::new(StoreSettings::default());
        let mut nobody = accounts(|_| Ok(None));
        // This system has a user of that name.
        let account = nobody.of_domain(&mut store, domain_user("root")).expect("it is free");
        let own = own_user(&account, &store).expect("it has logged on");
        assert_eq!((own.credentials.uid, own.credentials.sid), (1_001_103, Some(account.sid)));
    }

    #[test]
    fn a_user_of_the_domain_has_its_sids_and_the_ids_of_winbindd() {
        let mut store = Store::new(StoreSettings::default());
        let [alice, users] = [1_103, 513].map(|rid| Sid::new(5, &[21, 1, 2, 3, rid]));
        let account = accounts(|_| anyhow::bail!("nobody asks"))
            .of_domain(&mut store, domain_user("ADLAB\\alice"))
            .expect("its name has a domain");
        assert_eq!((account.sid, account.identity), (alice.clone(), alice.to_string()));
        assert_eq!(*account.groups, [Sid::unix_group(1_000_513), users]);
        assert!(!account.is_guest);
    }

    #[test]
    fn a_principal_is_a_user_of_this_system_and_never_root_by_name() {
        let mut store = Store::new(StoreSettings::default());
        let mut known = accounts(|name| {
            let uid = match name {
                "root" => 0,
                "carol" => 1_000,
                _ => return Ok(None),
            };
            let credentials = Credentials { uid, ..Credentials::default() };
            Ok(Some(UnixUser { name: name.to_owned(), home: String::new(), credentials }))
        });
        let carol = known.of_principal(&mut store, "carol", "LAB.TEST").expect("she is known");
        assert_eq!((&*carol.user, carol.sid), ("carol", Sid::unix_user(1_000)));
        for name in ["root", "eve"] {
            let status = known.of_principal(&mut store, name, "LAB.TEST").expect_err("nobody");
            assert_eq!(status, NtStatus::LOGON_FAILURE, "{name}");
        }
        let mut fails = accounts(|_| anyhow::bail!("the directory is away"));
        let status = fails.of_principal(&mut store, "carol", "LAB.TEST").expect_err("unknown");
        assert_eq!(status, NtStatus::NO_LOGON_SERVERS);
    }

    #[test]
    fn while_the_name_service_fails_a_user_is_nobody_and_no_guest_either() {
        let mut store = Store::new(StoreSettings::default());
        let mut fails = accounts(|_| anyhow::bail!("the directory is away"));
        assert!(fails.find(&mut store, vec!["anna".to_owned()], "anna".to_owned()).is_none());
        assert!(fails.guest(&mut store).is_none());
        let mut only_the_guest_is_known = accounts(|name| match name {
            "nobody" => Ok(Some(unix::own_user())),
            _ => anyhow::bail!("the directory is away"),
        });
        let found =
            only_the_guest_is_known.find(&mut store, vec!["anna".to_owned()], "anna".to_owned());
        assert!(found.is_none(), "anna would be a guest");
        let mut unknown = accounts(|_| Ok(None));
        let account = unknown.find(&mut store, vec!["anna".to_owned()], "anna".to_owned());
        let account = account.expect("that nobody is there is an answer");
        assert_eq!(account.sid, Sid::unix_user(65_534));
    }

    fn accounts_mapped_by(map: &Path, find_user: super::FindUser) -> Accounts {
        let text = format!("[global]\nusername map = {}\n", map.display());
        let (config, _) = Config::parse(&text, "test").expect("it is one");
        Accounts { names: MappedNames::of(&config), ..accounts(find_user) }
    }

    /// The map may be there to keep a principal from being the local user of its name.
    #[test]
    fn without_its_username_map_a_server_knows_no_names() {
        let mut store = Store::new(StoreSettings::default());
        let mut mapped = accounts_mapped_by(Path::new("/nonexistent"), |name| {
            let credentials = Credentials { uid: 1_000, ..Credentials::default() };
            Ok(Some(UnixUser { name: name.to_owned(), home: String::new(), credentials }))
        });
        let status = mapped.of_principal(&mut store, "carol", "LAB.TEST").expect_err("no map");
        assert_eq!(status, NtStatus::NO_LOGON_SERVERS);
        assert_eq!(mapped.candidates("carol").err(), Some(UsersUnavailable));
    }

    #[test]
    fn a_server_without_published_users_knows_no_names_until_there_are_some() {
        let folder = tempfile::tempdir().expect("there is space");
        let of_all = |name: &str| {
            let credentials = Credentials { uid: 1_000, ..Credentials::default() };
            Ok(Some(UnixUser { name: name.to_owned(), home: String::new(), credentials }))
        };
        let source = UserSource::published_in(folder.path());
        let mut unread = Accounts { source, users: None, ..accounts(of_all) };
        let mut store = Store::new(StoreSettings::default());
        assert_eq!(unread.known("anna").err(), Some(UsersUnavailable));
        let anna = || vec!["anna".to_owned()];
        assert!(unread.find(&mut store, anna(), "anna".to_owned()).is_none(), "no ids");
        let status = unread.of_principal(&mut store, "anna", "LAB.TEST").expect_err("no ids");
        assert_eq!(status, NtStatus::NO_LOGON_SERVERS);
        let status = unread.of_domain(&mut store, domain_user("anna")).expect_err("unsure");
        assert_eq!(status, NtStatus::NO_LOGON_SERVERS);
        users::publish(folder.path(), &[]).expect("there is space");
        assert!(unread.known("anna").expect("it can be read").is_none());
        unread.of_principal(&mut store, "anna", "LAB.TEST").expect("a user of the system");
        unread.find(&mut store, anna(), "anna".to_owned()).expect("a user of the system");
    }

    /// The ids of a user are those of the database at the time of the logon.
    #[test]
    fn a_user_that_was_published_just_now_has_its_ids() {
        let folder = tempfile::tempdir().expect("there is space");
        let source = UserSource::published_in(folder.path());
        users::publish(folder.path(), &[]).expect("there is space");
        let mut published = Accounts { source, users: None, ..accounts(unix::find_user) };
        assert!(published.known("anna").expect("it can be read").is_none());
        let identity = users::Identity::new(4_711, vec![4_712]).ok();
        let hash = auth::NtHash::of_password("secret");
        let anna = users::UserEntry { identity, ..users::UserEntry::new("anna", hash) };
        users::publish(folder.path(), &[anna]).expect("there is space");
        let mut store = Store::new(StoreSettings::default());
        let found = published.find(&mut store, vec!["anna".to_owned()], "anna".to_owned());
        assert_eq!(found.map(|it| it.sid), Some(Sid::unix_user(4_711)));
        unix::set_own_users(super::OwnUsers::default());
    }

    /// A name may mean two users, each with a password of its own.
    #[test]
    fn a_proof_is_for_the_user_that_groups_map_the_name_to() {
        unix::replace_name_service(|question| match question {
            Question::GroupId(name) => Ok(Answer::Named(Some((name.clone(), 7)))),
            Question::User(name) => {
                let gid = if name == "bob" { 7 } else { 1 };
                let user = SystemUser { name: name.clone(), gid, ..SystemUser::default() };
                Ok(Answer::User(Some(user)))
            }
            _ => anyhow::bail!("not asked here"),
        });
        let folder = tempfile::tempdir().expect("there is space");
        let map = folder.path().join("names");
        std::fs::write(&map, "works = @staff\n").expect("there is space");
        let mut accounts = accounts_mapped_by(&map, unix::find_user);
        let mut store = Store::new(StoreSettings::default());
        for (proved, name, want) in [
            (&["works"][..], "bob", Some("works")),
            (&["bob", "Works"], "bob", Some("Works")),
            (&["bob"], "bob", None),
            (&["eve"], "eve", Some("eve")),
            (&["works"], "eve", None),
        ] {
            let users = proved.iter().map(|user| (*user).to_owned()).collect();
            let found = accounts.find(&mut store, users, name.to_owned());
            assert_eq!(found.map(|it| it.user).as_deref(), want, "{name} by {proved:?}");
        }
    }
}
