//! From a frame to its requests: [MS-SMB2] 3.3.5.2, one function per check.
//!
//! `handle_frame_with` calls `Server::receive` with a frame as it came. It decrypts the
//! frame, checks all headers of its compound, and makes a `Chain` of the requests (`request.rs`).
//! `run` serves them in order: signature, credits, then the command (`Server::commands`, that is
//! `proto::dispatch`). If a request must wait, the rest of the chain waits with it
//! (`pending::wait`), and comes back by `Server::run_rest`. Of a guest beside a user, the rest
//! waits after each request, and comes back by `Server::serve_postponed`.
//!
//! A broken rule of a request is a [`Reject`] and an error response; one of the frame is a
//! [`Disconnect`], and ends the connection.

use std::mem::{replace, take};
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use crypto::BadSignature;
use model::connection::{Connection, ConnectionId};
use model::logon::Logon;
use model::now::Now;
use model::reject::{Disconnect, Reject};
use model::session::Session;
use object::Piped;
use rustc_hash::FxHashMap;
use trace::Phase;
use wire::compound;
use wire::transform::{COMPRESSION_PROTOCOL_ID, SMB1_PROTOCOL_ID, TRANSFORM_PROTOCOL_ID};
use wire::{Command, Header};

use crate::cancel;
use crate::protection::{CheckedFrame, Finding, Verified};
use crate::request::{Carried, Chain, FRAME_CREDITS_MAX, Incoming, Postponed, ReceivedFrame};
use crate::response::{Step, TRANSFORM};
use crate::scope;
use crate::server::Server;
use crate::storage::{EffectsOnly, Storage};

impl Server {
    /// Takes a frame, without the transport's length.
    pub fn handle_frame(&mut self, connection: ConnectionId, now: Now, frame: BytesMut) {
        let frame = ReceivedFrame { connection, frame, piped: None, checked: None };
        self.handle_frame_with(now, frame, &mut EffectsOnly);
    }

    /// Takes a frame. What `storage` answers at once becomes no effect.
    pub fn handle_frame_with(&mut self, now: Now, frame: ReceivedFrame, storage: &mut dyn Storage) {
        self.globals.files.set_now(now.monotonic);
        let connection = frame.connection;
        if let Err(disconnect) = self.receive(now, frame, storage) {
            self.disconnect(connection, disconnect);
        }
        if !self.globals.has_no_deferred_work(self.in_flight.is_empty()) {
            self.serve_deferred_work(now);
        }
    }

    /// Splits a frame and serves its requests, as far as they can be served now.
    fn receive(
        &mut self,
        now: Now,
        received: ReceivedFrame,
        storage: &mut dyn Storage,
    ) -> Result<(), Disconnect> {
        let ReceivedFrame { connection, mut frame, piped, checked } = received;
        // The connection may have been closed before the frame arrived.
        let Some(receiver) = self.connections.get_mut(&connection) else { return Ok(()) };
        let mut chain = Chain { connection, piped, pays: receiver.pays(), ..Chain::default() };
        let first = match frame.first_chunk() {
            Some(&TRANSFORM_PROTOCOL_ID) => {
                let trace = self.globals.trace.begin_frame(Phase::Verifying);
                unseal(&self.sessions, &mut chain, &mut frame, checked, trace)?
            }
            Some(&COMPRESSION_PROTOCOL_ID) => return Err(Disconnect::CompressionNotNegotiated),
            Some(&SMB1_PROTOCOL_ID) => return self.receive_smb1(connection, &frame, now),
            _ => {
                chain.verified = checked.and_then(CheckedFrame::verified);
                self.globals.trace.begin_frame(Phase::Parsing)
            }
        };
        let header = Header::decode(&frame).map_err(Disconnect::Malformed)?;
        let mut length = frame.len();
        if header.next_command > 0 {
            length = compound::first(&frame).map_err(Disconnect::Malformed)?.1;
            // The first request's time is measured already.
            chain.came = self.globals.trace.came();
        }
        admit(receiver, &header, now)?;
        if header.next_command > 0 || chain.sealed.is_some() {
            admit_others(receiver, &frame, chain.sealed, now)?;
        }
        chain.frame_bytes = frame.len() + chain.piped.as_ref().map_or(0, Piped::length);
        chain.messages = frame;
        self.run(&mut chain, (header, length), first, now, storage);
        Ok(())
    }

