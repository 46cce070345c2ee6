//! Values of `%m`, `%I`, `%i`, `%R` and `%a`: the connection of a requester, and the configuration
//! that files for single clients make of them.

use std::net::IpAddr;
use std::time::SystemTime;

use arbitration::{RequestingUser, UserRights};
use config::{Config, Substitutions};
use dtyp::Sid;
use proto::Account;
use proto::effect::ConnectShare;
use rpc::{Caller, Origin};
use tracing::{debug, warn};
use wire::Dialect;

use super::refusal::Refusal;
use super::{date, domain_sid};
use super::{unix, usershares};

/// Connection of a requester, as far as variables show it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requester<'a> {
    /// Address of the client; none for a question of this server's own.
    client: Option<IpAddr>,
    /// Name of the client machine, as the client gave it; unproven.
    client_name: &'a str,
    /// Address that the client connected to.
    server: Option<IpAddr>,
    dialect: Dialect,
}

/// User of a requester, by names only.
#[derive(Clone, Copy, Debug)]
struct User<'a> {
    name: &'a str,
    domain: &'a str,
    /// SIDs of its groups. Those of the system come first, and among them the user's own.
    groups: &'a [Sid],
    is_guest: bool,
}

impl User<'_> {
    /// Logs the reason of a refusal. Guests have no password, and must not fill the log.
    fn tell(self, reason: std::fmt::Arguments<'_>) {
        match self.is_guest {
            true => debug!("{reason}"),
            false => warn!("{reason}"),
        }
    }
}

impl<'a> From<&'a ConnectShare> for Requester<'a> {
    fn from(request: &'a ConnectShare) -> Self {
        Self {
            client: Some(request.client.ip()),
            client_name: &request.client_name,
            server: Some(request.server_address.ip()),
            dialect: request.dialect,
        }
    }
}

impl<'a> From<&'a Origin> for Requester<'a> {
    fn from(origin: &'a Origin) -> Self {
        Self {
            client: origin.client,
            client_name: &origin.client_name,
            server: origin.server,
            dialect: Dialect(origin.dialect),
        }
    }
}

impl<'a> Requester<'a> {
    /// The client of a tree connect that may have ended since then.
    pub(super) fn of_user(user: &'a RequestingUser) -> Self {
        Self {
            client: Some(user.client.ip()),
            client_name: &user.client_name,
            server: Some(user.server.ip()),
            dialect: Dialect(user.dialect),
        }
    }
}

impl Requester<'_> {
    /// Adds the values of the connection to those that are known otherwise.
    pub(super) fn add_to(self, known: Substitutions) -> Substitutions {
        let client_address = self.client.map(text).unwrap_or_default();
        let client_name = match plain_name(self.client_name) {
            name if name.is_empty() => client_address.clone(),
            name => name,
        };
        Substitutions {
            client_name,
            client_address,
            interface: self.server.map(text).unwrap_or_default(),
            arch: ARCHITECTURE.to_owned(),
            dialect: format!("SMB{:X}_{:02X}", self.dialect.0 >> 8, self.dialect.0 & 0xFF),
            time: date::text(SystemTime::now()),
            ..known
        }
    }

    /// Returns all values that the name of a file may have.
    ///
    /// # Errors
    /// [`Refusal::NoNameService`] if it cannot tell the group now, [`Refusal::NoIdentity`] if there
    /// is none.
    fn values(self, config: &Config, user: User<'_>) -> Result<Substitutions, Refusal> {
        let group = match names_group(config) {
            true => {
                let found = primary_group(user).map_err(|error| {
                    user.tell(format_args!("{error:#}"));
                    Refusal::NoNameService
                })?;
                found.ok_or_else(|| {
                    let name = user.name;
                    user.tell(format_args!("{name} is in no group of this system with a name"));
                    Refusal::NoIdentity
                })?
            }
            false => String::new(),
        };
        Ok(self.add_to(Substitutions {
            // Not the name that the client gave: by an alias of `username map`, a user would choose
            // another file.
            requested_user: user.name.to_lowercase(),
            domain: user.domain.to_owned(),
            group,
            ..config.substitutions()
        }))
    }
}

fn text(address: IpAddr) -> String {
    address.to_canonical().to_string()
}

/// Returns the configuration that a tree connect has, if files are read for each client.
///
/// # Errors
/// A file of this client cannot be served, or its name is unknown.
// Most servers have no such files: their workers need no stack for another configuration.
#[inline(never)]
pub fn config_of(config: &Config, request: &ConnectShare) -> Result<Option<Box<Config>>, Refusal> {
    if !config.has_client_files() {
        return Ok(None);
    }
    let user = user_of(&request.account);
    let values = values_of(config, request)?;
    Ok(read(config, user, &values)?.map(Box::new))
}

