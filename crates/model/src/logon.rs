//! Progress of a client's logon over one connection, and the deadline of its next step.
//!
//! A connection costs the server memory and, mostly, a process. So connections without a user end
//! soon: a client that says nothing, failed logons, a guest without a share. [MS-SMB2] 3.3.2.3
//! leaves the times open.

use std::time::Duration;

/// Time until the first SESSION_SETUP. A client sends it as soon as it has the response to
/// NEGOTIATE and a ticket or a password.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Time until a session is set up. Both times begin with the connection.
const USER_TIMEOUT: Duration = Duration::from_secs(45);

/// Time that guests and anonymous users may be without a tree connect to a share with files. IPC$
/// does not count: everybody may connect to it, and its requests take seconds.
const GUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The highest logon of a connection or a client, in ascending order.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Logon {
    /// No session is set up yet.
    #[default]
    Nobody,
    /// A guest or an anonymous user.
    Guest,
    /// A user whose proof was right.
    User,
}

/// Progress of the client of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    connected_at: Duration,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The client has sent no SESSION_SETUP.
    Silent,
    /// The client has sent a SESSION_SETUP.
    LoggingOn,
    /// Guests and anonymous users only; the server checks for their shares every [`GUEST_TIMEOUT`].
    Guest { check_at: Duration, had_files: bool },
    /// A user has logged on. A LOGOFF does not change that: the client has proven its user once.
    User,
}

impl Progress {
    /// Begins with a client that has just connected.
    #[must_use]
    pub fn new(now: Duration) -> Self {
        Self { connected_at: now, stage: Stage::Silent }
    }

    /// Records the arrival of a SESSION_SETUP.
    pub fn token_came(&mut self) {
        if matches!(self.stage, Stage::Silent) {
            self.stage = Stage::LoggingOn;
        }
    }

    /// Records a session that was set up or bound.
    pub fn logged_on(&mut self, now: Duration, is_user: bool) {
        match self.stage {
            _ if is_user => self.stage = Stage::User,
            Stage::Silent | Stage::LoggingOn => {
                self.stage = Stage::Guest { check_at: now + GUEST_TIMEOUT, had_files: false };
            }
            Stage::Guest { .. } | Stage::User => {}
        }
    }

    /// Records a tree connect to a share with files.
    pub fn files_connected(&mut self) {
        if let Stage::Guest { had_files, .. } = &mut self.stage {
            *had_files = true;
        }
    }

    /// Returns the highest logon so far.
    #[must_use]
    pub fn logon(&self) -> Logon {
        match self.stage {
            Stage::Silent | Stage::LoggingOn => Logon::Nobody,
            Stage::Guest { .. } => Logon::Guest,
            Stage::User => Logon::User,
        }
    }

    /// Returns the time of the next call of [`Progress::may_stay`].
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        match self.stage {
            Stage::Silent => Some(self.connected_at + TOKEN_TIMEOUT),
            Stage::LoggingOn => Some(self.connected_at + USER_TIMEOUT),
            Stage::Guest { check_at, .. } => Some(check_at),
            Stage::User => None,
        }
    }

    /// Returns whether the client may stay. A guest needs a tree connect to files, now or since the
    /// last call.
    pub fn may_stay(&mut self, now: Duration, has_files: bool) -> bool {
        if let Stage::Guest { check_at, had_files } = &mut self.stage
            && *check_at <= now
            && (has_files || *had_files)
        {
            *check_at = now + GUEST_TIMEOUT;
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
