//! Data of this server for lsarpc, samr, srvsvc and wkssvc.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use config::choice::CscPolicy;
use config::{Config, Substitutions};
use dtyp::upcase::equal_ignoring_case;
use dtyp::{FileTime, Sid};
use process::clocks::wall_clock;
use rpc::{AccountEntry, Caller, Catalogue, Principal, PrincipalKind, ServerEntry, ShareEntry};
use tracing::{debug, warn};
use users::{KnownUser, UserSource};

use super::administrators;
use super::host_names::{netbios_name, server_dns_names};
use super::kept_users::KeptUsers;
use super::mapped_names::MappedNames;
use super::name_service::Question;
use super::recent_answers::{LookUps, RecentAnswers};
use super::requester;
use super::share_properties::is_available;
use super::share_security;
use super::share_users::{admits, substitutions_of};
use super::usershares::{self, Usershare};
use super::{domain_sid, homes, unix};

/// The shares of a configuration, as clients list them.
#[derive(Clone, Debug)]
pub(super) struct ConfiguredShares {
    config: Arc<Config>,
    names: Arc<MappedNames>,
    server: ServerEntry,
    domain_sid: Sid,
    users: Arc<KeptUsers>,
    /// Path of the descriptors of shares.
    share_security: PathBuf,
    /// Lists of shares by callers.
    lists: Arc<RecentAnswers<Caller, Arc<[ShareEntry]>>>,
    /// Configurations of callers, where files are read for each client: `None` if one of them
    /// cannot be served, `Some(None)` if there is none.
    own_configs: Arc<RecentAnswers<Caller, Option<Option<Arc<Config>>>>>,
    /// All shares of users by this configuration.
    usershares: Arc<RecentAnswers<(), Arc<[Arc<Usershare>]>>>,
    /// Number of look-ups of users' shares beyond that list.
    unlisted: Arc<LookUps>,
}

/// A share that was found.
#[derive(Debug)]
struct Found {
    share: config::Share,
    /// The same as one of a user, if it is one.
    of_user: Option<Arc<Usershare>>,
}

impl From<Arc<Usershare>> for Found {
    fn from(usershare: Arc<Usershare>) -> Self {
        Self { share: usershare.share.clone(), of_user: Some(usershare) }
    }
}

/// SV_TYPE_WORKSTATION, _SERVER, _SERVER_UNIX and _NT: [MS-SRVS] 2.2.2.7.
const SERVER_TYPE: u32 = 0x0000_0001 | 0x0000_0002 | 0x0000_0800 | 0x0000_1000;

/// RID of the system's user with id 0, as with Samba (`algorithmic rid base`).
const RID_BASE: u32 = 1_000;

/// RIDs of users are even; Samba gives groups the odd ones.
const RID_STEP: u32 = 2;

/// Users that are listed at most: as many names as are cached.
const ACCOUNTS_MAX: usize = 4_096;

/// Shares of users beyond those of the list that are looked up in a second, for all clients of a
/// worker. A look-up takes a millisecond.
const UNLISTED_MAX: u32 = 16;

/// "Any number", as SHARE_INFO tells it: [MS-SRVS] 2.2.4.23.
const USERS_UNLIMITED: u32 = u32::MAX;

impl ConfiguredShares {
    /// The shares of `config`, and the SID that lies in the `state` directory.
    pub(super) fn new(config: &Arc<Config>, state: &Path) -> Self {
        let server = ServerEntry {
            name: netbios_name(config),
            aliases: config.global.netbios_aliases.clone(),
            dns_name: server_dns_names(config).0,
            domain: config.global.workgroup.clone(),
            comment: config.substitutions().expand(&config.global.server_string),
            version_major: 6,
            version_minor: 1,
            server_type: SERVER_TYPE,
        };
        let domain_sid = domain_sid::read_or_make(state).unwrap_or_else(|error| {
            warn!("the server's domain has no SID of its own: {error:#}");
            domain_sid::nobody()
        });
        let names = Arc::new(MappedNames::of(config));
        let users = UserSource::published_in(&config.directories().lock);
        let users = Arc::new(KeptUsers::new(users));
        let share_security = share_security::path_of(state);
        let config = Arc::clone(config);
        Self {
            config,
            names,
            server,
            domain_sid,
            users,
            share_security,
            lists: Arc::default(),
            own_configs: Arc::default(),
            usershares: Arc::default(),
            unlisted: Arc::default(),
        }
    }

