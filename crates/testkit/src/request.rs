//! Requests as a test wants them, correct or not.

mod every_command;

use wire::header::{self, HeaderFlags};
use wire::{Command, Encode, FileId, Header};

pub use every_command::of_every_command;

/// One request: a header that may still change, and a body.
///
/// Made by [`crate::Peer::request`], which fills the header in. What a test sets here is sent as it
/// is; only the message id, the signature and NextCommand are the peer's, unless they are set, too.
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
        // Bodies are encoded behind a header, because they know where they lie.
        let mut message = vec![0; header::SIZE];
        body.encode(&mut message);
        let body = message.split_off(header::SIZE);
        Self { header, body, message_id: None, sign, tamper: None }
    }

    /// Related to the request before it in the same frame: ids of all ones, and the flag.
    #[must_use]
    pub fn related(mut self) -> Self {
        self.header.flags |= HeaderFlags::RELATED_OPERATIONS;
        self.header.session_id = u64::MAX;
        self.header.tree_id = u32::MAX;
        self
    }

    /// Another CreditCharge.
    #[must_use]
    pub fn charge(mut self, credit_charge: u16) -> Self {
        self.header.credit_charge = credit_charge;
        self
    }

    /// Asks for another number of credits.
    #[must_use]
    pub fn credits(mut self, credits: u16) -> Self {
        self.header.credits = credits;
        self
    }

    /// Another command, with the same body.
    #[must_use]
    pub fn command(mut self, command: Command) -> Self {
        self.header.command = command;
        self
    }

    /// Other flags beside those that are set.
    #[must_use]
    pub fn flags(mut self, flags: HeaderFlags) -> Self {
        self.header.flags |= flags;
        self
    }

    /// A ChannelSequence: [MS-SMB2] 2.2.1.2.
    #[must_use]
    pub fn channel_sequence(mut self, number: u16) -> Self {
        self.header.set_channel_sequence(number);
        self
    }

    /// Another message id; the peer does not count it.
    #[must_use]
    pub fn message_id(mut self, message_id: u64) -> Self {
        self.message_id = Some(message_id);
        self
    }

    /// Another session.
    #[must_use]
    pub fn session(mut self, session_id: u64) -> Self {
        self.header.session_id = session_id;
        self
    }

    /// Another tree connect.
    #[must_use]
    pub fn tree(mut self, tree_id: u32) -> Self {
        self.header.tree_id = tree_id;
        self
    }

    /// The async id of the request to cancel, instead of a tree connect.
    #[must_use]
    pub fn async_id(mut self, async_id: u64) -> Self {
        self.header.async_id = Some(async_id);
        self
    }

    /// Not signed, even if there is a key.
    #[must_use]
    pub fn unsigned(mut self) -> Self {
        self.sign = false;
        self
    }

    /// Signed.
    #[must_use]
    pub fn signed(mut self) -> Self {
        self.sign = true;
        self
    }

    /// One bit of the message is wrong after it was signed.
    #[must_use]
    pub fn tampered(mut self, at: usize) -> Self {
        self.tamper = Some(at);
        self
    }

    /// Another body.
    #[must_use]
    pub fn body(mut self, change: impl FnOnce(&mut Vec<u8>)) -> Self {
        change(&mut self.body);
        self
    }

    /// Its command.
    #[must_use]
    pub fn command_code(&self) -> Command {
        self.header.command
    }

    /// Header and body, as they would be sent as the only message of a frame, without a signature.
    #[must_use]
    pub fn to_message(&self) -> Vec<u8> {
        let mut message = self.header.to_bytes().to_vec();
        message.extend_from_slice(&self.body);
        message
    }
}

/// The FileId of a related request that takes the one before it.
pub const RELATED: FileId = FileId::ANY;
