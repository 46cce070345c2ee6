//! Tree connects that wait for an answer about rules.

use std::path::PathBuf;

use proto::RequestId;

/// Highest number of them; the next one is refused at once.
const WAITING_MAX: usize = 16;

/// A tree connect to a directory without a rule.
#[derive(Debug)]
pub(crate) struct UnreachedShare {
    pub(crate) request: Option<RequestId>,
    pub(crate) name: String,
    /// Its path without symbolic links.
    pub(crate) path: PathBuf,
}

/// Those that wait, oldest first.
#[derive(Debug, Default)]
pub(crate) struct UnreachedShares(Vec<UnreachedShare>);

impl UnreachedShares {
    /// Keeps one until [`Self::take`].
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn keep(&mut self, share: UnreachedShare) -> Result<(), UnreachedShare> {
        if self.0.len() >= WAITING_MAX {
            return Err(share);
        }
        self.0.push(share);
        Ok(())
    }

    /// Returns all: one answer of the supervisor serves every tree connect before it.
    pub(super) fn take(&mut self) -> Vec<UnreachedShare> {
        std::mem::take(&mut self.0)
    }
}