    /// Answers an SMB1 NEGOTIATE: [MS-SMB2] 3.3.5.3.
    fn receive_smb1(&mut self, id: ConnectionId, frame: &[u8], now: Now) -> Result<(), Disconnect> {
        drop(self.globals.trace.begin_frame(Phase::Parsing));
        let connection = self.connections.get_mut(&id).expect("looked up by the caller");
        let response = self.commands.negotiate_smb1(connection, &mut self.globals, frame, now)?;
        let header = Header { command: Command::NEGOTIATE, credits: 1, ..Header::default() };
        let mut chain = Chain { connection: id, ..Chain::default() };
        let request = self.next_request_id();
        let incoming = Incoming { id: request, connection: id, header, now, ..Incoming::default() };
        self.respond(&mut chain, &incoming, None, response);
        self.transmit(id, None, &mut chain.outgoing);
        Ok(())
    }

    /// Serves the requests of a chain behind one that has waited.
    pub(crate) fn run_rest(&mut self, mut chain: Chain, now: Now) {
        match compound::first(&chain.messages) {
            Ok(_) if self.takes_turns(chain.connection) => self.postpone(chain),
            Ok(next) => self.run(&mut chain, next, Default::default(), now, &mut EffectsOnly),
            Err(_) => self.transmit(chain.connection, chain.sealed, &mut chain.outgoing),
        }
    }

    /// Serves one request of a compound whose rest was postponed, of the connection that has waited
    /// longest. The worker calls this once in each turn of its loop: a user's requests are served
    /// in between, however long the compound of a guest beside the user is.
    pub fn serve_postponed(&mut self, now: Now, storage: &mut dyn Storage) {
        let Some(Postponed { mut chain, .. }) = self.postponed.pop_front() else { return };
        self.globals.files.set_now(now.monotonic);
        if let Ok(next) = compound::first(&chain.messages) {
            self.run(&mut chain, next, Default::default(), now, storage);
        }
        if !self.globals.has_no_deferred_work(self.in_flight.is_empty()) {
            self.serve_deferred_work(now);
        }
    }

    /// True if other requests of the client are served between those of a compound of this
    /// connection: it has a guest alone, and another one a user.
    fn takes_turns(&self, connection: ConnectionId) -> bool {
        let logon = || self.connections.get(&connection).map(|it| it.progress.logon());
        self.globals.logon == Logon::User
            && self.connections.len() > 1
            && logon() == Some(Logon::Guest)
    }

    #[cold]
    fn postpone(&mut self, chain: Chain) {
        let chain = Box::new(chain);
        let _memory = self.globals.memory.pass(chain.memory());
        self.postponed.push_back(Postponed { chain, _memory });
    }

