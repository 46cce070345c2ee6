//! The users of the server, kept between questions of clients.

use std::sync::{Mutex, MutexGuard, PoisonError};

use dtyp::Sid;
use tracing::{debug, warn};
use users::{KnownUser, KnownUsers, UserSource, UsersError};

use super::usershares;

/// The users that `logond` has published. They are read when somebody asks for one first, and again
/// only when the file has changed: one request may ask for thousands of users, and so looks at the
/// file once.
#[derive(Debug)]
pub(super) struct KeptUsers {
    source: UserSource,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// `None` also if the file could not be read when it was looked at last.
    users: Option<KnownUsers>,
    call: Call,
    is_failing: bool,
    /// Number of times that the file was looked at, and read.
    looks: u64,
    reads: u64,
}

/// State of the request that questions belong to.
#[derive(Debug, Default, Eq, PartialEq)]
enum Call {
    /// Each question is a request of its own.
    #[default]
    None,
    /// Its first question is still to come.
    Begun,
    /// The users are those that its first question has found.
    Looked,
}

impl KeptUsers {
    pub(super) fn new(source: UserSource) -> Self {
        Self { source, kept: Mutex::default() }
    }

    /// Begins a request: until [`Self::end_call`] the file is looked at once, if at all.
    pub(super) fn begin_call(&self) {
        self.kept().call = Call::Begun;
    }

    /// Ends the request of [`Self::begin_call`].
    pub(super) fn end_call(&self) {
        self.kept().call = Call::None;
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

    /// Asks the users in the file as it is now, or as it was at the first question of the request.
    fn with<T>(&self, ask: impl FnOnce(&KnownUsers) -> T) -> Option<T> {
        let mut kept = self.kept();
        if kept.call != Call::Looked {
            kept.look(&self.source);
        }
        kept.users.as_ref().map(ask)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Brings the users as of now, which only the server may read. That takes a thread.
    fn look(&mut self, source: &UserSource) {
        self.looks += 1;
        if self.call == Call::Begun {
            self.call = Call::Looked;
        }
        let known = self.users.take();
        let before = known.as_ref().map(KnownUsers::fingerprint);
        let looked = usershares::with_server_rights(|| -> Result<_, UsersError> {
            let mut users = known.map_or_else(|| KnownUsers::open(source.clone()), Ok)?;
            users.refresh()?;
            Ok(users)
        });
        match looked {
            Some(Ok(users)) => {
                if before != Some(users.fingerprint()) {
                    self.reads += 1;
                    debug!("the users were read, {} times so far", self.reads);
                }
                self.users = Some(users);
                self.is_failing = false;
            }
            // Guests cause it at will.
            Some(Err(error)) if self.is_failing => debug!("cannot list users: {error}"),
            Some(Err(error)) => {
                warn!("cannot list users: {error}");
                self.is_failing = true;
            }
            None => debug!("cannot list users without a thread of the server"),
        }
    }
}

#[cfg(test)]
impl KeptUsers {
    pub(super) fn reads(&self) -> u64 {
        self.kept().reads
    }

    pub(super) fn looks(&self) -> u64 {
        self.kept().looks
    }
}
