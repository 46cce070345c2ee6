//! Where a worker says who has logged on.

use std::path::Path;

use anyhow::Context;
use tables::LogonPage;

/// This worker's place in the page that the supervisor looks at when a client comes.
#[derive(Debug)]
pub(crate) struct LogonSlot {
    /// The page.
    pub(crate) page: LogonPage,
    /// Which of its places.
    pub(crate) slot: usize,
}

impl LogonSlot {
    /// That of a worker that was exec'ed.
    ///
    /// # Errors
    /// The page cannot be opened.
    pub(crate) fn join(lock_dir: &Path, slot: usize) -> anyhow::Result<Self> {
        let page = LogonPage::join(lock_dir).context("cannot join the page of logons")?;
        Ok(Self { page, slot })
    }

    /// Tells who has logged on.
    pub(super) fn tell(&self, logon: proto::Logon) {
        let logon = match logon {
            proto::Logon::Nobody => tables::Logon::Nobody,
            proto::Logon::Guest => tables::Logon::Guest,
            proto::Logon::User => tables::Logon::User,
        };
        self.page.set(self.slot, logon);
    }
}
