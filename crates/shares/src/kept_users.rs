//! The user database, kept between questions of clients.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use dtyp::Sid;
use tracing::{debug, warn};
use users::{UserDatabase, UserEntry, UsersError};

use super::usershares;

/// The database of a configuration. It is read when somebody asks for it first, and again only when
/// the file has changed: one request may ask for thousands of users.
#[derive(Debug)]
pub(super) struct KeptUsers {
    path: PathBuf,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    database: Option<UserDatabase>,
    /// Number of times that the file was read.
    reads: u64,
}

impl KeptUsers {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, kept: Mutex::default() }
    }

    /// Returns the user with this name, in any case of letters.
    pub(super) fn find(&self, name: &str) -> Option<UserEntry> {
        self.with(|database| database.find(name))?
    }

    /// Returns the user to whom Samba gave this SID.
    pub(super) fn find_by_samba_sid(&self, sid: &Sid) -> Option<UserEntry> {
        self.with(|database| database.find_by_samba_sid(sid))?
    }

    /// Returns the first `max` users; `None` if the database cannot be read.
    pub(super) fn first(&self, max: usize) -> Option<Vec<UserEntry>> {
        self.with(|database| {
            database.refresh()?;
            Ok(database.users().iter().take(max).cloned().collect())
        })
    }

    /// Asks the database, which only the server may read. One that cannot be read is not kept.
    fn with<T: Send>(
        &self,
        ask: impl FnOnce(&mut UserDatabase) -> Result<T, UsersError> + Send,
    ) -> Option<T> {
        let asked = usershares::with_server_rights(|| -> Result<T, UsersError> {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let known = kept.database.take();
            let before = known.as_ref().map(UserDatabase::fingerprint);
            let mut database = known.map_or_else(|| UserDatabase::open(&self.path), Ok)?;
            let answer = ask(&mut database)?;
            if before != Some(database.fingerprint()) {
                kept.reads += 1;
                debug!("the user database was read, {} times so far", kept.reads);
            }
            kept.database = Some(database);
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
