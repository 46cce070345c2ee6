//! One datagram: a fragment of a frame.
//!
//! Version (2 bytes), number of descriptors of the frame (2), bytes of the frame (4), where in it
//! this fragment begins (4), sender (12), receiver (12), number of the message (8); then the
//! fragment. All little-endian. Fragments of one sender come in order and not mixed.

use dtyp::ServerId;

/// Bytes before the fragment.
pub(super) const HEADER_BYTES: usize = 44;

/// Bytes of a fragment.
///
/// A datagram is one allocation in the kernel and counts against the sender's socket buffer until
/// it is read, so it should be well below that (208 KiB by default).
pub(super) const FRAGMENT_BYTES_MAX: usize = 32 * 1024;

/// The version of the form.
///
/// 1: the first.
pub(super) const VERSION: u16 = 1;

/// The header of a datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Header {
    /// Descriptors that come with the first fragment of the frame.
    pub(super) descriptors: u16,
    /// Bytes of the whole frame.
    pub(super) total: u32,
    /// Where in the frame the fragment begins.
    pub(super) offset: u32,
    pub(super) sender: ServerId,
    pub(super) receiver: ServerId,
    /// Unique in the sender.
    pub(super) message_id: u64,
}

/// What is wrong with a datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum DatagramError {
    /// Its lengths contradict each other.
    Length,
    /// It is of a version that is not known.
    Version,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..2].copy_from_slice(&VERSION.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.descriptors.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.total.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.offset.to_le_bytes());
        bytes[12..24].copy_from_slice(&self.sender.to_bytes());
        bytes[24..36].copy_from_slice(&self.receiver.to_bytes());
        bytes[36..44].copy_from_slice(&self.message_id.to_le_bytes());
        bytes
    }

    /// Splits a datagram into header and fragment, which lies inside the frame.
    pub(super) fn decode(datagram: &[u8]) -> Result<(Self, &[u8]), DatagramError> {
        let (header, fragment) =
            datagram.split_first_chunk::<HEADER_BYTES>().ok_or(DatagramError::Length)?;
        let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let u32_at = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        if u16_at(0) != VERSION {
            return Err(DatagramError::Version);
        }
        let (_, ids) = header.split_at(12);
        let (sender, ids) = ids.split_first_chunk().ok_or(DatagramError::Length)?;
        let (receiver, message_id) = ids.split_first_chunk().ok_or(DatagramError::Length)?;
        let message_id = message_id.first_chunk().ok_or(DatagramError::Length)?;
        let header = Self {
            descriptors: u16_at(2),
            total: u32_at(4),
            offset: u32_at(8),
            sender: ServerId::from_bytes(sender),
            receiver: ServerId::from_bytes(receiver),
            message_id: u64::from_le_bytes(*message_id),
        };
        let end = u64::from(header.offset) + fragment.len() as u64;
        // Only a frame of no bytes has a fragment of none.
        let hollow = fragment.is_empty() && header.total != 0;
        match end <= u64::from(header.total) && !hollow {
            true => Ok((header, fragment)),
            false => Err(DatagramError::Length),
        }
    }
}

#[cfg(test)]
mod tests {
    use dtyp::ServerId;

    use super::{DatagramError, HEADER_BYTES, Header};

    const HEADER: Header = Header {
        descriptors: 2,
        total: 5,
        offset: 3,
        sender: ServerId { pid: 11, unique_id: 12 },
        receiver: ServerId { pid: 13, unique_id: 14 },
        message_id: 15,
    };

    fn datagram(header: Header, fragment: &[u8]) -> Vec<u8> {
        [&header.encode()[..], fragment].concat()
    }

    #[test]
    fn datagrams_round_trip() {
        let bytes = datagram(HEADER, b"lo");
        assert_eq!(Header::decode(&bytes), Ok((HEADER, &b"lo"[..])));
        let empty = Header { total: 0, offset: 0, ..HEADER };
        assert_eq!(Header::decode(&datagram(empty, b"")), Ok((empty, &b""[..])));
    }

    #[test]
    fn a_fragment_outside_its_frame_is_refused() {
        let check = |header, fragment: &[u8]| Header::decode(&datagram(header, fragment)).err();
        assert_eq!(check(HEADER, b"lo!"), Some(DatagramError::Length));
        assert_eq!(check(HEADER, b""), Some(DatagramError::Length));
        let wrapping = Header { offset: u32::MAX, total: u32::MAX, ..HEADER };
        assert_eq!(check(wrapping, b"x"), Some(DatagramError::Length));
    }

    #[test]
    fn a_datagram_that_is_cut_is_refused() {
        let bytes = datagram(HEADER, b"");
        for len in 0..HEADER_BYTES {
            assert_eq!(Header::decode(&bytes[..len]).err(), Some(DatagramError::Length));
        }
    }

    #[test]
    fn another_version_is_refused() {
        let mut bytes = datagram(HEADER, b"lo");
        bytes[0] = 9;
        assert_eq!(Header::decode(&bytes).err(), Some(DatagramError::Version));
    }
}