    /// Serves the requests of a chain in order, until one has to wait or none is left.
    /// `first` keeps the time of the first one of a frame; of those behind it nothing is kept yet.
    /// `next` is the first header, and the length of its message.
    #[inline(always)]
    fn run(
        &mut self,
        chain: &mut Chain,
        mut next: (Header, usize),
        mut first: trace::Request,
        now: Now,
        storage: &mut dyn Storage,
    ) {
        loop {
            let (mut header, length) = next;
            let is_first = !replace(&mut chain.has_begun, true);
            let trace = match is_first {
                true => take(&mut first),
                false => match self.follow(chain, &mut header) {
                    Some(trace) => trace,
                    None => return,
                },
            };
            // The last message takes the whole buffer, without another reference to it.
            let (message, piped) = match chain.messages.len() {
                whole if whole == length => (take(&mut chain.messages), chain.piped.take()),
                _ => (chain.messages.split_to(length), None),
            };
            trace.identify(header.message_id, header.command.0);
            let (id, connection, sealed) =
                (self.next_request_id(), chain.connection, chain.sealed.is_some());
            let request = Incoming { id, connection, header, sealed, now, ..Incoming::default() };
            let mut incoming = Incoming { piped: piped.into(), trace, ..request };
            match self.begin(chain, &mut incoming, message, is_first, storage) {
                Ok(Step::Done(response)) => self.respond(chain, &incoming, None, response),
                outcome => {
                    if !self.leave(chain, incoming, outcome) {
                        return;
                    }
                }
            }
            if chain.messages.is_empty() {
                break;
            }
            if self.takes_turns(chain.connection) {
                return self.postpone(take(chain));
            }
            next = compound::first(&chain.messages).expect("each was decoded when it arrived");
        }
        self.transmit(chain.connection, chain.sealed, &mut chain.outgoing);
    }

    /// Begins a request behind the first one of its frame: a related one takes ids over. `None` if
    /// the connection is gone.
    #[inline(never)]
    fn follow(&self, chain: &Chain, header: &mut Header) -> Option<trace::Request> {
        self.connections.get(&chain.connection)?;
        if header.is_related() {
            (header.session_id, header.tree_id) = (chain.carried.session_id, chain.carried.tree_id);
        }
        Some(self.globals.trace.begin(chain.came, Phase::Parsing))
    }

    /// Handles a request without a response of its command: it waits, is refused, or gets none.
    /// Returns whether the next request of the chain may be served.
    #[inline(never)]
    fn leave(
        &mut self,
        chain: &mut Chain,
        incoming: Incoming,
        outcome: Result<Step, Reject>,
    ) -> bool {
        match outcome {
            Ok(Step::Ended) => incoming.trace.end_without_response(),
            Ok(step) => {
                let file_id = chain.carried.file_id;
                let (rest, incoming) = (Box::new(take(chain)), Box::new(incoming));
                match self.wait(rest, incoming, file_id, None, step) {
                    Some(rest) => *chain = *rest,
                    None => return false,
                }
            }
            Err(Reject::Disconnect(reason)) => {
                self.count_refused(&incoming);
                self.disconnect(chain.connection, reason);
                return false;
            }
            Err(reject) => {
                self.count_refused(&incoming);
                self.refuse(chain, &incoming, None, reject);
            }
        }
        true
    }

    /// Sets where a refused request is counted, which may not have come to its scope.
    fn count_refused(&self, incoming: &Incoming) {
        incoming.trace.belongs_to(scope::party(&self.sessions, &incoming.header));
    }

    /// Begins one request. The open that it names is passed on to the next ones.
    fn begin(
        &mut self,
        chain: &mut Chain,
        incoming: &mut Incoming,
        mut message: BytesMut,
        is_first: bool,
        storage: &mut dyn Storage,
    ) -> Result<Step, Reject> {
        let verified = chain.verified.take();
        if incoming.header.command == Command::CANCEL {
            return Ok(self.begin_cancel(incoming, message, verified));
        }
        let session = || self.sessions.get(&incoming.header.session_id);
        if incoming.header.is_signed()
            || !incoming.sealed && session().is_some_and(|session| session.signing_required)
        {
            self.verify_signature(incoming, &mut message, verified)?;
        }
        incoming.message = message.freeze();
        let charge = if chain.pays { incoming.header.credit_charge.max(1) } else { 1 };
        let spent = chain.credits_spent + u32::from(charge);
        if spent > FRAME_CREDITS_MAX {
            return Err(Reject::CompoundTooLarge);
        }
        chain.credits_spent = spent;
        if incoming.header.is_related() {
            return self.start_related(chain, incoming, is_first, storage);
        }
        chain.carried.file_id = None;
        self.commands.start(self, incoming, None, &mut chain.carried.file_id, storage)
    }

