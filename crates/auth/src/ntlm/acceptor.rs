//! The server's side of NTLM: [MS-NLMP] 3.2.5.1.

use dtyp::FileTime;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use zeroize::Zeroizing;

use super::authenticate::Authenticate;
use super::av_pair::{self, AvId};
use super::layout::{self, Builder, Message, unicode};
use super::response::{self, NtlmV2Response, hmac_md5, ntowf_v2, uppercase};
use super::security::{Security, rc4};
use super::{MIC, MessageType, VERSION, flags};
use crate::acceptor::{AcceptorSettings, Identity, IdentityKind};
use crate::error::AuthError;
use crate::nt_hash::NtHash;
use crate::session_key::{SessionBaseKey, SessionKey};

/// The server's side of one NTLM authentication.
#[derive(Debug)]
pub(crate) struct NtlmAcceptor {
    challenge: [u8; 8],
    /// True if the target name is that of a domain.
    is_member: bool,
    target_name: Vec<u8>,
    target_info: Vec<u8>,
    /// NegotiateFlags of the CHALLENGE_MESSAGE: [MS-NLMP] 2.2.2.5.
    flags: u32,
    /// The first two messages as sent, for the MIC.
    transcript: Vec<u8>,
    /// The AUTHENTICATE_MESSAGE, while the caller looks up the account.
    authenticate: Vec<u8>,
    /// The identity in the AUTHENTICATE_MESSAGE, proven or not.
    claimed: Option<Identity>,
}

/// Result of a valid AUTHENTICATE_MESSAGE.
#[derive(Debug)]
pub(crate) enum Authenticated {
    /// The response is to be verified.
    Account(Identity),
    /// The client is anonymous, and needs no hash.
    Anonymous(Established),
}

/// Result of a successful NTLM authentication.
#[derive(Debug)]
pub(crate) struct Established {
    pub(crate) identity: Identity,
    pub(crate) security: Security,
    /// Service that the client intends to log on to, if the client sends it. The proof covers it.
    pub(crate) target_name: Option<String>,
}

/// A client's response to the challenge, for whoever has the hash of the user's password: another
/// process of this server, or a domain controller.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NtlmResponse {
    /// User name as the client sent it: the response covers it.
    pub user: String,
    /// Domain as the client sent it.
    pub domain: String,
    /// Name of the client machine, by its own account.
    pub workstation: String,
    /// ServerChallenge of [MS-NLMP] 2.2.1.2.
    pub challenge: [u8; 8],
    /// NtChallengeResponse of [MS-NLMP] 2.2.1.3. There is no LmChallengeResponse: if a controller
    /// were content with that one, nothing would prove the fields of this one.
    pub nt_response: Vec<u8>,
}

impl NtlmResponse {
    /// Verifies the response with the hash of each account that may be meant, and returns the
    /// index of the first one that it is right for. Without a hash it does the same work: a missing
    /// account must take as much time as a wrong password. The time depends on the number of
    /// accounts alone.
    ///
    /// # Errors
    /// [`AuthError::NoSuchUser`] without a single hash, [`AuthError::WrongPassword`] if none is
    /// right, or the response cannot be parsed.
    pub fn verify(
        &self,
        accounts: &[Option<NtHash>],
    ) -> Result<(usize, SessionBaseKey), AuthError> {
        let response = NtlmV2Response::parse(&self.nt_response)?;
        let nobody = NtHash::new([0; 16]);
        let mut found = None;
        for (account, hash) in accounts.iter().enumerate() {
            let hash_or_nobody = hash.as_ref().unwrap_or(&nobody);
            let key = self.verify_proof(&response, hash_or_nobody);
            let is_right = key.is_some() && hash.is_some();
            if let Some(key) = key.filter(|_| is_right && found.is_none()) {
                found = Some((account, SessionBaseKey::new(*key)));
            }
        }
        if accounts.iter().all(Option::is_none) {
            return Err(AuthError::NoSuchUser);
        }
        found.ok_or(AuthError::WrongPassword)
    }

    /// Returns the SessionBaseKey, if the proof is right.
    ///
    /// The proof may use the domain as it was sent, in upper case, or empty: [MS-NLMP] 3.2.5.1.2
    /// demands support for clients that leave it out, and some send it in lower case and compute
    /// with upper case. All three are always computed.
    fn verify_proof(
        &self,
        response: &NtlmV2Response<'_>,
        hash: &NtHash,
    ) -> Option<Zeroizing<[u8; 16]>> {
        let mut session_base_key = Zeroizing::new([0; 16]);
        let mut verified = Choice::from(0);
        for domain in [self.domain.as_str(), &uppercase(&self.domain), ""] {
            let key = ntowf_v2(hash, &self.user, domain);
            let nt_proof = response::nt_proof(&key, self.challenge, response.temp);
            let candidate = response::session_base_key(&key, response.nt_proof);
            let equal = nt_proof[..].ct_eq(&response.nt_proof[..]);
            for (byte, candidate) in session_base_key.iter_mut().zip(candidate.iter()) {
                byte.conditional_assign(candidate, equal);
            }
            verified |= equal;
        }
        bool::from(verified).then_some(session_base_key)
    }
}

