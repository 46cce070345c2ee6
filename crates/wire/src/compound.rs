//! Compounded messages: [MS-SMB2] 3.3.5.2.7, by the NextCommand of each header.

use std::iter::FusedIterator;
use std::ops::Range;

use crate::error::DecodeError;
use crate::header::{self, Header};

/// The messages of a frame, each from its header to the next header or to the end of the frame.
///
/// A chain that leaves the frame, or an element that is not 8-byte aligned or shorter than its
/// header, is an error value, which ends the iteration. Every element is at least 64 bytes long, so
/// the length of the frame bounds their number.
#[derive(Clone, Debug)]
pub struct Compound<'a> {
    frame: &'a [u8],
    /// Offset of the next element; `None` after the last.
    next: Option<usize>,
}

impl<'a> Compound<'a> {
    /// The messages of `frame`. An empty frame is one element that is too short.
    #[must_use]
    pub const fn new(frame: &'a [u8]) -> Self {
        Self { frame, next: Some(0) }
    }

    /// The messages as ranges of the frame.
    pub fn ranges(self) -> impl Iterator<Item = Result<Range<usize>, DecodeError>> + use<'a> {
        let mut compound = self;
        std::iter::from_fn(move || compound.next_range())
    }

    fn next_range(&mut self) -> Option<Result<Range<usize>, DecodeError>> {
        let start = self.next.take()?;
        Some(element(self.frame, start).map(|(_, range)| range).inspect(|range| {
            if range.end < self.frame.len() {
                self.next = Some(range.end);
            }
        }))
    }
}

/// The headers of the frame's messages, under the rules of [`Compound`].
pub fn headers(frame: &[u8]) -> impl Iterator<Item = Result<Header, DecodeError>> {
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let found = element(frame, next.take()?);
        Some(found.map(|(header, range)| {
            next = Some(range.end).filter(|end| *end < frame.len());
            header
        }))
    })
}

/// Returns the header of the first message in the rest of a frame, and the message's length.
///
/// # Errors
///
/// If the message leaves the frame, or breaks a rule of [`Compound`].
#[inline]
pub fn first(rest: &[u8]) -> Result<(Header, usize), DecodeError> {
    element(rest, 0).map(|(header, range)| (header, range.len()))
}

/// Returns the element at `start`. A NextCommand that points exactly to the end of the frame would
/// make an element of no bytes, and is refused like one that points beyond.
#[inline]
fn element(frame: &[u8], start: usize) -> Result<(Header, Range<usize>), DecodeError> {
    let rest = &frame[start..];
    let header = Header::decode(rest)?;
    let Ok(length @ 1..) = usize::try_from(header.next_command) else {
        return Ok((header, start..frame.len()));
    };
    if !length.is_multiple_of(8) || length < header::SIZE {
        let value = header.next_command.into();
        return Err(DecodeError::BadValue { field: "NextCommand", value });
    }
    if length >= rest.len() {
        return Err(DecodeError::Offset {
            offset: start + length,
            length: header::SIZE,
            have: frame.len(),
        });
    }
    Ok((header, start..start + length))
}

impl<'a> Iterator for Compound<'a> {
    type Item = Result<&'a [u8], DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let frame = self.frame;
        self.next_range().map(|range| range.map(|range| &frame[range]))
    }
}

impl FusedIterator for Compound<'_> {}

#[cfg(test)]
mod tests {
    use super::Compound;
    use crate::error::DecodeError;
    use crate::header::{Header, set_next_command};

    /// A frame with headers at the given offsets, each with the given NextCommand.
    fn frame(length: usize, headers: &[(usize, u32)]) -> Vec<u8> {
        let mut frame = vec![0; length];
        for &(at, next_command) in headers {
            let mut header = Vec::new();
            Header::default().encode(&mut header);
            set_next_command(&mut header, next_command);
            frame[at..at + 64].copy_from_slice(&header);
        }
        frame
    }

    #[track_caller]
    fn check(frame: &[u8], want: &[Result<std::ops::Range<usize>, DecodeError>]) {
        assert_eq!(Compound::new(frame).ranges().collect::<Vec<_>>(), want);
        let slices: Vec<_> = Compound::new(frame).collect();
        let want: Vec<_> = want.iter().map(|item| item.clone().map(|r| &frame[r])).collect();
        assert_eq!(slices, want);
    }

    #[test]
    fn a_single_message_is_the_whole_frame() {
        check(&frame(0x60, &[(0, 0)]), &[Ok(0..0x60)]);
    }

    #[test]
    fn the_last_message_runs_to_the_end_of_the_frame() {
        let frame = frame(0x48 + 0x40 + 5, &[(0, 0x48), (0x48, 0)]);
        check(&frame, &[Ok(0..0x48), Ok(0x48..0x48 + 0x45)]);
    }

    #[test]
    fn a_chain_that_is_not_aligned_ends_with_an_error() {
        let bad = DecodeError::BadValue { field: "NextCommand", value: 0x44 };
        check(&frame(0x200, &[(0, 0x44)]), &[Err(bad)]);
    }

    #[test]
    fn a_message_that_would_begin_inside_the_header_is_an_error() {
        let bad = DecodeError::BadValue { field: "NextCommand", value: 0x38 };
        check(&frame(0x200, &[(0, 0x38)]), &[Err(bad)]);
    }

    #[test]
    fn a_chain_that_leaves_the_frame_is_an_error() {
        let bad = DecodeError::Offset { offset: 0x50, length: 64, have: 0x50 };
        check(&frame(0x50, &[(0, 0x50)]), &[Err(bad)]);
        let bad = DecodeError::Offset { offset: 0xFFFF_FFF8, length: 64, have: 0x50 };
        check(&frame(0x50, &[(0, 0xFFFF_FFF8)]), &[Err(bad)]);
    }

    #[test]
    fn a_rest_shorter_than_a_header_is_an_error() {
        let frame = frame(0x48 + 0x40, &[(0, 0x48), (0x48, 0)]);
        let frame = &frame[..0x48 + 0x3F];
        let elements: Vec<_> = Compound::new(frame).collect();
        assert_eq!(elements.len(), 2);
        assert_eq!(elements[0], Ok(&frame[..0x48]));
        assert_eq!(elements[1], Err(DecodeError::Short { need: 64, have: 63 }));
    }

    #[test]
    fn an_empty_frame_is_an_error() {
        check(&[], &[Err(DecodeError::Short { need: 64, have: 0 })]);
    }
}
