//! Frames out of a stream of bytes.

use std::io::{self, Read};
use std::ops::Range;

use wire::frame::{self, FrameHeader, FrameType};

/// Bytes requested of the socket while the length of the frame is unknown. Enough for many small
/// responses, and small compared with frames that deserve a separate call.
const READ_AHEAD: usize = 64 * 1024;

/// Receives frames into one buffer that is kept.
///
/// Invariant: `frame` is the last frame given out, `frame.end..filled` was received behind it.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    frame: Range<usize>,
    filled: usize,
}

impl Inbox {
    /// Waits for the next frame. The returned range of [`Self::bytes_mut`] excludes the four bytes
    /// before the message, and is valid until the next call.
    ///
    /// # Errors
    ///
    /// The socket fails, ends, or returns bytes that are no session message.
    pub(super) fn next_frame(&mut self, socket: &mut impl Read) -> io::Result<Range<usize>> {
        let mut start = self.frame.end;
        if start == self.filled {
            (start, self.filled) = (0, 0);
        }
        let mut need = frame::SIZE;
        loop {
            if let Some(first) = self.bytes[start..self.filled].first_chunk() {
                let header = FrameHeader::decode(*first);
                if header.frame_type != FrameType::SESSION_MESSAGE {
                    return Err(io::Error::other(format!("a {:?} came", header.frame_type)));
                }
                need = frame::SIZE + header.length;
                if self.filled - start >= need {
                    self.frame = start + frame::SIZE..start + need;
                    return Ok(self.frame.clone());
                }
            }
            start = self.receive(socket, start, need)?;
        }
    }

    /// Returns the bytes received so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The buffer, for decrypting in place.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Receives once, of a frame of `need` bytes that begins at `start`; where it begins then.
    ///
    /// Of a frame longer than the read-ahead exactly the rest is asked for, so that the next frame
    /// begins at the start of the buffer and nothing large is ever moved.
    fn receive(&mut self, socket: &mut impl Read, start: usize, need: usize) -> io::Result<usize> {
        let have = self.filled - start;
        let room = need.max(have + READ_AHEAD);
        let end = if need > READ_AHEAD { need } else { room };
        let mut start = start;
        if start + end > self.bytes.len() {
            self.bytes.copy_within(start..self.filled, 0);
            (start, self.filled) = (0, have);
            if self.bytes.len() < room {
                self.bytes.resize(room.next_power_of_two(), 0);
            }
        }
        match socket.read(&mut self.bytes[self.filled..start + end]) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server hung up")),
            Ok(count) => {
                self.filled += count;
                Ok(start)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(start),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read};

    use super::Inbox;

    /// Gives at most `step` bytes at a time.
    struct Drip<'a> {
        rest: &'a [u8],
        step: usize,
    }

    impl Read for Drip<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let count = self.step.min(out.len()).min(self.rest.len());
            let (now, later) = self.rest.split_at(count);
            out[..count].copy_from_slice(now);
            self.rest = later;
            Ok(count)
        }
    }

    fn framed(messages: &[Vec<u8>]) -> Vec<u8> {
        let mut stream = Vec::new();
        for message in messages {
            let length = u32::try_from(message.len()).expect("it is short");
            stream.extend_from_slice(&length.to_be_bytes());
            stream.extend_from_slice(message);
        }
        stream
    }

    #[test]
    fn frames_come_whole_however_they_are_cut() {
        let messages: Vec<Vec<u8>> = [0_usize, 1, 5, 64, 70_000, 3, 200_000, 65_536, 9]
            .iter()
            .zip(1_u8..)
            .map(|(&length, fill)| vec![fill; length])
            .collect();
        let stream = framed(&messages);
        for step in [1, 3, 7, 4096, 65_536, 1 << 20] {
            let mut drip = Drip { rest: &stream, step };
            let mut inbox = Inbox::default();
            for message in &messages {
                let range = inbox.next_frame(&mut drip).expect("it is all there");
                assert_eq!(&inbox.bytes()[range], message, "{step} at a time");
            }
            let end = inbox.next_frame(&mut drip).expect_err("there is no more");
            assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn a_frame_without_a_session_message_is_refused() {
        let mut inbox = Inbox::default();
        let error = inbox.next_frame(&mut &[0x85, 0, 0, 0][..]).expect_err("a keep-alive");
        assert!(error.to_string().contains("SESSION_KEEP_ALIVE"), "{error}");
    }
}
