//! The server's side of an authentication.

use dtyp::FileTime;

use crate::error::AuthError;
use crate::nt_hash::NtHash;
use crate::ntlm::acceptor::{Authenticated, Established, NtlmAcceptor};
use crate::ntlm::layout::SIGNATURE;
use crate::ntlm::security::Sender;
use crate::session_key::SessionKey;
use crate::spnego::{self, MechType, NegState, NegTokenInit, NegTokenResp};

/// What the server calls itself. Names longer than 255 characters are cut.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AcceptorSettings {
    /// Of the server; also the target name of the CHALLENGE_MESSAGE.
    pub netbios_name: String,
    /// Of the server's domain; of a server without one, its own name.
    pub netbios_domain: String,
    /// Of the server, fully qualified.
    pub dns_name: String,
    /// Of the server's domain.
    pub dns_domain: String,
}

/// The server's side of one authentication, that is of one session being established.
///
/// [`Self::step`] takes each token of the client; when it answers [`Step::Account`], the caller
/// finds the account and calls [`Self::resume`]. The machine moves forward with every token and
/// takes at most four; after an error or [`Step::Done`] it takes none.
#[derive(Debug)]
pub struct Acceptor {
    state: State,
    framing: Framing,
    ntlm: NtlmAcceptor,
}

/// What is to be done next.
#[derive(Debug)]
pub enum Step {
    /// The account's hash is needed: [`Acceptor::resume`]. Whether the domain means this server
    /// is for the caller to decide; clients send all kinds.
    Account {
        /// As the client sent it.
        user: String,
        /// As the client sent it; often empty or the client's own.
        domain: String,
        /// What the client calls itself.
        workstation: String,
    },
    /// Send this token and wait for the next.
    Continue(Vec<u8>),
    /// The client is who it says.
    Done(Outcome),
}

/// The end of an authentication.
#[derive(Debug)]
pub struct Outcome {
    /// The last token for the client; empty when there is none.
    pub token: Vec<u8>,
    /// Who the client is.
    pub identity: Identity,
    /// The key both sides have now.
    pub session_key: SessionKey,
    /// The service that the client means to log on to, `cifs/server` say, if it says so: MsvAvTargetName
    /// of [MS-NLMP] 2.2.2.1. Nobody between the client and this server can have changed it, so one that
    /// names another server shows that the logon was passed on to this one.
    pub target_name: Option<String>,
}

/// Who a client is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    /// As the client sent it.
    pub user: String,
    /// As the client sent it.
    pub domain: String,
    /// What the client calls itself; proven by nothing.
    pub workstation: String,
    /// What the client proved.
    pub kind: IdentityKind,
}

/// What a client proved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IdentityKind {
    /// Nothing, and it did not claim to: the names are empty.
    Anonymous,
    /// That it has the user's password.
    User,
}

#[derive(Debug)]
enum State {
    /// Nothing has come.
    Start,
    /// NTLM is selected; its NEGOTIATE_MESSAGE is to come.
    Negotiate,
    /// The AUTHENTICATE_MESSAGE is to come.
    Authenticate,
    /// The account's hash is to come.
    Account { mech_list_mic: Option<Vec<u8>> },
    /// Over.
    Finished,
}

/// How tokens are wrapped.
#[derive(Debug)]
enum Framing {
    /// Not at all: [MS-SMB2] 3.3.5.5.3 has nothing against it, and the Linux kernel does it.
    Raw,
    /// RFC 4178. The list is the client's, as it was sent.
    Spnego { mech_list: Vec<u8>, mic_required: bool },
}

impl Acceptor {
    /// A machine for one authentication. `challenge` is random and used once; `now` goes to the
    /// client.
    #[must_use]
    pub fn new(settings: &AcceptorSettings, challenge: [u8; 8], now: FileTime) -> Self {
        Self {
            state: State::Start,
            framing: Framing::Raw,
            ntlm: NtlmAcceptor::new(settings, challenge, now),
        }
    }

    /// The token of a NEGOTIATE response, which says what mechanisms there are: [MS-SMB2]
    /// 3.3.5.4.
    #[must_use]
    pub fn negotiate_hint() -> Vec<u8> {
        spnego::neg_token_init2(&MECHANISMS)
    }

    /// Takes the client's next token.
    ///
    /// # Errors
    ///
    /// Why the client is not authenticated; the machine is finished then.
    pub fn step(&mut self, token: &[u8]) -> Result<Step, AuthError> {
        if token.len() > TOKEN_BYTES_MAX {
            self.state = State::Finished;
            return Err(AuthError::TooLong(token.len()));
        }
        match std::mem::replace(&mut self.state, State::Finished) {
            State::Start => self.start(token),
            State::Negotiate => {
                let message = NegTokenResp::parse(token)?;
                let message = message.response_token.ok_or(NO_TOKEN)?;
                self.negotiate(message, None)
            }
            State::Authenticate => self.authenticate(token),
            State::Account { .. } | State::Finished => Err(AuthError::OutOfSequence),
        }
    }

    /// Goes on after [`Step::Account`] with the account's hash, or with `None` when there is no
    /// such account. Either takes the same time.
    ///
    /// # Errors
    ///
    /// Why the client is not authenticated; the machine is finished then.
    pub fn resume(&mut self, account: Option<NtHash>) -> Result<Step, AuthError> {
        match std::mem::replace(&mut self.state, State::Finished) {
            State::Account { mech_list_mic } => {
                let established = self.ntlm.resume(account.as_ref())?;
                self.finish(established, mech_list_mic.as_deref())
            }
            _ => Err(AuthError::OutOfSequence),
        }
    }

