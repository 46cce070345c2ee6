//! The frame of a chain's responses, before it is protected.

use std::sync::Arc;

use bytes::BytesMut;
use crypto::SigningKey;
use dtyp::NtStatus;
use object::Piped;
use wire::{Command, Header, header};

use crate::response::{HEADROOM, TRANSFORM, TRANSPORT};

/// The responses to one frame, laid out one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// Room for the transport's length and the transform header, then the messages.
    pub(crate) frame: BytesMut,
    // Most frames have one message.
    pub(crate) first: Option<Laid>,
    pub(crate) others: Vec<Laid>,
    /// The end of the last message. No message can follow it.
    pub(crate) piped: Option<Piped>,
    pub(crate) answered: trace::Answered,
}

/// A message inside the frame.
#[derive(Debug)]
pub(crate) struct Laid {
    pub(crate) start: usize,
    pub(crate) command: Command,
    pub(crate) status: NtStatus,
    pub(crate) session_id: u64,
    /// The key that signs it, if it must be signed.
    pub(crate) key: Option<Arc<SigningKey>>,
}

/// Offset of the first message in the frame.
const FIRST: usize = TRANSPORT + TRANSFORM;

impl Outgoing {
    /// Appends a response to the frame: [MS-SMB2] 3.3.4.1.3.
    pub(crate) fn push(&mut self, header: Header, body: BytesMut, key: Option<Arc<SigningKey>>) {
        assert!(self.piped.is_none(), "what is piped ends a frame");
        debug_assert!(body.len() >= HEADROOM);
        let start = if self.is_empty() {
            self.frame = body;
            FIRST
        } else {
            let start = FIRST + (self.frame.len() - FIRST).next_multiple_of(8);
            self.frame.resize(start, 0);
            self.frame.extend_from_slice(&body[FIRST..]);
            start
        };
        self.frame[start..start + header::SIZE].copy_from_slice(&header.to_bytes());
        if let Some(previous) = self.others.last().or(self.first.as_ref()) {
            let next_command = u32::try_from(start - previous.start).expect("a frame is small");
            header::set_next_command(&mut self.frame[previous.start..], next_command);
        }
        let Header { command, status, session_id, .. } = header;
        let laid = Laid { start, command, status, session_id, key };
        if self.is_empty() {
            self.first = Some(laid);
        } else {
            self.others.push(laid);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Returns the length of the frame in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.frame.len() + self.piped.as_ref().map_or(0, Piped::length)
    }

    /// Returns whether one more response fits the longest frame. A single one always does: every
    /// maximum size is far below.
    pub(crate) fn has_room_for(&self, body: &BytesMut, piped: usize) -> bool {
        let header_and_body = body.len() - FIRST + piped;
        let end = self.frame.len().next_multiple_of(8) + header_and_body;
        self.is_empty() || self.piped.is_none() && end <= wire::frame::LENGTH_MAX
    }
}
