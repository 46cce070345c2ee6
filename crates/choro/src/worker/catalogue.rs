//! What lsarpc, srvsvc and wkssvc tell of this server.

use std::path::Path;
use std::sync::Arc;

use config::{Config, Substitutions};
use dtyp::{FileTime, Sid};
use rpc::{Catalogue, Principal, PrincipalKind, ServerEntry, ShareEntry, Viewer};
use tracing::warn;

use super::clocks::wall_clock;
use super::server_settings::netbios_name;
use super::{shares, unix};
use crate::domain_sid;

/// The shares of a configuration, as clients list them.
#[derive(Debug)]
pub(super) struct ConfiguredShares {
    shares: Vec<ShareEntry>,
    server: ServerEntry,
    /// Those that show themselves only to users who may connect: `access based share enum`.
    choosy: Vec<config::Share>,
    domain_sid: Sid,
}

/// SV_TYPE_WORKSTATION, _SERVER, _SERVER_UNIX and _NT: [MS-SRVS] 2.2.2.7.
const SERVER_TYPE: u32 = 0x0000_0001 | 0x0000_0002 | 0x0000_0800 | 0x0000_1000;

/// "Any number", as SHARE_INFO tells it: [MS-SRVS] 2.2.4.23.
const USERS_UNLIMITED: u32 = u32::MAX;

impl ConfiguredShares {
    /// The shares that may be shown, and the SID that lies in the `state` directory.
    pub(super) fn new(config: &Config, state: &Path) -> Self {
        let substitutions = Substitutions::of_this_process();
        let mut shares: Vec<_> = config
            .shares
            .iter()
            .filter(|share| share.available && share.browseable && !share.path.is_empty())
            .map(|share| ShareEntry {
                name: share.name.clone(),
                kind: ShareEntry::DISK,
                comment: substitutions.expand(&share.comment),
                // Windows paths have a drive; what the server calls the folder is nobody's business.
                path: format!("C:\\{}", share.name),
                max_users: match share.max_connections {
                    0 => USERS_UNLIMITED,
                    max => max,
                },
                current_users: 0,
                hidden: share.name.ends_with('$'),
            })
            .collect();
        let description = substitutions.expand(&config.global.server_string);
        shares.push(ShareEntry {
            name: "IPC$".to_owned(),
            kind: ShareEntry::IPC,
            comment: format!("IPC Service ({description})"),
            path: "C:\\IPC$".to_owned(),
            max_users: USERS_UNLIMITED,
            current_users: 1,
            hidden: true,
        });
        let server = ServerEntry {
            name: netbios_name(config),
            domain: config.global.workgroup.clone(),
            comment: description,
            version_major: 6,
            version_minor: 1,
            server_type: SERVER_TYPE,
        };
        let choosy = config.shares.iter().filter(|share| share.access_based_share_enum);
        let domain_sid = domain_sid::read_or_make(state).unwrap_or_else(|error| {
            warn!("the server's domain has no SID of its own: {error:#}");
            domain_sid::nobody()
        });
        Self { shares, server, choosy: choosy.cloned().collect(), domain_sid }
    }
}

impl Catalogue for ConfiguredShares {
    fn shares(&self) -> Vec<ShareEntry> {
        self.shares.clone()
    }

    fn seen_by(&self, viewer: Viewer<'_>) -> Option<Arc<dyn Catalogue>> {
        if self.choosy.is_empty() {
            return None;
        }
        let admits = |name: &str| {
            let share = self.choosy.iter().find(|share| share.name == name);
            share.is_none_or(|share| shares::admits(share, viewer.user, viewer.groups))
        };
        let shares = self.shares.iter().filter(|share| admits(&share.name)).cloned().collect();
        let (server, domain_sid) = (self.server.clone(), self.domain_sid.clone());
        Some(Arc::new(Self { shares, server, choosy: Vec::new(), domain_sid }))
    }

    fn server(&self) -> ServerEntry {
        self.server.clone()
    }

    fn domain_sid(&self) -> Sid {
        self.domain_sid.clone()
    }

    /// The SID is that of [`Account`](proto::Account): whoever owns files of the system.
    fn find_user(&self, name: &str) -> Option<Principal> {
        let found = unix::find_user(name).ok().flatten();
        let found = found.or_else(|| unix::find_user(&name.to_lowercase()).ok().flatten())?;
        Some(unix_user(found.name, found.credentials.uid))
    }

    fn find_group(&self, name: &str) -> Option<Principal> {
        let find = |name: &str| Some((name.to_owned(), unix::find_group(name).ok()??));
        let (name, gid) = find(name).or_else(|| find(&name.to_lowercase()))?;
        Some(unix_group(name, gid))
    }

    fn find_sid(&self, sid: &Sid) -> Option<Principal> {
        match *sid.subauthorities() {
            [1, uid] if *sid == Sid::unix_user(uid) => Some(unix_user(unix::user_name(uid)?, uid)),
            [2, gid] if *sid == Sid::unix_group(gid) => {
                Some(unix_group(unix::group_name(gid)?, gid))
            }
            _ => None,
        }
    }

    fn now(&self) -> FileTime {
        wall_clock()
    }
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
