//! `choro doctor access`: may a user connect, read, write and delete, and if not, why not?
//!
//! The answers come from the functions that serve clients: the logon, the tree connect and the
//! opens of the store, which run with the rights of the user. Only the explanation of a refusal is
//! found here.

mod causes;
mod client_files;
mod connect;
mod descriptor;
mod permission;
mod place;
mod recycle_bin;
mod rights;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use clap::Args;
use config::Config;
use config::choice::MapToGuest;
use object::ObjectPath;
use observe::report::{self, Row};
use proto::Account;
use proto::effect::ConnectShare;
use settings::Settings;
use shares::accounts::Accounts;
use shares::requester::{config_of, values_of};
use store::{Store, StoreSettings};
use tables::{QosPage, Registry};
use wire::Dialect;

use super::configuration::is_outdated;
use super::finding::{self, Finding, Shown, lines, word};
use crate::command::system_user;

/// Show whether a user may use a share or a file in it, and the reason if not.
///
/// Asks as the server does for a client: whether the user may log on and connect to the share, and
/// then the kernel, with the rights of the user, whether the user may read, write and delete. Files
/// are opened and closed again; none is changed. In a directory, a file without a name is made for
/// a moment, to see whether there is space.
///
/// Needs a running server, and root if the server runs as root.
#[derive(Args, Debug)]
pub(super) struct Access {
    /// Name of the user, as the user gives it to log on.
    user: String,
    /// Share, or a file or directory in it: `data`, `data/folder/file`, `//server/data/folder`.
    target: String,
    /// Address of the client, for `hosts allow` and `hosts deny`.
    #[arg(long, value_name = "ADDRESS", default_value_t = Ipv4Addr::LOCALHOST.into())]
    from: IpAddr,
}

/// Tables of the running server that decisions need.
pub(super) struct Tables {
    pub(super) registry: Registry,
    pub(super) qos: QosPage,
}

/// Part of the causes that an examination looks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Extent {
    /// All causes: each one is taken as ended, and the next one is looked for.
    All,
    /// Those that the configuration does not mean: the folder of a share that is closed to the user
    /// is left out, and in one for reading only the rights to write.
    Unmeant,
}

/// One question, and what was found about it so far.
struct Inquiry<'a> {
    store: &'a mut Store,
    accounts: &'a Accounts,
    registry: &'a Registry,
    qos: &'a QosPage,
    /// The configuration, with the changes of all refusals so far.
    config: Config,
    request: ConnectShare,
    path: ObjectPath,
    extent: Extent,
    /// The share is one that a user has made.
    is_of_user: bool,
    answer: Answer,
    /// Number of causes, repeated ones included.
    added: usize,
}

/// Answers to a question, with findings.
#[derive(Debug)]
pub(super) struct Answer {
    /// The user whose rights the kernel checks.
    acts_as: String,
    /// Path of the target on this machine, as far as it is there.
    host_path: Option<PathBuf>,
    exists: bool,
    may_connect: bool,
    /// `None` if unknown: no directory or file could be opened.
    may_read: Option<bool>,
    may_write: Option<bool>,
    may_delete: Option<bool>,
    pub(super) findings: Vec<Finding>,
}

impl Answer {
    /// True if the user may connect and read.
    pub(super) fn is_usable(&self) -> bool {
        self.may_connect && self.may_read == Some(true)
    }
}

impl Tables {
    pub(super) fn of(settings: &Settings) -> anyhow::Result<Self> {
        let lock = &settings.directories.lock;
        let registry = Registry::observe(lock)?;
        let qos = QosPage::join(lock).context("cannot read the classes of service")?;
        Ok(Self { registry, qos })
    }
}

impl Access {
    /// Answers, and returns the findings.
    ///
    /// # Errors
    /// The question cannot be answered.
    pub(super) fn run(
        &self,
        settings: &Settings,
        shown: &Shown,
        json: bool,
    ) -> anyhow::Result<Vec<Finding>> {
        let (share, path) = split(&self.target)?;
        let tables = Tables::of(settings)?;
        let target = (&*share, path);
        let mut answer = examine(settings, &tables, &self.user, target, self.from, Extent::All)?;
        answer.findings.extend(is_outdated(settings));
        if json {
            let rows = [self.row(&share, &answer)];
            report::print_json(
                rows.into_iter().chain(answer.findings.iter().map(|it| it.row(shown))).collect(),
            )?;
        } else {
            report::print(&lines(self.summary(&share, &answer)))?;
        }
        Ok(answer.findings)
    }

