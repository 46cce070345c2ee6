//! A configuration, ready to be served.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::choice::{KerberosMethod, NtlmAuth, Protocol, Security, ServerRole};
use crate::class::{self, ClassSection};
use crate::full_audit::{AuditOutputs, FullAudit};
use crate::global::Global;
use crate::load::client_files::{ClientFile, ClientFiles};
use crate::load::{self, Loaded, Named};
use crate::parameter::find;
use crate::section::Section;
use crate::share::Share;
use crate::source::{Disk, Nothing};
use crate::substitutions::Substitutions;
use crate::warning::{LoadError, Warning, WarningKind, quoted};

/// Everything that an `smb.conf` sets.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Parameters of the whole server, from `[global]`.
    pub global: Global,
    /// Defaults of shares from `[global]`, for use where no share is involved: `hosts allow` of a
    /// connection, `smb encrypt` of a session.
    pub defaults: Share,
    /// Shares to serve, in the order of the file. Those with `available` off are among them.
    pub shares: Vec<Share>,
    /// `[IPC$]`: the users who may open pipes. Equals `defaults` if the file has no such section.
    pub ipc: Share,
    /// `[homes]`, if there: a pattern of shares, not a share.
    pub homes: Option<Share>,
    /// Classes of service, in the order of the file.
    pub classes: Vec<ClassSection>,
    /// The section of `usershare template share`, which may be no share itself.
    pub(crate) usershare_template: Option<Share>,
    /// Files for single clients, names with variables.
    pub(crate) client_files: Arc<[ClientFile]>,
    /// Text with an `include` of each of them; empty if there are none.
    pub(crate) text: Arc<str>,
}

/// Folders of the server, with substitutions done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directories {
    /// Databases that outlive the server.
    pub state: PathBuf,
    /// Files that live as long as the server runs.
    pub lock: PathBuf,
    /// Keys and password hashes; only root may enter.
    pub private: PathBuf,
    /// The file with the process id.
    pub pid: PathBuf,
    /// Files that may be lost.
    pub cache: PathBuf,
}

impl Config {
    /// Reads a file and what it includes, but files that depend on the client, such as `include =
    /// smb.conf.%m`: [`Config::for_client`] does. Those that are there now are verified.
    ///
    /// # Errors
    /// What cannot be served safely; see [`LoadError`].
    pub fn load(path: &Path) -> Result<(Self, Vec<Warning>), LoadError> {
        let loaded = load::load(path, &Disk, &Substitutions::of_this_process())?;
        Self::build_verified(loaded, &Disk)
    }

