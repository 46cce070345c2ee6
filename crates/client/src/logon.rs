//! Authentication by SESSION_SETUP: [MS-SMB2] 3.2.4.2.3, 3.2.5.3.

use auth::{Initiator, SessionKey};
use crypto::{PreauthHash, SessionKeys};
use dtyp::NtStatus;
use wire::negotiate::SecurityMode;
use wire::session_setup::{
    SessionFlags, SessionSetupFlags, SessionSetupRequest, SessionSetupResponse,
};
use wire::{Command, Decode, Header};

use crate::error::ProtocolError;
use crate::negotiated::Negotiated;

/// Highest number of SESSION_SETUP exchanges of a logon; NTLM takes two or three.
const EXCHANGES_MAX: u32 = 6;

/// One authentication: [`Self::request`], [`Self::handle_sent`], [`Self::handle_response`], until
/// it is done.
#[derive(Debug)]
pub struct Logon {
    initiator: Initiator,
    /// Flags field of the requests.
    pub flags: SessionSetupFlags,
    /// SecurityMode field of the requests.
    pub security_mode: SecurityMode,
    /// PreviousSessionId field of the requests, for a reconnect.
    pub previous_session_id: u64,
    token: Vec<u8>,
    exchanges: u32,
    session_key: Option<SessionKey>,
    preauth: PreauthHash,
}

/// State of a logon after a response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LogonState {
    /// The server expects another SESSION_SETUP request.
    More,
    /// The session is set up, with these SessionFlags.
    Done(SessionFlags),
}

impl LogonState {
    /// True for a session of a guest or of an anonymous user, which has no keys.
    #[must_use]
    pub fn is_guest(self) -> bool {
        let guest = SessionFlags::IS_GUEST | SessionFlags::IS_NULL;
        matches!(self, Self::Done(flags) if flags.intersects(guest))
    }
}

impl Logon {
    /// Creates a logon by a new initiator. `preauth` is `Connection.PreauthIntegrityHashValue`.
    ///
    /// # Errors
    ///
    /// The initiator was started before.
    pub fn new(mut initiator: Initiator, preauth: PreauthHash) -> Result<Self, ProtocolError> {
        let token = initiator.start()?;
        Ok(Self {
            initiator,
            flags: SessionSetupFlags::empty(),
            security_mode: SecurityMode::SIGNING_ENABLED,
            previous_session_id: 0,
            token,
            exchanges: 0,
            session_key: None,
            preauth,
        })
    }

    /// Returns the body of the next request.
    #[must_use]
    pub fn request(&self) -> SessionSetupRequest<'_> {
        SessionSetupRequest {
            flags: self.flags,
            security_mode: self.security_mode,
            previous_session_id: self.previous_session_id,
            security_buffer: &self.token,
            ..SessionSetupRequest::default()
        }
    }

    /// Counts the request as sent: the message with its signature, before encryption.
    pub fn handle_sent(&mut self, message: &[u8]) {
        self.preauth.update(message);
    }

    /// Derives the keys; `Some` once the authenticating request was sent. The response to it is
    /// signed with them already.
    #[must_use]
    pub fn keys(&self, negotiated: &Negotiated) -> Option<SessionKeys> {
        let session_key = self.session_key.as_ref()?;
        Some(negotiated.session_keys(session_key, &self.preauth))
    }

    /// Processes a response, whose signature its caller verifies.
    ///
    /// # Errors
    ///
    /// The server refuses the logon, does not end it, or has sent a wrong token.
    pub fn handle_response(&mut self, message: &[u8]) -> Result<LogonState, ProtocolError> {
        let status = Header::decode(message)?.status;
        if status == NtStatus::MORE_PROCESSING_REQUIRED {
            self.exchanges += 1;
            if self.exchanges >= EXCHANGES_MAX {
                return Err(ProtocolError::EndlessLogon);
            }
            self.preauth.update(message);
            let body = SessionSetupResponse::decode(message)?;
            let reply = self.initiator.step(body.security_buffer)?;
            self.token = reply.token;
            self.session_key = reply.session_key;
            return Ok(LogonState::More);
        }
        if !status.is_success() {
            return Err(ProtocolError::Refused(Command::SESSION_SETUP, status));
        }
        let body = SessionSetupResponse::decode(message)?;
        let state = LogonState::Done(body.session_flags);
        if !state.is_guest() {
            self.initiator.finish(body.security_buffer)?;
        }
        Ok(state)
    }
}