/// Returns the values that names of files for single clients have for a tree connect.
///
/// # Errors
/// The name service fails.
pub fn values_of(config: &Config, request: &ConnectShare) -> Result<Substitutions, Refusal> {
    let values = Requester::from(request).values(config, user_of(&request.account));
    // That there is no such share would be no answer to this.
    values.map_err(|_| Refusal::NoIdentity)
}

fn user_of(account: &Account) -> User<'_> {
    let Account { user: name, domain, groups, is_guest, .. } = account;
    User { name, domain, groups, is_guest: *is_guest }
}

/// As [`config_of`], for a client that lists shares, on a thread that may have a user's rights.
pub(super) fn config_of_caller(
    config: &Config,
    caller: &Caller,
) -> Result<Option<Config>, Refusal> {
    if !config.has_client_files() {
        return Ok(None);
    }
    let Caller { user: name, domain, groups, is_guest, .. } = caller;
    let user = User { name, domain, groups, is_guest: *is_guest };
    let values = Requester::from(&caller.origin).values(config, user)?;
    let read = || read(config, user, &values);
    usershares::with_server_rights(read).unwrap_or(Err(Refusal::NoIdentity))
}

/// As [`config_of`], for a tree connect that may have ended since then, on a thread that may have
/// a user's rights.
///
/// # Errors
/// [`Refusal::NoNameService`] if nobody can tell the name of a file now.
pub(super) fn config_of_requester(
    config: &Config,
    requester: &RequestingUser,
) -> Result<Option<Config>, Refusal> {
    if !config.has_client_files() {
        return Ok(None);
    }
    let RequestingUser { name, domain, is_guest, rights, .. } = requester;
    let groups = rights.as_deref().map(groups_of).unwrap_or_default();
    let user = User { name, domain, groups: &groups, is_guest: *is_guest };
    if rights.is_none() && names_group(config) {
        user.tell(format_args!("the groups of {name}, who has deleted a file, are unknown"));
        return Err(Refusal::NoIdentity);
    }
    let values = Requester::of_user(requester).values(config, user)?;
    let read = || read(config, user, &values);
    usershares::with_server_rights(read).unwrap_or(Err(Refusal::NoIdentity))
}

/// Returns the SIDs of the groups of a user, as [`User::groups`] has them.
fn groups_of(rights: &UserRights) -> Vec<Sid> {
    let ids = [rights.gid].into_iter().chain(rights.groups.iter().copied());
    ids.map(Sid::unix_group).chain(rights.sid.clone()).chain(rights.sids.iter().cloned()).collect()
}

/// Whether the name of a file has the group of its client.
fn names_group(config: &Config) -> bool {
    config.client_files_name('g') || config.client_files_name('G')
}

fn read(
    config: &Config,
    user: User<'_>,
    values: &Substitutions,
) -> Result<Option<Config>, Refusal> {
    config.for_client(values).map_err(|error| {
        user.tell(format_args!("{} can connect no share: {error}", values.client_address));
        Refusal::ClientFile(error.to_string())
    })
}

/// Returns the name of a user's own group. A user of a domain, or unknown to the system, has
/// that of its logon: another user of this system may have the name.
///
/// # Errors
/// If the name service fails. As without a group, the file of that group would be missed.
fn primary_group(User { name, groups, .. }: User<'_>) -> anyhow::Result<Option<String>> {
    let known = match domain_sid::is_among(groups) {
        true => None,
        false => unix::find_user(name)?.map(|user| user.credentials.gid),
    };
    match known.or_else(|| unix_group(groups.first()?)) {
        Some(gid) => unix::group_name(gid),
        None => Ok(None),
    }
}

/// Returns the id of a group of the system.
fn unix_group(sid: &Sid) -> Option<u32> {
    match *sid.subauthorities() {
        [2, gid] if *sid == Sid::unix_group(gid) => Some(gid),
        _ => None,
    }
}

/// Returns the name of a machine as Samba has it: in small letters, and without characters that
/// NetBIOS names do not have. It is cut, so that names of files have room for it.
fn plain_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ". -_".contains(c) { c } else { '_' };
    name.trim().chars().take(CLIENT_NAME_MAX).map(plain).collect::<String>().to_ascii_lowercase()
}

/// Characters of the name of a machine; those of a name in DNS between dots. NetBIOS has 15.
const CLIENT_NAME_MAX: usize = 63;

