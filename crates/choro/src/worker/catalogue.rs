//! What srvsvc and wkssvc tell of this server.

use std::sync::Arc;

use config::{Config, Substitutions};
use dtyp::FileTime;
use rpc::{Catalogue, ServerEntry, ShareEntry, Viewer};

use super::event_loop::wall_clock;
use super::server_settings::netbios_name;
use super::shares;

/// The shares of a configuration, as clients list them.
#[derive(Debug)]
pub(super) struct ConfiguredShares {
    shares: Vec<ShareEntry>,
    server: ServerEntry,
    /// Those that show themselves only to users who may connect: `access based share enum`.
    choosy: Vec<config::Share>,
}

/// SV_TYPE_WORKSTATION, _SERVER, _SERVER_UNIX and _NT: [MS-SRVS] 2.2.2.7.
const SERVER_TYPE: u32 = 0x0000_0001 | 0x0000_0002 | 0x0000_0800 | 0x0000_1000;

/// "Any number", as SHARE_INFO tells it: [MS-SRVS] 2.2.4.23.
const USERS_UNLIMITED: u32 = u32::MAX;

impl ConfiguredShares {
    /// The shares that may be shown.
    pub(super) fn new(config: &Config) -> Self {
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
        Self { shares, server, choosy: choosy.cloned().collect() }
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
        Some(Arc::new(Self { shares, server: self.server.clone(), choosy: Vec::new() }))
    }

    fn server(&self) -> ServerEntry {
        self.server.clone()
    }

    fn now(&self) -> FileTime {
        wall_clock()
    }
}
