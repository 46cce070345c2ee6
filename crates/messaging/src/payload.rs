//! Data of the message kinds that have a form of their own. Numbers are little-endian, texts UTF-8.

mod administration;
mod audit;
mod change_notify;
mod channels;
mod logons;
mod names;

pub use administration::{
    Announcement, CloseSession, Done, PROCESSES_MAX, Process, ProcessRole, Processes, Statistics,
};
pub use audit::{AuditEntries, AuditEntry};
pub use change_notify::{Changes, Unwatch, Watch};
pub use channels::{Channel, Channels, SingleChannel};
pub use logons::{
    AcceptedLogon, DomainAccount, GROUPS_MAX, LogonAnswer, LogonKey, LogonOwner, LogonProof,
    LogonQuestion, LogonVerdict, OwnUsers, USERS_PER_NAME_MAX,
};
pub use names::{FoundName, NAMES_MAX, NameToFind, NamesAnswer, NamesQuestion};

/// The data of [`crate::MessageKind::CLOSE_PREVIOUS_SESSION`]: [MS-SMB2] 3.3.5.5.3.
///
/// The receiver closes the session only if it belongs to the same user, and answers in any case.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClosePreviousSession {
    /// PreviousSessionId of the SESSION_SETUP request.
    pub session_id: u64,
    /// Identity of the user who has authenticated again.
    pub user: String,
}

impl ClosePreviousSession {
    /// Returns the data of the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut data = self.session_id.to_le_bytes().to_vec();
        data.extend_from_slice(self.user.as_bytes());
        data
    }

    /// Reads the data; `None` if malformed.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        let (session_id, user) = data.split_first_chunk()?;
        let user = std::str::from_utf8(user).ok().filter(|user| !user.is_empty())?.to_owned();
        Some(Self { session_id: u64::from_le_bytes(*session_id), user })
    }
}

/// The data of [`crate::MessageKind::PREVIOUS_SESSION_CLOSED`]: 8 bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PreviousSessionClosed {
    /// Session that was to be closed.
    pub session_id: u64,
}

impl PreviousSessionClosed {
    /// Returns the data of the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.session_id.to_le_bytes().to_vec()
    }

    /// Reads the data; `None` unless it is complete.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        let session_id = u64::from_le_bytes(data.try_into().ok()?);
        Some(Self { session_id })
    }
}

/// The data of [`crate::MessageKind::FILE_CHANGED`]: the file, by the key of its record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileChanged {
    /// Device number of the file system.
    pub device: u64,
    /// Inode number in that file system.
    pub inode: u64,
}

impl FileChanged {
    /// Returns the data of the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        [self.device.to_le_bytes(), self.inode.to_le_bytes()].concat()
    }

    /// Reads the data; `None` unless it is complete.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        let (device, inode) = data.split_first_chunk()?;
        let inode = inode.try_into().ok()?;
        Some(Self { device: u64::from_le_bytes(*device), inode: u64::from_le_bytes(inode) })
    }
}

/// The data of [`crate::MessageKind::CLOSE_SHARE`]: a name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CloseShare {
    /// Name of the share to close.
    pub share: String,
}

impl CloseShare {
    /// Returns the data of the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.share.as_bytes().to_vec()
    }

    /// Reads the data; `None` unless it is a name.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        text(data).map(|share| Self { share })
    }
}

/// The data of [`crate::MessageKind::LOG_LEVEL`]: a filter.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogLevel {
    /// The filter, in the form of the parameter `log level`.
    pub filter: String,
}

impl LogLevel {
    /// Returns the data of the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.filter.as_bytes().to_vec()
    }

    /// Reads the data; `None` unless it is a text.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        text(data).map(|filter| Self { filter })
    }
}

fn text(data: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(data).ok()?;
    (data.len() <= TEXT_BYTES_MAX).then(|| text.to_owned())
}

/// Appends a name with its length before it; a name above 255 bytes becomes empty.
fn push_name(data: &mut Vec<u8>, name: &str) {
    let len = u8::try_from(name.len());
    data.push(len.unwrap_or_default());
    if len.is_ok() {
        data.extend_from_slice(name.as_bytes());
    }
}

fn take_name(data: &mut &[u8]) -> Option<String> {
    let (&len, rest) = data.split_first()?;
    let (name, rest) = rest.split_at_checked(len.into())?;
    *data = rest;
    Some(std::str::from_utf8(name).ok()?.to_owned())
}

/// Highest number of bytes of a text.
const TEXT_BYTES_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::{
        ClosePreviousSession, CloseShare, LogLevel, PreviousSessionClosed, TEXT_BYTES_MAX,
    };

    #[test]
    fn close_previous_session_round_trips_and_names_somebody() {
        let payload = ClosePreviousSession { session_id: 7, user: "S-1-22-1-1000".to_owned() };
        let mut data = payload.encode();
        assert_eq!(ClosePreviousSession::decode(&data), Some(payload));
        for len in 0..=8 {
            assert_eq!(ClosePreviousSession::decode(&data[..len]), None);
        }
        data.push(0xFF);
        assert_eq!(ClosePreviousSession::decode(&data), None);
    }

    #[test]
    fn previous_session_closed_is_eight_bytes() {
        let payload = PreviousSessionClosed { session_id: 7 };
        assert_eq!(PreviousSessionClosed::decode(&payload.encode()), Some(payload));
        assert_eq!(PreviousSessionClosed::decode(&[0; 7]), None);
        assert_eq!(PreviousSessionClosed::decode(&[0; 9]), None);
    }

    #[test]
    fn texts_are_bounded_and_utf8() {
        let share = CloseShare { share: "Fotos für alle".to_owned() };
        assert_eq!(CloseShare::decode(&share.encode()), Some(share));
        let level = LogLevel { filter: "debug".to_owned() };
        assert_eq!(LogLevel::decode(&level.encode()), Some(level));
        assert_eq!(CloseShare::decode(&[0xff]), None);
        assert!(LogLevel::decode(&[b'x'; TEXT_BYTES_MAX]).is_some());
        assert_eq!(LogLevel::decode(&[b'x'; TEXT_BYTES_MAX + 1]), None);
    }
}
