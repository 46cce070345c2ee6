//! The users of the server, kept between questions of clients.

use std::sync::{Mutex, PoisonError};

use dtyp::Sid;
use tracing::{debug, warn};
use users::{KnownUser, KnownUsers, UserSource, UsersError};

use super::usershares;

/// The users that `logond` has published. They are read when somebody asks for one first, and again
/// only when the file has changed: one request may ask for thousands of users.
#[derive(Debug)]
pub(super) struct KeptUsers {
    source: UserSource,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    users: Option<KnownUsers>,
    /// Number of times that the file was read.
    reads: u64,
}

impl KeptUsers {
    pub(super) fn new(source: UserSource) -> Self {
        Self { source, kept: Mutex::default() }
    }

    /// Returns the user with this name, in any case of letters.
    pub(super) fn find(&self, name: &str) -> Option<KnownUser> {
        self.with(|users| users.find(name).cloned())?
    }

    /// Returns the user to whom Samba gave this SID.
    pub(super) fn find_by_samba_sid(&self, sid: &Sid) -> Option<KnownUser> {
        self.with(|users| users.find_by_samba_sid(sid).cloned())?
    }

    /// Returns the first `max` users; `None` if they cannot be read.
    pub(super) fn first(&self, max: usize) -> Option<Vec<KnownUser>> {
        self.with(|users| users.users().iter().take(max).cloned().collect())
    }

    /// Asks the users in the file as it is now, which only the server may read. Users that cannot
    /// be read are not kept.
    fn with<T: Send>(&self, ask: impl FnOnce(&KnownUsers) -> T + Send) -> Option<T> {
        let asked = usershares::with_server_rights(|| -> Result<T, UsersError> {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let known = kept.users.take();
            let before = known.as_ref().map(KnownUsers::fingerprint);
            let mut users = known.map_or_else(|| KnownUsers::open(self.source.clone()), Ok)?;
            users.refresh()?;
            if before != Some(users.fingerprint()) {
                kept.reads += 1;
                debug!("the users were read, {} times so far", kept.reads);
            }
            let answer = ask(&users);
            kept.users = Some(users);
            Ok(answer)
        })?;
        asked.inspect_err(|error| warn!("cannot list users: {error}")).ok()
    }
}

#[cfg(test)]
impl KeptUsers {
    pub(super) fn reads(&self) -> u64 {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).reads
    }
}
