//! Responses on their way from a handler to the wire.

use bytes::{Bytes, BytesMut};
use dtyp::NtStatus;
use model::connection::ConnectionId;
use model::reject::Reject;
use object::{FileIdentity, Piped};
use wire::error_response::ErrorResponse;
use wire::transform::TransformHeader;
use wire::{Encode, FileId};

use crate::effect::Effect;
use crate::pending_command::PendingCommand;
use crate::protection::Protection;
use crate::unconfirmed_breaks::ConfirmationId;

/// Room in front of every body: 4 bytes of the transport's length, 52 of a transform header, 64 of
/// the SMB2 header. So a response is laid out once, and signed and encrypted in place.
pub const HEADROOM: usize = TRANSPORT + TRANSFORM + wire::header::SIZE;

/// Length of the direct TCP transport's prefix in bytes: [MS-SMB2] 2.1.
pub(crate) const TRANSPORT: usize = wire::frame::SIZE;

/// Length of the transform header in bytes: [MS-SMB2] 2.2.41.
pub(crate) const TRANSFORM: usize = TransformHeader::SIZE;

/// Result of a command's step.
///
/// The state `P` of the command is boxed only if the request has to wait: most operations of the
/// store are answered at once.
#[derive(Debug)]
pub enum Step<P = Box<dyn PendingCommand>> {
    /// The request has this response.
    Done(Response),
    /// The request has no response: CANCEL.
    Ended,
    /// The request is refused, with more in the response than the status.
    Refused(Reject, Response),
    /// Emit the effect, keep the state, and resume with the reply.
    Wait(Effect, P),
    /// As [`Step::Wait`], but the store has begun already: see
    /// [`Storage`](crate::storage::Storage).
    Begun {
        /// State of the command while it waits.
        pending: P,
        /// The file whose contents are being changed, and the open through which.
        changed: Option<(FileIdentity, u64)>,
    },
    /// Wait for something that happens in this server, for as long as it takes: an interim
    /// response goes out ([MS-SMB2] 3.3.4.2), and `resume` is called with `Reply::Woken` whenever
    /// it may have happened.
    Suspend(P),
}

impl<P: PendingCommand> Step<P> {
    /// Keeps the state of the command for as long as the request waits.
    #[inline(always)]
    pub fn boxed(self) -> Step {
        match self {
            Self::Done(response) => Step::Done(response),
            Self::Ended => Step::Ended,
            Self::Refused(reject, response) => Step::Refused(reject, response),
            Self::Wait(effect, pending) => Step::Wait(effect, Box::new(pending)),
            Self::Begun { pending, changed } => Step::Begun { pending: Box::new(pending), changed },
            Self::Suspend(pending) => Step::Suspend(Box::new(pending)),
        }
    }
}

/// A response body behind its headroom, and the status for its header.
#[derive(Debug)]
pub struct Response {
    /// The status of the header: success, or one of the warnings that carry data.
    pub status: NtStatus,
    /// [`HEADROOM`] bytes, then the body.
    pub buffer: BytesMut,
    /// The end of the body, which need not pass through memory.
    pub piped: Option<Piped>,
    /// The open that was made or named, for the following requests of the compound.
    pub file_id: Option<FileId>,
    /// Id of the session that was made, if any.
    pub session_id: Option<u64>,
    /// Id of the tree connect that was made, if any.
    pub tree_id: Option<u32>,
}

impl Response {
    /// Makes a response with STATUS_SUCCESS.
    pub fn new(body: &impl Encode) -> Self {
        Self::with_status(NtStatus::SUCCESS, body)
    }

    /// Makes a response with a status that permits a body.
    pub fn with_status(status: NtStatus, body: &impl Encode) -> Self {
        let mut buffer = headroom();
        body.encode(&mut buffer);
        Self::from_buffer(status, buffer_from_vec(buffer))
    }

    /// Makes a response with STATUS_SUCCESS from the bytes of its body.
    pub fn of(body: &[u8]) -> Self {
        let mut buffer = BytesMut::with_capacity(HEADROOM + body.len());
        buffer.resize(HEADROOM, 0);
        buffer.extend_from_slice(body);
        Self::from_buffer(NtStatus::SUCCESS, buffer)
    }

    /// Makes a response from a body behind its headroom.
    ///
    /// # Panics
    /// If the buffer is shorter than its headroom.
    #[must_use]
    pub fn from_buffer(status: NtStatus, buffer: BytesMut) -> Self {
        assert!(buffer.len() >= HEADROOM, "a response has its headroom");
        Self { status, buffer, piped: None, file_id: None, session_id: None, tree_id: None }
    }

    /// Adds the end of the body.
    #[must_use]
    pub fn ending_in(mut self, piped: Option<Piped>) -> Self {
        self.piped = piped;
        self
    }

    /// Names the open for the rest of a compound.
    #[must_use]
    pub fn naming(mut self, file_id: FileId) -> Self {
        self.file_id = Some(file_id);
        self
    }
}

/// Returns the headroom of a response, with capacity for most bodies.
fn headroom() -> Vec<u8> {
    let mut buffer = Vec::with_capacity(HEADROOM + 256);
    buffer.resize(HEADROOM, 0);
    buffer
}

/// Makes a response without data: [MS-SMB2] 2.2.2.
pub(crate) fn error_body(status: NtStatus) -> Response {
    Response::with_status(status, &ErrorResponse::default())
}

/// Converts a `Vec` to `BytesMut` without a copy.
#[must_use]
pub fn buffer_from_vec(buffer: Vec<u8>) -> BytesMut {
    Bytes::from(buffer).into()
}

/// A frame to send, the transport's length included.
#[derive(Debug)]
pub struct Transmit {
    pub connection: ConnectionId,
    /// The frame, complete once `protection` was applied.
    pub frame: BytesMut,
    /// The end of the frame in a pipe, which is never protected.
    pub piped: Option<Piped>,
    /// Task to perform before sending. Frames of one connection are sent in the order in which they
    /// came from the engine.
    pub protection: Option<Protection>,
    /// Set if the engine needs the confirmation of the client's transport: the worker calls
    /// [`Server::handle_confirmed`](crate::Server::handle_confirmed) with it, or
    /// [`Server::handle_unconfirmed`](crate::Server::handle_unconfirmed).
    pub confirmation: Option<ConfirmationId>,
    /// The requests with responses in it: to be kept until the frame was sent.
    pub answered: trace::Answered,
}

impl Transmit {
    /// Protects the frame here and now.
    pub fn protect(&mut self) {
        if let Some(protection) = self.protection.take() {
            protection.apply(&mut self.frame);
        }
    }
}
