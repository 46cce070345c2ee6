//! The client's side of an authentication, for tests and the load generator.

use std::fmt;

use dtyp::FileTime;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::error::AuthError;
use crate::nt_hash::NtHash;
use crate::ntlm::initiator::NtlmInitiator;
use crate::ntlm::security::{Security, Sender};
use crate::session_key::SessionKey;
use crate::spnego::{self, MechType, NegState, NegTokenInit, NegTokenResp};

/// Names and password hash of a client.
#[derive(Clone, Debug)]
pub struct Credentials {
    pub(crate) user: String,
    pub(crate) domain: String,
    pub(crate) workstation: String,
    pub(crate) hash: Option<NtHash>,
    pub(crate) target_name: String,
}

/// Random values for one authentication.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Randomness {
    /// Challenge in the client's response.
    pub client_challenge: [u8; 8],
    /// The session key, which the client chooses.
    pub session_key: [u8; 16],
}

/// Encoding of NTLM messages in tokens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Framing {
    /// Bare messages, as the Linux kernel sends them.
    Raw,
    /// SPNEGO that offers NTLM alone.
    Spnego,
    /// SPNEGO that prefers Kerberos, as Windows sends it.
    SpnegoAfterKerberos,
}

/// Next token for the server.
#[derive(Debug)]
pub struct Reply {
    /// The token for the server.
    pub token: Vec<u8>,
    /// The key; `Some` with the token that authenticates the client.
    pub session_key: Option<SessionKey>,
}

/// The client's side of one authentication: [`Self::start`], [`Self::step`] until there is a
/// session key, [`Self::finish`].
#[derive(Debug)]
pub struct Initiator {
    state: State,
    framing: Framing,
    mech_list: Vec<u8>,
    ntlm: NtlmInitiator,
}

#[derive(Debug)]
enum State {
    Start,
    /// The server's selection of NTLM is next.
    Selection,
    /// The CHALLENGE_MESSAGE is the next token.
    Challenge,
    /// The server's acceptance is next.
    Final(Security),
    Finished,
}

impl Credentials {
    /// A user, by a password.
    #[must_use]
    pub fn password(user: &str, domain: &str, password: &str) -> Self {
        Self::hash(user, domain, NtHash::of_password(password))
    }

    /// A user, by the hash of a password.
    #[must_use]
    pub fn hash(user: &str, domain: &str, hash: NtHash) -> Self {
        Self { user: user.into(), domain: domain.into(), hash: Some(hash), ..Self::anonymous() }
    }

    /// An anonymous client, without a name.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            user: String::new(),
            domain: String::new(),
            workstation: String::new(),
            hash: None,
            target_name: String::new(),
        }
    }

    /// Sets the name of the client machine.
    #[must_use]
    pub fn from_workstation(mut self, workstation: &str) -> Self {
        self.workstation = workstation.into();
        self
    }

    /// Sets the service that the client intends to log on to, such as `cifs/server`. Only servers
    /// that send the time receive it.
    #[must_use]
    pub fn for_target(mut self, target_name: &str) -> Self {
        self.target_name = target_name.into();
        self
    }
}

impl Initiator {
    /// Starts one authentication. `now` matters with servers that do not send the time.
    #[must_use]
    pub fn new(
        credentials: Credentials,
        randomness: Randomness,
        now: FileTime,
        framing: Framing,
    ) -> Self {
        let mech_list = spnego::mech_list(match framing {
            Framing::SpnegoAfterKerberos => {
                &[MechType::MicrosoftKerberos, MechType::Kerberos, MechType::Ntlm]
            }
            Framing::Raw | Framing::Spnego => &[MechType::Ntlm],
        });
        let ntlm = NtlmInitiator::new(credentials, randomness, now);
        Self { state: State::Start, framing, mech_list, ntlm }
    }

