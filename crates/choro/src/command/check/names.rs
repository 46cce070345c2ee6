//! Users and groups of the configuration that nobody knows.
//!
//! A misspelled name in `valid users` keeps its user out, and one in `invalid users` lets its user
//! in. Names of domains are the controller's, and names with variables depend on the client: both
//! are left out.

use std::collections::BTreeSet;
use std::fs;

use config::user_list::local;
use config::{Config, GroupKind, Place, Share, UserList, Warning, WarningKind, hint, nearest_of};
use config::{Substitutions, quoted};
use nix::unistd::{Group, User};
use settings::Settings;
use users::UserDatabase;

/// Returns a warning for each unknown name, once for each line.
pub(super) fn warnings(settings: &Settings) -> Vec<Warning> {
    let config = &settings.config;
    if config.global.is_member() {
        return Vec::new();
    }
    let names = Names::of(settings);
    let mut found = BTreeSet::new();
    let mut add = |place: Option<&Place>, name: &str, faults: Vec<String>| {
        let Some(place) = place else { return };
        let message = |fault| format!("`{name}` names {fault}");
        found.extend(faults.into_iter().map(|fault| (place.clone(), message(fault))));
    };
    for share in config.shares.iter().chain(&config.homes).chain([&config.ipc]) {
        for (name, list) in lists(share) {
            add(share.place(name), name, names.faults(list));
        }
        let user = share.force_user.as_str();
        let group = share.force_group.trim_start_matches('+');
        add(share.place("force user"), "force user", names.fault_of_user(user, true));
        add(share.place("force group"), "force group", names.fault_of_group(&[], group));
    }
    let warning =
        |(place, message): (Place, String)| Warning::at(&place, WarningKind::UnknownName, message);
    found.into_iter().map(warning).collect()
}

fn lists(share: &Share) -> [(&'static str, &UserList); 5] {
    [
        ("admin users", &share.admin_users),
        ("invalid users", &share.invalid_users),
        ("read list", &share.read_list),
        ("valid users", &share.valid_users),
        ("write list", &share.write_list),
    ]
}

/// The names that lists can have.
struct Names {
    substitutions: Substitutions,
    /// Users of the database, with true for those who have ids there; `None` if it cannot be read,
    /// or if tickets of a realm name users that it does not have.
    users: Option<Vec<(String, bool)>>,
}

impl Names {
    fn of(settings: &Settings) -> Self {
        let config: &Config = &settings.config;
        let database = || UserDatabase::open(&settings.users_path()).ok();
        let database = config.global.keytab().is_none().then(database).flatten();
        let users = database.map(|it| {
            it.users().iter().map(|user| (user.name.clone(), user.identity.is_some())).collect()
        });
        Self { substitutions: config.substitutions(), users }
    }

    fn faults(&self, list: &UserList) -> Vec<String> {
        let users = list.users().flat_map(|name| self.fault_of_user(name, false));
        let groups = list.groups().flat_map(|(kinds, name)| self.fault_of_group(kinds, name));
        users.chain(groups).collect()
    }

    /// Returns the fault of a user, none for a good one. One whose rights somebody takes
    /// (`needs_ids`) must be a user of the system or have ids in the database.
    fn fault_of_user(&self, name: &str, needs_ids: bool) -> Vec<String> {
        let name = local(name, &self.substitutions.server_name);
        if is_unclear(name) {
            return Vec::new();
        }
        let small = name.to_lowercase();
        let is_unknown = |name: &str| matches!(User::from_name(name), Ok(None));
        if !is_unknown(name) || !is_unknown(&small) {
            return Vec::new();
        }
        let users = match &self.users {
            Some(users) => users.as_slice(),
            None if needs_ids => &[],
            None => return Vec::new(),
        };
        let usable = || users.iter().filter(|(_, has_ids)| *has_ids || !needs_ids);
        if usable().any(|(user, _)| user.to_lowercase() == small) {
            return Vec::new();
        }
        let system = names_in("/etc/passwd");
        let near = usable().map(|(user, _)| user.as_str()).chain(system.iter().map(String::as_str));
        let near = hint(nearest_of(name, near));
        let name = quoted(name);
        vec![format!("`{name}`, a user neither of this system nor of `choro user list`{near}")]
    }

    /// Returns the fault of a group, none for a good one. It may be a netgroup if `kinds` says so.
    fn fault_of_group(&self, kinds: &[GroupKind], name: &str) -> Vec<String> {
        if is_unclear(name) {
            return Vec::new();
        }
        let is_unix = kinds.is_empty() || kinds.contains(&GroupKind::Unix);
        let is_missing = !is_unix || matches!(Group::from_name(name), Ok(None));
        let is_netgroup = || process::netgroup_exists(name).unwrap_or(false);
        if !is_missing || (kinds.contains(&GroupKind::Netgroup) && is_netgroup()) {
            return Vec::new();
        }
        let system = names_in("/etc/group");
        let near = system.iter().map(String::as_str).filter(|_| is_unix);
        let near = hint(nearest_of(name, near));
        vec![format!("`{}`, a group that this system does not have{near}", quoted(name))]
    }
}

/// True for a name that depends on the client, or is not this system's: with a domain, or a SID.
fn is_unclear(name: &str) -> bool {
    name.is_empty() || name.contains(['%', '\\', '\0']) || name.starts_with("S-1-")
}

/// Returns the first fields of the lines of a list of users or groups, to suggest them.
fn names_in(file: &str) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
}
