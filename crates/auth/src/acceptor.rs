//! The server's side of an authentication.

use dtyp::FileTime;

use crate::error::AuthError;
use crate::nt_hash::NtHash;
use crate::ntlm::acceptor::{Authenticated, Established, NtlmAcceptor, NtlmResponse};
use crate::ntlm::layout::SIGNATURE;
use crate::ntlm::security::Sender;
use crate::session_key::{SessionBaseKey, SessionKey};
use crate::spnego::{self, MechType, NegState, NegTokenInit, NegTokenResp};
use crate::ticket::{LateMic, Ticket, TicketAccepted, TicketRefused};

/// Mechanisms that the server offers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mechanisms {
    /// Kerberos, whose tickets the caller can have checked.
    pub kerberos: bool,
    /// NTLM, in version 2 only.
    pub ntlm: bool,
}

impl Default for Mechanisms {
    fn default() -> Self {
        Self { kerberos: false, ntlm: true }
    }
}

impl Mechanisms {
    fn include(self, mech_type: MechType) -> bool {
        match mech_type {
            MechType::Kerberos | MechType::MicrosoftKerberos => self.kerberos,
            MechType::Ntlm => self.ntlm,
        }
    }
}

/// Mechanisms of the server, and its names in NTLM messages. Names longer than 255 characters are
/// cut.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AcceptorSettings {
    /// Mechanisms that the server offers.
    pub mechanisms: Mechanisms,
    /// True for a member of a domain, which is then the target of NTLM.
    pub is_member: bool,
    /// NetBIOS name of the server; also the target name of the CHALLENGE_MESSAGE.
    pub netbios_name: String,
    /// NetBIOS name of the server's domain; the server's own name if it has no domain.
    pub netbios_domain: String,
    /// Fully qualified DNS name of the server.
    pub dns_name: String,
    /// DNS name of the server's domain.
    pub dns_domain: String,
}

/// The server's side of one authentication, which establishes one session.
///
/// [`Self::step`] takes each token of the client; after [`Step::Account`], the caller has the
/// response verified and calls [`Self::resume_with_key`], after [`Step::Ticket`] it has the ticket
/// checked and calls [`Self::resume_ticket`]. Every token advances the machine, at most four of
/// them; after an error or [`Step::Done`] it accepts none.
#[derive(Debug)]
pub struct Acceptor {
    state: State,
    framing: Framing,
    mechanisms: Mechanisms,
    ntlm: NtlmAcceptor,
}

/// Next action of the caller.
#[derive(Debug)]
pub enum Step {
    /// Have [`Acceptor::response`] verified for [`Acceptor::resume_with_key`]. The caller decides
    /// whether the domain is this server's; clients send all kinds.
    Account {
        /// User name from the client.
        user: String,
        /// Domain from the client; often empty or the client's own.
        domain: String,
        /// Name of the client machine, by its own account.
        workstation: String,
    },
    /// Send this token and wait for the next one.
    Continue(Vec<u8>),
    /// The client is authenticated; the session begins.
    Done(Outcome),
    /// Have this mechListMIC checked for [`Acceptor::resume_mic`].
    Mic(LateMic),
    /// Have this ticket checked for [`Acceptor::resume_ticket`].
    Ticket(Ticket),
}

/// Result of a successful authentication.
#[derive(Debug)]
pub struct Outcome {
    /// Last token for the client; may be empty.
    pub token: Vec<u8>,
    /// Identity of the client, as far as it was proven.
    pub identity: Identity,
    /// Key that both sides share now.
    pub session_key: SessionKey,
    /// Service that the client intends to log on to, such as `cifs/server`, if the client sends it:
    /// MsvAvTargetName of [MS-NLMP] 2.2.2.1. The response's proof protects it in transit, so the
    /// name of another server shows that the logon was relayed to this one.
    pub target_name: Option<String>,
}

/// Names of a client, and the kind of its proof.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    /// User name from the client.
    pub user: String,
    /// Domain name from the client.
    pub domain: String,
    /// Name of the client machine; unproven.
    pub workstation: String,
    /// Kind of proof behind the names.
    pub kind: IdentityKind,
}

/// Kind of proof that a client gave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IdentityKind {
    /// No proof, and no claim: the names are empty.
    Anonymous,
    /// Proof of the user's password.
    User,
}