    /// Returns the shares by the caller's own configuration, if files are read for each client;
    /// `None` if one of them cannot be served.
    fn of_caller(&self, caller: &Caller) -> Option<Cow<'_, Self>> {
        if !self.config.has_client_files() {
            return Some(Cow::Borrowed(self));
        }
        let find = || Some(requester::config_of_caller(&self.config, caller).ok()?.map(Arc::new));
        let Some(config) = self.own_configs.find(Instant::now(), caller, find)? else {
            return Some(Cow::Borrowed(self));
        };
        Some(Cow::Owned(Self { config, usershares: Arc::default(), ..self.clone() }))
    }

    fn listed(&self, caller: &Caller) -> Vec<ShareEntry> {
        let configured = self.config.shares.iter().filter(|share| is_available(share));
        let pattern = self.config.homes.iter().filter(|homes| homes.available);
        let configured = configured.chain(pattern).cloned();
        let configured = configured.map(|share| Found { share, of_user: None });
        let usershares = self.usershares();
        let usershares = usershares.iter().map(|it| Found::from(Arc::clone(it)));
        let shown = configured
            .chain(usershares)
            .filter(|found| self.is_shown(&found.share, found, caller))
            .chain(self.home(caller));
        let is_administrator = administrators::is_administrator(&self.config, caller);
        let entry = |it: Found| self.entry(&it.share, caller, is_administrator);
        let mut shares: Vec<_> = shown.map(entry).collect();
        shares.push(self.pipes());
        shares
    }

    fn find(&self, caller: &Caller, name: &str) -> Option<Found> {
        let user = (!caller.is_guest).then_some(caller.user.as_str());
        let found = homes::find_share(&self.config, &self.names, name, user);
        let found = found.inspect_err(|error| debug!("share {name:?}: {error:#}")).ok()?;
        let found = match found {
            Some(share) => Some(Found { share: *share.into_made(), of_user: None }),
            None => self.usershare(name).map(Found::from),
        };
        found.filter(|it| is_available(&it.share))
    }

    /// Returns a share of a user. One that the list of this second does not have may be new, or
    /// behind the last one that is listed.
    fn usershare(&self, name: &str) -> Option<Arc<Usershare>> {
        if self.config.global.usershare_max_shares == 0 {
            return None;
        }
        let is_it = |it: &&Arc<Usershare>| equal_ignoring_case(&it.share.name, name);
        if let Some(listed) = self.usershares().iter().find(is_it) {
            return Some(Arc::clone(listed));
        }
        if !self.unlisted.take(Instant::now(), UNLISTED_MAX) {
            debug!("share {name:?} is not looked up: others were, this second");
            return None;
        }
        usershares::with_server_rights(|| usershares::find(&self.config, name))?.map(Arc::new)
    }

    fn usershares(&self) -> Arc<[Arc<Usershare>]> {
        if self.config.global.usershare_max_shares == 0 {
            return [].into();
        }
        self.usershares.find(Instant::now(), &(), || {
            let listed = usershares::with_server_rights(|| usershares::list(&self.config));
            listed.unwrap_or_default().into_iter().map(Arc::new).collect()
        })
    }

    /// The caller's own home, if `[homes]` defines it. `[global]` decides whether it is listed, as
    /// in Samba, so that `browseable = no` in `[homes]` hides only the entry `homes`.
    fn home(&self, caller: &Caller) -> Option<Found> {
        let home = self.find(caller, homes::OWN)?;
        (self.is_home(&home) && self.is_shown(&self.config.defaults, &home, caller)).then_some(home)
    }

    /// True for a share that `[homes]` makes.
    fn is_home(&self, found: &Found) -> bool {
        found.of_user.is_none() && self.config.share(&found.share.name).is_none()
    }

    /// Whether a share is listed, by these parameters: some show themselves only to users who may
    /// connect.
    fn is_shown(&self, parameters: &config::Share, found: &Found, caller: &Caller) -> bool {
        parameters.browseable
            && (!parameters.access_based_share_enum || self.may_connect(found, caller))
    }

    /// Whether the lists of users let the caller connect.
    fn may_connect(&self, Found { share, of_user }: &Found, caller: &Caller) -> bool {
        (!caller.is_guest || share.guest_ok)
            && admits(&self.config, share, caller)
            && of_user.as_ref().is_none_or(|it| it.admits(caller))
    }

    fn entry(&self, share: &config::Share, caller: &Caller, is_administrator: bool) -> ShareEntry {
        ShareEntry {
            name: share.name.clone(),
            kind: ShareEntry::DISK,
            comment: Substitutions {
                requested_user: caller.requested_user.clone(),
                ..substitutions_of(&self.config, &caller.user, &caller.domain, share)
            }
            .expand(&share.comment),
            // Windows paths have a drive; what the server calls the folder is the business of those
            // who can change it.
            path: match is_administrator {
                true => self.config.substitutions().expand_path(&share.path),
                false => format!("C:\\{}", share.name),
            },
            max_users: match share.max_connections {
                0 => USERS_UNLIMITED,
                max => max,
            },
            current_users: 0,
            offline_caching: match share.csc_policy {
                CscPolicy::Manual => 0,
                CscPolicy::Documents => 1,
                CscPolicy::Programs => 2,
                CscPolicy::Disable => 3,
            },
            hidden: share.name.ends_with('$'),
        }
    }

    /// Returns a user of the database whom the system knows by this id.
    fn account(&self, user: &KnownUser, uid: u32) -> Option<AccountEntry> {
        let rid = uid.checked_mul(RID_STEP)?.checked_add(RID_BASE)?;
        Some(AccountEntry {
            rid,
            name: user.name.clone(),
            full_name: user.full_name.clone(),
            enabled: user.enabled,
            is_administrator: administrators::is_named(&self.config, &user.name, uid),
        })
    }

    fn pipes(&self) -> ShareEntry {
        ShareEntry {
            name: "IPC$".to_owned(),
            kind: ShareEntry::IPC,
            comment: format!("IPC Service ({})", self.server.comment),
            path: "C:\\IPC$".to_owned(),
            max_users: USERS_UNLIMITED,
            current_users: 1,
            offline_caching: 0,
            hidden: true,
        }
    }
}

