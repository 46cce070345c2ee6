//! A worker's slot in the page of logons.

use std::path::Path;

use anyhow::Context;
use tables::LogonPage;

/// This worker's slot in the page that the supervisor reads when a client connects.
#[derive(Debug)]
pub struct LogonSlot {
    /// The page that all workers share.
    pub page: LogonPage,
    /// Index of this worker's slot.
    pub slot: usize,
}

impl LogonSlot {
    /// Opens the slot of a worker that was exec'ed.
    ///
    /// # Errors
    /// The page cannot be opened.
    pub(crate) fn join(lock_dir: &Path, slot: usize) -> anyhow::Result<Self> {
        let page = LogonPage::join(lock_dir).context("cannot join the page of logons")?;
        Ok(Self { page, slot })
    }

    /// Writes the highest logon of this worker's client.
    pub(super) fn report(&self, logon: proto::Logon) {
        let logon = match logon {
            proto::Logon::Nobody => tables::Logon::Nobody,
            proto::Logon::Guest => tables::Logon::Guest,
            proto::Logon::User => tables::Logon::User,
        };
        self.page.set(self.slot, logon);
    }
}
