//! Data of the messages from workers to `auditd`: the number of the first entry (8 bytes), then for
//! each entry its kind (1 byte), its length in bytes (4 bytes), and its text.

/// The data of [`crate::MessageKind::AUDIT`].
///
/// A worker counts its entries for an `auditd` from 0, and those that it had no room for as well.
/// So the receiver knows how many are lost before these.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuditEntries {
    /// Number of the first entry.
    pub first: u64,
    /// The entries, whose numbers follow each other.
    pub entries: Vec<AuditEntry>,
}

/// One line of an audit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AuditEntry {
    /// A JSON object, without a line break.
    Record(String),
    /// A packet for syslog, with its priority.
    Syslog(String),
}

impl AuditEntries {
    /// Highest number of entries of a message.
    pub const LEN_MAX: usize = 256;

    /// Returns the data of the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut data = self.first.to_le_bytes().to_vec();
        for entry in &self.entries {
            let (kind, text) = match entry {
                AuditEntry::Record(text) => (RECORD, text),
                AuditEntry::Syslog(text) => (SYSLOG, text),
            };
            data.push(kind);
            data.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
            data.extend_from_slice(text.as_bytes());
        }
        data
    }

    /// Reads the data; `None` if malformed.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        let (first, mut rest) = data.split_first_chunk()?;
        let mut entries = Vec::new();
        while !rest.is_empty() {
            let (&kind, after) = rest.split_first()?;
            let (len, after) = after.split_first_chunk()?;
            let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
            let (text, after) = after.split_at_checked(len)?;
            let text = std::str::from_utf8(text).ok()?;
            if entries.len() >= Self::LEN_MAX || text.len() > AuditEntry::BYTES_MAX {
                return None;
            }
            entries.push(match kind {
                RECORD => AuditEntry::Record(text.to_owned()),
                SYSLOG => AuditEntry::Syslog(text.to_owned()),
                _ => return None,
            });
            rest = after;
        }
        Some(Self { first: u64::from_le_bytes(*first), entries })
    }
}

impl AuditEntry {
    /// Highest length of an entry in bytes: two paths of 4,096 bytes whose characters are escaped,
    /// and names.
    pub const BYTES_MAX: usize = 65_536;

    /// Returns the text of either kind.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Record(text) | Self::Syslog(text) => text,
        }
    }
}

const RECORD: u8 = 0;
const SYSLOG: u8 = 1;

#[cfg(test)]
mod tests {
    use super::{AuditEntries, AuditEntry};

    #[test]
    fn entries_round_trip_and_no_part_of_a_message_is_one() {
        let entries = vec![
            AuditEntry::Record("{\"path\":\"ä\"}".to_owned()),
            AuditEntry::Syslog("<13>smbd_audit: x".to_owned()),
        ];
        let message = AuditEntries { first: 7, entries };
        let data = message.encode();
        assert_eq!(AuditEntries::decode(&data), Some(message.clone()));
        for len in (0..8).chain(9..data.len()) {
            let part = AuditEntries::decode(&data[..len]);
            assert!(part.is_none_or(|it| it.entries == message.entries[..1]), "{len}");
        }
        assert_eq!(AuditEntries::decode(&[&data[..], &[9, 0, 0, 0, 0]].concat()), None);
    }

    #[test]
    fn number_and_length_of_entries_are_bounded() {
        let with = |entries| AuditEntries::decode(&AuditEntries { first: 0, entries }.encode());
        let short = AuditEntry::Record("{}".to_owned());
        assert!(with(vec![short.clone(); AuditEntries::LEN_MAX]).is_some());
        assert_eq!(with(vec![short; AuditEntries::LEN_MAX + 1]), None);
        assert_eq!(with(vec![AuditEntry::Syslog("x".repeat(AuditEntry::BYTES_MAX + 1))]), None);
    }
}