    fn summary(&self, share: &str, answer: &Answer) -> Vec<String> {
        let Answer { acts_as, host_path, exists, .. } = answer;
        let word = |may: Option<bool>| match may {
            Some(true) => "yes",
            Some(false) => "no",
            None => "unknown",
        };
        let mut user = format!("User:    {}", self.user);
        if *acts_as != self.user && !acts_as.is_empty() {
            user.push_str(&format!(", who acts as {acts_as}"));
        }
        let mut lines = vec![user, format!("Share:   {share}, from {}", self.from)];
        if let Some(path) = host_path {
            let missing = if *exists { "" } else { " (its directory; the file does not exist)" };
            lines.push(format!("Path:    {}{missing}", path.display()));
        }
        let rights = [
            ("connect", Some(answer.may_connect)),
            ("read", answer.may_read),
            ("write", answer.may_write),
            ("delete", answer.may_delete),
        ];
        let rights = rights.map(|(name, may)| format!("{name} {}", word(may)));
        lines.push(format!("May:     {}", rights.join(", ")));
        lines
    }

    fn row(&self, share: &str, answer: &Answer) -> Row {
        let path = answer.host_path.as_ref().map(|path| path.display().to_string());
        vec![
            ("kind", "access".into()),
            ("user", self.user.clone().into()),
            ("acts_as", answer.acts_as.clone().into()),
            ("share", share.into()),
            ("path", path.into()),
            ("exists", answer.exists.into()),
            ("may_connect", answer.may_connect.into()),
            ("may_read", answer.may_read.into()),
            ("may_write", answer.may_write.into()),
            ("may_delete", answer.may_delete.into()),
        ]
    }
}

/// Examines whether a user may use a target.
///
/// # Errors
/// The question cannot be answered.
pub(super) fn examine(
    settings: &Settings,
    tables: &Tables,
    user: &str,
    (share, path): (&str, ObjectPath),
    from: IpAddr,
    extent: Extent,
) -> anyhow::Result<Answer> {
    let mut accounts = Accounts::of_database(settings);
    let mut store = Store::new(StoreSettings::default());
    let mut findings = Vec::new();
    let account = log_on(settings, &mut accounts, &mut store, user, &mut findings)?;
    let request = ConnectShare {
        name: share.to_owned(),
        server: String::new(),
        account: Arc::new(account),
        client: SocketAddr::new(from, 0),
        client_name: String::new(),
        server_address: SocketAddr::new(from, 0),
        dialect: Dialect::SMB_3_1_1,
        encrypted: false,
        session_id: 0,
    };
    let answer = Answer {
        acts_as: String::new(),
        host_path: None,
        exists: false,
        may_connect: findings.iter().all(|finding: &Finding| !finding.needs_action()),
        may_read: None,
        may_write: None,
        may_delete: None,
        findings,
    };
    let mut inquiry = Inquiry {
        store: &mut store,
        accounts: &accounts,
        registry: &tables.registry,
        qos: &tables.qos,
        // A file that cannot be served is the first reason of a refusal.
        config: match config_of(&settings.config, &request) {
            Ok(Some(own)) => *own,
            _ => Config::clone(&settings.config),
        },
        request,
        path,
        extent,
        is_of_user: false,
        answer,
        added: 0,
    };
    inquiry.examine();
    let Inquiry { mut answer, request, .. } = inquiry;
    if let Ok(values) = values_of(&settings.config, &request) {
        client_files::name_files(settings, &values, &mut answer.findings);
    }
    Ok(answer)
}

impl Inquiry<'_> {
    fn examine(&mut self) {
        let Some(mut prepared) = self.connect() else { return };
        if self.is_refused_by_commands(&mut prepared) {
            return;
        }
        let Some(mut opening) = prepared.take_opening() else { return };
        if self.share().is_none_or(|share| share.force_user.is_empty()) {
            self.verify_known_to_system();
        }
        let access_max = self.verify_writable(&prepared, &mut opening);
        self.examine_objects(access_max, opening);
        let findings = &mut self.answer.findings;
        if findings.iter().any(|finding| finding.cause == "no_system_user") {
            // The rights are those of the guest account, which must not get more.
            findings.retain(|finding| finding.cause != "permissions");
        }
        self.store.revert_to_server();
    }

    fn refuse_connection(&mut self, finding: Finding) {
        self.answer.may_connect = false;
        self.add(finding);
    }

    /// True if the rights to write in the share are left out.
    fn leaves_out_writing(&self) -> bool {
        self.extent == Extent::Unmeant && self.answer.may_write == Some(false)
    }

    fn refuse_writing(&mut self, finding: Finding) {
        self.answer.may_write = Some(false);
        self.answer.may_delete = Some(false);
        self.add(finding);
    }

    /// Warns of a user whom the system does not know: the account has more than a SID as its
    /// identity then.
    fn verify_known_to_system(&mut self) {
        let account = &*self.request.account;
        let user = &account.user;
        let may_impersonate = StoreSettings::default().impersonate_users;
        if account.is_guest || !may_impersonate || has_own_rights(account) {
            return;
        }
        let fact =
            format!("{user} has only the rights of the user {}.", self.config.global.guest_account);
        let reason =
            format!("This system has no user {user}, whose rights the kernel could check.");
        let command = system_user::adding(&word(user));
        self.add(Finding::warning("no_system_user", fact, reason).command(command));
    }

    /// Adds a finding, unless one with the same cause and changes is there: what may not be written
    /// may often not be deleted either.
    fn add(&mut self, finding: Finding) {
        self.added += 1;
        let is_same = |it: &Finding| (it.cause, &it.changes) == (finding.cause, &finding.changes);
        if !self.answer.findings.iter().any(is_same) {
            self.answer.findings.push(finding);
        }
    }
}

