//! Tables of the server that a worker changes: the registry and the open files.

use std::os::fd::BorrowedFd;

use anyhow::Context;
use dtyp::ServerId;
use settings::Settings;
use shares::server_settings::has_continuously_available_shares;
use tables::{FileTable, Registry};

/// Open tables of a worker. Persistent opens are among them only if a share permits such opens.
#[derive(Debug)]
pub struct Tables {
    pub(super) registry: Registry,
    pub(super) files: FileTable,
}

impl Tables {
    /// Takes over the supervisor's tables after a fork.
    ///
    /// # Errors
    /// They cannot be taken over.
    pub fn inherit(
        registry: Registry,
        files: FileTable,
        server_id: ServerId,
        keeps_persistent: bool,
    ) -> anyhow::Result<Self> {
        let files = files.inherit(keeps_persistent).context(FILES)?;
        Ok(Self { registry: registry.inherit(server_id).context(REGISTRY)?, files })
    }

    /// Opens the tables of the running server.
    ///
    /// # Errors
    /// They cannot be opened.
    pub(super) fn join(settings: &Settings, server_id: ServerId) -> anyhow::Result<Self> {
        let (lock, state) = (&settings.directories.lock, &settings.directories.state);
        let registry = Registry::join_as(lock, server_id).context(REGISTRY)?;
        let keeps_persistent = has_continuously_available_shares(&settings.config);
        let files = FileTable::join(lock, keeps_persistent.then_some(state)).context(FILES)?;
        Ok(Self { registry, files })
    }

    /// Returns the descriptors of the open tables.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.registry.descriptors().into_iter().chain(self.files.descriptors())
    }
}

const REGISTRY: &str = "cannot join the server's tables";
const FILES: &str = "cannot join the table of files";
