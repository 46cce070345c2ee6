//! Requests from tests, valid or not.

mod every_command;

use wire::header::{self, HeaderFlags};
use wire::{Command, Encode, FileId, Header};

pub use every_command::of_every_command;

/// A request: a header that may still change, and a body.
///
/// [`crate::Peer::request`] creates it and fills the header in. Fields set by a test are sent as
/// they are; message id, signature and NextCommand come from the peer, unless set, too.
#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) header: Header,
    pub(crate) body: Vec<u8>,
    pub(crate) message_id: Option<u64>,
    pub(crate) sign: bool,
    pub(crate) tamper: Option<usize>,
}

impl Request {
    pub(crate) fn new(header: Header, body: &impl Encode, sign: bool) -> Self {
        // Bodies contain offsets from the header's start.
        let mut message = vec![0; header::SIZE];
        body.encode(&mut message);
        let body = message.split_off(header::SIZE);
        Self { header, body, message_id: None, sign, tamper: None }
    }

    /// Relates it to the request before it in the same frame: ids of all ones, and the flag.
    #[must_use]
    pub fn related(mut self) -> Self {
        self.header.flags |= HeaderFlags::RELATED_OPERATIONS;
        self.header.session_id = u64::MAX;
        self.header.tree_id = u32::MAX;
        self
    }

    /// Sets another CreditCharge in the header.
    #[must_use]
    pub fn charge(mut self, credit_charge: u16) -> Self {
        self.header.credit_charge = credit_charge;
        self
    }

    /// Sets another CreditRequest in the header.
    #[must_use]
    pub fn credits(mut self, credits: u16) -> Self {
        self.header.credits = credits;
        self
    }

    /// Sets another command, with the same body.
    #[must_use]
    pub fn command(mut self, command: Command) -> Self {
        self.header.command = command;
        self
    }

    /// Sets further flags in the header.
    #[must_use]
    pub fn flags(mut self, flags: HeaderFlags) -> Self {
        self.header.flags |= flags;
        self
    }

    /// Sets the ChannelSequence: [MS-SMB2] 2.2.1.2.
    #[must_use]
    pub fn channel_sequence(mut self, number: u16) -> Self {
        self.header.set_channel_sequence(number);
        self
    }

    /// Sets another message id; the peer does not count it.
    #[must_use]
    pub fn message_id(mut self, message_id: u64) -> Self {
        self.message_id = Some(message_id);
        self
    }

    /// Sets another session id in the header.
    #[must_use]
    pub fn session(mut self, session_id: u64) -> Self {
        self.header.session_id = session_id;
        self
    }

    /// Sets another tree id in the header.
    #[must_use]
    pub fn tree(mut self, tree_id: u32) -> Self {
        self.header.tree_id = tree_id;
        self
    }

    /// Sets the AsyncId of the request to cancel, in place of a tree id.
    #[must_use]
    pub fn async_id(mut self, async_id: u64) -> Self {
        self.header.async_id = Some(async_id);
        self
    }

    /// Leaves it unsigned, even if there is a key.
    #[must_use]
    pub fn unsigned(mut self) -> Self {
        self.sign = false;
        self
    }

    /// Signs it with the session's key.
    #[must_use]
    pub fn signed(mut self) -> Self {
        self.sign = true;
        self
    }

    /// Inverts one bit of the message after signing it.
    #[must_use]
    pub fn tampered(mut self, at: usize) -> Self {
        self.tamper = Some(at);
        self
    }

    /// Sets another body, after the same header.
    #[must_use]
    pub fn body(mut self, change: impl FnOnce(&mut Vec<u8>)) -> Self {
        change(&mut self.body);
        self
    }

    /// Returns the command in the header.
    #[must_use]
    pub fn command_code(&self) -> Command {
        self.header.command
    }

    /// Returns header and body as the only message of a frame, without a signature.
    #[must_use]
    pub fn to_message(&self) -> Vec<u8> {
        let mut message = self.header.to_bytes().to_vec();
        message.extend_from_slice(&self.body);
        message
    }
}

/// FileId of a related request that uses the open of the one before it.
pub const RELATED: FileId = FileId::ANY;