    /// Returns the identity that the client claims, proven or not; nothing before its
    /// AUTHENTICATE_MESSAGE, and for anonymous clients.
    #[must_use]
    pub fn claimed(&self) -> Option<&Identity> {
        self.ntlm.claimed()
    }

    /// The last token for a client that failed with [`AuthError::NoSuchUser`] or
    /// [`AuthError::WrongPassword`] and is let in as a guest all the same. Guests share no key
    /// with us, so it is not protected.
    #[must_use]
    pub fn guest_token(&self) -> Vec<u8> {
        match self.framing {
            Framing::Raw => Vec::new(),
            Framing::Spnego { .. } => accept_completed(None),
        }
    }

    fn start(&mut self, token: &[u8]) -> Result<Step, AuthError> {
        if token.starts_with(SIGNATURE) {
            let challenge = self.ntlm.negotiate(token)?;
            self.state = State::Authenticate;
            return Ok(Step::Continue(challenge));
        }
        let init = NegTokenInit::parse(token)?;
        let rank = init.rank(MechType::Ntlm)?.ok_or(AuthError::NoCommonMechanism)?;
        // RFC 4178 5: unless the mechanism is the client's first choice, somebody may have
        // removed a better one, so the list is to be protected.
        let mic_required = rank > 0;
        self.framing = Framing::Spnego { mech_list: init.mech_list.to_vec(), mic_required };
        let neg_state =
            if mic_required { NegState::RequestMic } else { NegState::AcceptIncomplete };
        let supported_mech = Some(MechType::Ntlm.oid());
        // The token that came with the list is for the client's first choice.
        match init.mech_token.filter(|_| !mic_required) {
            Some(message) => self.negotiate(message, supported_mech),
            None => {
                self.state = State::Negotiate;
                let neg_state = Some(neg_state);
                let resp = NegTokenResp { neg_state, supported_mech, ..NegTokenResp::default() };
                Ok(Step::Continue(resp.encode()))
            }
        }
    }

    fn negotiate(
        &mut self,
        message: &[u8],
        supported_mech: Option<&[u8]>,
    ) -> Result<Step, AuthError> {
        let challenge = self.ntlm.negotiate(message)?;
        let resp = NegTokenResp {
            neg_state: Some(NegState::AcceptIncomplete),
            supported_mech,
            response_token: Some(&challenge),
            mech_list_mic: None,
        };
        self.state = State::Authenticate;
        Ok(Step::Continue(resp.encode()))
    }

    fn authenticate(&mut self, token: &[u8]) -> Result<Step, AuthError> {
        let (message, mech_list_mic) = match self.framing {
            Framing::Raw => (token, None),
            Framing::Spnego { .. } => {
                let resp = NegTokenResp::parse(token)?;
                if resp.neg_state == Some(NegState::Reject) {
                    return Err(AuthError::Refused);
                }
                (resp.response_token.ok_or(NO_TOKEN)?, resp.mech_list_mic)
            }
        };
        match self.ntlm.authenticate(message)? {
            Authenticated::Anonymous(established) => self.finish(established, mech_list_mic),
            Authenticated::Account(Identity { user, domain, workstation, .. }) => {
                let mech_list_mic = mech_list_mic.map(<[u8]>::to_vec);
                self.state = State::Account { mech_list_mic };
                Ok(Step::Account { user, domain, workstation })
            }
        }
    }

    fn finish(
        &self,
        established: Established,
        mech_list_mic: Option<&[u8]>,
    ) -> Result<Step, AuthError> {
        let Established { identity, security, target_name } = established;
        let token = match &self.framing {
            Framing::Raw => Vec::new(),
            Framing::Spnego { mech_list, mic_required } => match mech_list_mic {
                Some(mic) if !security.verify_mic(Sender::Client, mech_list, mic) => {
                    return Err(AuthError::BadMechListMic);
                }
                Some(_) => accept_completed(Some(&security.mic(Sender::Server, mech_list))),
                // Nobody in particular has no key that would protect anything.
                None if *mic_required
                    && security.signs()
                    && identity.kind != IdentityKind::Anonymous =>
                {
                    return Err(AuthError::MechListMicMissing);
                }
                None => accept_completed(None),
            },
        };
        Ok(Step::Done(Outcome { token, identity, session_key: security.key, target_name }))
    }
}

fn accept_completed(mech_list_mic: Option<&[u8]>) -> Vec<u8> {
    let neg_state = Some(NegState::AcceptCompleted);
    NegTokenResp { neg_state, mech_list_mic, ..NegTokenResp::default() }.encode()
}

const NO_TOKEN: AuthError = AuthError::Malformed("a NegTokenResp without responseToken");
/// What we speak, best first.
const MECHANISMS: [MechType; 1] = [MechType::Ntlm];
/// Bytes of a token, which is all that SecurityBufferLength of [MS-SMB2] 2.2.5 can say. Kerberos
/// tokens of users in many groups come near it, and one may stand before ours.
const TOKEN_BYTES_MAX: usize = u16::MAX as usize;

#[cfg(test)]
mod tests;