impl NtlmAcceptor {
    pub(crate) fn new(settings: &AcceptorSettings, challenge: [u8; 8], now: FileTime) -> Self {
        let name = |text: &str| -> Vec<u8> {
            unicode(&text.chars().take(NAME_CHARACTERS_MAX).collect::<String>())
        };
        let mut target_info = Vec::new();
        for (id, text) in [
            (AvId::NbDomainName, &settings.netbios_domain),
            (AvId::NbComputerName, &settings.netbios_name),
            (AvId::DnsDomainName, &settings.dns_domain),
            (AvId::DnsComputerName, &settings.dns_name),
        ] {
            av_pair::push(&mut target_info, id, &name(text));
        }
        // With a timestamp the client omits the weaker LMv2 response and sends a MIC.
        av_pair::push(&mut target_info, AvId::Timestamp, &now.0.to_le_bytes());
        av_pair::push(&mut target_info, AvId::Eol, &[]);
        Self {
            challenge,
            is_member: settings.is_member,
            target_name: name(match settings.is_member {
                true => &settings.netbios_domain,
                false => &settings.netbios_name,
            }),
            target_info,
            flags: 0,
            transcript: Vec::new(),
            authenticate: Vec::new(),
            claimed: None,
        }
    }

    /// Returns the identity that the client claims, proven or not.
    pub(crate) fn claimed(&self) -> Option<&Identity> {
        self.claimed.as_ref()
    }

    /// Answers a NEGOTIATE_MESSAGE with a CHALLENGE_MESSAGE: [MS-NLMP] 3.2.5.1.1.
    pub(crate) fn negotiate(&mut self, message: &[u8]) -> Result<Vec<u8>, AuthError> {
        let negotiate = Message::parse(message, MessageType::Negotiate, NEGOTIATE_HEADER_LEN)?;
        let offered = negotiate.u32_at(NEGOTIATE_FLAGS);
        if offered & flags::UNICODE == 0 {
            return Err(AuthError::NotUnicode);
        }
        let target_type = match self.is_member {
            true => flags::TARGET_TYPE_DOMAIN,
            false => flags::TARGET_TYPE_SERVER,
        };
        self.flags = offered & SUPPORTED | ALWAYS | target_type;
        let mut builder = Builder::new(MessageType::Challenge, CHALLENGE_HEADER_LEN)
            .set(CHALLENGE_FLAGS, &self.flags.to_le_bytes())
            .set(CHALLENGE_SERVER_CHALLENGE, &self.challenge);
        if self.flags & flags::VERSION != 0 {
            builder = builder.set(CHALLENGE_VERSION, &VERSION);
        }
        let challenge = builder
            .field(CHALLENGE_TARGET_NAME, &self.target_name)
            .field(CHALLENGE_TARGET_INFO, &self.target_info)
            .finish();
        self.transcript = [message, &challenge].concat();
        Ok(challenge)
    }

    /// Processes an AUTHENTICATE_MESSAGE, [MS-NLMP] 3.2.5.1.2, up to the lookup of the account.
    pub(crate) fn authenticate(&mut self, message: &[u8]) -> Result<Authenticated, AuthError> {
        let authenticate = Authenticate::parse(message)?;
        if authenticate.is_anonymous() {
            // Without a password the KeyExchangeKey is zero.
            let security = self.security(&authenticate, &[0; 16])?;
            let identity = identity(&authenticate, IdentityKind::Anonymous);
            let established = Established { identity, security, target_name: None };
            return Ok(Authenticated::Anonymous(established));
        }
        let claimed = identity(&authenticate, IdentityKind::User);
        self.claimed = Some(claimed.clone());
        if authenticate.nt_response.is_empty() {
            return Err(AuthError::LmResponse);
        }
        NtlmV2Response::parse(authenticate.nt_response)?;
        self.authenticate = message.to_vec();
        Ok(Authenticated::Account(claimed))
    }

    /// Returns the response, for a process that has the hash.
    pub(crate) fn response(&self) -> Result<NtlmResponse, AuthError> {
        let authenticate = Authenticate::parse(&self.authenticate)?;
        Ok(NtlmResponse {
            user: authenticate.user,
            domain: authenticate.domain,
            workstation: authenticate.workstation,
            challenge: self.challenge,
            nt_response: authenticate.nt_response.to_vec(),
        })
    }

