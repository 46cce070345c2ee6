//! A client that follows a script, and checks responses as a careful client would.
//!
//! Checks of every frame: the transform opens, every signature is right, every response belongs to
//! one request and comes once, a signed request has a signed response, an interim response is
//! unsigned, and the window of message ids is never wider than the server allows, nor empty for
//! good.

mod commands;
mod frames;
mod negotiate;
mod session_setup;

use std::collections::{HashMap, VecDeque};

use client::{Channel, Negotiated, SequenceWindow};
use crypto::{PreauthHash, SessionKeys};
use proto::{ConnectionId, Disconnect};
use wire::{Command, Dialect, Encode, Header};

use crate::entropy::Random;
use crate::request::Request;
use crate::response::Response;
use crate::world::{Cut, Traversal, World};

pub use client::Offer;

/// The client's end of a connection.
#[derive(Debug)]
pub struct Peer {
    world: World,
    connection: ConnectionId,
    random: Random,
    window: SequenceWindow,
    /// Largest span of the window that the server has promised.
    credits_max: u32,
    outstanding: HashMap<u64, Outstanding>,
    received: VecDeque<Response>,
    preauth: PreauthHash,
    /// Choices of the server in NEGOTIATE.
    pub negotiated: Negotiated,
    /// Sessions with keys, by id.
    channels: HashMap<u64, Channel>,
    /// Keys of a new session: they sign the response with its id.
    keys_of_new_session: Option<SessionKeys>,
    /// Preauthentication hashes of unfinished logons with tickets, by session id.
    logons: HashMap<u64, PreauthHash>,
    /// Session for the next requests.
    pub session_id: u64,
    /// Tree connect for the next requests.
    pub tree_id: u32,
    /// CreditRequest field of each request sent.
    pub credit_request: u16,
    /// True to sign requests whose session has a key.
    pub signs: bool,
    /// True to seal requests, for the session of [`Self::session_id`].
    pub seals: bool,
}

/// A request without a final response.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    command: Command,
    signed: bool,
    sealed: bool,
    async_id: Option<u64>,
}

impl Peer {
    pub(crate) fn new(world: World, connection: ConnectionId, credits_max: u32) -> Self {
        Self {
            world,
            connection,
            random: Random::new(0xC11E_4700 + u64::from(connection.0)),
            window: SequenceWindow::new(),
            credits_max,
            outstanding: HashMap::new(),
            received: VecDeque::new(),
            preauth: PreauthHash::ZERO,
            negotiated: Negotiated::default(),
            channels: HashMap::new(),
            keys_of_new_session: None,
            logons: HashMap::new(),
            session_id: 0,
            tree_id: 0,
            credit_request: 64,
            signs: true,
            seals: false,
        }
    }

    /// World that the peer belongs to.
    #[must_use]
    pub fn world(&self) -> World {
        self.world.clone()
    }

    /// Id of the connection in the server.
    #[must_use]
    pub fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// Number of message ids that may be used.
    #[must_use]
    pub fn credits(&self) -> u32 {
        self.window.credits()
    }

    /// Message id of the next request.
    #[must_use]
    pub fn next_message_id(&self) -> u64 {
        self.window.next_id()
    }

    /// Number of requests without a final response.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// True until one side ends the connection.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.world.is_open(self.connection)
    }

    /// Reason why the server has ended the connection.
    #[must_use]
    pub fn closed(&self) -> Option<Disconnect> {
        self.world.closed(self.connection)
    }

    /// Confirms delivery of all frames. Returns the number of frames for which the server wanted
    /// that.
    pub fn confirm(&self) -> usize {
        self.world.confirm(self.connection)
    }

    /// Ends confirmations: the server notices that its frames are not delivered.
    pub fn take_nothing(&self) {
        self.world.take_nothing(self.connection);
    }

    /// Sets the number of bytes after which the connection is cut.
    pub fn cut(&self, cut: Cut) {
        self.world.cut(self.connection, cut);
    }

    /// Bytes that have passed since [`Peer::cut`].
    #[must_use]
    pub fn passed(&self) -> Traversal {
        self.world.passed(self.connection)
    }

    /// Ends the connection from the client's side.
    pub fn disconnect(&self) {
        self.world.disconnect(self.connection);
    }

    /// Creates a request of the current session and tree connect, signed if there is a key.
    #[must_use]
    pub fn request(&self, command: Command, body: &impl Encode) -> Request {
        let sign = self.signs && self.has_signing_key();
        let header = Header {
            credit_charge: u16::from(self.negotiated.dialect > Dialect::SMB_2_0_2),
            command,
            credits: self.credit_request,
            session_id: self.session_id,
            tree_id: self.tree_id,
            ..Header::default()
        };
        Request::new(header, body, sign)
    }

    /// Sends one request and waits for its final response.
    ///
    /// # Panics
    /// If no response arrives, or a further one does.
    #[track_caller]
    pub fn call(&mut self, request: Request) -> Response {
        let mut responses = self.call_all([request]);
        assert_eq!(responses.len(), 1, "one response: {responses:?}");
        responses.remove(0)
    }

    /// Sends requests as one frame and waits for their final responses; interim ones are dropped.
    ///
    /// # Panics
    /// If the connection was ended.
    #[track_caller]
    pub fn call_all(&mut self, requests: impl IntoIterator<Item = Request>) -> Vec<Response> {
        self.send_all(requests);
        let responses = self.receive();
        if responses.is_empty() {
            assert_eq!(self.closed(), None, "the connection was ended");
        }
        responses.into_iter().filter(|response| !response.is_interim()).collect()
    }

    /// Sends one request. Returns its message id.
    pub fn send(&mut self, request: Request) -> u64 {
        self.send_all([request]).remove(0)
    }

    /// Returns all responses since the last call.
    pub fn receive(&mut self) -> Vec<Response> {
        self.take_frames();
        self.received.drain(..).collect()
    }

    /// Takes the final response to one request, if it has come. Others stay.
    fn take_response(&mut self, message_id: u64) -> Option<Response> {
        self.take_frames();
        let is_it = |response: &Response| {
            response.header.message_id == message_id && !response.is_interim()
        };
        let at = self.received.iter().position(is_it)?;
        self.received.remove(at)
    }

    /// True if the session has a signing key.
    #[must_use]
    pub fn has_signing_key(&self) -> bool {
        self.channels.contains_key(&self.session_id)
    }

    /// True if the session has keys to seal with.
    #[must_use]
    pub fn has_sealing_keys(&self) -> bool {
        self.channels.get(&self.session_id).is_some_and(Channel::has_cipher)
    }

    /// Returns the preauthentication hash of the NEGOTIATE messages.
    #[must_use]
    pub fn preauth(&self) -> PreauthHash {
        self.preauth
    }

    /// Resets that hash, for a client whose NEGOTIATE was refused.
    pub fn forget_preauth(&mut self) {
        self.preauth = PreauthHash::ZERO;
    }
}
