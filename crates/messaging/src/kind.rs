//! Kinds of messages between processes.

use std::fmt;

/// Kind of a message, which gives the form of its data.
///
/// Not an enum: a kind known only to a newer process must pass through an older one unharmed.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct MessageKind(pub u16);

macro_rules! kinds {
    ($($(#[$doc:meta])* $value:literal $name:ident,)*) => {
        impl MessageKind {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// Name of the kind; `None` for an unknown one.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

// A number is never used again. A change of the form of a kind's data is a new kind.
kinds! {
    /// Asks for a sign of life. Answered by `PONG` with the same data.
    1 PING,
    /// Answer to `PING`, with the same data.
    2 PONG,
    /// Finish pending work and exit. No data.
    3 SHUTDOWN,
    /// Read the configuration again. No data.
    4 RELOAD_CONFIG,
    /// Close a session whose client has set up another: [`crate::ClosePreviousSession`].
    5 CLOSE_PREVIOUS_SESSION,
    /// The session is closed, or never was: [`crate::PreviousSessionClosed`].
    6 PREVIOUS_SESSION_CLOSED,
    /// Disconnect all from a share: [`crate::CloseShare`].
    7 CLOSE_SHARE,
    /// Set the detail of the log: [`crate::LogLevel`].
    8 LOG_LEVEL,
    /// Write a line into the log: [`crate::Announcement`].
    9 ANNOUNCE,
    /// Result of a `RELOAD_CONFIG`, `CLOSE_SHARE`, `LOG_LEVEL` or `ANNOUNCE`: [`crate::Done`].
    10 DONE,
    /// To the supervisor: list the processes. No data.
    11 LIST_PROCESSES,
    /// Answer to `LIST_PROCESSES`, from the supervisor: [`crate::Processes`].
    12 PROCESSES,
    /// Report the counters of messages. No data.
    13 COUNT_MESSAGES,
    /// Answer to `COUNT_MESSAGES`, from any process: [`crate::Statistics`].
    14 STATISTICS,
    /// To a worker: list the channels of your client. No data.
    15 LIST_CHANNELS,
    /// Answer to `LIST_CHANNELS`, from a worker: [`crate::Channels`].
    16 CHANNELS,
    /// From a worker to `notifyd`: begin to watch a directory: [`crate::Watch`].
    32 WATCH,
    /// From a worker to `notifyd`: end the watch of a directory: [`crate::Unwatch`].
    33 UNWATCH,
    /// From a worker to `notifyd`: changes by its client: [`crate::Changes`].
    34 CHANGED,
    /// From `notifyd` to a worker: changes by others in directories that its client watches:
    /// [`crate::Changes`].
    35 NOTIFY,
    /// Read the record of a file again: it changed, and your pending requests or caching depend on
    /// it. [`crate::FileChanged`].
    20 FILE_CHANGED,
    /// To a worker: your client's requests may use the storage. No data.
    21 TURN,
    /// To a worker: close a session, at an administrator's request: [`crate::CloseSession`].
    22 CLOSE_SESSION,
    /// Serve a connection of a client of yours: [`crate::OfferConnection`] and its socket.
    40 OFFER_CONNECTION,
    /// Answer to `OFFER_CONNECTION`, yes or no: [`crate::AnswerOffer`].
    41 ANSWER_OFFER,
    /// Final owner of an offered connection: [`crate::SettleOffer`].
    42 SETTLE_OFFER,
    /// From a worker to `logond`: check a proof: [`crate::LogonQuestion`].
    50 CHECK_LOGON,
    /// Answer to `CHECK_LOGON`, from `logond`: [`crate::LogonAnswer`].
    51 LOGON_CHECKED,
    /// From a worker to `logond`: look up names of the domain: [`crate::NamesQuestion`].
    52 FIND_NAMES,
    /// Answer to `FIND_NAMES`, from `logond`: [`crate::NamesAnswer`].
    53 NAMES_FOUND,
    /// From a worker to `auditd`: lines of audits: [`crate::AuditEntries`].
    60 AUDIT,
    /// Look for a session by its id: [`crate::FindSession`].
    43 FIND_SESSION,
    /// Answer to `FIND_SESSION`, from each worker: [`crate::SessionFound`].
    44 SESSION_FOUND,
}

impl MessageKind {
    /// True if the data hold keys or proofs of users, which are erased after use.
    #[must_use]
    pub fn is_secret(self) -> bool {
        matches!(self, Self::CHECK_LOGON | Self::LOGON_CHECKED | Self::SESSION_FOUND)
    }
}

impl fmt::Debug for MessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "MESSAGE_{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MessageKind;

    #[test]
    fn known_kinds_have_names_and_unknown_ones_numbers() {
        assert_eq!(format!("{:?}", MessageKind::CLOSE_SHARE), "CLOSE_SHARE");
        assert_eq!(format!("{:?}", MessageKind(999)), "MESSAGE_999");
        assert_eq!(MessageKind(999).name(), None);
    }
}
