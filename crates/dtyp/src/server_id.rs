//! Identity of a process of a server.

use std::fmt;

/// Identifies a process of the server in messages and in the global tables: Samba's `server_id`.
/// Mostly that process is a worker.
///
/// A pid alone does not: the kernel reuses it. `unique_id` is drawn at random when the process
/// starts, so that records of a dead process are never taken for its successor's.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ServerId {
    /// Process id of the kernel.
    pub pid: u32,
    /// Random number, drawn once for the life of the process.
    pub unique_id: u64,
}

impl ServerId {
    /// Length of the encoded form in bytes.
    pub const ENCODED_LEN: usize = 12;

    /// Encodes pid and unique id, both little-endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::ENCODED_LEN] {
        let mut bytes = [0; Self::ENCODED_LEN];
        bytes[..4].copy_from_slice(&self.pid.to_le_bytes());
        bytes[4..].copy_from_slice(&self.unique_id.to_le_bytes());
        bytes
    }

    /// Decodes the result of [`ServerId::to_bytes`].
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::ENCODED_LEN]) -> Self {
        let &[p0, p1, p2, p3, ref unique_id @ ..] = bytes;
        Self {
            pid: u32::from_le_bytes([p0, p1, p2, p3]),
            unique_id: u64::from_le_bytes(*unique_id),
        }
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:016x}", self.pid, self.unique_id)
    }
}

#[cfg(test)]
mod tests {
    use super::ServerId;

    #[test]
    fn encoded_form_round_trips() {
        let id = ServerId { pid: 0x0102_0304, unique_id: 0x1112_1314_1516_1718 };
        let bytes = id.to_bytes();
        assert_eq!(bytes[..5], [4, 3, 2, 1, 0x18]);
        assert_eq!(ServerId::from_bytes(&bytes), id);
        assert_eq!(id.to_string(), "16909060/1112131415161718");
    }
}
