//! What messages are about.

use std::fmt;

/// What a message is about, and with that the form of its data.
///
/// Not an enum: a kind that only a newer process knows must pass through an older one unharmed.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct MessageKind(pub u16);

macro_rules! kinds {
    ($($(#[$doc:meta])* $value:literal $name:ident,)*) => {
        impl MessageKind {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// The name of the kind; `None` for one that is not known here.
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
    /// Is anyone there? Answered by `PONG` with the same data.
    1 PING,
    /// The answer to `PING`.
    2 PONG,
    /// Finish what is under way and exit. No data.
    3 SHUTDOWN,
    /// Read the configuration again. No data.
    4 RELOAD_CONFIG,
    /// Close a session whose client has set up another: [`crate::ClosePreviousSession`].
    5 CLOSE_PREVIOUS_SESSION,
    /// The session is closed, or never was: [`crate::PreviousSessionClosed`].
    6 PREVIOUS_SESSION_CLOSED,
    /// Disconnect all from a share: [`crate::CloseShare`].
    7 CLOSE_SHARE,
    /// Log more or less: [`crate::LogLevel`].
    8 LOG_LEVEL,
    /// Write a line into the log: [`crate::Announcement`].
    9 ANNOUNCE,
    /// What came of a `RELOAD_CONFIG`, `CLOSE_SHARE`, `LOG_LEVEL` or `ANNOUNCE`: [`crate::Done`].
    10 DONE,
    /// To the supervisor: which processes are there? No data.
    11 LIST_PROCESSES,
    /// The answer to `LIST_PROCESSES`: [`crate::Processes`].
    12 PROCESSES,
    /// What have your messages come to? No data.
    13 COUNT_MESSAGES,
    /// The answer to `COUNT_MESSAGES`: [`crate::Statistics`].
    14 STATISTICS,
    /// To a worker: which channels has your client? No data.
    15 LIST_CHANNELS,
    /// The answer to `LIST_CHANNELS`: [`crate::Channels`].
    16 CHANNELS,
    /// From a worker to `notifyd`: a directory is watched: [`crate::Watch`].
    32 WATCH,
    /// From a worker to `notifyd`: a directory is not watched any more: [`crate::Unwatch`].
    33 UNWATCH,
    /// From a worker to `notifyd`: what its client changed: [`crate::Changes`].
    34 CHANGED,
    /// From `notifyd` to a worker: what others changed where its client watches:
    /// [`crate::Changes`].
    35 NOTIFY,
    /// Look at the record of a file: it changed, and what you serve waits for that or loses
    /// something by it. [`crate::FileChanged`].
    20 FILE_CHANGED,
    /// To a worker: requests of your client may have their turn at the storage. No data.
    21 TURN,
    /// Serve a connection of a client of yours: [`crate::OfferConnection`] and its socket.
    40 OFFER_CONNECTION,
    /// Whether it would be served: [`crate::AnswerOffer`].
    41 ANSWER_OFFER,
    /// Whose the connection is: [`crate::SettleOffer`].
    42 SETTLE_OFFER,
    /// Is there a session? [`crate::FindSession`].
    43 FIND_SESSION,
    /// The answer to `FIND_SESSION`: [`crate::SessionFound`].
    44 SESSION_FOUND,
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
