//! From a frame to its requests: [MS-SMB2] 3.3.5.2, one function per check.

use std::sync::Arc;

use bytes::{Buf, BytesMut};
use crypto::BadSignature;
use model::connection::ConnectionId;
use model::now::Now;
use model::reject::{Disconnect, Reject};
use object::Piped;
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
use crate::storage::Storage;

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
        if !self.connections.contains_key(&connection) {
            return Ok(()); // The connection was closed before the frame arrived.
        }
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
                let session_id = self.unseal(connection, &mut frame, unsealed)?;
                first.enter(Phase::Parsing);
                Some(session_id)
            }
            Some(&COMPRESSION_PROTOCOL_ID) => return Err(Disconnect::CompressionNotNegotiated),
            Some(&SMB1_PROTOCOL_ID) => return self.receive_smb1(connection, &frame, now),
            _ => None,
        };
        let (first_header, length) = compound::first(&frame).map_err(Disconnect::Malformed)?;
        self.admit(connection, &first_header)?;
        let is_compound = length < frame.len();
        let others = is_compound.then(|| compound::headers(&frame).skip(1));
        for header in others.into_iter().flatten() {
            let header = header.map_err(Disconnect::Malformed)?;
            self.admit(connection, &header)?;
            // A NEGOTIATE is admitted once, so the compound has another one.
            if header.command == Command::NEGOTIATE {
                return Err(Disconnect::NegotiatedTwice);
            }
        }
        if let Some(session_id) = sealed {
            verify_sealed_session(compound::headers(&frame).flatten(), session_id)?;
        }
        // The first request's time is measured already.
        let came = if is_compound { self.globals.trace.came() } else { Came::default() };
        let chain = Chain { sealed, verified, came, ..Chain::new(connection, frame, piped) };
        self.run(chain, Some((first_header, length)), first, now, storage);
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

    /// Decrypts a message ([MS-SMB2] 3.3.5.2.1.1), unless that was done with the key in `unsealed`.
    /// Leaves the plaintext in `frame`.
    fn unseal(
        &mut self,
        connection: ConnectionId,
        frame: &mut BytesMut,
        unsealed: Option<Unsealed>,
    ) -> Result<u64, Disconnect> {
        let unknown = Disconnect::SealedForAnotherSession;
        let session_id = crypto::TransformKey::session_id(frame).ok_or(unknown)?;
        let session = self.sessions.get(&session_id).ok_or(unknown)?;
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
    fn admit(&mut self, connection: ConnectionId, header: &Header) -> Result<(), Disconnect> {
        let connection = self.connections.get_mut(&connection).expect("looked up by the caller");
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
        let charge = connection.charge(header);
        connection
            .command_sequence_window
            .consume(header.message_id, charge)
            .map_err(Disconnect::Sequence)
    }

    /// Serves the requests of a chain in order, until one has to wait or none is left.
    /// `first` keeps the time of the first one of a frame; of those behind it nothing is kept yet.
    /// `next` is the first header and the length of its message, if they are known.
    pub(crate) fn run(
        &mut self,
        mut chain: Chain,
        mut next: Option<(Header, usize)>,
        mut first: trace::Request,
        now: Now,
        storage: &mut dyn Storage,
    ) {
        while let Some((header, length)) =
            next.take().or_else(|| compound::first(&chain.messages).ok())
        {
            let is_first = std::mem::take(&mut chain.is_first);
            if !is_first && !self.connections.contains_key(&chain.connection) {
                return; // It is gone; the first request's connection was looked up before.
            }
            let (message, piped) = chain.take_message(length);
            let trace = match is_first {
                true => std::mem::take(&mut first),
                false => self.globals.trace.begin(chain.came, Phase::Parsing),
            };
            trace.identify(header.message_id, header.command.0);
            let incoming = Incoming::new(self.next_request_id(), &chain);
            let mut incoming = Incoming { header, piped: piped.into(), now, trace, ..incoming };
            let is_related = header.is_related();
            if is_related && !is_first {
                incoming.header.session_id = chain.carried.session_id;
                incoming.header.tree_id = chain.carried.tree_id;
            }
            if incoming.header.command == Command::CANCEL {
                if self.is_authentic_cancel(&mut chain, &incoming, message) {
                    cancel::cancel(self, &incoming);
                }
                incoming.trace.end_without_response();
                continue;
            }
            let place = (is_first, is_related);
            let step = match self.begin(&mut chain, &mut incoming, message, place, storage) {
                Ok(Step::Done(response)) => {
                    self.conclude(&mut chain, &incoming, None, response);
                    continue;
                }
                Ok(step) => step,
                Err(Reject::Disconnect(reason)) => {
                    self.count_refused(&incoming);
                    return self.disconnect(chain.connection, reason);
                }
                Err(reject) => {
                    self.count_refused(&incoming);
                    self.refuse(&mut chain, &incoming, None, reject);
                    continue;
                }
            };
            let file_id = chain.carried.file_id;
            match self.wait(Box::new(chain), Box::new(incoming), file_id, None, step) {
                Some(rest) => chain = *rest,
                None => return,
            }
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
        (is_first, is_related): (bool, bool),
        storage: &mut dyn Storage,
    ) -> Result<Step, Reject> {
        let verified = chain.verified.take();
        self.verify_signature(incoming, &mut message, verified)?;
        incoming.message = message.freeze();
        let connection = self.connections.get(&chain.connection);
        let charge = connection.map_or(1, |it| it.charge(&incoming.header).max(1));
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
    fn is_authentic_cancel(
        &self,
        chain: &mut Chain,
        incoming: &Incoming,
        mut message: BytesMut,
    ) -> bool {
        let session = self.sessions.get(&incoming.header.session_id);
        let must_be_sealed = session.is_some_and(|session| session.encrypt_data);
        let verified = chain.verified.take();
        (incoming.sealed || !must_be_sealed)
            && self.verify_signature(incoming, &mut message, verified).is_ok()
    }

    /// Verifies the signature ([MS-SMB2] 3.3.5.2.4), unless that was done with the key in
    /// `verified`.
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
