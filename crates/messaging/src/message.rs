//! A message and its frame.
//!
//! A transport carries the frame: the data, then version (2 bytes), kind (2), and length of the
//! data (4), all little-endian. They come last so that received data needs no move. Sender and
//! receiver are not in the frame: every transport carries and checks them anyway.

use std::os::fd::{BorrowedFd, OwnedFd};

use dtyp::ServerId;

use crate::kind::MessageKind;
use crate::transport::Frame;

/// Version of the frame, as its first field after the data.
///
/// 1: the first.
/// 2: the data comes first.
pub const MESSAGE_VERSION: u16 = 2;

/// A message that arrived, as its receiver sees it.
#[derive(Debug)]
pub struct Message {
    /// Version of the frame that carried it.
    pub version: u16,
    /// Kind of the message, which gives the form of its data.
    pub kind: MessageKind,
    /// The process that sent it, as far as the transport can tell for certain.
    pub sender: ServerId,
    /// Process that received it: this one.
    pub receiver: ServerId,
    /// Data in the form of its kind.
    pub data: Vec<u8>,
    /// Descriptors that came with the message.
    pub descriptors: Vec<OwnedFd>,
}

/// Contents of a message to send.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// Kind of the message, which gives the form of its data.
    pub kind: MessageKind,
    /// Data in the form of its kind.
    pub data: &'a [u8],
    /// Descriptors to send with it; the receiver gets duplicates.
    pub descriptors: &'a [BorrowedFd<'a>],
}

impl<'a> Content<'a> {
    /// Creates a message without descriptors.
    #[must_use]
    pub fn new(kind: MessageKind, data: &'a [u8]) -> Self {
        Self { kind, data, descriptors: &[] }
    }

    /// Writes the frame into `out`, which is cleared. `None` if the length exceeds its field.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Option<()> {
        let len = u32::try_from(self.data.len()).ok()?;
        out.clear();
        out.reserve(TRAILER_BYTES + self.data.len());
        out.extend_from_slice(self.data);
        out.extend_from_slice(&MESSAGE_VERSION.to_le_bytes());
        out.extend_from_slice(&self.kind.0.to_le_bytes());
        out.extend_from_slice(&len.to_le_bytes());
        Some(())
    }
}

impl Message {
    /// Reads a frame, or returns its fault.
    pub(crate) fn decode(frame: Frame, receiver: ServerId) -> Result<Self, FrameError> {
        let Frame { sender, mut bytes, descriptors } = frame;
        let (data, &[v0, v1, k0, k1, l0, l1, l2, l3]) =
            bytes.split_last_chunk::<TRAILER_BYTES>().ok_or(FrameError::Length)?;
        let version = u16::from_le_bytes([v0, v1]);
        if version != MESSAGE_VERSION {
            return Err(FrameError::Version);
        }
        if usize::try_from(u32::from_le_bytes([l0, l1, l2, l3])) != Ok(data.len()) {
            return Err(FrameError::Length);
        }
        let kind = MessageKind(u16::from_le_bytes([k0, k1]));
        bytes.truncate(data.len());
        Ok(Self { version, kind, sender, receiver, data: bytes, descriptors })
    }
}

/// True if a frame holds keys or proofs of users, which are erased after use.
pub(crate) fn is_secret(frame: &[u8]) -> bool {
    let trailer = frame.last_chunk::<TRAILER_BYTES>();
    trailer.is_some_and(|it| MessageKind(u16::from_le_bytes([it[2], it[3]])).is_secret())
}

/// Fault of a frame, counted by [`crate::Counters`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FrameError {
    /// The frame is shorter or longer than its length field.
    Length,
    /// The frame has an unknown version.
    Version,
}

/// Bytes of a frame after its data.
pub(crate) const TRAILER_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use dtyp::ServerId;

    use super::{Content, Frame, FrameError, Message};
    use crate::kind::MessageKind;

    const ME: ServerId = ServerId { pid: 1, unique_id: 2 };
    const PEER: ServerId = ServerId { pid: 3, unique_id: 4 };

    fn decode(bytes: &[u8]) -> Result<Message, FrameError> {
        Message::decode(Frame { sender: PEER, bytes: bytes.to_vec(), descriptors: Vec::new() }, ME)
    }

    #[test]
    fn frames_round_trip() {
        let mut frame = Vec::new();
        Content::new(MessageKind::PING, b"hello").encode(&mut frame).expect("short");
        assert_eq!(frame, [b'h', b'e', b'l', b'l', b'o', 2, 0, 1, 0, 5, 0, 0, 0]);
        let message = decode(&frame).expect("just written");
        assert_eq!((message.kind, message.data.as_slice()), (MessageKind::PING, &b"hello"[..]));
        assert_eq!((message.sender, message.receiver), (PEER, ME));
    }

    #[test]
    fn a_frame_of_another_length_is_refused() {
        let frame = [7, 7, 2, 0, 1, 0, 2, 0, 0, 0];
        decode(&frame).expect("whole");
        for start in 1..frame.len() {
            assert_eq!(decode(&frame[start..]).err(), Some(FrameError::Length));
        }
        assert_eq!(decode(&[7, 7, 2, 0, 1, 0, 1, 0, 0, 0]).err(), Some(FrameError::Length));
    }

    #[test]
    fn a_frame_of_another_version_is_refused() {
        assert_eq!(decode(&[1, 0, 1, 0, 0, 0, 0, 0]).err(), Some(FrameError::Version));
    }
}