impl Catalogue for ConfiguredShares {
    fn shares(&self, caller: &Caller) -> Arc<[ShareEntry]> {
        self.lists.find(Instant::now(), caller, || match self.of_caller(caller) {
            Some(own) => own.listed(caller).into(),
            None => [self.pipes()].into(),
        })
    }

    fn begin_call(&self, caller: &Caller) {
        unix::begin_call(caller.is_guest);
        self.users.begin_call();
    }

    fn end_call(&self) {
        self.users.end_call();
        unix::end_call();
    }

    /// As in Samba, a guest is nobody whom `restrict anonymous` would let ask.
    fn admits(&self, caller: &Caller) -> bool {
        !caller.is_guest || self.config.global.restrict_anonymous == 0
    }

    /// Nobody learns here of a share that the list hides, except for those who may connect.
    fn share(&self, caller: &Caller, name: &str) -> Option<ShareEntry> {
        if name.eq_ignore_ascii_case("IPC$") {
            return Some(self.pipes());
        }
        let own = self.of_caller(caller)?;
        let found = own.find(caller, name)?;
        let is_listed = !own.is_home(&found) && own.is_shown(&found.share, &found, caller);
        let is_known = is_listed || own.may_connect(&found, caller);
        let is_administrator = || administrators::is_administrator(&own.config, caller);
        is_known.then(|| own.entry(&found.share, caller, is_administrator()))
    }

    fn is_administrator(&self, caller: &Caller) -> bool {
        administrators::is_administrator(&self.config, caller)
    }

    fn share_security(&self, name: &str) -> Option<Vec<u8>> {
        if name.eq_ignore_ascii_case("IPC$") {
            return None;
        }
        if self.config.share(name).is_none()
            && let Some(usershare) = self.usershare(name)
        {
            return Some(usershare.security());
        }
        let read = || share_security::read(&self.share_security, name);
        let read = usershares::with_server_rights(read)?;
        let read = read.inspect_err(|error| warn!("share {name}: {error:#}")).ok()?;
        Some(read.unwrap_or_else(share_security::everyone).to_bytes())
    }

