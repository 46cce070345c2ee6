//! A packet: the unit that one process sends to another.
//!
//! Version (2 bytes), number of descriptors that come with it (2), sender (12), receiver (12); then
//! entries. An entry is a frame or a part of one: the frame's length (4), the offset of this part
//! (4), number of the message (8), time of sending (8), and the bytes, as many of them as the
//! packet has. So a packet carries many small frames, or a part of a large one. All little-endian.
//! The packets of one sender arrive in order, and so do the parts of a frame.

use dtyp::ServerId;

/// Bytes of a packet before its entries.
pub(super) const HEADER_BYTES: usize = 28;

/// Bytes of an entry before those of its frame.
pub(super) const ENTRY_BYTES: usize = 24;

/// Bytes of a packet up to those of its first frame.
pub(super) const HEAD_BYTES: usize = HEADER_BYTES + ENTRY_BYTES;

/// Version of the packet's form.
///
/// 1: a frame or a part of one.
/// 2: several frames; their times of sending.
pub(super) const VERSION: u16 = 2;

/// Header of a packet, before its entries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Header {
    /// Number of descriptors with the packet, all of its first frame.
    pub(super) descriptors: u16,
    pub(super) sender: ServerId,
    pub(super) receiver: ServerId,
}

/// Header of an entry, before its bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Entry {
    /// Bytes of the whole frame.
    pub(super) total: u32,
    /// Offset of these bytes in the frame.
    pub(super) offset: u32,
    /// Number of the message, unique in the sender.
    pub(super) message_id: u64,
    /// Time of the send call, in nanoseconds of the machine's monotonic clock.
    pub(super) sent_at: u64,
}

/// Fault of a packet, counted by [`crate::Counters`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PacketError {
    /// Lengths in the packet contradict each other.
    Length,
    /// The packet has an unknown version.
    Version,
}

/// The entries of a packet. Ends after the first malformed one.
#[derive(Clone, Debug)]
pub(super) struct Entries<'a> {
    /// Header of the first entry, where it does not lie before its bytes in `rest`.
    first: Option<&'a [u8; ENTRY_BYTES]>,
    rest: &'a [u8],
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..2].copy_from_slice(&VERSION.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.descriptors.to_le_bytes());
        bytes[4..16].copy_from_slice(&self.sender.to_bytes());
        bytes[16..28].copy_from_slice(&self.receiver.to_bytes());
        bytes
    }

    /// Splits a packet into its header and its entries, at least one.
    pub(super) fn decode(packet: &[u8]) -> Result<(Self, Entries<'_>), PacketError> {
        let (&[v0, v1, d0, d1, ref ids @ ..], rest) =
            packet.split_first_chunk::<HEADER_BYTES>().ok_or(PacketError::Length)?;
        if u16::from_le_bytes([v0, v1]) != VERSION {
            return Err(PacketError::Version);
        }
        let (sender, receiver) = ids.split_first_chunk().ok_or(PacketError::Length)?;
        let receiver = receiver.first_chunk().ok_or(PacketError::Length)?;
        let header = Self {
            descriptors: u16::from_le_bytes([d0, d1]),
            sender: ServerId::from_bytes(sender),
            receiver: ServerId::from_bytes(receiver),
        };
        match rest.is_empty() {
            true => Err(PacketError::Length),
            false => Ok((header, Entries { first: None, rest })),
        }
    }

    /// Likewise, of a packet whose first [`HEAD_BYTES`] lie apart from the rest.
    #[cfg(any(feature = "messaging-dgram", feature = "messaging-tdb", test))]
    pub(super) fn decode_parts<'a>(
        head: &'a [u8; HEAD_BYTES],
        body: &'a [u8],
    ) -> Result<(Self, Entries<'a>), PacketError> {
        let (header, entries) = Self::decode(head)?;
        Ok((header, Entries { first: entries.rest.first_chunk(), rest: body }))
    }
}