/// `%a` of all clients that negotiate SMB 2 by itself, as in Samba: since Windows Vista their first
/// message no longer tells their kind.
const ARCHITECTURE: &str = "Vista";

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use object::UserId;
    use tracing::{Event, Level, Metadata, Subscriber, span};

    use super::super::name_service::{Answer, Question};
    use super::super::unix::replace_name_service;
    use super::*;
    use process::SystemUser;

    fn requester(client_name: &str) -> Requester<'_> {
        let address = |text: &str| text.parse().ok();
        let (client, server) = (address("::ffff:10.0.0.7"), address("fd00::1"));
        Requester { client, client_name, server, dialect: Dialect::SMB_3_1_1 }
    }

    #[test]
    fn each_variable_of_a_connection_has_its_value() {
        let values = requester("PC-1").add_to(Substitutions::default());
        assert_eq!(values.expand("%m %M %I %J"), "pc-1 10.0.0.7 10.0.0.7 10_0_0_7");
        assert_eq!(values.expand("%i %j %R %a"), "fd00::1 fd00__1 SMB3_11 Vista");
        let old = Requester { dialect: Dialect::SMB_2_0_2, ..requester("") };
        assert_eq!(old.add_to(Substitutions::default()).expand("%R"), "SMB2_02");
    }

    #[test]
    fn a_client_without_a_name_is_called_by_its_address() {
        for none in ["", " "] {
            let values = requester(none).add_to(Substitutions::default());
            assert_eq!(values.expand("%m"), "10.0.0.7");
        }
    }

    #[test]
    fn the_name_of_a_client_has_characters_of_netbios_only() {
        let values = requester("../É$(x)\n%U").add_to(Substitutions::default());
        assert_eq!(values.client_name, "..____x___u");
        assert_eq!(values.expand_path("/srv/%m"), "/srv/_____x___u");
    }

    /// A configuration that has a file for each value of a variable.
    fn with_files(folder: &Path, variable: &str) -> Config {
        let text = format!(
            "[data]\npath = /d\nread only = no\ninclude = {}/{variable}\n",
            folder.display()
        );
        Config::parse(&text, "test").expect("it is well-formed").0
    }

    fn request(account: Account, client_name: &str) -> ConnectShare {
        let address = "10.0.0.7:445".parse().expect("it is one");
        ConnectShare {
            name: "data".to_owned(),
            server: String::new(),
            account: Arc::new(account),
            client: address,
            client_name: client_name.to_owned(),
            server_address: address,
            dialect: Dialect::SMB_3_1_1,
            encrypted: false,
            session_id: 0,
        }
    }

    fn account(user: &str, groups: &[Sid]) -> Account {
        Account {
            user: user.to_owned(),
            requested_user: user.to_owned(),
            domain: "WORKGROUP".to_owned(),
            unix: UserId(0),
            identity: user.to_owned(),
            sid: Sid::unix_user(7),
            groups: groups.into(),
            is_guest: false,
        }
    }

    /// Returns true if the client's own file restricts the share.
    fn is_read_only(config: &Config, account: Account) -> Result<bool, Refusal> {
        let own = config_of(config, &request(account, ""))?.expect("there are files");
        Ok(own.shares[0].read_only)
    }

    /// The directory knows nobody but the group 700.
    fn know_one_group(question: &Question) -> anyhow::Result<Answer> {
        Ok(match question {
            Question::User(_) => Answer::User(None),
            Question::GroupName(700) => Answer::Named(Some(("students".to_owned(), 700))),
            _ => Answer::Named(None),
        })
    }

    #[test]
    fn a_user_unknown_to_the_system_has_the_file_of_the_group_of_its_logon() {
        let folder = tempfile::tempdir().expect("there is space");
        std::fs::write(folder.path().join("students"), "read only = yes\n").expect("space");
        let config = with_files(folder.path(), "%G");
        replace_name_service(know_one_group);
        let users = Sid::new(5, &[21, 1, 2, 3, 513]);
        for groups in [&[Sid::unix_group(700)][..], &[Sid::unix_group(700), users.clone()]] {
            assert_eq!(is_read_only(&config, account("anna", groups)), Ok(true), "{groups:?}");
        }
        // As libnss-winbind would know it, if it were there.
        let unknown = account("anna", &[Sid::unix_group(701), users]);
        assert_eq!(is_read_only(&config, unknown), Err(Refusal::NoIdentity));
        assert_eq!(is_read_only(&config, account("anna", &[])), Err(Refusal::NoIdentity));
    }

    #[test]
    fn a_user_of_the_domain_has_no_file_of_another_user_with_its_name() {
        let folder = tempfile::tempdir().expect("there is space");
        std::fs::write(folder.path().join("students"), "read only = yes\n").expect("space");
        let config = with_files(folder.path(), "%G");
        replace_name_service(|question| match question {
            Question::User(name) => {
                let user = SystemUser { name: name.clone(), gid: 701, ..SystemUser::default() };
                Ok(Answer::User(Some(user)))
            }
            Question::GroupName(701) => Ok(Answer::Named(Some(("staff".to_owned(), 701)))),
            other => know_one_group(other),
        });
        let groups = [Sid::unix_group(700), Sid::new(5, &[21, 1, 2, 3, 513])];
        assert_eq!(is_read_only(&config, account("anna", &groups)), Ok(true));
    }

    #[test]
    fn while_the_name_service_fails_a_file_of_a_group_is_not_missed() {
        let folder = tempfile::tempdir().expect("there is space");
        let config = with_files(folder.path(), "%G");
        replace_name_service(|question| match question {
            Question::User(_) => Ok(Answer::User(None)),
            _ => anyhow::bail!("the directory is away"),
        });
        let anna = account("anna", &[Sid::unix_group(700)]);
        assert_eq!(is_read_only(&config, anna), Err(Refusal::NoIdentity));
    }

    #[test]
    fn an_alias_of_a_user_has_the_file_of_the_user() {
        let folder = tempfile::tempdir().expect("there is space");
        std::fs::write(folder.path().join("anna"), "read only = yes\n").expect("space");
        std::fs::write(folder.path().join("alias"), "read only = no\n").expect("space");
        let config = with_files(folder.path(), "%U");
        let mapped = Account { requested_user: "alias".to_owned(), ..account("Anna", &[]) };
        assert_eq!(is_read_only(&config, mapped), Ok(true));
        let caller = Caller {
            user: "Anna".to_owned(),
            requested_user: "alias".to_owned(),
            ..Caller::default()
        };
        let own = config_of_caller(&config, &caller).expect("served").expect("there are files");
        assert!(own.shares[0].read_only);
    }

    #[test]
    fn the_longest_name_of_a_client_can_be_that_of_a_file() {
        let folder = tempfile::tempdir().expect("there is space");
        let config = with_files(folder.path(), "smb.conf.%m");
        let request = request(account("anna", &[]), &"É".repeat(255));
        assert!(config_of(&config, &request).expect("it is not there").is_some());
    }

    /// A user who has deleted a file by a tree connect that has ended.
    pub(crate) fn deleter(name: &str, rights: Option<UserRights>) -> RequestingUser {
        RequestingUser {
            name: name.to_owned(),
            domain: "WORKGROUP".to_owned(),
            is_guest: false,
            client: "10.0.0.7:50000".parse().expect("it is one"),
            client_name: "PC-1".to_owned(),
            server: "10.0.0.1:445".parse().expect("it is one"),
            dialect: Dialect::SMB_3_1_1.0,
            recycle_bin: String::new(),
            rights: rights.map(Arc::new),
        }
    }

    #[test]
    fn a_deletion_has_the_files_of_the_connection_that_has_requested_it() {
        let members = UserRights { uid: 7, gid: 700, ..UserRights::default() };
        replace_name_service(know_one_group);
        for (variable, value) in [
            ("%U", "anna"),
            ("%m", "pc-1"),
            ("%I", "10.0.0.7"),
            ("%i", "10.0.0.1"),
            ("%R", "SMB3_11"),
            ("%G", "students"),
        ] {
            let folder = tempfile::tempdir().expect("there is space");
            std::fs::write(folder.path().join(value), "read only = yes\n").expect("space");
            let config = with_files(folder.path(), variable);
            let own = config_of_requester(&config, &deleter("anna", Some(members.clone())));
            let own = own.expect("served").expect("there are files");
            assert!(own.shares[0].read_only, "{variable}");
        }
    }

    /// The file of that group would be missed.
    #[test]
    fn a_deletion_by_a_user_of_unknown_groups_has_no_file_by_a_group() {
        let folder = tempfile::tempdir().expect("there is space");
        replace_name_service(know_one_group);
        for (variable, want) in [("%G", Some(Refusal::NoIdentity)), ("%U", None)] {
            let config = with_files(folder.path(), variable);
            assert_eq!(config_of_requester(&config, &deleter("anna", None)).err(), want);
        }
    }

    #[test]
    fn a_guest_writes_nothing_to_the_log_by_a_fault_in_a_file() {
        let folder = tempfile::tempdir().expect("there is space");
        std::fs::write(folder.path().join("anna"), "[broken\n").expect("space");
        let faulty = with_files(folder.path(), "%U");
        let by_group = with_files(folder.path(), "%G");
        replace_name_service(|_| anyhow::bail!("the directory is away"));
        for (is_guest, written) in [(false, 2), (true, 0)] {
            let log = Lines::default();
            tracing::subscriber::with_default(log.clone(), || {
                for config in [&faulty, &by_group] {
                    let account = Account { is_guest, ..account("anna", &[]) };
                    config_of(config, &request(account, "")).expect_err("a fault");
                }
            });
            assert_eq!(log.0.load(Ordering::Relaxed), written, "guest: {is_guest}");
        }
    }

    /// Number of lines that a log of warnings has.
    #[derive(Clone, Default)]
    pub(crate) struct Lines(pub(crate) Arc<AtomicUsize>);

    impl Subscriber for Lines {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= Level::WARN
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }
}
