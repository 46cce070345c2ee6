//! Requests between their arrival and their response.

use std::cell::RefCell;

use bytes::{Bytes, BytesMut};
use dtyp::NtStatus;
use object::{ObjectOp, Piped};
use trace::Came;
use wire::create::CreateRequest;
use wire::create_context::DurableHandleRequestV2;
use wire::{Command, Decode, FileId, Header};

use crate::engine::effect::Effect;
use crate::engine::outgoing::Outgoing;
use crate::engine::pending_command::{PENDING_COMMAND_BYTES, PendingCommand};
use crate::engine::protection::Verified;
use crate::model::connection::ConnectionId;
use crate::model::memory_account::Charge;
use crate::model::now::Now;
use crate::model::request_id::RequestId;

/// What a command knows of the request it serves, beside its body.
#[derive(Debug)]
pub struct Incoming {
    /// The request's name.
    pub id: RequestId,
    /// Where it came from.
    pub connection: ConnectionId,
    /// Its header; in a related request, with the ids of the one before it.
    pub header: Header,
    /// The whole message, header included. WRITE cuts its data out of it without a copy.
    pub message: Bytes,
    /// The rest of the data of a WRITE, behind the message; until they are to be written.
    pub(crate) piped: RefCell<Option<Piped>>,
    /// Whether it came encrypted.
    pub sealed: bool,
    /// When it was started or resumed.
    pub now: Now,
    /// Keeps its time.
    pub trace: trace::Request,
    /// The limits of its classes were asked: it is held, or has begun.
    pub(crate) is_admitted: bool,
    /// A READ that its classes were charged for.
    pub(crate) charged: Option<Charged>,
}

/// What a READ was charged for, of which it may bring less.
#[derive(Clone, Debug)]
pub struct Charged {
    pub(crate) classes: qos::Classes,
    pub(crate) length: u32,
    /// Bytes that its buffer had before.
    pub(crate) room: usize,
}

impl Incoming {
    /// Whether a client that has lost the response can ask for it again, over another channel of the
    /// session: [MS-SMB2] 3.2.5.1.
    ///
    /// That makes it worth while to finish what was begun. A CREATE that names no CreateGuid would
    /// only leave an open behind that nobody knows of.
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

/// Credits that the requests of one frame may cost together.
///
/// Their responses are held until the last one is there, and a credit stands for 64 KiB of them:
/// so this bounds what one frame can make the server hold at 32 MiB. No client is known to put
/// more than a few small requests into one.
pub(crate) const FRAME_CREDITS_MAX: u32 = 512;

/// A frame's requests that are not served yet, and the responses to those that are.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) connection: ConnectionId,
    /// The session whose key encrypted the frame, if it was.
    pub(crate) sealed: Option<u64>,
    /// The messages that are left to do, as they came; each is sound.
    pub(crate) messages: BytesMut,
    /// What follows the last of them, which is a WRITE's.
    pub(crate) piped: Option<Piped>,
    /// What the requests before handed down to related ones.
    pub(crate) carried: Carried,
    /// The frame had one request only, or the first of several was not served yet.
    pub(crate) is_first: bool,
    /// Credits that the rest of the frame may cost.
    pub(crate) credits_left: u32,
    /// Responses laid out so far.
    pub(crate) outgoing: Outgoing,
    /// What is known already of the signature of the first message.
    pub(crate) verified: Option<Verified>,
    /// When the frame came.
    pub(crate) came: Came,
    /// Bytes of memory that its requests keep of what was received. As long as one of them is
    /// there, the whole frame is.
    pub(crate) frame_bytes: usize,
}

/// Bytes that a request takes which waits, without its message.
const REQUEST_BYTES: usize = size_of::<InFlight>()
    + size_of::<Incoming>()
    + size_of::<Chain>()
    + PENDING_COMMAND_BYTES
    + 512;

/// Bytes of messages that are copied out of the frame for a request that may wait long. Those are
/// received in buffers of up to [`RECEIVED_BYTES`], all of which a single message would keep.
const COPIED_BYTES_MAX: usize = 16 * 1024;

/// Bytes that are received at once: a message may keep as much beside its own frame.
const RECEIVED_BYTES: usize = 68 * 1024;

impl Chain {
    /// Returns the bytes that it takes while one of its requests waits.
    pub(crate) fn memory(&self) -> usize {
        REQUEST_BYTES + self.frame_bytes + self.outgoing.bytes()
    }

    /// Takes the messages that are left out of the frame, and `incoming`, which goes before them,
    /// so that the frame can be forgotten.
    pub(crate) fn copy_messages(&mut self, incoming: &mut Incoming) {
        incoming.message = Bytes::copy_from_slice(&incoming.message);
        self.messages = BytesMut::from(&self.messages[..]);
        self.frame_bytes = incoming.message.len() + self.messages.len();
    }

    /// Makes do with little memory for a request that is held.
    pub(crate) fn hold(&mut self, incoming: &mut Incoming, effect: &mut Effect) {
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
    // Boxed, because they go from hand to hand.
    pub(crate) incoming: Box<Incoming>,
    pub(crate) pending: Box<dyn PendingCommand>,
    pub(crate) chain: Box<Chain>,
    /// The file that `pending` is about, as the request named it.
    pub(crate) file_id: Option<FileId>,
    /// Set once an interim response went out.
    pub(crate) async_id: Option<u64>,
    /// Waits for a wake-up rather than a reply.
    pub(crate) is_suspended: bool,
    /// What it will ask of the world when the limits of its classes let it.
    pub(crate) held: Option<Box<Effect>>,
    /// The memory that it takes until this is dropped.
    pub(crate) _memory: Charge,
    /// The file whose contents change meanwhile, and the open through which.
    pub(crate) changed: Option<(object::FileIdentity, u64)>,
}
