//! Layout and sending of responses: [MS-SMB2] 3.3.4.1.

use std::sync::Arc;

use bytes::{Buf, BytesMut};
use crypto::SigningKey;
use dtyp::NtStatus;
use model::connection::{Connection, ConnectionId};
use model::reject::{Disconnect, Reject};
use model::session::Session;
use object::Piped;
use trace::Phase;
use wire::{Command, Dialect, Header, HeaderFlags};

use crate::outgoing::{Laid, Outgoing};
use crate::protection::{DEFERRED_LEN_MIN, Protection};
use crate::request::{Chain, Incoming};
use crate::response::{Response, TRANSFORM, TRANSPORT, Transmit, error_body};
use crate::server::Server;
use crate::unconfirmed_breaks::ConfirmationId;

impl Server {
    /// Answers a request that a command has completed.
    #[inline(always)]
    pub(crate) fn conclude(
        &mut self,
        chain: &mut Chain,
        incoming: &Incoming,
        async_id: Option<u64>,
        response: Response,
    ) {
        if incoming.header.command == Command::SESSION_SETUP && response.status.is_success() {
            let session_id = response.session_id.unwrap_or(incoming.header.session_id);
            self.logged_on(incoming, session_id);
        }
        self.respond(chain, incoming, async_id, response);
    }

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
        self.respond(chain, incoming, async_id, error_body(reject.status()));
    }

    /// Puts the response to a request into its chain's frame, with its credits.
    pub(crate) fn respond(
        &mut self,
        chain: &mut Chain,
        incoming: &Incoming,
        async_id: Option<u64>,
        response: Response,
    ) {
        let mut response = response;
        let part = self.credits_limit(incoming.now);
        let request = &incoming.header;
        let mut session = self.sessions.get(&request.session_id);
        if response.piped.is_some()
            && (chain.sealed.is_some() || wants_signature(session, request, response.status))
        {
            // Piped data cannot be signed, and the session has begun to require signatures since.
            // The client succeeds with a repetition.
            let reject = Reject::ProtectedMeanwhile;
            incoming.trace.refuse(reject.reason(), &reject);
            response = error_body(reject.status());
        }
        let Response { status, buffer, piped, file_id, session_id, tree_id } = response;
        let session_id = session_id.unwrap_or(request.session_id);
        let tree_id = tree_id.unwrap_or(request.tree_id);
        if session_id != request.session_id {
            session = self.sessions.get(&session_id);
        }
        // [MS-SMB2] 3.3.5.2.7.2: an unknown session is not passed on.
        chain.carried.session_id = session.map_or(0, |_| session_id);
        chain.carried.tree_id = tree_id;
        chain.carried.status = status;
        if file_id.is_some() {
            chain.carried.file_id = file_id;
        }
        let Some(connection) = self.connections.get_mut(&chain.connection) else { return };
        // The interim response carried the credits already: [MS-SMB2] 3.3.4.1.2.
        let credits = if async_id.is_some() { 0 } else { grant(connection, part, request.credits) };
        if async_id.is_some() {
            connection.async_commands -= 1;
        }
        // Encryption authenticates the message.
        let wants_key = chain.sealed.is_none() && wants_signature(session, request, status);
        let key = match wants_key {
            true => key_of(session, connection, chain.connection, request.command, session_id),
            false => None,
        }
        .cloned();
        let header = response_header(request, status, credits, session_id, tree_id, async_id);
        if !chain.outgoing.has_room_for(&buffer, piped.as_ref().map_or(0, Piped::length)) {
            // [MS-SMB2] 3.3.4.1.3: responses to a compound need not be compounded.
            let full = std::mem::take(&mut chain.outgoing);
            self.transmit(chain.connection, chain.sealed, full);
        }
        chain.outgoing.push(header, buffer, key);
        chain.outgoing.piped = piped;
        let open = chain.carried.file_id.map(|file_id| file_id.volatile);
        incoming.trace.answer(status.0, open, &mut chain.outgoing.answered);
    }

    /// Sends the interim response of a request that takes its time: [MS-SMB2] 3.3.4.2.
    pub(crate) fn respond_interim(
        &mut self,
        connection_id: ConnectionId,
        sealed: Option<u64>,
        incoming: &Incoming,
        async_id: u64,
    ) {
        let part = self.credits_limit(incoming.now);
        let request = &incoming.header;
        let Some(connection) = self.connections.get_mut(&connection_id) else { return };
        connection.async_commands += 1;
        let credits = grant(connection, part, request.credits);
        let status = NtStatus::PENDING;
        let (session_id, tree_id) = (request.session_id, request.tree_id);
        let header = response_header(request, status, credits, session_id, tree_id, Some(async_id));
        let mut outgoing = Outgoing::default();
        // Never signed: the nonce of AES-GMAC is the MessageId, which the final response has, too.
        // Clients do not verify it ([MS-SMB2] 3.2.5.1.3).
        outgoing.push(header, error_body(status).buffer, None);
        self.transmit(connection_id, sealed, outgoing);
    }

    /// Sends a message that answers no request. It is never signed: [MS-SMB2] 3.3.4.6.
    pub(crate) fn notify(
        &mut self,
        (connection, sealed): (ConnectionId, Option<u64>),
        confirmation: Option<ConfirmationId>,
        header: Header,
        buffer: BytesMut,
    ) {
        let mut outgoing = Outgoing::default();
        outgoing.push(header, buffer, None);
        self.transmit_confirmed(connection, sealed, outgoing, confirmation);
    }

    /// Signs, encrypts and queues a frame of responses, unless it is empty.
    pub(crate) fn transmit(
        &mut self,
        connection_id: ConnectionId,
        sealed: Option<u64>,
        outgoing: Outgoing,
    ) {
        self.transmit_confirmed(connection_id, sealed, outgoing, None);
    }

    fn transmit_confirmed(
        &mut self,
        connection_id: ConnectionId,
        sealed: Option<u64>,
        outgoing: Outgoing,
        confirmation: Option<ConfirmationId>,
    ) {
        if outgoing.is_empty() {
            return;
        }
        let Outgoing { mut frame, first, others, piped, answered } = outgoing;
        let messages = || first.iter().chain(&others);
        // Each ends at the next one, padding included, or with the frame.
        let ends = others.iter().map(|laid| laid.start).chain([frame.len()]);
        let Some(connection) = self.connections.get_mut(&connection_id) else { return };
        let is_deferred = frame.len() >= DEFERRED_LEN_MIN;
        let signs = sealed.is_some() || messages().any(|laid| laid.key.is_some());
        if signs && !is_deferred {
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
            // Hashed as sent: with the signature that a response has while a connection is being
            // bound.
            if matches!(laid.command, Command::NEGOTIATE | Command::SESSION_SETUP) {
                update_preauth(connection, laid, message);
            }
        }
        let protection = match sealed {
            None => {
                frame.advance(TRANSFORM);
                (!signatures.is_empty()).then_some(Protection::Sign(signatures))
            }
            Some(session_id) => match self.seal(session_id, &mut frame) {
                Ok(protection) => protection,
                Err(None) => return,
                Err(Some(reason)) => return self.disconnect(connection_id, reason),
            },
        };
        let bytes = frame.len() + piped.as_ref().map_or(0, Piped::length);
        let length = u32::try_from(bytes - TRANSPORT).expect("a frame is below 16 MiB");
        frame[..TRANSPORT].copy_from_slice(&length.to_be_bytes());
        self.globals.trace.sends(connection_id.0, bytes, &answered);
        let connection = connection_id;
        let transmit = Transmit { connection, frame, piped, protection, confirmation, answered };
        self.globals.outbox.transmits.push_back(transmit);
    }

    /// Seals a frame, or tells how. Without a session, nobody can read it.
    fn seal(
        &mut self,
        session_id: u64,
        frame: &mut [u8],
    ) -> Result<Option<Protection>, Option<Disconnect>> {
        // The session may be gone when its last response is due.
        let sealing = self.sessions.get_mut(&session_id).and_then(|it| it.sealing.as_mut());
        let sealing = sealing.ok_or(None)?;
        let nonce = sealing.nonces.advance().map_err(|_| Disconnect::NoncesExhausted)?;
        if frame.len() >= DEFERRED_LEN_MIN {
            let key = Arc::clone(&sealing.seal);
            return Ok(Some(Protection::Seal { key, nonce, session_id }));
        }
        sealing.seal.seal(nonce, session_id, &mut frame[TRANSPORT..]);
        Ok(None)
    }
}

