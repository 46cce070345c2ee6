//! Layout and sending of responses: [MS-SMB2] 3.3.4.1.
//!
//! `receive` and `pending` call `respond` for a completed command and `refuse` for a `Reject`. Both
//! put the response into the chain's frame (`Outgoing`), with credits.
//! `transmit` signs or encrypts the frame in place once its last response is there, and queues it
//! in the outbox for the worker. Each request is answered once; an interim response leaves in a
//! frame of its own and takes the credits of the final one.

use std::mem::take;

use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use crypto::SigningKey;
use dtyp::NtStatus;
use model::connection::{Connection, ConnectionId};
use model::reject::{Disconnect, Reject};
use model::session::Session;
use object::Piped;
use trace::Phase;
use wire::{Command, Dialect, Header, header};

use crate::outgoing::{FIRST, Laid, Outgoing};
use crate::protection::{DEFERRED_LEN_MIN, Protection};
use crate::request::{Carried, Chain, Incoming};
use crate::response::{HEADROOM, Response, TRANSFORM, TRANSPORT, Transmit, error_body};
use crate::server::Server;
use crate::unconfirmed_breaks::ConfirmationId;

impl Server {
    /// Refuses a request: counts the reason, and puts the status into its chain's frame.
    #[cold]
    pub(crate) fn refuse(
        &mut self,
        chain: &mut Chain,
        incoming: &Incoming,
        async_id: Option<u64>,
        reject: Reject,
    ) {
        incoming.trace.refuse(reject.reason(), &reject);
        if self.globals.settings.is_audited {
            self.audit_refusal(incoming, chain.carried.file_id, reject);
        }
        self.respond(chain, incoming, async_id, error_body(reject.status()));
    }

    /// Puts the response to a request into its chain's frame, with its credits.
    pub(crate) fn respond(
        &mut self,
        chain: &mut Chain,
        incoming: &Incoming,
        async_id: Option<u64>,
        mut response: Response,
    ) {
        let request = &incoming.header;
        let session_id = response.session_id.unwrap_or(request.session_id);
        let ends_authentication =
            request.command == Command::SESSION_SETUP && response.status.is_success();
        if ends_authentication {
            self.logged_on(incoming, session_id);
        }
        let (wanted, limit) = match self.globals.limits_credits(incoming.now) {
            true => (self.globals.credits_wanted(chain, request), self.credits_limit(incoming.now)),
            false => (request.credits, None),
        };
        let session = self.sessions.get(&session_id);
        // [MS-SMB2] 3.3.4.1.1: a response is signed if its request was, or if the session requires
        // it; the one that ends a user's authentication proves that the server has the key.
        let is_signed = request.is_signed()
            || ends_authentication && session.is_some_and(Session::is_users)
            || session.is_some_and(|session| session.signing_required);
        if response.piped.is_some() && (is_signed || chain.sealed.is_some()) {
            response = refuse_piped(incoming);
        }
        let Response { status, buffer, piped, file_id, tree_id, .. } = response;
        let tree_id = tree_id.unwrap_or(request.tree_id);
        // [MS-SMB2] 3.3.5.2.7.2: an unknown session is not passed on.
        let known = session.map_or(0, |_| session_id);
        let file_id = file_id.or(chain.carried.file_id);
        chain.carried = Carried { session_id: known, tree_id, file_id, status };
        let Some(connection) = self.connections.get_mut(&chain.connection) else { return };
        let mut header = Header { session_id, tree_id, async_id, ..request.response(status) };
        match async_id {
            // The interim response carried the credits already: [MS-SMB2] 3.3.4.1.2.
            Some(_) => connection.async_commands -= 1,
            None => header.credits = connection.command_sequence_window.grant(wanted, limit),
        }
        // Encryption authenticates the message.
        let key = match is_signed && chain.sealed.is_none() {
            true => key_of(session, connection, chain.connection, &header).cloned(),
            false => None,
        };
        if !chain.outgoing.is_empty() {
            self.send_full_frame(chain, buffer.len() + piped.as_ref().map_or(0, Piped::length));
        }
        chain.outgoing.push(header, buffer, key);
        chain.outgoing.piped = piped;
        let open = file_id.map(|it| it.volatile);
        incoming.trace.answer(status.0, open, &mut chain.outgoing.answered);
    }

    /// Sends the responses so far, if one more of this length does not fit their frame: [MS-SMB2]
    /// 3.3.4.1.3, responses to a compound need not be compounded.
    #[inline(never)]
    fn send_full_frame(&mut self, chain: &mut Chain, length: usize) {
        if !chain.outgoing.fits(length) {
            let mut full = take(&mut chain.outgoing);
            self.transmit(chain.connection, chain.sealed, &mut full);
        }
    }

