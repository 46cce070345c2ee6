//! Requests between their arrival and their response: values without decisions.
//!
//! A frame is a `Chain` of requests; each request is an [`Incoming`] while it runs, and an
//! `InFlight` while it waits, which then owns the rest of its chain. `receive` makes them,
//! `pending` moves them in and out of `Server::in_flight`, `respond` ends them.
//!
//! Terms. *Sealed*: encrypted; of a chain, the session whose key also encrypts the responses.
//! *Piped*: data at the end of a WRITE or READ that stay in a pipe, out of the frame's memory.
//! *Throttled*: its effect waits in `InFlight`. *Carried*: ids that a related request of
//! a compound takes from the one before.

use std::cell::RefCell;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use dtyp::NtStatus;
use model::connection::ConnectionId;
use model::memory_account::Charge;
use model::now::Now;
use model::request_id::RequestId;
use object::{ObjectOp, Piped};
use trace::Came;
use wire::create::CreateRequest;
use wire::create_context::DurableHandleRequestV2;
use wire::{Command, Decode, FileId, Header};

use crate::effect::Effect;
use crate::outgoing::Outgoing;
use crate::pending_command::{PENDING_COMMAND_BYTES, PendingCommand};
use crate::protection::{CheckedFrame, Verified};

/// A request as its command gets it, beside the decoded body.
#[derive(Debug, Default)]
pub struct Incoming {
    /// Id between the worker and the engine.
    pub id: RequestId,
    /// Connection that the request arrived on.
    pub connection: ConnectionId,
    /// Its header; in a related request, with the ids of the previous one.
    pub header: Header,
    /// The whole message, header included. WRITE cuts its data out of it without a copy.
    pub message: Bytes,
    /// The rest of the data of a WRITE, behind the message; until it is written.
    pub(crate) piped: RefCell<Option<Piped>>,
    /// True if the request was encrypted.
    pub sealed: bool,
    /// Time of its start or of its last resume.
    pub now: Now,
    /// Tracer of the request's time.
    pub trace: trace::Request,
    /// True once the limits of its classes were checked: it is delayed, or has begun.
    pub(crate) is_admitted: bool,
    /// True while a range that it copies is charged to the classes of the target: those of the
    /// source have admitted it.
    pub(crate) is_range_read: bool,
    /// Charge of a READ to its classes.
    pub(crate) charged: Option<Charged>,
    /// True for a LOCK that was canceled while the store worked on it: it does not wait again.
    pub(crate) is_canceled: bool,
    /// Time of its interim response at the latest, once it has waited long for the store.
    pub(crate) interim_at: Option<Duration>,
}

/// A frame as the worker has received it.
#[derive(Debug)]
pub struct ReceivedFrame {
    /// Connection that it arrived on.
    pub connection: ConnectionId,
    /// The frame in memory, without the transport's length.
    pub frame: BytesMut,
    /// The end of the frame, if it is piped: see
    /// [`Server::file_to_pipe_to`](crate::Server::file_to_pipe_to).
    pub piped: Option<Piped>,
    /// The result of another thread, if that has decrypted or verified the frame: see
    /// [`Server::frame_keys`](crate::Server::frame_keys).
    pub checked: Option<CheckedFrame>,
}

/// Charge of a READ, which may return less data.
#[derive(Clone, Debug)]
pub struct Charged {
    pub(crate) classes: qos::Classes,
    pub(crate) length: u32,
    /// Length of its buffer before the data, in bytes.
    pub(crate) room: usize,
}

impl Incoming {
    /// Returns the number of bytes of a WRITE's data that are not in the message.
    #[inline]
    #[must_use]
    pub fn bytes_behind(&self) -> usize {
        self.piped.borrow().as_ref().map_or(0, Piped::length)
    }

    /// Takes the data of a WRITE that are not in the message.
    #[inline]
    pub fn take_piped(&self) -> Option<Piped> {
        self.piped.take()
    }

    /// Returns whether a client that has lost the response can send the request again, over another
    /// channel of the session: [MS-SMB2] 3.2.5.1.
    ///
    /// Only such a request is worth finishing after the loss of its connection. A CREATE without a
    /// CreateGuid would only leave an open behind that its client does not know of.
    pub(crate) fn may_be_repeated(&self) -> bool {
        match self.header.command {
            Command::CREATE => has_create_guid(&self.message),
            Command::NEGOTIATE
            | Command::SESSION_SETUP
            | Command::LOGOFF
            | Command::TREE_CONNECT
            | Command::TREE_DISCONNECT => false,
            _ => true,
        }
    }
}

fn has_create_guid(message: &[u8]) -> bool {
    let Ok(request) = CreateRequest::decode(message) else { return false };
    let found: Result<Option<DurableHandleRequestV2>, _> = request.create_contexts.find();
    matches!(found, Ok(Some(_)))
}

/// Highest number of credits that the requests of one frame may cost together.
///
/// Their responses are kept until the last one exists, and a credit stands for 64 KiB of them: so
/// this bounds the memory for one frame at 32 MiB. No client is known to put more than a few small
/// requests into one.
pub(crate) const FRAME_CREDITS_MAX: u32 = 512;