    /// Begins a related request: [MS-SMB2] 3.3.5.2.7.2.
    fn start_related(
        &mut self,
        chain: &mut Chain,
        incoming: &Incoming,
        is_first: bool,
        storage: &mut dyn Storage,
    ) -> Result<Step, Reject> {
        let handed_down = chain.carried.file_id.take();
        if is_first {
            // No earlier request exists.
            return Err(Reject::FirstIsRelated);
        }
        let Carried { session_id, status, file_id: named, .. } = &mut chain.carried;
        let (session_id, status) = (*session_id, *status);
        if session_id == 0 {
            return Err(Reject::NoRelatedIds);
        }
        let outcome = self.commands.start(self, incoming, Some(handed_down), named, storage);
        if status.is_error() && matches!(outcome, Err(Reject::NoRelatedFileId)) {
            // The previous request should have made an open, and failed: this one fails alike.
            return Err(Reject::Previous(status));
        }
        outcome
    }

    /// Serves a CANCEL, if it is authentic as far as its session demands. There is no response that
    /// could report an error.
    #[cold]
    fn begin_cancel(
        &mut self,
        incoming: &Incoming,
        mut message: BytesMut,
        verified: Option<Verified>,
    ) -> Step {
        let session = self.sessions.get(&incoming.header.session_id);
        let must_be_sealed = session.is_some_and(|session| session.encrypt_data);
        if (incoming.sealed || !must_be_sealed)
            && self.verify_signature(incoming, &mut message, verified).is_ok()
        {
            cancel::cancel(self, incoming);
        }
        Step::Ended
    }

    /// Verifies the signature ([MS-SMB2] 3.3.5.2.4), unless that was done with the key in
    /// `verified`.
    #[inline(always)]
    fn verify_signature(
        &self,
        incoming: &Incoming,
        message: &mut BytesMut,
        verified: Option<Verified>,
    ) -> Result<(), Reject> {
        let header = &incoming.header;
        // Encryption authenticates the message.
        if incoming.sealed {
            return Ok(());
        }
        let session = self.sessions.get(&header.session_id);
        let key = session.and_then(|session| session.signing_key(incoming.connection));
        match (header.is_signed(), key, session) {
            (true, Some(key), _) => {
                incoming.trace.enter(Phase::Verifying);
                let verified = match verified {
                    Some((by, result)) if Arc::ptr_eq(&by, key) => result,
                    _ => key.verify(message),
                };
                verified.map_err(|BadSignature| Reject::BadSignature)
            }
            // This request may bind the connection to a session, and then finds the key itself.
            (true, None, _) if header.command == Command::SESSION_SETUP => Ok(()),
            (true, None, None) if header.session_id != 0 => Err(Reject::NoSuchSession),
            (false, Some(_), Some(session)) if session.signing_required => {
                match header.command {
                    // A client that reauthenticates need not sign that.
                    Command::NEGOTIATE | Command::SESSION_SETUP => Ok(()),
                    _ => Err(Reject::NotSigned),
                }
            }
            _ => Ok(()),
        }
    }
}

