//! Values that a worker has from the supervisor, of which it is a fork.
//!
//! All workers would open the same pages and compute the same values. The supervisor does so once,
//! and for each configuration: a twentieth of a short client's whole life.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use dtyp::{Guid, ServerId};
use interfaces::verify_platform;
use proto::ServerSettings;
use rustix::fs::{AtFlags, CWD, StatxFlags};
use settings::Settings;
use shares::server_settings::{has_continuously_available_shares, server_settings};
use tables::{FailedLogonPage, QosPage, WatchPage};

use super::own_names::OwnNames;
use super::path_rules::PathRules;
use super::server_guid;
use super::storage_threads::mounts::KeptMounts;
use super::tables::Tables;

/// Number of the rules that an exec'ed worker makes itself: newer than those of the supervisor, as
/// it has read the same configuration later.
const OF_NO_FORK: u64 = u64::MAX;

/// Everything that a forked worker has from the supervisor.
#[derive(Debug)]
pub struct Inherited {
    /// Tables that were taken over.
    pub tables: Tables,
    /// Pages that the supervisor has mapped.
    pub pages: Pages,
    /// Values computed from the supervisor's settings.
    pub prepared: Prepared,
    /// The list of mounts, as it was when the worker was forked.
    pub mounts: KeptMounts,
    /// Rules for the paths of workers.
    pub path_rules: PathRules,
}

impl Inherited {
    /// Opens and computes all of it, in a process that is no fork.
    ///
    /// # Errors
    /// The tables or pages cannot be opened.
    pub(super) fn join(settings: &Settings, server_id: ServerId) -> anyhow::Result<Self> {
        let tables = Tables::join(settings, server_id)?;
        let supervisor = tables.registry.supervisor();
        let prepared = Prepared::of(settings, supervisor.unique_id);
        let pages = Pages::join(&settings.directories.lock)?;
        let mut mounts = KeptMounts::default();
        let path_rules = PathRules::of(settings, &mut mounts, OF_NO_FORK);
        Ok(Self { tables, pages, prepared, mounts, path_rules })
    }
}

/// Pages that all processes of a server share.
#[derive(Debug)]
pub struct Pages {
    /// Limits and use of the classes of service.
    pub qos: QosPage,
    /// Counters of failed logons by address and user.
    pub failed_logons: FailedLogonPage,
    /// Number of watches of all workers.
    pub watches: WatchPage,
}

impl Pages {
    /// Opens the pages of the running server.
    ///
    /// # Errors
    /// They cannot be opened.
    pub(super) fn join(lock_dir: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            qos: QosPage::join(lock_dir).context("cannot open the page of classes")?,
            failed_logons: FailedLogonPage::open(lock_dir)
                .context("cannot open the page of logons")?,
            watches: WatchPage::open(lock_dir).context("cannot open the page of watches")?,
        })
    }
}

/// Values that follow from the configuration, the host and the server's identity.
#[derive(Debug)]
pub struct Prepared {
    pub(super) server_guid: Guid,
    pub(super) engine: Arc<ServerSettings>,
    pub(super) own_names: OwnNames,
    /// True if a share keeps persistent opens.
    pub keeps_persistent: bool,
}

impl Prepared {
    /// Computes them, for the server whose supervisor has this unique id, and prepares
    /// cryptography.
    pub fn of(settings: &Settings, supervisor_unique_id: u64) -> Self {
        crypto::prepare();
        // A reload may switch multichannel on, and a confined worker makes no socket for the test.
        let _ = verify_platform();
        // rustix notes at the first call that the kernel has `statx`. After a note before the fork,
        // no worker needs a copy of that page.
        let _ = rustix::fs::statx(CWD, c"", AtFlags::EMPTY_PATH, StatxFlags::empty());
        shares::unix::prepare();
        let server_guid = server_guid::of(supervisor_unique_id);
        let keeps_persistent = has_continuously_available_shares(&settings.config);
        Self {
            server_guid,
            engine: server_settings(settings, server_guid, keeps_persistent),
            own_names: OwnNames::of(&settings.config),
            keeps_persistent,
        }
    }
}
