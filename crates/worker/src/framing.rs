//! Whole and partial frames at the front of received bytes.

use std::ops::Range;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use wire::frame::{self, FrameHeader, FrameType};

/// Bytes that a lane receives at once. They are handed on as a whole.
pub(super) const LANE_RECEIVE_LEN: usize = 256 * 1024;

/// Longest time from a frame's first byte to its last, while there is room for it: enough for 8 MiB
/// at 1.2 Mbit/s. Its memory is in use meanwhile, and other connections of the client may wait for
/// it.
pub(super) const FRAME_TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes at the start of a page in which no frame begins. In the kernel's memory a frame often
/// begins at the start of one. To a place that is 1 to 63 bytes further in its page, AMD's
/// processors copy four times as slowly (EPYC 7003: 46 µs instead of 10 for 64 KiB), and the
/// allocator's large buffers begin at byte 16.
const PAGE_START_LEN: usize = 64;

const PAGE_LEN: usize = 4_096;

/// Returns the length of the next receive, at most `at_once` or the rest of a longer frame exactly:
/// so the next frame begins in a buffer of its own. No received bytes are moved as long as there is
/// room for the frame behind them.
pub(super) fn wanted(buffer: &BytesMut, at_once: usize) -> usize {
    let missing = missing(buffer);
    if missing > 0 && buffer.len() + missing > at_once {
        return missing;
    }
    let room = buffer.capacity() - buffer.len();
    if missing > 0 && missing <= room { room.min(at_once) } else { at_once }
}

/// Reserves memory for the next receive. An empty buffer begins behind the first bytes of a page.
pub(super) fn make_room(buffer: &mut BytesMut, wanted: usize) {
    if !buffer.is_empty() {
        return buffer.reserve(wanted);
    }
    buffer.reserve(wanted + PAGE_START_LEN);
    let behind = buffer.as_ptr().addr() % PAGE_LEN;
    if (1..PAGE_START_LEN).contains(&behind) {
        buffer.resize(PAGE_START_LEN - behind, 0);
        buffer.advance(PAGE_START_LEN - behind);
    }
}

/// Bytes that the frame at the front has not yet, as far as is known.
pub(super) fn missing(buffer: &BytesMut) -> usize {
    let Some(head) = buffer.first_chunk::<{ frame::SIZE }>() else { return 0 };
    (frame::SIZE + FrameHeader::decode(*head).length).saturating_sub(buffer.len())
}

/// Returns the bytes that a lane must receive for a whole frame. `None` if there is one already,
/// and if the bytes are not a frame: then `Channel::next_frame` skips them or reports the fault,
/// so that nothing accumulates here.
pub(super) fn wanted_by_lane(buffer: &BytesMut, length_max: usize) -> Option<usize> {
    if let Some(head) = buffer.first_chunk::<{ frame::SIZE }>() {
        let FrameHeader { frame_type, length } = FrameHeader::decode(*head);
        let is_frame = frame_type == FrameType::SESSION_MESSAGE && length <= length_max;
        if !is_frame || buffer.len() >= frame::SIZE + length {
            return None;
        }
    }
    Some(wanted(buffer, LANE_RECEIVE_LEN))
}

/// Returns the ranges of the whole frames that `Channel::next_frame` would give, without their
/// lengths.
pub(super) fn whole_frames(buffer: &[u8], length_max: usize) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let FrameHeader { frame_type, length } =
                FrameHeader::decode(*buffer[at..].first_chunk::<{ frame::SIZE }>()?);
            let start = at + frame::SIZE;
            match frame_type {
                FrameType::SESSION_MESSAGE
                    if length <= length_max && length <= buffer.len() - start =>
                {
                    at = start + length;
                    return Some(start..at);
                }
                FrameType::SESSION_KEEP_ALIVE if length == 0 => at = start,
                _ => return None,
            }
        }
    })
}