#[derive(Debug)]
enum State {
    /// No token was received yet.
    Start,
    /// NTLM is selected; the NEGOTIATE_MESSAGE is next.
    Negotiate,
    /// The AUTHENTICATE_MESSAGE is the next token.
    Authenticate,
    /// The result of the response is next.
    Account { mech_list_mic: Option<Vec<u8>> },
    /// Kerberos is selected; the ticket is next, after a useless one if `is_second`.
    Kerberos { is_second: bool },
    /// The result of the ticket is next.
    Ticket { had_mic: bool, is_second: bool },
    /// The ticket is valid; the client's mechListMIC is next.
    MicDue(Box<TicketAccepted>),
    /// The result of the client's mechListMIC is next.
    Mic(Box<TicketAccepted>),
    /// The authentication succeeded or failed.
    Finished,
}

/// Encoding of the mechanism's messages in tokens.
#[derive(Debug)]
enum Framing {
    /// Tokens of Kerberos without SPNEGO.
    BareKerberos,
    /// Bare messages of NTLM: [MS-SMB2] 3.3.5.5.3 permits them, and the Linux kernel sends them.
    Raw,
    /// SPNEGO, RFC 4178, with the client's mechanism list as received.
    Spnego {
        mech_list: Vec<u8>,
        mech_type: MechType,
        mic_required: bool,
        /// True once the client knows the chosen mechanism.
        is_sent: bool,
    },
}

impl Acceptor {
    /// Starts one authentication. `challenge` is random and used once; `now` is sent to the client.
    #[must_use]
    pub fn new(settings: &AcceptorSettings, challenge: [u8; 8], now: FileTime) -> Self {
        Self {
            state: State::Start,
            framing: Framing::Raw,
            mechanisms: settings.mechanisms,
            ntlm: NtlmAcceptor::new(settings, challenge, now),
        }
    }

    /// Returns the token of a NEGOTIATE response, which lists the mechanisms: [MS-SMB2] 3.3.5.4.
    #[must_use]
    pub fn negotiate_hint(mechanisms: Mechanisms) -> Vec<u8> {
        let offered = MECHANISMS.into_iter().filter(|it| mechanisms.include(*it));
        spnego::neg_token_init2(&offered.collect::<Vec<_>>())
    }