    /// Sends the interim response of a request that takes its time, with as many of the `wanted`
    /// credits as there are: [MS-SMB2] 3.3.4.2.
    pub(crate) fn respond_interim(
        &mut self,
        (connection_id, sealed): (ConnectionId, Option<u64>),
        incoming: &Incoming,
        async_id: u64,
        wanted: u16,
    ) {
        let limit = self.credits_limit(incoming.now);
        let request = &incoming.header;
        let Some(connection) = self.connections.get_mut(&connection_id) else { return };
        connection.async_commands += 1;
        let credits = connection.command_sequence_window.grant(wanted, limit);
        let status = NtStatus::PENDING;
        let async_id = Some(async_id);
        let header = Header { credits, async_id, ..request.response(status) };
        let mut outgoing = Outgoing::default();
        // Never signed: the nonce of AES-GMAC is the MessageId, which the final response has, too.
        // Clients do not verify it ([MS-SMB2] 3.2.5.1.3).
        outgoing.push(header, error_body(status).buffer, None);
        self.transmit(connection_id, sealed, &mut outgoing);
    }

    /// Sends a message that answers no request. It is never signed: [MS-SMB2] 3.3.4.6.
    pub(crate) fn notify(
        &mut self,
        (connection, sealed): (ConnectionId, Option<u64>),
        confirmation: Option<ConfirmationId>,
        header: Header,
        buffer: BytesMut,
    ) {
        let mut outgoing = Outgoing { confirmation, ..Outgoing::default() };
        outgoing.push(header, buffer, None);
        self.transmit(connection, sealed, &mut outgoing);
    }

    /// Signs, encrypts and queues a frame of responses, unless it is empty. `outgoing` is of no use
    /// afterwards.
    pub(crate) fn transmit(
        &mut self,
        connection: ConnectionId,
        sealed: Option<u64>,
        outgoing: &mut Outgoing,
    ) {
        if outgoing.is_empty() {
            return;
        }
        let protection = match sealed.is_some() || outgoing.is_special {
            true => self.finish(connection, sealed, outgoing),
            false => self.connections.contains_key(&connection).then_some(None),
        };
        let Some(protection) = protection else { return };
        let (mut frame, answered) = (take(&mut outgoing.frame), take(&mut outgoing.answered));
        let (piped, confirmation) = (outgoing.piped.take(), outgoing.confirmation.take());
        if sealed.is_none() {
            frame.advance(TRANSFORM);
        }
        let bytes = frame.len() + piped.as_ref().map_or(0, Piped::length);
        let length = u32::try_from(bytes - TRANSPORT).expect("a frame is below 16 MiB");
        frame[..TRANSPORT].copy_from_slice(&length.to_be_bytes());
        self.globals.trace.sends(connection.0, bytes, &answered);
        let transmit = Transmit { connection, frame, piped, protection, confirmation, answered };
        self.globals.outbox.transmits.push_back(transmit);
    }

    /// Signs or encrypts the messages of a frame, or returns the task; hashes those of a
    /// negotiation. `None` without a connection or a session: nobody can read it.
    fn finish(
        &mut self,
        connection: ConnectionId,
        sealed: Option<u64>,
        outgoing: &mut Outgoing,
    ) -> Option<Option<Protection>> {
        let signatures = sign(self.connections.get_mut(&connection)?, outgoing);
        let Some(session_id) = sealed else {
            return Some((!signatures.is_empty()).then_some(Protection::Sign(signatures)));
        };
        // The session may be gone when its last response is due.
        let sealing = self.sessions.get_mut(&session_id)?.sealing.as_mut()?;
        let Ok(nonce) = sealing.nonces.advance() else {
            self.disconnect(connection, Disconnect::NoncesExhausted);
            return None;
        };
        if outgoing.frame.len() >= DEFERRED_LEN_MIN {
            let key = Arc::clone(&sealing.seal);
            return Some(Some(Protection::Seal { key, nonce, session_id }));
        }
        outgoing.answered.enter(Phase::Signing);
        sealing.seal.seal(nonce, session_id, &mut outgoing.frame[TRANSPORT..]);
        Some(None)
    }
}

