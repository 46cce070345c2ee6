//! From a frame to its requests: [MS-SMB2] 3.3.5.2, one function per check.

use std::mem::take;
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use crypto::BadSignature;
use model::connection::{Connection, ConnectionId};
use model::now::Now;
use model::reject::{Disconnect, Reject};
use model::session::Session;
use object::Piped;
use rustc_hash::FxHashMap;
use trace::{Came, Phase};
use wire::compound;
use wire::transform::{COMPRESSION_PROTOCOL_ID, SMB1_PROTOCOL_ID, TRANSFORM_PROTOCOL_ID};
use wire::{Command, FileId, Header};

use crate::cancel;
use crate::protection::{Finding, Opened, Unsealed, Verified};
use crate::request::{Carried, Chain, Incoming};
use crate::response::{Step, TRANSFORM};
use crate::scope;
use crate::server::Server;
use crate::storage::{EffectsOnly, Storage};

impl Server {
    /// Splits a frame and serves its requests, as far as they can be served now.
    pub(crate) fn receive(
        &mut self,
        connection: ConnectionId,
        now: Now,
        mut frame: BytesMut,
        piped: Option<Piped>,
        opened: Option<Opened>,
        storage: &mut dyn Storage,
    ) -> Result<(), Disconnect> {
        let Some(receiver) = self.connections.get_mut(&connection) else {
            return Ok(()); // The connection was closed before the frame arrived.
        };
        let (unsealed, verified) = match opened.map(|opened| opened.0) {
            Some(Finding::Unsealed(it)) => (Some(it), None),
            Some(Finding::Verified(it)) => (None, Some(it)),
            None => (None, None),
        };
        let is_sealed = frame.starts_with(&TRANSFORM_PROTOCOL_ID);
        let phase = if is_sealed { Phase::Verifying } else { Phase::Parsing };
        let first = self.globals.trace.begin_frame(phase);
        let sealed = match frame.first_chunk::<4>() {
            Some(&TRANSFORM_PROTOCOL_ID) => {
                let session_id = unseal(&self.sessions, connection, &mut frame, unsealed)?;
                first.enter(Phase::Parsing);
                Some(session_id)
            }
            Some(&COMPRESSION_PROTOCOL_ID) => return Err(Disconnect::CompressionNotNegotiated),
            Some(&SMB1_PROTOCOL_ID) => return self.receive_smb1(connection, &frame, now),
            _ => None,
        };
        let header = Header::decode(&frame).map_err(Disconnect::Malformed)?;
        let is_compound = header.next_command > 0;
        let length = match is_compound {
            true => compound::first(&frame).map_err(Disconnect::Malformed)?.1,
            false => frame.len(),
        };
        admit(receiver, &header)?;
        if is_compound {
            admit_others(receiver, &frame)?;
        }
        if let Some(session_id) = sealed {
            verify_sealed_session(compound::headers(&frame).flatten(), session_id)?;
        }
        let pays = receiver.pays();
        // The first request's time is measured already.
        let came = if is_compound { self.globals.trace.came() } else { Came::default() };
        let chain = Chain { sealed, verified, came, pays, ..Chain::new(connection, frame, piped) };
        self.run(chain, (header, length), first, now, storage);
        Ok(())
    }

    /// Answers an SMB1 NEGOTIATE: [MS-SMB2] 3.3.5.3.
    fn receive_smb1(&mut self, id: ConnectionId, frame: &[u8], now: Now) -> Result<(), Disconnect> {
        let connection = self.connections.get_mut(&id).expect("looked up by the caller");
        let response = self.commands.negotiate_smb1(connection, &mut self.globals, frame, now)?;
        let header = Header { command: Command::NEGOTIATE, credits: 1, ..Header::default() };
        let mut chain = Chain::new(id, BytesMut::new(), None);
        let incoming = Incoming::new(self.next_request_id(), &chain);
        let incoming = Incoming { header, now, is_admitted: true, ..incoming };
        self.respond(&mut chain, &incoming, None, response);
        self.transmit(id, None, chain.outgoing);
        Ok(())
    }

