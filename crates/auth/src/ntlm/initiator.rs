//! The client's side of NTLM: [MS-NLMP] 3.1.5.1.

use dtyp::FileTime;
use zeroize::Zeroizing;

use super::acceptor::{
    CHALLENGE_FLAGS, CHALLENGE_SERVER_CHALLENGE, CHALLENGE_TARGET_INFO, NEGOTIATE_FLAGS,
};
use super::authenticate::{
    DOMAIN, ENCRYPTED_SESSION_KEY, FLAGS, LM_RESPONSE, NT_RESPONSE, USER, WORKSTATION,
};
use super::av_pair::{self, AV_FLAG_MIC, AvId};
use super::layout::{Builder, Message, unicode};
use super::response::{self, client_challenge, hmac_md5, ntowf_v2};
use super::security::{Security, rc4};
use super::{MIC, MessageType, VERSION, flags};
use crate::error::AuthError;
use crate::initiator::{Credentials, Randomness};
use crate::session_key::SessionKey;

/// The client's side of one NTLM authentication.
#[derive(Debug)]
pub(crate) struct NtlmInitiator {
    pub(crate) credentials: Credentials,
    randomness: Randomness,
    now: FileTime,
    negotiate: Vec<u8>,
}

impl NtlmInitiator {
    pub(crate) fn new(credentials: Credentials, randomness: Randomness, now: FileTime) -> Self {
        let negotiate = Builder::new(MessageType::Negotiate, NEGOTIATE_LEN)
            .set(NEGOTIATE_FLAGS, &OFFERED.to_le_bytes())
            .set(NEGOTIATE_VERSION, &VERSION)
            .finish();
        Self { credentials, randomness, now, negotiate }
    }

    /// The NEGOTIATE_MESSAGE, built in advance.
    pub(crate) fn negotiate(&self) -> &[u8] {
        &self.negotiate
    }

    /// Answers a CHALLENGE_MESSAGE with an AUTHENTICATE_MESSAGE: [MS-NLMP] 3.1.5.1.2.
    pub(crate) fn challenge(&self, message: &[u8]) -> Result<(Vec<u8>, Security), AuthError> {
        let challenge = Message::parse(message, MessageType::Challenge, CHALLENGE_LEN_MIN)?;
        let chosen = challenge.u32_at(CHALLENGE_FLAGS) & (OFFERED | flags::TARGET_INFO);
        let target_info = challenge.field(CHALLENGE_TARGET_INFO)?;
        let server_challenge = message[CHALLENGE_SERVER_CHALLENGE..][..8].try_into();
        let server_challenge = server_challenge.expect("inside the header");
        let responses = self.responses(server_challenge, target_info)?;

        let mut exported = Zeroizing::new(*responses.session_base_key);
        let mut encrypted = Vec::new();
        if chosen & flags::KEY_EXCH != 0 {
            *exported = self.randomness.session_key;
            encrypted = exported.to_vec();
            rc4(&responses.session_base_key, &mut encrypted);
        }
        let anonymous = if self.credentials.hash.is_none() { flags::ANONYMOUS } else { 0 };
        let mut authenticate = Builder::new(MessageType::Authenticate, MIC.end)
            .set(FLAGS, &(chosen | anonymous).to_le_bytes())
            .set(AUTHENTICATE_VERSION, &VERSION)
            .field(DOMAIN, &unicode(&self.credentials.domain))
            .field(USER, &unicode(&self.credentials.user))
            .field(WORKSTATION, &unicode(&self.credentials.workstation))
            .field(LM_RESPONSE, &responses.lm)
            .field(NT_RESPONSE, &responses.nt)
            .field(ENCRYPTED_SESSION_KEY, &encrypted)
            .finish();
        if responses.has_mic {
            let pieces = [&self.negotiate[..], message, &authenticate];
            let mic = hmac_md5(&exported[..], &pieces);
            authenticate[MIC].copy_from_slice(&mic[..]);
        }
        Ok((authenticate, Security { flags: chosen, key: SessionKey::new(*exported) }))
    }

    fn responses(&self, challenge: [u8; 8], target_info: &[u8]) -> Result<Responses, AuthError> {
        let Some(hash) = &self.credentials.hash else {
            let session_base_key = Zeroizing::new([0; 16]);
            return Ok(Responses { lm: vec![0], nt: vec![], session_base_key, has_mic: false });
        };
        let key = ntowf_v2(hash, &self.credentials.user, &self.credentials.domain);
        let pairs = av_pair::parse(target_info)?;
        let timestamp =
            av_pair::find(&pairs, AvId::Timestamp).and_then(|time| time.try_into().ok());
        let has_mic = timestamp.is_some();
        let client = self.randomness.client_challenge;
        // [MS-NLMP] 3.1.5.1.2: a server that sends the time gets a MIC and no LM response.
        let (lm, info) = if has_mic {
            (vec![0; 24], with_mic_flag(&pairs, &self.credentials.target_name))
        } else {
            let lm = hmac_md5(&key[..], &[&challenge, &client]);
            ([&lm[..], &client].concat(), target_info.to_vec())
        };
        let timestamp = timestamp.map_or(self.now.0, u64::from_le_bytes);
        let temp = client_challenge(timestamp, client, &info);
        let nt_proof = response::nt_proof(&key, challenge, &temp);
        Ok(Responses {
            lm,
            nt: [&nt_proof[..], &temp].concat(),
            session_base_key: response::session_base_key(&key, &nt_proof),
            has_mic,
        })
    }
}

struct Responses {
    lm: Vec<u8>,
    nt: Vec<u8>,
    session_base_key: Zeroizing<[u8; 16]>,
    has_mic: bool,
}

/// Returns the server's pairs and the client's own: the flag of the MIC, empty channel bindings and
/// the intended service.
fn with_mic_flag(pairs: &[(u16, &[u8])], target_name: &str) -> Vec<u8> {
    let mut info = Vec::new();
    for (id, value) in pairs {
        info.extend_from_slice(&id.to_le_bytes());
        info.extend_from_slice(&u16::try_from(value.len()).expect("it was read so").to_le_bytes());
        info.extend_from_slice(value);
    }
    av_pair::push(&mut info, AvId::Flags, &AV_FLAG_MIC.to_le_bytes());
    av_pair::push(&mut info, AvId::ChannelBindings, &[0; 16]);
    av_pair::push(&mut info, AvId::TargetName, &unicode(target_name));
    av_pair::push(&mut info, AvId::Eol, &[]);
    info
}

/// Features that the client requests: those of Windows, and no older ones.
const OFFERED: u32 = flags::UNICODE
    | flags::REQUEST_TARGET
    | flags::SIGN
    | flags::NTLM
    | flags::ALWAYS_SIGN
    | flags::EXTENDED_SESSIONSECURITY
    | flags::VERSION
    | flags::KEY_128
    | flags::KEY_EXCH
    | flags::KEY_56;
const NEGOTIATE_LEN: usize = 40;
const NEGOTIATE_VERSION: usize = 32;
/// Length of a CHALLENGE_MESSAGE up to TargetInfoFields.
const CHALLENGE_LEN_MIN: usize = 48;
const AUTHENTICATE_VERSION: usize = 64;
