//! The frame of a chain's responses, before it is signed or encrypted. Filled and sent by
//! `respond`; the first body becomes the frame without a copy.

use std::sync::Arc;

use bytes::BytesMut;
use crypto::SigningKey;
use dtyp::NtStatus;
use object::Piped;
use wire::Command;

use crate::response::{TRANSFORM, TRANSPORT};
use crate::unconfirmed_breaks::ConfirmationId;

/// The responses to one frame, laid out one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// Room for the transport's length and the transform header, then the messages.
    pub(crate) frame: BytesMut,
    // Most frames have one message.
    pub(crate) first: Option<Laid>,
    pub(crate) others: Vec<Laid>,
    /// True if a message must be signed, or belongs to a negotiation: see `respond::finish`.
    pub(crate) is_special: bool,
    /// The end of the last message. No message can follow it.
    pub(crate) piped: Option<Piped>,
    pub(crate) answered: trace::Answered,
    /// Set if the engine needs the client's confirmation: see `Transmit::confirmation`.
    pub(crate) confirmation: Option<ConfirmationId>,
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
pub(crate) const FIRST: usize = TRANSPORT + TRANSFORM;

impl Outgoing {
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Returns the length of the frame in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.frame.len() + self.piped.as_ref().map_or(0, Piped::length)
    }

    /// Returns whether one more response of this length, headroom included, fits the longest frame.
    /// A single one always does: every maximum size is far below.
    pub(crate) fn fits(&self, length: usize) -> bool {
        let end = self.frame.len().next_multiple_of(8) + length - FIRST;
        self.is_empty() || self.piped.is_none() && end <= wire::frame::LENGTH_MAX
    }
}