    /// Returns the first token.
    ///
    /// # Errors
    ///
    /// [`AuthError::OutOfSequence`] in a second call.
    pub fn start(&mut self) -> Result<Vec<u8>, AuthError> {
        if !matches!(self.state, State::Start) {
            return Err(AuthError::OutOfSequence);
        }
        self.state = State::Challenge;
        let mech_token = match self.framing {
            Framing::Raw => return Ok(self.ntlm.negotiate().to_vec()),
            Framing::Spnego => Some(self.ntlm.negotiate()),
            Framing::SpnegoAfterKerberos => {
                self.state = State::Selection;
                // A client with Kerberos sends a token here; a server without Kerberos ignores it.
                Some(&b"AP-REQ"[..])
            }
        };
        Ok(NegTokenInit { mech_list: &self.mech_list, mech_token }.encode())
    }

    /// Processes the server's token and returns the next one.
    ///
    /// # Errors
    ///
    /// The reason why the exchange cannot continue.
    pub fn step(&mut self, token: &[u8]) -> Result<Reply, AuthError> {
        match std::mem::replace(&mut self.state, State::Finished) {
            State::Selection => {
                let resp = parse(token)?;
                if resp.supported_mech != Some(MechType::Ntlm.oid()) {
                    return Err(AuthError::NoCommonMechanism);
                }
                self.state = State::Challenge;
                let response_token = Some(self.ntlm.negotiate());
                let resp = NegTokenResp { response_token, ..NegTokenResp::default() };
                Ok(Reply { token: resp.encode(), session_key: None })
            }
            State::Challenge => self.challenge(token),
            State::Start | State::Final(_) | State::Finished => Err(AuthError::OutOfSequence),
        }
    }

    /// Processes the server's last token.
    ///
    /// # Errors
    ///
    /// The reason why the server is not trusted.
    pub fn finish(&mut self, token: &[u8]) -> Result<(), AuthError> {
        let State::Final(security) = std::mem::replace(&mut self.state, State::Finished) else {
            return Err(AuthError::OutOfSequence);
        };
        if self.framing == Framing::Raw {
            return if token.is_empty() { Ok(()) } else { Err(AuthError::OutOfSequence) };
        }
        let resp = parse(token)?;
        if resp.neg_state != Some(NegState::AcceptCompleted) {
            return Err(AuthError::OutOfSequence);
        }
        match resp.mech_list_mic {
            Some(mic) if security.verify_mic(Sender::Server, &self.mech_list, mic) => Ok(()),
            Some(_) => Err(AuthError::BadMechListMic),
            None if self.framing == Framing::SpnegoAfterKerberos
                && security.signs()
                && self.ntlm.credentials.hash.is_some() =>
            {
                Err(AuthError::MechListMicMissing)
            }
            None => Ok(()),
        }
    }

    fn challenge(&mut self, token: &[u8]) -> Result<Reply, AuthError> {
        let message = match self.framing {
            Framing::Raw => token,
            Framing::Spnego | Framing::SpnegoAfterKerberos => parse(token)?
                .response_token
                .ok_or(AuthError::Malformed("a NegTokenResp without responseToken"))?,
        };
        let (authenticate, security) = self.ntlm.challenge(message)?;
        let token = if self.framing == Framing::Raw {
            authenticate
        } else {
            let protects = security.signs() && self.ntlm.credentials.hash.is_some();
            let mic = protects.then(|| security.mic(Sender::Client, &self.mech_list));
            let resp = NegTokenResp {
                neg_state: Some(NegState::AcceptIncomplete),
                supported_mech: None,
                response_token: Some(&authenticate),
                mech_list_mic: mic.as_ref().map(|mic| &mic[..]),
            };
            resp.encode()
        };
        let session_key = Some(security.key.clone());
        self.state = State::Final(security);
        Ok(Reply { token, session_key })
    }
}

fn parse(token: &[u8]) -> Result<NegTokenResp<'_>, AuthError> {
    let resp = NegTokenResp::parse(token)?;
    if resp.neg_state == Some(NegState::Reject) { Err(AuthError::Refused) } else { Ok(resp) }
}

impl fmt::Debug for Randomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Randomness(..)")
    }
}