    /// Goes on with the requests of a chain behind one that has waited.
    pub(crate) fn run_rest(&mut self, chain: Chain, now: Now) {
        match compound::first(&chain.messages) {
            Ok(next) => self.run(chain, next, trace::Request::default(), now, &mut EffectsOnly),
            Err(_) => self.transmit(chain.connection, chain.sealed, chain.outgoing),
        }
    }

    /// Serves the requests of a chain in order, until one has to wait or none is left.
    /// `first` keeps the time of the first one of a frame; of those behind it nothing is kept yet.
    /// `next` is the first header, and the length of its message.
    #[inline(always)]
    fn run(
        &mut self,
        mut chain: Chain,
        mut next: (Header, usize),
        mut first: trace::Request,
        now: Now,
        storage: &mut dyn Storage,
    ) {
        loop {
            let (header, length) = next;
            let is_first = take(&mut chain.is_first);
            if !is_first && !self.connections.contains_key(&chain.connection) {
                return; // It is gone; the first request's connection was looked up before.
            }
            // The last message takes the whole buffer, without another reference to it.
            let (message, piped) = match chain.messages.len() {
                whole if whole == length => (take(&mut chain.messages), chain.piped.take()),
                _ => (chain.messages.split_to(length), None),
            };
            let trace = match is_first {
                true => take(&mut first),
                false => self.globals.trace.begin(chain.came, Phase::Parsing),
            };
            trace.identify(header.message_id, header.command.0);
            let incoming = Incoming::new(self.next_request_id(), &chain);
            let mut incoming = Incoming { header, piped: piped.into(), now, trace, ..incoming };
            match self.begin(&mut chain, &mut incoming, message, is_first, storage) {
                Ok(Step::Done(response)) => self.conclude(&mut chain, &incoming, None, response),
                Ok(Step::Ended) => incoming.trace.end_without_response(),
                Ok(step) => {
                    let file_id = chain.carried.file_id;
                    match self.wait(Box::new(chain), Box::new(incoming), file_id, None, step) {
                        Some(rest) => chain = *rest,
                        None => return,
                    }
                }
                Err(Reject::Disconnect(reason)) => {
                    self.count_refused(&incoming);
                    return self.disconnect(chain.connection, reason);
                }
                Err(reject) => {
                    self.count_refused(&incoming);
                    self.refuse(&mut chain, &incoming, None, reject);
                }
            }
            if chain.messages.is_empty() {
                break;
            }
            next = compound::first(&chain.messages).expect("each was decoded when it arrived");
        }
        self.transmit(chain.connection, chain.sealed, chain.outgoing);
    }

    /// Sets where a refused request is counted, which may not have come to its scope.
    fn count_refused(&self, incoming: &Incoming) {
        incoming.trace.belongs_to(scope::counted(&self.sessions, &incoming.header));
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
        let is_related = incoming.header.is_related();
        if is_related && !is_first {
            incoming.header.session_id = chain.carried.session_id;
            incoming.header.tree_id = chain.carried.tree_id;
        }
        let verified = chain.verified.take();
        if incoming.header.command == Command::CANCEL {
            if self.is_authentic_cancel(incoming, message, verified) {
                cancel::cancel(self, incoming);
            }
            return Ok(Step::Ended);
        }
        self.verify_signature(incoming, &mut message, verified)?;
        incoming.message = message.freeze();
        let charge = if chain.pays { incoming.header.credit_charge.max(1) } else { 1 };
        chain.credits_left =
            chain.credits_left.checked_sub(charge.into()).ok_or(Reject::CompoundTooLarge)?;
        let handed_down = chain.carried.file_id.take();
        if is_related && is_first {
            // [MS-SMB2] 3.3.5.2.7.2: no earlier request exists.
            return Err(Reject::FirstIsRelated);
        }
        if is_related {
            return self.start_related(chain, incoming, handed_down, storage);
        }
        self.commands.start(self, incoming, None, &mut chain.carried.file_id, storage)
    }

