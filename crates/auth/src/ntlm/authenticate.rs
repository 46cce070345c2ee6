//! AUTHENTICATE_MESSAGE: [MS-NLMP] 2.2.1.3.

use super::layout::{Message, name};
use super::{MIC, MessageType, flags};
use crate::error::AuthError;

/// The message in its parts.
#[derive(Debug)]
pub(crate) struct Authenticate<'a> {
    pub(crate) lm_response: &'a [u8],
    pub(crate) nt_response: &'a [u8],
    pub(crate) domain: String,
    pub(crate) user: String,
    pub(crate) workstation: String,
    pub(crate) encrypted_session_key: &'a [u8],
    pub(crate) flags: u32,
    /// The whole message as received.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Authenticate<'a> {
    /// Parses the message, with any response.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, AuthError> {
        let message = Message::parse(bytes, MessageType::Authenticate, HEADER_LEN)?;
        let flags = message.u32_at(FLAGS);
        if flags & flags::UNICODE == 0 {
            return Err(AuthError::NotUnicode);
        }
        Ok(Self {
            lm_response: message.field(LM_RESPONSE)?,
            nt_response: message.field(NT_RESPONSE)?,
            domain: name(message.field(DOMAIN)?)?,
            user: name(message.field(USER)?)?,
            workstation: name(message.field(WORKSTATION)?)?,
            encrypted_session_key: message.field(ENCRYPTED_SESSION_KEY)?,
            flags,
            bytes: message.bytes(),
        })
    }

    /// Returns the MIC of a message that claims to have one.
    pub(crate) fn mic(&self) -> Result<&'a [u8], AuthError> {
        self.bytes.get(MIC).ok_or(AuthError::Malformed("an NTLM message without room for its MIC"))
    }

    /// True if user name and response are empty: [MS-NLMP] 3.2.5.1.2. The LM response is then empty
    /// too, or a single zero byte.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.user.is_empty() && self.nt_response.is_empty() && matches!(self.lm_response, [] | [0])
    }
}

/// The header up to NegotiateFlags; Version and MIC are later additions and may be absent.
const HEADER_LEN: usize = 64;
pub(crate) const LM_RESPONSE: usize = 12;
pub(crate) const NT_RESPONSE: usize = 20;
pub(crate) const DOMAIN: usize = 28;
pub(crate) const USER: usize = 36;
pub(crate) const WORKSTATION: usize = 44;
pub(crate) const ENCRYPTED_SESSION_KEY: usize = 52;
pub(crate) const FLAGS: usize = 60;