    /// Users whom the system does not know have no id, and so no RID.
    fn accounts(&self) -> Option<Vec<AccountEntry>> {
        let mut accounts = Vec::new();
        for user in &self.users.first(ACCOUNTS_MAX)? {
            let found = unix::try_find_for_client(Question::UserId(user.name.clone()));
            let found = found.inspect_err(|error| debug!("cannot list users: {error:#}")).ok()?;
            accounts.extend(found.and_then(|(_, uid)| self.account(user, uid)));
        }
        accounts.sort_by_key(|account| account.rid);
        Some(accounts)
    }

    fn account_by_name(&self, name: &str) -> Option<AccountEntry> {
        let user = self.users.find(name)?;
        let (_, uid) = unix::find_for_client(Question::UserId(user.name.clone()))?;
        self.account(&user, uid)
    }

    fn account_by_rid(&self, rid: u32) -> Option<AccountEntry> {
        let twice = rid.checked_sub(RID_BASE)?;
        if !twice.is_multiple_of(RID_STEP) {
            return None;
        }
        let uid = twice / RID_STEP;
        let (name, uid) = unix::find_for_client(Question::UserName(uid))?;
        let user = self.users.find(&name)?;
        self.account(&user, uid)
    }

    fn server(&self) -> ServerEntry {
        self.server.clone()
    }

    fn domain_sid(&self) -> Sid {
        self.domain_sid.clone()
    }

    fn is_member(&self) -> bool {
        self.config.global.is_member()
    }

    /// The SID is that of [`Account`](proto::Account): whoever owns files of the system.
    fn find_user(&self, name: &str) -> Option<Principal> {
        let find = |name: &str| unix::find_for_client(Question::UserId(name.to_owned()));
        let (name, uid) = find(name).or_else(|| find_in_small_letters(name, find))?;
        Some(unix_user(name, uid))
    }

    fn find_group(&self, name: &str) -> Option<Principal> {
        let find = |name: &str| unix::find_for_client(Question::GroupId(name.to_owned()));
        let (name, gid) = find(name).or_else(|| find_in_small_letters(name, find))?;
        Some(unix_group(name, gid))
    }

    fn find_sid(&self, sid: &Sid) -> Option<Principal> {
        match *sid.subauthorities() {
            [1, uid] if *sid == Sid::unix_user(uid) => {
                let (name, uid) = unix::find_for_client(Question::UserName(uid))?;
                Some(unix_user(name, uid))
            }
            [2, gid] if *sid == Sid::unix_group(gid) => {
                let (name, gid) = unix::find_for_client(Question::GroupName(gid))?;
                Some(unix_group(name, gid))
            }
            // As access lists of Samba name users.
            [21, ..] if unix::may_serve_call() => {
                let name = self.users.find_by_samba_sid(sid)?.name;
                let (kind, domain) = (PrincipalKind::User, self.server.name.clone());
                Some(Principal { kind, domain, name, sid: sid.clone() })
            }
            _ => None,
        }
    }

    fn now(&self) -> FileTime {
        wall_clock()
    }
}

/// Systems mostly write names so, and clients as they please.
fn find_in_small_letters<T>(name: &str, find: impl Fn(&str) -> Option<T>) -> Option<T> {
    let small = name.to_lowercase();
    if small == name { None } else { find(&small) }
}

/// Users and groups of the system are in domains of their own, as with Samba.
fn unix_user(name: String, uid: u32) -> Principal {
    let domain = "Unix User".to_owned();
    Principal { kind: PrincipalKind::User, domain, name, sid: Sid::unix_user(uid) }
}