#[inline(always)]
fn grant(connection: &mut Connection, part: Option<u32>, credit_request: u16) -> u16 {
    let window = &mut connection.command_sequence_window;
    let mut figures = window.figures();
    if let Some(limit) = part {
        figures = figures.limited_to(limit);
    }
    let credits = qos::grant(qos::Demand { credit_request }, figures);
    window.grant(credits);
    credits
}

fn response_header(
    request: &Header,
    status: NtStatus,
    credits: u16,
    session_id: u64,
    tree_id: u32,
    async_id: Option<u64>,
) -> Header {
    // [MS-SMB2] 3.3.4.1.3: a response to a related request is marked as related, too.
    let mut kept = HeaderFlags::RELATED_OPERATIONS
        | HeaderFlags::REPLAY_OPERATION
        | HeaderFlags::PRIORITY_MASK;
    if status == NtStatus::USER_SESSION_DELETED {
        // There may be no key to sign with, and clients know that. Those that require signatures
        // still demand the flag, so all servers repeat it.
        kept |= HeaderFlags::SIGNED;
    }
    let kept = request.flags & kept;
    Header {
        credit_charge: request.credit_charge,
        status,
        command: request.command,
        credits,
        flags: kept | HeaderFlags::SERVER_TO_REDIR,
        next_command: 0,
        message_id: request.message_id,
        async_id,
        tree_id,
        session_id,
        signature: [0; 16],
    }
}

/// Returns whether a response must be signed: [MS-SMB2] 3.3.4.1.1. It must if its request was
/// signed, or if the session requires it; and the response that ends an authentication proves that
/// the server has the key.
fn wants_signature(session: Option<&Session>, request: &Header, status: NtStatus) -> bool {
    let ends_authentication = request.command == Command::SESSION_SETUP && status.is_success();
    request.is_signed()
        || ends_authentication
        || session.is_some_and(|session| session.signing_required)
}

/// Returns the channel's key: [MS-SMB2] 3.3.4.1.1. Until there is one, SESSION_SETUP is answered
/// with the key of the session that the connection is being bound to.
fn key_of<'a>(
    session: Option<&'a Session>,
    connection: &'a Connection,
    connection_id: ConnectionId,
    command: Command,
    session_id: u64,
) -> Option<&'a Arc<SigningKey>> {
    let key = session.and_then(|session| session.signing_key(connection_id));
    let binding = || connection.binding_key.as_ref().filter(|(id, _)| *id == session_id);
    match command {
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
