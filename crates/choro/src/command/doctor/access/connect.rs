//! May a user connect to a share, and write there, as far as smb.conf decides?
//!
//! The server's own function decides. For a refusal, a change is made in a copy of the
//! configuration and the function is asked again: so a change that is shown has the effect that it
//! is shown for, and the next reason comes to light.

use std::net::IpAddr;
use std::sync::Arc;

use config::hosts_access;
use config::list::joined;
use config::{Config, Share, UserList, nearest_of};
use dtyp::{AccessMask, Sid};
use shares::opening::Opening;
use shares::refusal::Refusal;
use shares::shares::{Prepared, Shares};
use shares::usershares;

use super::{Extent, Inquiry};
use crate::command::doctor::finding::{Change, Finding, word};
use crate::command::system_user;

/// Reasons that are looked for one after the other; there are fewer kinds.
const REASONS_MAX: usize = 16;

impl Inquiry<'_> {
    /// Connects the share, in a configuration that is changed until that succeeds.
    pub(super) fn connect(&mut self) -> Option<Prepared> {
        self.is_of_user = self.has_usershare();
        self.verify_server_hosts();
        for _ in 0..REASONS_MAX {
            let refusal = match self.decide(&self.config.clone()) {
                Ok(prepared) => return Some(*prepared),
                Err(refusal) => refusal,
            };
            let (finding, mended) = self.explain(&refusal);
            self.refuse_connection(finding);
            if self.extent == Extent::Unmeant && is_meant(&refusal) {
                return None;
            }
            self.config = mended?;
        }
        None
    }

    fn decide(&mut self, config: &Config) -> Result<Box<Prepared>, Refusal> {
        let mut shares = Shares {
            config,
            store: self.store,
            accounts: self.accounts,
            registry: self.registry,
            qos: self.qos,
        };
        shares.decide(&self.request)
    }

    /// Whether this variant of the configuration refuses the user for the lists of users.
    fn is_refused(&mut self, change: impl FnOnce(&mut Share)) -> bool {
        let Some(config) = self.changed(change) else { return false };
        self.decide(&config).err() == Some(Refusal::User)
    }

    /// The configuration with a change of the share; `None` for a share that is not in it.
    fn changed(&self, change: impl FnOnce(&mut Share)) -> Option<Config> {
        let mut config = self.config.clone();
        let name = self.section();
        let homes = config.homes.iter_mut();
        let mut sections = config.shares.iter_mut().chain(homes);
        change(sections.find(|share| share.name.eq_ignore_ascii_case(&name))?);
        Some(config)
    }

    /// Name of the section of smb.conf that the share comes from.
    pub(super) fn section(&self) -> String {
        let template = &self.config.global.usershare_template_share;
        match self.share() {
            None => self.request.name.clone(),
            Some(_) if self.is_of_user && template.is_empty() => "global".to_owned(),
            Some(share) => share.name.clone(),
        }
    }

    /// The section that the share comes from: its own, `[homes]`, or the template of usershares.
    pub(super) fn share(&self) -> Option<&Share> {
        match self.is_of_user {
            true => self.config.usershare_template(),
            false => self.config.share(&self.request.name).or(self.config.homes.as_ref()),
        }
    }

    /// Whether the share is one that a user has made. A home comes first.
    fn has_usershare(&self) -> bool {
        let name = &self.request.name;
        let is_user = || name.eq_ignore_ascii_case(&self.request.account.user) || is_user(name);
        self.config.share(name).is_none()
            && !(self.config.homes.is_some() && is_user())
            && usershares::is_one(&self.config, name)
    }

    /// `hosts allow` of `[global]`, which decides on a connection before there is a share.
    fn verify_server_hosts(&mut self) {
        let address = self.request.client.ip();
        let Share { hosts_allow, hosts_deny, .. } = &self.config.defaults;
        if hosts_access::allows(hosts_allow, hosts_deny, address) {
            return;
        }
        let (old_allow, old_deny) = (hosts_allow.clone(), hosts_deny.clone());
        let allow = [vec![address.to_string()], old_allow.clone()].concat();
        let finding = Finding::fault(
            "server_hosts",
            format!("The server does not accept connections from {address}."),
            "`hosts allow` and `hosts deny` of [global] exclude the address.",
        );
        let is_enough = hosts_access::allows(&allow, &old_deny, address);
        self.refuse_connection(with_hosts(finding, "global", &allow, is_enough, address));
        // Shares without own lists use the lists of [global].
        let Config { defaults, shares, homes, .. } = &mut self.config;
        for share in [defaults].into_iter().chain(shares).chain(homes) {
            if (&share.hosts_allow, &share.hosts_deny) == (&old_allow, &old_deny) {
                share.hosts_allow.clone_from(&allow);
            }
        }
    }

    /// Returns the finding of a refusal, and a configuration that does not refuse for this reason.
    fn explain(&mut self, refusal: &Refusal) -> (Finding, Option<Config>) {
        let section = self.section();
        let (user, name) = (self.request.account.user.clone(), self.request.name.clone());
        let fact = format!("{user} may not connect to the share {name}.");
        let finding = |reason: String| Finding::fault(cause(refusal), fact.clone(), reason);
        match refusal {
            Refusal::NoShare => self.explain_absence(finding),
            Refusal::Address(address) => self.explain_address(finding, *address),
            Refusal::Guest => {
                let reason = "The user is a guest, and the share is not for guests.".to_owned();
                let finding = finding(reason).change(Change::line(&section, "guest ok = yes"));
                (finding, self.changed(|share| share.guest_ok = true))
            }
            Refusal::User => self.explain_lists(finding),
            Refusal::Full => {
                let reason =
                    "As many clients as `max connections` allows are connected.".to_owned();
                let finding = finding(reason).change(Change::line(&section, "max connections = 0"));
                (finding, self.changed(|share| share.max_connections = 0))
            }
            Refusal::Usershare => {
                let reason =
                    "The access list of this usershare gives the user no right.".to_owned();
                (finding(reason).advice(ADD_AGAIN), None)
            }
            Refusal::Security => {
                let reason =
                    "The share's descriptor (share_info.tdb) gives the user no right.".to_owned();
                (finding(reason).advice(CHANGE_DESCRIPTOR), None)
            }
            Refusal::NoSecurity => {
                let reason = "The descriptors of shares (share_info.tdb in the `state \
                              directory`) cannot be read; the log says why."
                    .to_owned();
                (finding(reason).advice("restore the file, or remove it"), None)
            }
            // `force group` and `admin users` take the ids of the user.
            Refusal::NoUser(missing) if *missing == user => {
                let reason =
                    format!("This system has no user {user}, whose rights the kernel could check.");
                let finding = Finding { cause: "no_system_user", ..finding(reason) };
                (finding.command(system_user::adding(&word(&user))), None)
            }
            Refusal::NoUser(missing) => {
                let reason = format!(
                    "The share acts as the user {missing}, whom this system does not have."
                );
                let command = system_user::adding(&word(missing));
                (finding(reason).command(command), self.changed(|share| share.force_user.clear()))
            }
            Refusal::NoGroup(missing) => {
                let reason = format!("This system has no group {missing} for `force group`.");
                let command = format!("groupadd --system {}", word(missing));
                (finding(reason).command(command), self.changed(|share| share.force_group.clear()))
            }
            Refusal::NoGuestAccount => {
                let reason = "The name service does not find the `guest account`.".to_owned();
                (finding(reason).change(Change::global("guest account = nobody")), None)
            }
            Refusal::NoIdentity | Refusal::NoNameService => {
                let reason = "The name service of this system failed.".to_owned();
                (finding(reason).command(format!("getent passwd {}", word(&user))), None)
            }
            Refusal::ClientFile(error) => {
                let reason = format!("A file for this client cannot be served: {error}");
                (finding(reason).command("choro check"), None)
            }
            Refusal::NoHome => {
                let reason = "`path` contains %H, and the user has no home directory.".to_owned();
                let command = format!("usermod --home /home/{0} {0}", word(&user));
                (finding(reason).command(command), None)
            }
        }
    }

    fn explain_address(
        &self,
        finding: impl Fn(String) -> Finding,
        address: IpAddr,
    ) -> (Finding, Option<Config>) {
        let Some(share) = self.share() else { return (finding(String::new()), None) };
        let allow = [vec![address.to_string()], share.hosts_allow.clone()].concat();
        let is_enough = hosts_access::allows(&allow, &share.hosts_deny, address);
        let reason =
            format!("`hosts allow` and `hosts deny` of the share exclude the address {address}.");
        let mended = is_enough.then(|| self.changed(|it| it.hosts_allow = allow.clone()));
        let finding = with_hosts(finding(reason), &self.section(), &allow, is_enough, address);
        (finding, mended.flatten())
    }

    fn explain_absence(&self, finding: impl Fn(String) -> Finding) -> (Finding, Option<Config>) {
        let section = self.section();
        match self.config.share(&self.request.name) {
            Some(share) if !share.available => {
                let finding = finding("The share has `available = no`.".to_owned());
                let mended = self.changed(|share| share.available = true);
                (finding.change(Change::line(&section, "available = yes")), mended)
            }
            Some(_) => {
                let finding = finding("The share has no `path`.".to_owned());
                (finding.change(Change::line(&section, "path = /srv/FOLDER")), None)
            }
            None => (self.explain_no_section(finding), None),
        }
    }

    /// A name without a section may be misspelled, or that of a usershare which is not served.
    fn explain_no_section(&self, finding: impl Fn(String) -> Finding) -> Finding {
        let name = &self.request.name;
        if let Some(fault) = usershares::fault_of(&self.config, name) {
            let reason = format!("The server does not serve the usershare of this name: {fault}.");
            return Finding { cause: "usershare", ..finding(reason) }.advice(ADD_AGAIN);
        }
        let names = || self.config.shares.iter().map(|it| &*it.name);
        let mut reason = "There is no such share.".to_owned();
        let similar = nearest_of(name, names());
        if let Some(similar) = similar {
            reason.push_str(&format!(" Did you mean {similar}?"));
        }
        reason.push_str(&format!(" The shares are: {}.", names().collect::<Vec<_>>().join(", ")));
        if let Some(fault) = usershares::fault(&self.config) {
            reason.push_str(&format!(" Shares of users are not served: {fault}."));
        }
        let mut finding = finding(reason);
        if let Some(similar) = similar {
            let user = word(&self.request.account.user);
            finding = finding.command(format!("choro doctor access {user} {}", word(similar)));
        }
        finding.command(format!("choro share add {} FOLDER", word(name)))
    }

    /// `invalid users` excludes whom it names, `valid users` all others.
    fn explain_lists(&mut self, finding: impl Fn(String) -> Finding) -> (Finding, Option<Config>) {
        let section = self.section();
        let user = self.request.account.user.clone();
        let none = || UserList::new(Vec::new());
        if self.is_refused(|share| share.valid_users = none()) {
            let words = self.share().map(|it| it.invalid_users.words()).unwrap_or_default();
            let mut kept = Vec::new();
            let mut named = Vec::new();
            for word in words {
                let alone = UserList::new(vec![word.clone()]);
                let names_user = self.is_refused(|share| {
                    (share.valid_users, share.invalid_users) = (none(), alone);
                });
                if names_user { named.push(word) } else { kept.push(word) }
            }
            let reason = format!("`invalid users` of the share names {}.", joined(&named, ", "));
            let line = format!("invalid users = {}", joined(&kept, " "));
            let mut finding = finding(reason).change(Change::line(&section, line.trim_end()));
            for group in named.iter().filter_map(|word| word.strip_prefix(['@', '+'])) {
                finding = finding.command(format!("gpasswd -d {} {}", word(&user), word(group)));
            }
            return (finding, self.changed(|share| share.invalid_users = UserList::new(kept)));
        }
        let mut words = self.share().map(|it| it.valid_users.words()).unwrap_or_default();
        let reason = format!("`valid users` of the share has only: {}.", joined(&words, ", "));
        let groups = if is_user(&user) { groups_of_system(&words) } else { Vec::new() };
        words.push(user.clone());
        let line = format!("valid users = {}", joined(&words, " "));
        let mut finding = finding(reason);
        for (group, _) in &groups {
            finding = finding.command(format!("usermod -aG {} {}", word(group), word(&user)));
        }
        let mended = match groups.first() {
            Some((_, gid)) => self.join(*gid).then(|| self.config.clone()),
            None => self.changed(|share| share.valid_users = UserList::new(words)),
        };
        (finding.change(Change::line(&section, line)), mended)
    }

    /// Goes on as if the user were in one more group, which may reach files as well.
    fn join(&mut self, gid: u32) -> bool {
        let account = Arc::make_mut(&mut self.request.account);
        let index = usize::try_from(account.unix.0).unwrap_or(usize::MAX);
        let Some(mut credentials) = self.store.users().nth(index).cloned() else { return false };
        credentials.groups.push(gid);
        account.groups = account.groups.iter().cloned().chain([Sid::unix_group(gid)]).collect();
        account.unix = self.store.register_user(credentials);
        true
    }

    /// The commands of a usershare get the path of its folder, which no shell may interpret.
    pub(super) fn is_refused_by_commands(&mut self, prepared: &mut Prepared) -> bool {
        let folder = prepared.to_verify().and_then(|opening| opening.verify(self.store).ok());
        self.store.revert_to_server();
        let Some(Err(fault)) = folder.map(|folder| prepared.set_folder(&folder)) else {
            return false;
        };
        let fact = format!("Nobody may connect to the share {}.", self.request.name);
        let reason = format!("The server does not serve this usershare: {fault}.");
        let advice = "its owner shares a folder whose path has letters and digits only";
        self.refuse_connection(Finding::fault("usershare", fact, reason).advice(advice));
        true
    }

    /// Says why the share is read-only for the user, if it is. It is then opened as if it were not:
    /// more may be in the way of a write.
    pub(super) fn verify_writable(
        &mut self,
        prepared: &Prepared,
        opening: &mut Opening,
    ) -> AccessMask {
        let access_max = prepared.access_max();
        let may_write = access_max.contains(AccessMask::WRITE_DATA);
        if prepared.is_read_only() {
            self.explain_read_only_share();
        }
        if !prepared.granted().contains(AccessMask::WRITE_DATA) {
            self.explain_granted();
        }
        opening.settings.read_only = false;
        if may_write { access_max } else { AccessMask::FILE_ALL }
    }

    fn explain_read_only_share(&mut self) {
        let name = self.request.name.clone();
        let user = self.request.account.user.clone();
        let section = self.section();
        let share = self.share();
        let is_read_only = share.is_some_and(|share| share.read_only) && !self.is_of_user;
        let listed = share.map(|share| share.write_list.words()).unwrap_or_default();
        let words = [listed, vec![user.clone()]].concat();
        let by_list = !is_read_only
            || self
                .changed(|share| share.read_only = false)
                .and_then(|config| self.decide(&config).ok())
                .is_some_and(|prepared| prepared.is_read_only());
        let reason = match by_list {
            true => "`read list` of the share names the user, and `write list` does not.",
            false => "The share has `read only = yes`, which is the default.",
        };
        let fact = format!("{user} may not write to the share {name}.");
        let line = format!("write list = {}", joined(&words, " "));
        let finding = Finding::fault("read_only_share", fact, reason);
        let mut finding = finding.change(Change::line(&section, line));
        if is_read_only && !by_list {
            finding = finding.change(Change::line(&section, "read only = no"));
        }
        self.refuse_writing(finding);
    }

    /// The access list of a usershare, or the descriptor of a share, may leave reading only.
    fn explain_granted(&mut self) {
        let user = self.request.account.user.clone();
        let fact = format!("{user} may not write to the share {}.", self.request.name);
        let (cause, reason, advice) = match self.is_of_user {
            true => {
                let reason = "The access list of this usershare lets the user read only.";
                ("usershare", reason, ADD_AGAIN)
            }
            false => {
                let reason = "The share's descriptor (share_info.tdb) lets the user read only.";
                ("share_security", reason, CHANGE_DESCRIPTOR)
            }
        };
        self.refuse_writing(Finding::fault(cause, fact, reason).advice(advice));
    }
}