impl Entry {
    pub(super) fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[0..4].copy_from_slice(&self.total.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.message_id.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sent_at.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let &[t0, t1, t2, t3, o0, o1, o2, o3, ref numbers @ ..] = bytes;
        let (&message_id, sent_at) = numbers.split_first_chunk().expect("sixteen bytes");
        Self {
            total: u32::from_le_bytes([t0, t1, t2, t3]),
            offset: u32::from_le_bytes([o0, o1, o2, o3]),
            message_id: u64::from_le_bytes(message_id),
            sent_at: u64::from_le_bytes(*sent_at.first_chunk().expect("eight bytes")),
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(Entry, &'a [u8]), PacketError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (entry, rest) = match self.first.take() {
            Some(first) => (first, std::mem::take(&mut self.rest)),
            None if self.rest.is_empty() => return None,
            None => match std::mem::take(&mut self.rest).split_first_chunk() {
                Some(split) => split,
                None => return Some(Err(PacketError::Length)),
            },
        };
        let entry = Entry::decode(entry);
        let missing = entry.total.checked_sub(entry.offset);
        let Some(missing) = missing.and_then(|missing| usize::try_from(missing).ok()) else {
            return Some(Err(PacketError::Length));
        };
        let (fragment, rest) = rest.split_at(missing.min(rest.len()));
        // Only an empty frame has an empty part.
        if fragment.is_empty() && entry.total != 0 {
            return Some(Err(PacketError::Length));
        }
        self.rest = rest;
        Some(Ok((entry, fragment)))
    }
}

#[cfg(test)]
mod tests {
    use dtyp::ServerId;

    use super::{Entry, HEADER_BYTES, Header, PacketError};

    const HEADER: Header = Header {
        descriptors: 2,
        sender: ServerId { pid: 11, unique_id: 12 },
        receiver: ServerId { pid: 13, unique_id: 14 },
    };

    fn entry(total: u32, offset: u32) -> Entry {
        Entry { total, offset, message_id: 15, sent_at: 16 }
    }

    fn packet(entries: &[(Entry, &[u8])]) -> Vec<u8> {
        let encode = |(entry, bytes): &(Entry, &[u8])| [&entry.encode()[..], bytes].concat();
        let entries: Vec<u8> = entries.iter().flat_map(encode).collect();
        [&HEADER.encode()[..], &entries].concat()
    }

    fn last_error(packet: &[u8]) -> Option<PacketError> {
        match Header::decode(packet) {
            Ok((_, entries)) => entries.last().and_then(Result::err),
            Err(error) => Some(error),
        }
    }

    #[test]
    fn packets_round_trip() {
        let all: [(Entry, &[u8]); 3] =
            [(entry(5, 0), b"hello"), (entry(0, 0), b""), (entry(9, 3), b"lo")];
        let bytes = packet(&all);
        let (header, entries) = Header::decode(&bytes).expect("whole");
        assert_eq!(header, HEADER);
        assert_eq!(entries.map(|entry| entry.expect("whole")).collect::<Vec<_>>(), all);
    }

    #[test]
    fn a_packet_in_two_parts_has_the_same_entries() {
        let all: [(Entry, &[u8]); 3] =
            [(entry(5, 0), b"hello"), (entry(0, 0), b""), (entry(9, 3), b"lo")];
        for count in 1..=all.len() {
            let bytes = packet(&all[..count]);
            let (head, body) = bytes.split_first_chunk().expect("longer");
            let (header, entries) = Header::decode_parts(head, body).expect("whole");
            assert_eq!(header, HEADER);
            assert_eq!(entries.map(|it| it.expect("whole")).collect::<Vec<_>>(), all[..count]);
        }
        let cut = packet(&[(entry(5, 0), b"")]);
        let (head, body) = cut.split_first_chunk().expect("as long");
        let (_, mut entries) = Header::decode_parts(head, body).expect("a header");
        assert_eq!(entries.next(), Some(Err(PacketError::Length)));
    }

    #[test]
    fn a_fragment_outside_its_frame_is_refused() {
        assert_eq!(last_error(&packet(&[(entry(5, 6), b"x")])), Some(PacketError::Length));
        assert_eq!(last_error(&packet(&[(entry(5, 5), b"")])), Some(PacketError::Length));
        assert_eq!(last_error(&packet(&[(entry(5, 3), b"lo!")])), Some(PacketError::Length));
        let wrapping = entry(u32::MAX, u32::MAX);
        assert_eq!(last_error(&packet(&[(wrapping, b"x")])), Some(PacketError::Length));
    }

    #[test]
    fn a_packet_that_is_cut_is_refused_or_has_a_frame_that_is_not_whole() {
        let bytes = packet(&[(entry(2, 0), b"hi"), (entry(2, 0), b"ho")]);
        for len in 0..bytes.len() {
            let frames = match Header::decode(&bytes[..len]) {
                Ok((_, entries)) => entries
                    .filter(|entry| {
                        entry.is_ok_and(|(entry, bytes)| bytes.len() == entry.total as usize)
                    })
                    .count(),
                Err(_) => 0,
            };
            assert_eq!(frames, usize::from(len >= HEADER_BYTES + 26), "{len}");
        }
    }

    #[test]
    fn another_version_is_refused() {
        let mut bytes = packet(&[(entry(2, 0), b"lo")]);
        bytes[0] = 9;
        assert_eq!(last_error(&bytes), Some(PacketError::Version));
    }
}