    /// Begins a related request: [MS-SMB2] 3.3.5.2.7.2.
    fn start_related(
        &mut self,
        chain: &mut Chain,
        incoming: &Incoming,
        handed_down: Option<FileId>,
        storage: &mut dyn Storage,
    ) -> Result<Step, Reject> {
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

    /// Returns whether a CANCEL is authentic, as far as its session demands. There is no response
    /// that could report an error.
    #[cold]
    fn is_authentic_cancel(
        &self,
        incoming: &Incoming,
        mut message: BytesMut,
        verified: Option<Verified>,
    ) -> bool {
        let session = self.sessions.get(&incoming.header.session_id);
        let must_be_sealed = session.is_some_and(|session| session.encrypt_data);
        (incoming.sealed || !must_be_sealed)
            && self.verify_signature(incoming, &mut message, verified).is_ok()
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

/// Decrypts a message ([MS-SMB2] 3.3.5.2.1.1), unless that was done with the key in `unsealed`.
/// Leaves the plaintext in `frame`.
fn unseal(
    sessions: &FxHashMap<u64, Session>,
    connection: ConnectionId,
    frame: &mut BytesMut,
    unsealed: Option<Unsealed>,
) -> Result<u64, Disconnect> {
    let unknown = Disconnect::SealedForAnotherSession;
    let session_id = crypto::TransformKey::session_id(frame).ok_or(unknown)?;
    let session = sessions.get(&session_id).ok_or(unknown)?;
    session.channel(connection).ok_or(unknown)?;
    let sealing = session.sealing.as_ref().ok_or(unknown)?;
    match unsealed {
        None => sealing.open.open(frame).map(|_| ()),
        Some((key, result)) if Arc::ptr_eq(&key, &sealing.open) => result,
        // The session of that key is gone, and another has its id.
        Some(_) => return Err(unknown),
    }
    .map_err(Disconnect::Sealed)?;
    frame.advance(TRANSFORM);
    Ok(session_id)
}

/// Checks a header before any request of the frame is served: direction, NEGOTIATE first, and
/// [MS-SMB2] 3.3.5.2.3 Verifying the Sequence Number.
fn admit(connection: &mut Connection, header: &Header) -> Result<(), Disconnect> {
    if header.is_response() {
        return Err(Disconnect::ResponseFromClient);
    }
    if connection.negotiated.is_none() && header.command != Command::NEGOTIATE {
        return Err(Disconnect::NotNegotiated);
    }
    // [MS-SMB2] 3.3.5.4: a connection negotiates only once.
    if connection.negotiated.is_some() && header.command == Command::NEGOTIATE {
        return Err(Disconnect::NegotiatedTwice);
    }
    // [MS-SMB2] 3.3.5.16: CANCEL repeats the id of the request that it cancels.
    if header.command == Command::CANCEL {
        return Ok(());
    }
    // One before dialect 2.1, whatever the header says: [MS-SMB2] 3.3.5.2.3.
    let charge = if connection.pays() { header.credit_charge } else { 1 };
    connection
        .command_sequence_window
        .consume(header.message_id, charge)
        .map_err(Disconnect::Sequence)
}

/// Checks the headers of a compound behind the first one, as [`admit`].
#[cold]
fn admit_others(connection: &mut Connection, frame: &[u8]) -> Result<(), Disconnect> {
    for header in compound::headers(frame).skip(1) {
        let header = header.map_err(Disconnect::Malformed)?;
        admit(connection, &header)?;
        // A NEGOTIATE is admitted once, so the compound has another one.
        if header.command == Command::NEGOTIATE {
            return Err(Disconnect::NegotiatedTwice);
        }
    }
    Ok(())
}

/// Checks that encrypted messages are of the session whose key encrypted them: [MS-SMB2]
/// 3.3.5.2.1.1.
fn verify_sealed_session(
    headers: impl Iterator<Item = Header>,
    session_id: u64,
) -> Result<(), Disconnect> {
    for (index, header) in headers.enumerate() {
        let inherits = index > 0 && header.is_related();
        if !inherits && header.session_id != session_id {
            return Err(Disconnect::SealedForAnotherSession);
        }
    }
    Ok(())
}