/// Decrypts a message ([MS-SMB2] 3.3.5.2.1.1), unless that was done with the key in `checked`.
/// Leaves the plaintext in `frame`.
fn unseal(
    sessions: &FxHashMap<u64, Session>,
    chain: &mut Chain,
    frame: &mut BytesMut,
    checked: Option<CheckedFrame>,
    trace: trace::Request,
) -> Result<trace::Request, Disconnect> {
    let unknown = Disconnect::SealedForAnotherSession;
    let session_id = crypto::TransformKey::session_id(frame).ok_or(unknown)?;
    let session = sessions.get(&session_id).ok_or(unknown)?;
    let has_channel = |it: &Session| it.channel(chain.connection).is_some();
    // A client encrypts for an anonymous user only where it does for another one. A connection
    // without any user is constrained ([MS-SMB2] 3.3.1.7), and Samba ends it as well.
    let has_user = || sessions.values().any(|it| it.is_users() && has_channel(it));
    if !has_channel(session) || !session.is_users() && !has_user() {
        return Err(unknown);
    }
    let sealing = session.sealing.as_ref().ok_or(unknown)?;
    match checked.map(|it| it.0) {
        None | Some(Finding::Verified(_)) => sealing.open.open(frame).map(|_| ()),
        Some(Finding::Unsealed((key, result))) if Arc::ptr_eq(&key, &sealing.open) => result,
        // The session of that key is gone, and another has its id.
        Some(Finding::Unsealed(_)) => return Err(unknown),
    }
    .map_err(Disconnect::Sealed)?;
    frame.advance(TRANSFORM);
    chain.sealed = Some(session_id);
    trace.enter(Phase::Parsing);
    Ok(trace)
}

/// Checks a header before any request of the frame is served: direction, NEGOTIATE first, and
/// [MS-SMB2] 3.3.5.2.3 Verifying the Sequence Number.
fn admit(connection: &mut Connection, header: &Header, now: Now) -> Result<(), Disconnect> {
    if header.is_response() {
        return Err(Disconnect::ResponseFromClient);
    }
    if connection.negotiated.is_some() == (header.command == Command::NEGOTIATE) {
        return Err(wrong_negotiate(connection));
    }
    // [MS-SMB2] 3.3.5.16: CANCEL repeats the id of the request that it cancels.
    if header.command == Command::CANCEL {
        return admit_cancel(connection, now);
    }
    // One before dialect 2.1, even if the header says otherwise: [MS-SMB2] 3.3.5.2.3.
    let charge = if connection.pays() { header.credit_charge } else { 1 };
    connection
        .command_sequence_window
        .consume(header.message_id, charge)
        .map_err(Disconnect::Sequence)
}

/// A CANCEL takes no credit and has no response, so the window does not limit them. Before a
/// session there is nothing to cancel.
#[cold]
fn admit_cancel(connection: &mut Connection, now: Now) -> Result<(), Disconnect> {
    if connection.progress.logon() == Logon::Nobody {
        return Err(Disconnect::CancelWithoutSession);
    }
    match connection.cancels.admit(now.monotonic) {
        true => Ok(()),
        false => Err(Disconnect::TooManyCancels),
    }
}

/// [MS-SMB2] 3.3.5.4: a connection negotiates first, and only once.
#[cold]
fn wrong_negotiate(connection: &Connection) -> Disconnect {
    match &connection.negotiated {
        None => Disconnect::NotNegotiated,
        Some(_) => Disconnect::NegotiatedTwice,
    }
}

/// Checks the headers of a compound behind the first one, as [`admit`], and that all encrypted
/// messages are of the session whose key encrypted them: [MS-SMB2] 3.3.5.2.1.1.
#[inline(never)]
fn admit_others(
    connection: &mut Connection,
    frame: &[u8],
    sealed: Option<u64>,
    now: Now,
) -> Result<(), Disconnect> {
    for header in compound::headers(frame).skip(1) {
        let header = header.map_err(Disconnect::Malformed)?;
        admit(connection, &header, now)?;
        // A NEGOTIATE is admitted once, so the compound has another one.
        if header.command == Command::NEGOTIATE {
            return Err(Disconnect::NegotiatedTwice);
        }
    }
    let Some(session_id) = sealed else { return Ok(()) };
    for (index, header) in compound::headers(frame).flatten().enumerate() {
        let inherits = index > 0 && header.is_related();
        if !inherits && header.session_id != session_id {
            return Err(Disconnect::SealedForAnotherSession);
        }
    }
    Ok(())
}
