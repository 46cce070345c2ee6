//! How far a client has come with logging on over a connection, and by when it must have come further.
//!
//! A connection costs the server memory and, mostly, a process. So one that no user stands behind is
//! kept for a short time only: a client that says nothing, one whose logons fail, and a guest who uses
//! no share. [MS-SMB2] 3.3.2.3 leaves the times open.

use std::time::Duration;

/// Time until the first SESSION_SETUP. A client sends it as soon as it has the answer to NEGOTIATE and a
/// ticket or a password.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Time until a session is set up, both counted from the connection's first moment.
const USER_TIMEOUT: Duration = Duration::from_secs(45);

/// Time that guests and anonymous users may be without a tree connect to a share with files. IPC$ does
/// not count: everybody may connect to it, and what is asked there takes seconds.
const GUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Who has logged on, the least first.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Logon {
    /// Nobody, or not yet.
    #[default]
    Nobody,
    /// A guest, or an anonymous user.
    Guest,
    /// A user, who has proven it.
    User,
}

/// How far the client of one connection has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    connected_at: Duration,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// No SESSION_SETUP has come.
    Silent,
    /// At least one has come.
    LoggingOn,
    /// Looked at every [`GUEST_TIMEOUT`].
    Guest { look_at: Duration, had_files: bool },
    /// For as long as the connection lasts, also if the user logs off: who could log on once can do it
    /// again.
    User,
}

impl Progress {
    /// A client that has just connected.
    #[must_use]
    pub fn new(now: Duration) -> Self {
        Self { connected_at: now, stage: Stage::Silent }
    }

    /// A SESSION_SETUP has come.
    pub fn token_came(&mut self) {
        if matches!(self.stage, Stage::Silent) {
            self.stage = Stage::LoggingOn;
        }
    }

    /// A session was set up, or bound.
    pub fn logged_on(&mut self, now: Duration, is_user: bool) {
        match self.stage {
            _ if is_user => self.stage = Stage::User,
            Stage::Silent | Stage::LoggingOn => {
                self.stage = Stage::Guest { look_at: now + GUEST_TIMEOUT, had_files: false };
            }
            Stage::Guest { .. } | Stage::User => {}
        }
    }

    /// A share with files was connected.
    pub fn files_connected(&mut self) {
        if let Stage::Guest { had_files, .. } = &mut self.stage {
            *had_files = true;
        }
    }

    /// Who has logged on.
    #[must_use]
    pub fn logon(&self) -> Logon {
        match self.stage {
            Stage::Silent | Stage::LoggingOn => Logon::Nobody,
            Stage::Guest { .. } => Logon::Guest,
            Stage::User => Logon::User,
        }
    }

    /// When [`Progress::may_stay`] is to be asked.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        match self.stage {
            Stage::Silent => Some(self.connected_at + TOKEN_TIMEOUT),
            Stage::LoggingOn => Some(self.connected_at + USER_TIMEOUT),
            Stage::Guest { look_at, .. } => Some(look_at),
            Stage::User => None,
        }
    }

    /// Whether the client may stay. A guest may who has a tree connect to files, or had one since the
    /// last look.
    pub fn may_stay(&mut self, now: Duration, has_files: bool) -> bool {
        if let Stage::Guest { look_at, had_files } = &mut self.stage
            && *look_at <= now
            && (has_files || *had_files)
        {
            *look_at = now + GUEST_TIMEOUT;
            *had_files = false;
        }
        self.deadline().is_none_or(|deadline| now < deadline)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Logon, Progress};

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn tokens_do_not_move_the_deadline_of_the_logon() {
        let mut progress = Progress::new(at(5));
        assert_eq!(progress.deadline(), Some(at(15)));
        progress.token_came();
        progress.token_came();
        assert_eq!((progress.deadline(), progress.logon()), (Some(at(50)), Logon::Nobody));
        assert!(progress.may_stay(at(49), false));
        assert!(!progress.may_stay(at(50), true));
    }

    #[test]
    fn further_logons_of_guests_do_not_move_their_deadline() {
        let mut progress = Progress::new(at(0));
        progress.token_came();
        progress.logged_on(at(1), false);
        progress.logged_on(at(50), false);
        assert_eq!((progress.deadline(), progress.logon()), (Some(at(61)), Logon::Guest));
        assert!(!progress.may_stay(at(61), false));
    }

    #[test]
    fn a_guest_is_given_a_minute_after_each_look_that_finds_files() {
        let mut progress = Progress::new(at(0));
        progress.logged_on(at(0), false);
        progress.files_connected();
        assert!(progress.may_stay(at(60), false), "they were connected since the last look");
        assert!(progress.may_stay(at(120), true));
        assert!(!progress.may_stay(at(180), false));
    }

    #[test]
    fn a_user_has_no_deadline_and_no_guest_takes_that_back() {
        let mut progress = Progress::new(at(0));
        progress.logged_on(at(1), true);
        progress.logged_on(at(2), false);
        assert_eq!((progress.deadline(), progress.logon()), (None, Logon::User));
        assert!(progress.may_stay(at(100_000), false));
    }
}