    /// Processes the client's next token.
    ///
    /// # Errors
    ///
    /// The reason why the client is not authenticated; the machine is finished then.
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
            State::Kerberos { is_second } => self.next_ticket(token, is_second),
            State::MicDue(accepted) => self.late_mic(token, accepted),
            State::Account { .. } | State::Ticket { .. } | State::Mic(_) | State::Finished => {
                Err(AuthError::OutOfSequence)
            }
        }
    }

    /// Verifies the response of [`Step::Account`] with the account's hash, or with `None` for a
    /// missing account, and continues. For servers that hold hashes themselves.
    ///
    /// # Errors
    ///
    /// The reason why the client is not authenticated; the machine is finished then.
    pub fn resume(&mut self, account: Option<NtHash>) -> Result<Step, AuthError> {
        let verified = self.response().and_then(|response| response.verify(&[account]));
        let (_, key) = verified.inspect_err(|_| self.state = State::Finished)?;
        self.resume_with_key(&key)
    }

    /// Returns the response of [`Step::Account`], for a process that has the hash.
    ///
    /// # Errors
    ///
    /// [`AuthError::OutOfSequence`] at any other time.
    pub fn response(&self) -> Result<NtlmResponse, AuthError> {
        match self.state {
            State::Account { .. } => self.ntlm.response(),
            _ => Err(AuthError::OutOfSequence),
        }
    }

    /// Continues after [`Step::Account`] with the SessionBaseKey of the verified response. Who
    /// verifies it: [`NtlmResponse::verify`].
    ///
    /// # Errors
    ///
    /// The reason why the client is not authenticated; the machine is finished then.
    pub fn resume_with_key(
        &mut self,
        session_base_key: &SessionBaseKey,
    ) -> Result<Step, AuthError> {
        match std::mem::replace(&mut self.state, State::Finished) {
            State::Account { mech_list_mic } => {
                let established = self.ntlm.resume_with_key(session_base_key.as_bytes())?;
                self.finish(established, mech_list_mic.as_deref())
            }
            _ => Err(AuthError::OutOfSequence),
        }
    }

    /// Continues after [`Step::Ticket`]. A client with a useless ticket may send one more.
    ///
    /// # Errors
    ///
    /// The reason why the client is not authenticated; the machine is finished then.
    pub fn resume_ticket(
        &mut self,
        result: Result<TicketAccepted, TicketRefused>,
    ) -> Result<Step, AuthError> {
        let state = std::mem::replace(&mut self.state, State::Finished);
        let State::Ticket { had_mic, is_second } = state else {
            return Err(AuthError::OutOfSequence);
        };
        let accepted = match result {
            Ok(accepted) => accepted,
            Err(TicketRefused::BadMechListMic) => return Err(AuthError::BadMechListMic),
            Err(TicketRefused::TryAgain(token)) if !is_second && !token.is_empty() => {
                self.state = State::Kerberos { is_second: true };
                return Ok(Step::Continue(self.wrapped(NegState::AcceptIncomplete, &token, None)));
            }
            Err(TicketRefused::Invalid | TicketRefused::TryAgain(_)) => {
                return Err(AuthError::InvalidTicket);
            }
        };
        let mic = Some(&accepted.mech_list_mic[..]);
        if self.is_mic_required() && !had_mic {
            let token = self.wrapped(NegState::AcceptIncomplete, &accepted.token, mic);
            self.state = State::MicDue(Box::new(accepted));
            return Ok(Step::Continue(token));
        }
        let token =
            self.wrapped(NegState::AcceptCompleted, &accepted.token, mic.filter(|_| had_mic));
        Ok(Step::Done(outcome(accepted, token)))
    }

    /// Continues after [`Step::Mic`]; `is_right` if the MIC is that of the list.
    ///
    /// # Errors
    ///
    /// The reason why the client is not authenticated; the machine is finished then.
    pub fn resume_mic(&mut self, is_right: bool) -> Result<Step, AuthError> {
        match std::mem::replace(&mut self.state, State::Finished) {
            State::Mic(accepted) if is_right => {
                let token = accept_completed(None);
                Ok(Step::Done(outcome(*accepted, token)))
            }
            State::Mic(_) => Err(AuthError::BadMechListMic),
            _ => Err(AuthError::OutOfSequence),
        }
    }

    /// True if the client has chosen Kerberos.
    #[must_use]
    pub fn is_kerberos(&self) -> bool {
        matches!(self.framing, Framing::BareKerberos)
            || matches!(self.framing, Framing::Spnego { mech_type, .. } if mech_type.is_kerberos())
    }

    /// Returns the identity that the client claims, proven or not; `None` before its
    /// AUTHENTICATE_MESSAGE, and for anonymous clients.
    #[must_use]
    pub fn claimed(&self) -> Option<&Identity> {
        self.ntlm.claimed()
    }

    /// Returns the last token for a client that failed with [`AuthError::NoSuchUser`] or
    /// [`AuthError::WrongPassword`] and is accepted as a guest all the same. Guests share no key
    /// with the server, so the token is not protected.
    #[must_use]
    pub fn guest_token(&self) -> Vec<u8> {
        match self.framing {
            Framing::Raw | Framing::BareKerberos => Vec::new(),
            Framing::Spnego { .. } => accept_completed(None),
        }
    }

    fn start(&mut self, token: &[u8]) -> Result<Step, AuthError> {
        if self.mechanisms.ntlm && token.starts_with(SIGNATURE) {
            let challenge = self.ntlm.negotiate(token)?;
            self.state = State::Authenticate;
            return Ok(Step::Continue(challenge));
        }
        let bare = spnego::mechanism_of_bare(token).filter(|it| it.is_kerberos());
        if bare.is_some_and(|it| self.mechanisms.include(it)) {
            self.framing = Framing::BareKerberos;
            return Ok(self.ticket(token, None, false));
        }
        let init = NegTokenInit::parse(token)?;
        let chosen = init.choose(|mech_type| self.mechanisms.include(mech_type))?;
        let (rank, mech_type) = chosen.ok_or(AuthError::NoCommonMechanism)?;
        // RFC 4178 5: unless the mechanism is the client's first choice, an attacker may have
        // removed a better one, so the list must be protected.
        let mic_required = rank > 0;
        let mech_list = init.mech_list.to_vec();
        self.framing = Framing::Spnego { mech_list, mech_type, mic_required, is_sent: false };
        // The token next to the list is for the client's first choice.
        match init.mech_token.filter(|_| !mic_required) {
            Some(token) if mech_type.is_kerberos() => Ok(self.ticket(token, None, false)),
            Some(message) => self.negotiate(message, Some(mech_type.oid())),
            None => {
                self.state = match mech_type {
                    MechType::Kerberos | MechType::MicrosoftKerberos => {
                        State::Kerberos { is_second: false }
                    }
                    MechType::Ntlm => State::Negotiate,
                };
                let neg_state = match mic_required {
                    true => NegState::RequestMic,
                    false => NegState::AcceptIncomplete,
                };
                Ok(Step::Continue(self.wrapped(neg_state, &[], None)))
            }
        }
    }

    /// Takes a ticket out of a token that is not the first one.
    fn next_ticket(&mut self, token: &[u8], is_second: bool) -> Result<Step, AuthError> {
        if let Framing::Spnego { .. } = self.framing {
            let resp = NegTokenResp::parse(token)?;
            if resp.neg_state == Some(NegState::Reject) {
                return Err(AuthError::Refused);
            }
            let token = resp.response_token.ok_or(NO_TOKEN)?;
            return Ok(self.ticket(token, resp.mech_list_mic, is_second));
        }
        Ok(self.ticket(token, None, is_second))
    }

    fn ticket(&mut self, token: &[u8], mic: Option<&[u8]>, is_second: bool) -> Step {
        self.state = State::Ticket { had_mic: mic.is_some(), is_second };
        let mech_list = match &self.framing {
            Framing::Spnego { mech_list, .. } => mech_list.clone(),
            Framing::BareKerberos | Framing::Raw => Vec::new(),
        };
        Step::Ticket(Ticket {
            token: token.to_vec(),
            mech_list,
            mech_list_mic: mic.map(<[u8]>::to_vec),
            mic_follows: self.is_mic_required() && mic.is_none(),
        })
    }

    /// Takes the client's mechListMIC that follows a valid ticket.
    fn late_mic(&mut self, token: &[u8], accepted: Box<TicketAccepted>) -> Result<Step, AuthError> {
        let resp = NegTokenResp::parse(token)?;
        if resp.neg_state == Some(NegState::Reject) {
            return Err(AuthError::Refused);
        }
        let mech_list_mic = resp.mech_list_mic.ok_or(AuthError::MechListMicMissing)?.to_vec();
        let mech_list = match &self.framing {
            Framing::Spnego { mech_list, .. } => mech_list.clone(),
            Framing::BareKerberos | Framing::Raw => return Err(AuthError::OutOfSequence),
        };
        let context = accepted.context;
        self.state = State::Mic(accepted);
        Ok(Step::Mic(LateMic { context, mech_list, mech_list_mic }))
    }

    fn is_mic_required(&self) -> bool {
        matches!(self.framing, Framing::Spnego { mic_required: true, .. })
    }

    /// Wraps a token of Kerberos as the client does. The first answer names the mechanism.
    fn wrapped(&mut self, neg_state: NegState, token: &[u8], mic: Option<&[u8]>) -> Vec<u8> {
        match &mut self.framing {
            Framing::BareKerberos | Framing::Raw => token.to_vec(),
            Framing::Spnego { mech_type, is_sent, .. } => {
                let is_first = !std::mem::replace(is_sent, true);
                NegTokenResp {
                    neg_state: Some(neg_state),
                    supported_mech: is_first.then(|| mech_type.oid()),
                    response_token: Some(token).filter(|it| !it.is_empty()),
                    mech_list_mic: mic.filter(|it| !it.is_empty()),
                }
                .encode()
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
            Framing::BareKerberos | Framing::Raw => (token, None),
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
            Framing::BareKerberos | Framing::Raw => Vec::new(),
            Framing::Spnego { mech_list, mic_required, .. } => match mech_list_mic {
                Some(mic) if !security.verify_mic(Sender::Client, mech_list, mic) => {
                    return Err(AuthError::BadMechListMic);
                }
                Some(_) => accept_completed(Some(&security.mic(Sender::Server, mech_list))),
                // An anonymous client has no key that could protect the list.
                None if *mic_required
                    && security.signs()
                    && identity.kind != IdentityKind::Anonymous =>
                {
                    return Err(AuthError::MechListMicMissing);
                }
                None => accept_completed(None),
            },
        };
        let session_key = security.key;
        Ok(Step::Done(Outcome { token, identity, session_key, target_name }))
    }
}

fn outcome(accepted: TicketAccepted, token: Vec<u8>) -> Outcome {
    let TicketAccepted { session_key, user, domain, .. } = accepted;
    let (workstation, kind) = (String::new(), IdentityKind::User);
    let identity = Identity { user, domain, workstation, kind };
    Outcome { token, identity, session_key, target_name: None }
}

fn accept_completed(mech_list_mic: Option<&[u8]>) -> Vec<u8> {
    let neg_state = Some(NegState::AcceptCompleted);
    NegTokenResp { neg_state, mech_list_mic, ..NegTokenResp::default() }.encode()
}

const NO_TOKEN: AuthError = AuthError::Malformed("a NegTokenResp without responseToken");
/// Mechanisms of this server, the preferred one first.
const MECHANISMS: [MechType; 3] = [MechType::MicrosoftKerberos, MechType::Kerberos, MechType::Ntlm];
/// Highest length of a token in bytes, the limit of SecurityBufferLength in [MS-SMB2] 2.2.5.
/// Kerberos tokens of users in many groups come near it, and may precede NTLM's.
const TOKEN_BYTES_MAX: usize = u16::MAX as usize;

#[cfg(test)]
mod tests;