/// Change of the access list of a usershare.
pub(super) const ADD_AGAIN: &str =
    "its owner adds it again: net usershare add NAME PATH COMMENT USER:F";

/// Change of the descriptor of a share.
const CHANGE_DESCRIPTOR: &str = "an administrator changes the permissions of the share: Windows' \
                                 Computer Management, or sharesec";

/// Returns the groups of this system in a list of users, with their ids.
fn groups_of_system(words: &[String]) -> Vec<(String, u32)> {
    let names = words.iter().filter_map(|word| word.strip_prefix(['@', '+']));
    let names = names.map(|name| name.trim_start_matches('&'));
    let found = names.map(|name| (name, nix::unistd::Group::from_name(name)));
    found.filter_map(|(name, it)| Some((name.to_owned(), it.ok()??.gid.as_raw()))).collect()
}

/// Whether this system has a user of the name.
fn is_user(name: &str) -> bool {
    nix::unistd::User::from_name(name).is_ok_and(|user| user.is_some())
}

/// Lists of users and descriptors close a share to a user on purpose.
fn is_meant(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::User | Refusal::Guest | Refusal::Usershare | Refusal::Security)
}

/// Adds the line that admits an address, if it is enough.
fn with_hosts(
    finding: Finding,
    section: &str,
    allow: &[String],
    is_enough: bool,
    address: IpAddr,
) -> Finding {
    match is_enough {
        true => {
            let line = format!("hosts allow = {}", joined(allow, " "));
            finding.change(Change::line(section, line))
        }
        false => finding.advice(format!(
            "take {address} out of what follows EXCEPT in `hosts allow` of [{section}]"
        )),
    }
}

/// Stable name of a refusal.
fn cause(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::NoShare => "no_share",
        Refusal::Address(_) => "hosts",
        Refusal::Guest => "guest",
        Refusal::NoGuestAccount => "guest_account",
        Refusal::User => "user_lists",
        Refusal::Full => "max_connections",
        Refusal::Usershare => "usershare",
        Refusal::Security => "share_security",
        Refusal::NoSecurity => "share_descriptors",
        Refusal::NoUser(_) => "force_user",
        Refusal::NoGroup(_) => "force_group",
        Refusal::NoIdentity | Refusal::NoNameService => "name_service",
        Refusal::NoHome => "home",
        Refusal::ClientFile(_) => "client_file",
    }
}