    /// Reads `text` as the contents of a file called `name`. Includes are not followed.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(text: &str, name: &str) -> Result<(Self, Vec<Warning>), LoadError> {
        let values = Substitutions::default();
        Self::build(load::parse(text, name, &Nothing, &values, ClientFiles::Left)?)
    }

    /// As [`Config::parse`], for text of the server's own, whose includes are read.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse_with_includes(text: &str, name: &str) -> Result<(Self, Vec<Warning>), LoadError> {
        let values = Substitutions::of_this_process();
        let loaded = load::parse(text, name, &Disk, &values, ClientFiles::Left)?;
        Self::build_verified(loaded, &Disk)
    }

    /// The share of that name; case does not matter.
    #[must_use]
    pub fn share(&self, name: &str) -> Option<&Share> {
        let name = name.to_lowercase();
        self.shares.iter().find(|share| share.name.to_lowercase() == name)
    }

    /// Returns the section whose parameters shares of users have: `usershare template share`, or
    /// the defaults without one; `None` if there is no such section.
    #[must_use]
    pub fn usershare_template(&self) -> Option<&Share> {
        match self.global.usershare_template_share.is_empty() {
            true => Some(&self.defaults),
            false => self.usershare_template.as_ref(),
        }
    }

    /// Returns true if there is a command for a shell, such as `preexec` of a share.
    #[must_use]
    pub fn has_commands(&self) -> bool {
        let is_command = |text: &&str| !text.trim().is_empty();
        let has_command = |share: &Share| share.commands().iter().any(is_command);
        let mut shares = self.shares.iter().chain(&self.homes).chain(self.usershare_template());
        shares.any(has_command) || self.global.commands().iter().any(is_command)
    }

    /// Returns true if some share is audited.
    #[must_use]
    pub fn is_audited(&self) -> bool {
        let records = |share| FullAudit::of(share).is_some_and(|audit| !audit.is_empty());
        self.shares.iter().chain(&self.homes).any(records)
    }

    /// Returns the places that records of audits go to.
    #[must_use]
    pub fn audit_outputs(&self) -> AuditOutputs {
        let substitutions = self.substitutions();
        let path = |option| match self.global.option("choro", option).map(str::trim) {
            Some("") | None => None,
            Some(path) => Some(PathBuf::from(substitutions.expand_path(path))),
        };
        let has_no_file = || path("audit file").is_some_and(|it| it == Path::new("none"));
        let default = || self.directories().state.join("audit.json");
        AuditOutputs {
            file: (!has_no_file()).then(|| path("audit file").unwrap_or_else(default)),
            socket: path("audit socket"),
            syslog: path("audit syslog").unwrap_or_else(|| PathBuf::from("/dev/log")),
        }
    }

    /// Returns the values that a process of this server knows before any client.
    #[must_use]
    pub fn substitutions(&self) -> Substitutions {
        let known = Substitutions::of_this_process();
        match self.global.netbios_name.as_str() {
            "" => known,
            name => Substitutions { server_name: name.to_owned(), ..known },
        }
    }

    /// Folders of the server, substitutions done.
    #[must_use]
    pub fn directories(&self) -> Directories {
        let substitutions = self.substitutions();
        let path = |text: &str| PathBuf::from(substitutions.expand_path(text));
        Directories {
            state: path(&self.global.state_directory),
            lock: path(&self.global.lock_directory),
            private: path(&self.global.private_directory),
            pid: path(&self.global.pid_directory),
            cache: path(&self.global.cache_directory),
        }
    }

    /// Takes the parameters `names` of `[global]` over from `running`, because a running server
    /// cannot change them. Returns the names of parameters whose new value was dropped.
    pub fn keep_global(&mut self, running: &Self, names: &[&'static str]) -> Vec<&'static str> {
        let mut section = self.global.section.clone();
        let differ = |name: &&'static str| section.take_over(&running.global.section, name);
        let changed = names.iter().copied().filter(differ).collect();
        self.global = Global::new(self.global.name.clone(), section);
        changed
    }

    pub(crate) fn build(mut loaded: Loaded) -> Result<(Self, Vec<Warning>), LoadError> {
        let client_files = std::mem::take(&mut loaded.client_files).into();
        let text = std::mem::take(&mut loaded.text).into();
        let Loaded { mut global, mut defaults, mut sections, mut classes, mut warnings, .. } =
            loaded;
        place_directories(&mut global);
        let shares = sections.iter_mut().map(|named| &mut named.section);
        global.share_options(shares.chain([&mut defaults]));
        let global = Global::new("global".to_owned(), global);
        let (min, max) = global.dialects();
        if min > max {
            let word = |protocol: Protocol| protocol.word().to_owned();
            return Err(LoadError::NoDialect {
                min: word(global.server_min_protocol),
                max: word(global.server_max_protocol),
            });
        }
        verify_domain(&global)?;
        let defaults = Share::new("global".to_owned(), defaults);
        let mut config = Self {
            global,
            ipc: Share { name: "IPC$".to_owned(), ..defaults.clone() },
            defaults,
            shares: Vec::new(),
            homes: None,
            classes: Vec::new(),
            usershare_template: None,
            client_files,
            text,
        };
        let template = config.global.usershare_template_share.to_lowercase();
        let found = sections.iter().find(|it| it.name.to_lowercase() == template);
        config.usershare_template =
            found.map(|Named { name, section, .. }| Share::new(name.clone(), section.clone()));
        for (at, named) in sections.into_iter().filter(|named| !named.dropped).enumerate() {
            let limits = class::of_rate_limits(&named.name, at, &named.section, &named.place);
            let is_new = |it: &class::Written| classes.iter().all(|other| other.name != it.name);
            classes.extend(limits.filter(is_new));
            config.place(named, &mut warnings);
        }
        // A home has the name of its user, who may be anybody.
        let has_share = |name: &str| config.homes.is_some() || config.share(name).is_some();
        config.classes = class::read(classes, has_share, &mut warnings)?;
        Ok((config, warnings))
    }

    fn place(&mut self, named: Named, warnings: &mut Vec<Warning>) {
        let Named { name, mut section, place, incomplete, dropped: _ } = named;
        let mut warn = |message: String| {
            let file = place.file.clone();
            let kind = WarningKind::NotServed;
            warnings.push(Warning { file, line: place.line, kind, message });
        };
        let printable = section.text("printable").and_then(crate::kind::boolean) == Some("Yes");
        let mut hidden = incomplete;
        match name.to_lowercase().as_str() {
            "homes" => {
                self.homes = Some(Share::new(name, section));
                return;
            }
            "ipc$" => {
                self.ipc = Share::new(name, section);
                return;
            }
            "printers" => {
                warn("[printers] is ignored, printers are not served".to_owned());
                return;
            }
            _ if printable => {
                warn(format!("[{}] is a printer and is not served", quoted(&name)));
                return;
            }
            _ if name.contains(UNADDRESSABLE) => {
                warn(format!("[{}]: no client can ask for a share of that name", quoted(&name)));
                hidden = true;
            }
            _ if section.typed::<String>("path").is_empty() => {
                warn(format!("[{}] has no path and is not available", quoted(&name)));
                hidden = true;
            }
            _ => {}
        }
        if hidden {
            set(&mut section, "available", "No");
        }
        let share = Share::new(name, section);
        if FullAudit::of(&share).is_some_and(|audit| audit.is_empty()) {
            let text = format!(
                "[{}]: `vfs objects = full_audit` records nothing without `full_audit:success` or \
                 `full_audit:failure`",
                quoted(&share.name)
            );
            let (file, kind) = (place.file, WarningKind::Contradiction);
            warnings.push(Warning { file, line: place.line, kind, message: text });
        }
        self.shares.push(share);
    }
}

/// Refuses a server that could admit nobody of its domain, or whose role contradicts itself.
fn verify_domain(global: &Global) -> Result<(), LoadError> {
    let contradiction = match (global.security, global.server_role) {
        (Security::User, ServerRole::Member) => {
            "`server role = member server` needs `security = ads`"
        }
        (Security::Ads, ServerRole::Standalone) => {
            "`security = ads` needs `server role = member server`, or none"
        }
        _ if global.is_member() && global.realm.is_empty() => {
            "`security = ads` needs `realm`, the DNS name of the domain"
        }
        _ if global.kerberos_method == KerberosMethod::DedicatedKeytab
            && global.dedicated_keytab_file.is_empty() =>
        {
            "`kerberos method = dedicated keytab` needs `dedicated keytab file`"
        }
        _ if global.ntlm_auth == NtlmAuth::Disabled && global.keytab().is_none() => {
            "`ntlm auth = disabled` leaves only tickets, so nobody could log on without `realm` \
             and a keytab (`kerberos method`)"
        }
        _ => return Ok(()),
    };
    Err(LoadError::Contradiction(contradiction))
}

/// Puts the directories that are not named below `base directory`, if that is.
fn place_directories(global: &mut Section) {
    let Some(base) = global.text("base directory").filter(|base| !base.is_empty()) else { return };
    let base = base.trim_end_matches('/').to_owned();
    for (parameter, name) in [
        ("state directory", "state"),
        ("private dir", "private"),
        ("cache directory", "cache"),
        ("lock directory", "run"),
        ("pid directory", "run"),
    ] {
        if global.text(parameter).is_none() {
            set(global, parameter, &format!("{base}/{name}"));
        }
    }
}

fn set(section: &mut Section, name: &str, text: &str) {
    section.set(find(name).expect("a name of the table").0, text);
}

/// Characters that separate or cannot occur in the share name of a UNC path.
const UNADDRESSABLE: [char; 3] = ['\\', '/', '\0'];

#[cfg(test)]
mod tests;