/// The requests of a frame that are not served yet, and the responses to the others.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    pub(crate) connection: ConnectionId,
    /// The session whose key encrypted the frame, if any.
    pub(crate) sealed: Option<u64>,
    /// The remaining messages, as received; each is well-formed.
    pub(crate) messages: BytesMut,
    /// Data behind the last message, a WRITE.
    pub(crate) piped: Option<Piped>,
    /// Ids that previous requests pass on to related ones.
    pub(crate) carried: Carried,
    /// True once the first request of the frame is served.
    pub(crate) has_begun: bool,
    /// True if a request costs the credits that its header says, rather than one.
    pub(crate) pays: bool,
    /// Number of credits that the frame has cost so far.
    pub(crate) credits_spent: u32,
    /// Responses laid out so far.
    pub(crate) outgoing: Outgoing,
    /// Result of an earlier check of the first message's signature.
    pub(crate) verified: Option<Verified>,
    /// Time of the frame's arrival.
    pub(crate) came: Came,
    /// Memory of the received data that the chain's requests keep, in bytes. A single request keeps
    /// the whole frame.
    pub(crate) frame_bytes: usize,
}

/// The rest of a guest's compound, beside a user: see [`Server::serve_postponed`].
///
/// [`Server::serve_postponed`]: crate::Server::serve_postponed
#[derive(Debug)]
pub(crate) struct Postponed {
    pub(crate) chain: Box<Chain>,
    /// Memory charged for the chain until this is dropped.
    pub(crate) _memory: Charge,
}

/// Memory of a pending request without its message, in bytes.
const REQUEST_BYTES: usize = size_of::<InFlight>()
    + size_of::<Incoming>()
    + size_of::<Chain>()
    + PENDING_COMMAND_BYTES
    + 512;

/// Highest size of messages that are copied out of the frame for a request that may wait long, in
/// bytes. The buffers of up to [`RECEIVED_BYTES`] for such messages would otherwise stay for a
/// single one.
const COPIED_BYTES_MAX: usize = 16 * 1024;

/// Size of a receive buffer in bytes: a message may keep as much beside its own frame.
const RECEIVED_BYTES: usize = 68 * 1024;

impl Chain {
    /// Returns the memory of the chain while one of its requests waits, in bytes.
    pub(crate) fn memory(&self) -> usize {
        REQUEST_BYTES + self.frame_bytes + self.outgoing.bytes()
    }

    /// Copies the remaining messages out of the frame, and `incoming`, which precedes them, so that
    /// the frame can be freed.
    pub(crate) fn copy_messages(&mut self, incoming: &mut Incoming) {
        incoming.message = Bytes::copy_from_slice(&incoming.message);
        self.messages = BytesMut::from(&self.messages[..]);
        self.frame_bytes = incoming.message.len() + self.messages.len();
    }

    /// Reduces the memory of a request while it is throttled.
    pub(crate) fn shrink(&mut self, incoming: &mut Incoming, effect: &mut Effect) {
        let length = incoming.message.len() + self.messages.len();
        if length > COPIED_BYTES_MAX {
            self.frame_bytes += RECEIVED_BYTES;
            return;
        }
        self.copy_messages(incoming);
        if let Effect::Object { op: ObjectOp::Write { data, .. }, .. } = effect {
            *data = Bytes::copy_from_slice(data);
            self.frame_bytes += data.len();
        }
    }
}

/// The ids of the previous request of a compound: [MS-SMB2] 3.3.5.2.7.2.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Carried {
    pub(crate) session_id: u64,
    pub(crate) tree_id: u32,
    pub(crate) file_id: Option<FileId>,
    pub(crate) status: NtStatus,
}

/// A request that waits for a reply or a wake-up, with the rest of its frame.
#[derive(Debug)]
pub(crate) struct InFlight {
    // Boxed, because they are moved often.
    pub(crate) incoming: Box<Incoming>,
    pub(crate) pending: Box<dyn PendingCommand>,
    pub(crate) chain: Box<Chain>,
    /// Id of the open, as the request named it.
    pub(crate) file_id: Option<FileId>,
    /// Set once an interim response was sent.
    pub(crate) async_id: Option<u64>,
    /// True if it waits for a wake-up rather than a reply.
    pub(crate) is_suspended: bool,
    /// Effect that a throttled request will emit once the limits of its classes permit.
    pub(crate) throttled: Option<Box<Effect>>,
    /// Memory charged for the request until this is dropped.
    pub(crate) _memory: Charge,
    /// The file whose contents change meanwhile, and the volatile id of the open.
    pub(crate) changed: Option<(object::FileIdentity, u64)>,
}

impl InFlight {
    /// Returns whether it names this open.
    pub(crate) fn is_on(&self, volatile: u64) -> bool {
        self.file_id.is_some_and(|file_id| file_id.volatile == volatile)
    }

    /// Returns whether a CANCEL ends it: it waits for an event, waits long for the store, or is
    /// throttled. A canceled CLOSE would leave its open behind.
    pub(crate) fn may_be_canceled(&self) -> bool {
        let command = self.incoming.header.command;
        (self.is_suspended && command != Command::CLOSE)
            || self.throttled.is_some()
            || self.is_slow()
    }

    /// Returns whether it waits for the store, and its client knows that or it waits long.
    pub(crate) fn is_slow(&self) -> bool {
        let is_long = self.async_id.is_some() || self.incoming.interim_at.is_some();
        let may_end = is_long && self.incoming.header.command != Command::CLOSE;
        may_end && !self.is_suspended && self.throttled.is_none()
    }
}
