//! Data of this server for lsarpc, srvsvc and wkssvc.

use std::path::Path;
use std::sync::Arc;

use config::{Config, Substitutions};
use dtyp::{FileTime, Sid};
use process::clocks::wall_clock;
use rpc::{Caller, Catalogue, Principal, PrincipalKind, ServerEntry, ShareEntry};
use tracing::warn;

use super::host_names::netbios_name;
use super::mapped_names::MappedNames;
use super::name_service::Question;
use super::share_properties::is_available;
use super::share_users::{admits, substitutions_of};
use super::{domain_sid, homes, unix};

/// The shares of a configuration, as clients list them.
#[derive(Debug)]
pub(super) struct ConfiguredShares {
    config: Arc<Config>,
    names: MappedNames,
    server: ServerEntry,
    domain_sid: Sid,
}

/// SV_TYPE_WORKSTATION, _SERVER, _SERVER_UNIX and _NT: [MS-SRVS] 2.2.2.7.
const SERVER_TYPE: u32 = 0x0000_0001 | 0x0000_0002 | 0x0000_0800 | 0x0000_1000;

/// "Any number", as SHARE_INFO tells it: [MS-SRVS] 2.2.4.23.
const USERS_UNLIMITED: u32 = u32::MAX;

impl ConfiguredShares {
    /// The shares of `config`, and the SID that lies in the `state` directory.
    pub(super) fn new(config: &Arc<Config>, state: &Path) -> Self {
        let server = ServerEntry {
            name: netbios_name(config),
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
        let names = MappedNames::of(config);
        Self { config: Arc::clone(config), names, server, domain_sid }
    }

    fn find(&self, caller: &Caller, name: &str) -> Option<config::Share> {
        let user = (!caller.is_guest).then_some(caller.user.as_str());
        homes::find_share(&self.config, &self.names, name, user).filter(is_available)
    }

    /// The caller's own home, if `[homes]` defines it. `[global]` decides whether it is listed, as
    /// in Samba, so that `browseable = no` in `[homes]` hides only the entry `homes`.
    fn home(&self, caller: &Caller) -> Option<config::Share> {
        let home = self.find(caller, homes::OWN)?;
        let Config { defaults, .. } = &*self.config;
        let is_made = self.config.share(&home.name).is_none();
        let config::Share { browseable, access_based_share_enum, .. } = *defaults;
        (is_made && self.is_shown(browseable, access_based_share_enum, &home, caller))
            .then_some(home)
    }

    /// Whether a share is listed: some show themselves only to users who may connect.
    fn is_shown(
        &self,
        browseable: bool,
        choosy: bool,
        share: &config::Share,
        caller: &Caller,
    ) -> bool {
        browseable && (!choosy || admits(&self.config, share, caller))
    }

    fn entry(&self, share: &config::Share, caller: &Caller) -> ShareEntry {
        ShareEntry {
            name: share.name.clone(),
            kind: ShareEntry::DISK,
            comment: Substitutions {
                requested_user: caller.requested_user.clone(),
                ..substitutions_of(&self.config, &caller.user, &caller.domain, share)
            }
            .expand(&share.comment),
            // Windows paths have a drive; what the server calls the folder is nobody's business.
            path: format!("C:\\{}", share.name),
            max_users: match share.max_connections {
                0 => USERS_UNLIMITED,
                max => max,
            },
            current_users: 0,
            hidden: share.name.ends_with('$'),
        }
    }

    fn pipes(&self) -> ShareEntry {
        ShareEntry {
            name: "IPC$".to_owned(),
            kind: ShareEntry::IPC,
            comment: format!("IPC Service ({})", self.server.comment),
            path: "C:\\IPC$".to_owned(),
            max_users: USERS_UNLIMITED,
            current_users: 1,
            hidden: true,
        }
    }
}

impl Catalogue for ConfiguredShares {
    fn shares(&self, caller: &Caller) -> Vec<ShareEntry> {
        let configured = self.config.shares.iter().filter(|share| is_available(share));
        let pattern = self.config.homes.iter().filter(|homes| homes.available);
        let shown = configured.chain(pattern).filter(|share| {
            self.is_shown(share.browseable, share.access_based_share_enum, share, caller)
        });
        let mut shares: Vec<_> = shown.map(|share| self.entry(share, caller)).collect();
        shares.push(self.pipes());
        shares.extend(self.home(caller).map(|home| self.entry(&home, caller)));
        shares
    }

    /// As in Samba, a guest is nobody whom `restrict anonymous` would let ask.
    fn admits(&self, caller: &Caller) -> bool {
        !caller.is_guest || self.config.global.restrict_anonymous == 0
    }

    fn share(&self, caller: &Caller, name: &str) -> Option<ShareEntry> {
        if name.eq_ignore_ascii_case("IPC$") {
            return Some(self.pipes());
        }
        self.find(caller, name).map(|share| self.entry(&share, caller))
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
