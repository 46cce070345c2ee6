//! The four bytes before every message on TCP: [MS-SMB2] 2.1.
//!
//! Direct TCP has a zero byte and a 24-bit length; NetBIOS over TCP (RFC 1002 4.3) has a type and a
//! 17-bit length in the same position. The length is the only big-endian number of the protocol.

use crate::codes::codes;

/// Number of bytes of a [`FrameHeader`].
pub const SIZE: usize = 4;

/// The largest length that a frame can announce.
pub const LENGTH_MAX: usize = 0x00FF_FFFF;

codes! {
    /// The first byte of a frame: RFC 1002 4.3.1.
    FrameType(u8) {
        /// A message follows.
        SESSION_MESSAGE = 0x00,
        SESSION_REQUEST = 0x81,
        POSITIVE_SESSION_RESPONSE = 0x82,
        NEGATIVE_SESSION_RESPONSE = 0x83,
        /// Without a message, and not answered.
        SESSION_KEEP_ALIVE = 0x85,
    }
}

/// Type and length of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FrameHeader {
    /// Type of the frame.
    pub frame_type: FrameType,
    /// Bytes that follow; at most [`LENGTH_MAX`].
    pub length: usize,
}

impl FrameHeader {
    /// Decodes a frame header. Any four bytes are one.
    #[must_use]
    pub const fn decode(bytes: [u8; SIZE]) -> Self {
        let [frame_type, high, middle, low] = bytes;
        let length = (high as usize) << 16 | (middle as usize) << 8 | low as usize;
        Self { frame_type: FrameType(frame_type), length }
    }

    /// Encodes the frame header of a message of `length` bytes; `None` if it is too long for a
    /// frame.
    #[must_use]
    pub fn message(length: usize) -> Option<[u8; SIZE]> {
        if length > LENGTH_MAX {
            return None;
        }
        let [.., high, middle, low] = length.to_be_bytes();
        Some([FrameType::SESSION_MESSAGE.0, high, middle, low])
    }
}

#[cfg(test)]
mod tests {
    use super::{FrameHeader, FrameType, LENGTH_MAX};

    #[test]
    fn the_length_is_big_endian() {
        let header = FrameHeader::decode([0x00, 0x01, 0x02, 0x03]);
        assert_eq!(header.frame_type, FrameType::SESSION_MESSAGE);
        assert_eq!(header.length, 0x01_02_03);
        assert_eq!(FrameHeader::message(0x01_02_03), Some([0x00, 0x01, 0x02, 0x03]));
    }

    #[test]
    fn a_length_of_24_bits_is_the_last_that_fits() {
        assert_eq!(FrameHeader::message(LENGTH_MAX), Some([0x00, 0xFF, 0xFF, 0xFF]));
        assert_eq!(FrameHeader::message(LENGTH_MAX + 1), None);
    }

    #[test]
    fn a_keep_alive_is_no_message() {
        let header = FrameHeader::decode([0x85, 0, 0, 0]);
        assert_eq!(header.frame_type, FrameType::SESSION_KEEP_ALIVE);
        assert_eq!(header.length, 0);
    }
}