impl Outgoing {
    /// Appends a response to the frame: [MS-SMB2] 3.3.4.1.3.
    pub(crate) fn push(&mut self, header: Header, body: BytesMut, key: Option<Arc<SigningKey>>) {
        debug_assert!(body.len() >= HEADROOM);
        let Header { command, status, session_id, .. } = header;
        self.is_special |=
            key.is_some() || matches!(command, Command::NEGOTIATE | Command::SESSION_SETUP);
        let mut laid = Laid { start: FIRST, command, status, session_id, key };
        match self.first {
            None => self.frame = body,
            Some(_) => laid.start = self.append(&body),
        }
        self.frame[laid.start..][..header::SIZE].copy_from_slice(&header.to_bytes());
        match self.first {
            None => self.first = Some(laid),
            Some(_) => self.others.push(laid),
        }
    }

    /// Appends a body behind the other messages, and links it to the one before. Returns the start
    /// of its message.
    #[inline(never)]
    fn append(&mut self, body: &[u8]) -> usize {
        assert!(self.piped.is_none(), "what is piped ends a frame");
        let start = FIRST + (self.frame.len() - FIRST).next_multiple_of(8);
        self.frame.resize(start, 0);
        self.frame.extend_from_slice(&body[FIRST..]);
        if let Some(previous) = self.others.last().or(self.first.as_ref()) {
            let next_command = u32::try_from(start - previous.start).expect("a frame is small");
            header::set_next_command(&mut self.frame[previous.start..], next_command);
        }
        // The last one is padded as well, as the section recommends. A READ whose data are piped
        // has a body of such a length already.
        self.frame.resize(FIRST + (self.frame.len() - FIRST).next_multiple_of(8), 0);
        start
    }
}

/// Signs the messages of a frame, or returns the ranges and keys for its sender. Hashes the
/// messages of a negotiation.
fn sign(
    connection: &mut Connection,
    outgoing: &mut Outgoing,
) -> Vec<(Range<usize>, Arc<SigningKey>)> {
    let Outgoing { frame, first, others, answered, .. } = outgoing;
    let messages = || first.iter().chain(&*others);
    // Each ends at the next one, padding included, or with the frame.
    let ends = others.iter().map(|laid| laid.start).chain([frame.len()]);
    let is_deferred = frame.len() >= DEFERRED_LEN_MIN;
    if !is_deferred && messages().any(|laid| laid.key.is_some()) {
        answered.enter(Phase::Signing);
    }
    let mut signatures = Vec::new();
    for (laid, end) in messages().zip(ends) {
        let message = &mut frame[laid.start..end];
        match &laid.key {
            // A response to SESSION_SETUP is hashed below, with its signature.
            Some(key) if is_deferred && laid.command != Command::SESSION_SETUP => {
                let at = laid.start - TRANSFORM..end - TRANSFORM;
                signatures.push((at, Arc::clone(key)));
            }
            Some(key) => key.sign(message),
            None => {}
        }
        // Hashed as sent: with the signature that a response has while a connection is being bound.
        if matches!(laid.command, Command::NEGOTIATE | Command::SESSION_SETUP) {
            update_preauth(connection, laid, message);
        }
    }
    signatures
}

/// Refuses data that cannot be signed: the session has begun to require signatures since. The
/// client succeeds with a repetition.
#[cold]
fn refuse_piped(incoming: &Incoming) -> Response {
    let reject = Reject::ProtectedMeanwhile;
    incoming.trace.refuse(reject.reason(), &reject);
    error_body(reject.status())
}

/// Returns the channel's key: [MS-SMB2] 3.3.4.1.1. Until there is one, SESSION_SETUP is answered
/// with the key of the session that the connection is being bound to.
fn key_of<'a>(
    session: Option<&'a Session>,
    connection: &'a Connection,
    connection_id: ConnectionId,
    header: &Header,
) -> Option<&'a Arc<SigningKey>> {
    let key = session.and_then(|session| session.signing_key(connection_id));
    let binding = || connection.binding_key.as_ref().filter(|(id, _)| *id == header.session_id);
    match header.command {
        Command::SESSION_SETUP => key.or_else(|| binding().map(|(_, key)| key)),
        _ => key,
    }
}

/// Hashes the negotiation into the keys: [MS-SMB2] 3.3.5.4 and 3.3.5.5. The response that ends an
/// authentication is not part of it, because it is signed with the keys already.
#[cold]
fn update_preauth(connection: &mut Connection, laid: &Laid, message: &[u8]) {
    let is_3_1_1 =
        connection.negotiated.as_ref().is_some_and(|it| it.dialect == Dialect::SMB_3_1_1);
    if !is_3_1_1 {
        return;
    }
    match laid.command {
        Command::NEGOTIATE => connection.preauth.update(message),
        Command::SESSION_SETUP if laid.status == NtStatus::MORE_PROCESSING_REQUIRED => {
            if let Some(hash) = connection.preauth_sessions.get_mut(&laid.session_id) {
                hash.update(message);
            }
        }
        _ => {}
    }
}
