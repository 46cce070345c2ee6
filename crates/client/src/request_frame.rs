//! Requests of one frame: [MS-SMB2] 3.2.4.1.4.

use wire::header::{self, Header};
use wire::{Encode, frame};

/// Lays out requests as the messages of a frame, in a buffer that is kept.
#[derive(Debug, Default)]
pub struct RequestFrame {
    bytes: Vec<u8>,
    /// Offset and message id of each request.
    requests: Vec<(usize, u64)>,
}

/// The body of a message in bytes, valid or not.
#[derive(Clone, Copy, Debug)]
pub struct RawBody<'a>(pub &'a [u8]);

impl Encode for RawBody<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0);
    }
}

impl RequestFrame {
    /// Appends a request. `room` is the number of bytes before the first one, for the headers of
    /// transport and encryption.
    ///
    /// # Panics
    ///
    /// The frame is longer than 4 GiB.
    #[inline]
    pub fn push(&mut self, room: usize, header: &Header, body: &impl Encode) {
        if let Some((last, _)) = self.requests.last() {
            // Each but the last is padded to 8 bytes.
            let length = (self.bytes.len() - last).next_multiple_of(8);
            self.bytes.resize(last + length, 0);
            let next_command = u32::try_from(length).expect("a frame is shorter than 4 GiB");
            header::set_next_command(&mut self.bytes[*last..], next_command);
        } else {
            self.bytes.clear();
            self.bytes.resize(room, 0);
        }
        self.requests.push((self.bytes.len(), header.message_id));
        header.encode(&mut self.bytes);
        body.encode(&mut self.bytes);
    }

    /// Number of requests in the frame.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.requests.len()
    }

    /// True before the first request.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Message ids of the requests, in their order.
    pub fn message_ids(&self) -> impl Iterator<Item = u64> + use<'_> {
        self.requests.iter().map(|(_, message_id)| *message_id)
    }

    /// Returns each request with its padding, for its signature.
    pub fn messages_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let end = self.bytes.len();
        let ends = self.requests.iter().skip(1).map(|(start, _)| *start).chain([end]);
        let lengths = self.requests.iter().zip(ends).map(|((start, _), end)| end - start);
        let begin = self.requests.first().map_or(end, |(start, _)| *start);
        let mut rest = &mut self.bytes[begin..];
        lengths.map(move |length| {
            let (message, behind) = std::mem::take(&mut rest).split_at_mut(length);
            rest = behind;
            message
        })
    }

    /// Bytes of the frame, with the room before the first request.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of the frame, to be encrypted in place.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Ends the frame: the next request begins another one. The bytes stay until then.
    pub fn end(&mut self) {
        self.requests.clear();
    }

    /// Returns the bytes, and ends the frame.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        self.end();
        std::mem::take(&mut self.bytes)
    }
}

/// Writes the transport's length into the first bytes of a frame. `None` if it is too long.
#[must_use]
#[inline]
pub fn set_length(bytes: &mut [u8], length: usize) -> Option<()> {
    bytes[..frame::SIZE].copy_from_slice(&frame::FrameHeader::message(length)?);
    Some(())
}

#[cfg(test)]
mod tests {
    use wire::compound::Compound;
    use wire::echo::EchoRequest;
    use wire::{Command, Header};

    use super::{RawBody, RequestFrame, set_length};

    fn header(message_id: u64) -> Header {
        Header { command: Command::ECHO, message_id, ..Header::default() }
    }

    #[test]
    fn requests_are_padded_and_chained_behind_the_room() {
        let mut frame = RequestFrame::default();
        frame.push(6, &header(3), &RawBody(&[7; 5]));
        frame.push(6, &header(4), &EchoRequest);
        assert_eq!(frame.message_ids().collect::<Vec<_>>(), [3, 4]);
        let lengths: Vec<usize> = frame.messages_mut().map(|it| it.len()).collect();
        assert_eq!(lengths, [72, 68]);
        let messages: Result<Vec<_>, _> = Compound::new(&frame.bytes()[6..]).collect();
        let messages = messages.expect("a whole chain");
        assert_eq!(messages[0][64..], [7, 7, 7, 7, 7, 0, 0, 0]);
        let ids: Vec<_> =
            messages.iter().map(|it| Header::decode(it).map(|it| it.message_id)).collect();
        assert_eq!(ids, [Ok(3), Ok(4)]);
    }

    #[test]
    fn a_frame_that_was_ended_is_begun_anew() {
        let mut frame = RequestFrame::default();
        frame.push(4, &header(1), &EchoRequest);
        frame.end();
        assert!(frame.is_empty());
        assert_eq!(frame.bytes().len(), 4 + 68, "the bytes stay until the next request");
        frame.push(0, &header(2), &EchoRequest);
        assert_eq!((frame.len(), frame.bytes().len()), (1, 68));
        assert_eq!(frame.take().len(), 68);
        assert_eq!(frame.messages_mut().count(), 0);
    }

    #[test]
    fn the_length_has_24_bits() {
        let mut bytes = [9; 5];
        assert_eq!(set_length(&mut bytes, 0x01_02_03), Some(()));
        assert_eq!(bytes, [0, 1, 2, 3, 9]);
        assert_eq!(set_length(&mut bytes, 1 << 24), None);
    }
}