/// Splits a target into its share and the path there.
fn split(target: &str) -> anyhow::Result<(String, ObjectPath)> {
    let target = target.replace('\\', "/");
    let target = match target.strip_prefix("//") {
        Some(rest) => rest.split_once('/').context("a share must follow the server's name")?.1,
        None => &target,
    };
    let target = target.trim_matches('/');
    let (share, path) = target.split_once('/').unwrap_or((target, ""));
    ensure!(!share.is_empty(), "the name of a share is missing");
    let path = ObjectPath::parse(path);
    match path {
        Ok(path) => Ok((share.to_owned(), path)),
        Err(error) => bail!("the path cannot be one of SMB: {error:?}"),
    }
}

/// Logs the user on, without a password. Without an entry in the user database the user is taken as
/// one with the same name and no password yet.
fn log_on(
    settings: &Settings,
    accounts: &mut Accounts,
    store: &mut Store,
    user: &str,
    findings: &mut Vec<Finding>,
) -> anyhow::Result<Account> {
    let global = &settings.config.global;
    let fact = format!("{user} cannot log on.");
    let known = accounts.known(user);
    let mut name = user.to_owned();
    let is_of_domain = global.is_member() && matches!(known, Ok(None));
    match known {
        Err(_) => {
            let path = settings.users_path();
            let error = users::UserDatabase::open(&path).err().map(|error| error.to_string());
            let error = error.or_else(|| shares::mapped_names::fault(&settings.config));
            let reason = error.unwrap_or_else(|| "The user database cannot be read.".to_owned());
            let command = format!("chmod 600 {}", finding::path_word(&path));
            findings.push(Finding::fault("user_database", fact, reason).command(command));
        }
        Ok(Some(known)) => {
            if !known.enabled {
                let reason = "The account is disabled.".to_owned();
                let command = format!("choro user enable {}", word(&known.name));
                findings.push(Finding::fault("disabled", fact, reason).command(command));
            }
            name = known.name;
        }
        Ok(None) if global.is_member() => {
            let reason = "A controller of the domain checks the password. Whether it does is shown \
                          by the command below.";
            let command = format!("choro check --domain --domain-user {}", word(user));
            let fact = format!("{user} is not in the server's user database.");
            findings.push(Finding::note("domain", fact, reason).command(command));
        }
        Ok(None) if global.map_to_guest != MapToGuest::Never => {
            let fact = format!("{user} becomes a guest.");
            let reason = "The user database has no such user, and `map to guest` makes unknown \
                          users guests.";
            let command = format!("choro user add {}", word(user));
            findings.push(Finding::note("becomes_guest", fact, reason).command(command));
            return accounts.guest(store).context("the guest account cannot be looked up");
        }
        Ok(None) => {
            let reason = "The user database has no such user.";
            let command = format!("choro user add {}", word(user));
            findings.push(Finding::fault("unknown_user", fact, reason).command(command));
        }
    }
    let found = accounts.find(store, vec![name.clone()], user.to_owned());
    let account = found.context("the name service does not tell the user's ids")?;
    // The server has the ids of users of a domain from winbindd. The doctor lacks them, and would
    // examine the rights of somebody else.
    if is_of_domain && !has_own_rights(&account) {
        bail!(
            "the name service does not know {user}, so the rights of this user of the domain \
             cannot be examined; install libnss-winbind, and add winbind to passwd and group in \
             /etc/nsswitch.conf"
        );
    }
    Ok(account)
}

/// Whether the kernel knows the user: others have the rights of the guest account.
fn has_own_rights(account: &Account) -> bool {
    account.identity == account.sid.to_string()
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_target_is_a_share_and_a_path_in_one_of_several_forms() {
        for target in
            ["data/one/two", "/data/one/two/", "//nas/data/one/two", r"\\nas\data\one\two"]
        {
            let (share, path) = split(target).expect("it is one");
            assert_eq!((share.as_str(), path.as_str()), ("data", "one/two"), "{target}");
        }
        let (share, path) = split("//nas/data").expect("it is one");
        assert!(share == "data" && path.is_root());
        for target in ["", "//nas", "//nas/", "data/a:b:c:d"] {
            assert!(split(target).is_err(), "{target}");
        }
    }
}