fn unix_group(name: String, gid: u32) -> Principal {
    let domain = "Unix Group".to_owned();
    Principal { kind: PrincipalKind::Group, domain, name, sid: Sid::unix_group(gid) }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Instant;

    use auth::NtHash;
    use config::Config;
    use dtyp::Sid;
    use rpc::{Caller, Catalogue as _};
    use users::{Identity, KnownUser, UserEntry};

    use super::super::own_users::OwnUsers;
    use super::super::recent_answers::AGE_MAX;
    use super::super::unix;
    use super::ConfiguredShares;

    const SHARES: &str = "map to guest = Bad User\n\
                          [open]\npath = /open\n[closed]\npath = /closed\nvalid users = anna\n\
                          [hidden]\npath = /hidden\nbrowseable = no\nvalid users = anna\n\
                          [choosy]\npath = /choosy\naccess based share enum = yes\n\
                          valid users = anna\n\
                          [guests]\npath = /guests\nbrowseable = no\nguest ok = yes\n";

    /// Each list reads the files of users' shares, and a frame may ask for hundreds of lists.
    #[test]
    fn shares_are_listed_once_a_second_however_often_a_caller_lists_them() {
        let state = tempfile::tempdir().expect("there is space");
        let (config, _) = Config::parse(SHARES, "test").expect("it is well-formed");
        let shares = ConfiguredShares::new(&Arc::new(config), state.path());
        let caller = |user: &str| Caller { user: user.to_owned(), ..Caller::default() };
        let mut lists: Vec<_> = (0..500).map(|_| shares.shares(&caller("anna"))).collect();
        lists.dedup_by(|a, b| Arc::ptr_eq(a, b));
        assert!(lists.len() < 10, "one was made {} times", lists.len());
        let listed = |user: &str| shares.shares(&caller(user)).len();
        assert_eq!((listed("anna"), listed("bob")), (4, 3), "each sees its own");
    }

    /// A look-up by name takes a thread, and a compound may have hundreds with a name each.
    #[test]
    fn few_shares_of_users_are_looked_up_in_a_second_beside_the_listed_ones() {
        let state = tempfile::tempdir().expect("there is space");
        let files = state.path().join("usershares");
        let is_root = rustix::process::geteuid().is_root();
        fs::create_dir(&files).expect("there is space");
        fs::set_permissions(&files, Permissions::from_mode(0o1770)).expect("it is ours");
        let add = |name: &str| {
            let text = "#VERSION 2\npath=/srv\ncomment=\nusershare_acl=S-1-1-0:R\nguest_ok=n\n";
            fs::write(files.join(name), text).expect("there is space");
        };
        add("films");
        let lines = format!(
            "usershare max shares = 5\nusershare path = {}\nusershare owner only = no\n",
            files.display()
        );
        let (config, _) = Config::parse(&lines, "test").expect("it is well-formed");
        let shares = ConfiguredShares::new(&Arc::new(config), state.path());
        let caller = Caller { user: "anna".to_owned(), ..Caller::default() };
        let is_known = |name: &str| shares.share(&caller, name).is_some();
        let begin = Instant::now();
        // The folder must be root's.
        assert_eq!(is_known("films"), is_root);
        add("new");
        assert_eq!(is_known("new"), is_root, "it is there at once");
        for number in 0..500 {
            assert!(!is_known(&format!("missing{number}")));
        }
        assert_eq!(is_known("FILMS"), is_root, "the list has it");
        let is_new_known = is_known("new");
        assert!(!is_new_known || begin.elapsed() >= AGE_MAX, "too many look-ups this second");
    }

    #[test]
    fn a_share_that_the_list_hides_is_unknown_to_users_without_access() {
        let state = tempfile::tempdir().expect("there is space");
        let (config, _) = Config::parse(SHARES, "test").expect("it is well-formed");
        let shares = ConfiguredShares::new(&Arc::new(config), state.path());
        let known = |user: &str, is_guest| {
            let caller = Caller { user: user.to_owned(), is_guest, ..Caller::default() };
            let names = ["open", "closed", "hidden", "choosy", "guests", "missing"];
            names.into_iter().filter(|it| shares.share(&caller, it).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(known("anna", false), ["open", "closed", "hidden", "choosy", "guests"]);
        assert_eq!(known("bob", false), ["open", "closed", "guests"]);
        assert_eq!(known("guest", true), ["open", "closed", "guests"]);
    }

    /// LookupSids and LookupIds ask for thousands of users at once.
    #[test]
    fn the_users_are_read_once_however_many_are_looked_up() {
        let folder = tempfile::tempdir().expect("there is space");
        let config = config_in(folder.path());
        let user = |name: &str, uid| UserEntry {
            identity: Identity::new(uid, vec![100]).ok(),
            ..UserEntry::new(name, NtHash::of_password("secret"))
        };
        let samba_sid = Sid::new(5, &[21, 7, 8, 9, 1_001]);
        let anna = UserEntry { samba_sid: Some(samba_sid.clone()), ..user("Anna", 1_001) };
        let known = [anna, user("bob", 1_002)];
        unix::set_own_users(OwnUsers::of(&known.each_ref().map(KnownUser::from)));
        let publish = |users: &[UserEntry]| {
            users::publish(folder.path(), users).expect("there is space");
        };
        publish(&known[..1]);
        let shares = ConfiguredShares::new(&config, folder.path());
        for _ in 0..1_000 {
            let found = shares.account_by_rid(3_002).expect("she is there");
            assert_eq!(found.name, "Anna");
            assert!(shares.account_by_name("aNNA").is_some());
            assert!(shares.account_by_name("bob").is_none());
            assert_eq!(shares.find_sid(&samba_sid).map(|it| it.name), Some("Anna".to_owned()));
        }
        assert_eq!(shares.accounts().map(|it| it.len()), Some(1));
        assert_eq!(shares.users.reads(), 1);
        publish(&known);
        assert!(shares.account_by_name("bob").is_some(), "the file has changed");
        assert_eq!((shares.accounts().map(|it| it.len()), shares.users.reads()), (Some(2), 2));
        publish(&known[1..]);
        assert!(shares.find_sid(&samba_sid).is_none(), "no call keeps the users");
        unix::set_own_users(OwnUsers::default());
    }

    /// Each look takes a thread: one for each SID would take most of a worker's time.
    #[test]
    fn thousands_of_sids_in_one_request_take_one_look_at_the_users() {
        let folder = tempfile::tempdir().expect("there is space");
        let (anna, sid) = anna();
        users::publish(folder.path(), &[anna]).expect("there is space");
        let shares = ConfiguredShares::new(&config_in(folder.path()), folder.path());
        let guest = Caller { is_guest: true, ..Caller::default() };
        for (request, caller) in [guest.clone(), Caller::default()].iter().enumerate() {
            shares.begin_call(caller);
            for rid in 0..1_800 {
                assert_eq!(shares.find_sid(&Sid::new(5, &[21, 7, 8, 10, rid])), None);
            }
            assert!(shares.find_sid(&sid).is_some() || caller.is_guest, "only a guest is late");
            shares.end_call();
            assert_eq!(shares.users.looks(), request as u64 + 1);
        }
        unix::exhaust_time_of_clients();
        shares.begin_call(&guest);
        assert_eq!(shares.find_sid(&sid), None, "guests have taken too much time");
        shares.end_call();
        assert_eq!(shares.users.looks(), 2);
        shares.begin_call(&Caller::default());
        assert_eq!(shares.find_sid(&sid).map(|it| it.name), Some("Anna".to_owned()));
        shares.end_call();
    }

    #[test]
    fn users_that_cannot_be_read_are_looked_for_once_in_a_request() {
        let folder = tempfile::tempdir().expect("there is space");
        let shares = ConfiguredShares::new(&config_in(folder.path()), folder.path());
        let (anna, sid) = anna();
        shares.begin_call(&Caller::default());
        for _ in 0..3 {
            assert_eq!(shares.find_sid(&sid), None);
        }
        shares.end_call();
        assert_eq!(shares.users.looks(), 1);
        users::publish(folder.path(), &[anna]).expect("there is space");
        assert!(shares.find_sid(&sid).is_some(), "outside of a request each question looks");
    }

    fn config_in(lock_directory: &Path) -> Arc<Config> {
        let text = format!("lock directory = {}\n[open]\npath = /open\n", lock_directory.display());
        Arc::new(Config::parse(&text, "test").expect("it is well-formed").0)
    }

    fn anna() -> (UserEntry, Sid) {
        let sid = Sid::new(5, &[21, 7, 8, 9, 1_001]);
        let anna = UserEntry::new("Anna", NtHash::of_password("secret"));
        (UserEntry { samba_sid: Some(sid.clone()), ..anna }, sid)
    }
}