    /// Continues with the SessionBaseKey of a response that was verified elsewhere. The MIC is
    /// verified here: a domain controller has not seen the other messages.
    pub(crate) fn resume_with_key(
        &mut self,
        session_base_key: &[u8; 16],
    ) -> Result<Established, AuthError> {
        let message = std::mem::take(&mut self.authenticate);
        let authenticate = Authenticate::parse(&message)?;
        let response = NtlmV2Response::parse(authenticate.nt_response)?;
        let security = self.security(&authenticate, session_base_key)?;
        if response.has_mic {
            self.verify_mic(&authenticate, &security)?;
        }
        let target_name = response.target_name.map(layout::target_name).transpose()?;
        let identity = identity(&authenticate, IdentityKind::User);
        Ok(Established { identity, security, target_name })
    }

    /// Returns the flags that both sides agreed on and the ExportedSessionKey.
    fn security(
        &self,
        authenticate: &Authenticate<'_>,
        key_exchange_key: &[u8; 16],
    ) -> Result<Security, AuthError> {
        let flags = authenticate.flags & self.flags;
        let mut key = Zeroizing::new(*key_exchange_key);
        if flags & flags::KEY_EXCH != 0 {
            match <[u8; 16]>::try_from(authenticate.encrypted_session_key) {
                Ok(encrypted) => {
                    *key = encrypted;
                    rc4(key_exchange_key, &mut key[..]);
                }
                // No key is needed without signing and sealing.
                Err(_)
                    if authenticate.encrypted_session_key.is_empty()
                        && flags & (flags::SIGN | flags::SEAL) == 0 => {}
                Err(_) => return Err(AuthError::Malformed("EncryptedRandomSessionKey")),
            }
        }
        Ok(Security { flags, key: SessionKey::new(*key) })
    }

    /// Verifies the MIC over all three messages, the last with zeros in the range of the MIC.
    fn verify_mic(
        &self,
        authenticate: &Authenticate<'_>,
        security: &Security,
    ) -> Result<(), AuthError> {
        let mic = authenticate.mic()?;
        let (before, after) = (&authenticate.bytes[..MIC.start], &authenticate.bytes[MIC.end..]);
        let pieces = [&self.transcript[..], before, &[0; 16], after];
        let computed = hmac_md5(security.key.as_bytes(), &pieces);
        if bool::from(computed[..].ct_eq(mic)) { Ok(()) } else { Err(AuthError::BadMic) }
    }
}

fn identity(authenticate: &Authenticate<'_>, kind: IdentityKind) -> Identity {
    Identity {
        user: authenticate.user.clone(),
        domain: authenticate.domain.clone(),
        workstation: authenticate.workstation.clone(),
        kind,
    }
}

/// Features that are used if the client requests them.
const SUPPORTED: u32 = flags::UNICODE
    | flags::REQUEST_TARGET
    | flags::SIGN
    | flags::SEAL
    | flags::ALWAYS_SIGN
    | flags::EXTENDED_SESSIONSECURITY
    | flags::VERSION
    | flags::KEY_128
    | flags::KEY_EXCH
    | flags::KEY_56;
/// Features that are always used: NTLMv2 requires target information.
const ALWAYS: u32 = flags::NTLM | flags::TARGET_INFO;

/// Characters of a name of this server; no name service has longer ones.
const NAME_CHARACTERS_MAX: usize = 255;

// NEGOTIATE_MESSAGE: [MS-NLMP] 2.2.1.1. Old clients end it after the flags.
pub(crate) const NEGOTIATE_HEADER_LEN: usize = 16;
pub(crate) const NEGOTIATE_FLAGS: usize = 12;
// CHALLENGE_MESSAGE: [MS-NLMP] 2.2.1.2.
pub(crate) const CHALLENGE_HEADER_LEN: usize = 56;
pub(crate) const CHALLENGE_TARGET_NAME: usize = 12;
pub(crate) const CHALLENGE_FLAGS: usize = 20;
pub(crate) const CHALLENGE_SERVER_CHALLENGE: usize = 24;
pub(crate) const CHALLENGE_TARGET_INFO: usize = 40;
pub(crate) const CHALLENGE_VERSION: usize = 48;

#[cfg(test)]
impl NtlmAcceptor {
    /// An acceptor after a recorded negotiation.
    pub(crate) fn after(challenge: [u8; 8], flags: u32, transcript: Vec<u8>) -> Self {
        Self {
            challenge,
            is_member: false,
            target_name: Vec::new(),
            target_info: Vec::new(),
            flags,
            transcript,
            authenticate: Vec::new(),
            claimed: None,
        }
    }
}
