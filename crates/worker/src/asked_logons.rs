//! Logons that `logond` checks: Kerberos tickets, and passwords of domain users.
//!
//! A logon without its answer has failed: it may have died, or the domain may be out.

mod names;
pub(super) mod pending;

use std::time::{Duration, Instant};

use auth::{
    LateMic, NtlmResponse, SessionBaseKey, SessionKey, Ticket, TicketAccepted, TicketRefused,
};
use dtyp::NtStatus;
use messaging::{
    AcceptedLogon, Content, LogonAnswer, LogonOwner, LogonProof, LogonQuestion, LogonVerdict,
    Message, MessageKind,
};
use proto::account::TicketOwner;
use proto::effect::{CheckedResponse, CheckedTicket, ResponseFailure, TicketFailure};
use proto::{Account, Reply, RequestId};
use tables::{SingleProcess, announced};
use tracing::debug;
use zeroize::Zeroize;

use super::event_loop::Worker;
use pending::{AskedLogon, Kind};

/// Time for an answer. Clients wait about a minute.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest life of a session without another ticket. Tickets last hours; one that claims years is
/// forged, or its server made a mistake.
const LIFETIME_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

impl Worker {
    /// Has a Kerberos ticket checked.
    pub(super) fn check_ticket(&mut self, request: RequestId, ticket: Ticket) {
        let Ticket { token, mech_list, mech_list_mic, mic_follows } = ticket;
        let proof = LogonProof::Ticket { token, mech_list, mech_list_mic, mic_follows };
        self.check_logon(request, Kind::Ticket, proof);
    }

    /// Has a mechListMIC checked that came after its ticket.
    pub(super) fn check_mic(&mut self, request: RequestId, mic: LateMic) {
        let LateMic { context, mech_list, mech_list_mic } = mic;
        self.check_logon(request, Kind::Mic, LogonProof::Mic { context, mech_list, mech_list_mic });
    }

    /// Has an NTLM response checked by the domain.
    pub(super) fn check_response(&mut self, request: RequestId, response: NtlmResponse) {
        let NtlmResponse { user, domain, workstation, challenge, nt_response } = response;
        let proof = LogonProof::Response { user, domain, workstation, challenge, nt_response };
        self.check_logon(request, Kind::Response, proof);
    }

    fn check_logon(&mut self, request: RequestId, kind: Kind, proof: LogonProof) {
        let number = self.asked_logons.next_number();
        let data = LogonQuestion { number, proof }.encode();
        let content = Content::new(MessageKind::CHECK_LOGON, &data);
        self.ask_logond((request, kind, CHECK_TIMEOUT), number, &content);
    }

    /// Sends a question, or answers a request that nobody can help.
    fn ask_logond(
        &mut self,
        (request, kind, timeout): (RequestId, Kind, Duration),
        number: u64,
        content: &Content<'_>,
    ) {
        self.store.revert_to_server();
        let now = Instant::now();
        let logond = announced(&self.settings.directories.lock, SingleProcess::Logond);
        match logond.map(|logond| (logond, self.messaging.send(now, logond, content))) {
            Some((of, Ok(()))) => {
                let until = now + timeout;
                self.asked_logons.add(AskedLogon { number, of, request, kind, until });
            }
            Some((_, Err(error))) => {
                debug!("logond cannot be reached: {error}");
                self.answer(Some(request), unanswered(kind));
            }
            None => self.answer(Some(request), unanswered(kind)),
        }
    }

    /// Reads a message about logons; gives others back.
    pub(super) fn read_about_logons(&mut self, mut message: Message) -> Option<Message> {
        match message.kind {
            MessageKind::LOGON_CHECKED => {}
            MessageKind::NAMES_FOUND => {
                self.read_found_names(&message);
                return None;
            }
            _ => return Some(message),
        }
        let answer = LogonAnswer::decode(&message.data);
        message.data.zeroize();
        if let Some(LogonAnswer { number, verdict }) = answer
            && let Some(asked) = self.asked_logons.take(message.sender, number)
        {
            let reply = reply_of(asked.kind, verdict, |owner| self.account_of(owner));
            self.answer(Some(asked.request), reply);
        }
        None
    }

    /// Fails the logons that a dead `logond` was checking.
    pub(super) fn fail_logons(&mut self) {
        self.store.revert_to_server();
        while let Some(asked) = self.asked_logons.take_any() {
            self.answer(Some(asked.request), unanswered(asked.kind));
            self.serve_effects();
        }
    }

    /// Fails logons without an answer in time: see `AskedLogons::next_timeout`.
    pub(super) fn serve_asked_logon_timeouts(&mut self, now: Instant) {
        while let Some(asked) = self.asked_logons.take_late(now) {
            self.answer(Some(asked.request), unanswered(asked.kind));
            self.serve_effects();
        }
    }

    fn account_of(&mut self, owner: LogonOwner) -> Result<Account, NtStatus> {
        // The client has proven its user: before a thread of the name service starts, which would
        // have the same priority.
        process::leave_idle_priority();
        let of_owner =
            |accounts: &mut shares::accounts::Accounts, store: &mut store::Store| match owner {
                LogonOwner::Account(account) => accounts.of_domain(store, account),
                LogonOwner::Principal { name, realm } => {
                    accounts.of_principal(store, &name, &realm)
                }
            };
        self.ask_for_account(of_owner)
    }
}

/// Returns the reply for logond's answer. The account of an accepted user is found last.
fn reply_of(
    kind: Kind,
    verdict: LogonVerdict,
    account_of: impl FnOnce(LogonOwner) -> Result<Account, NtStatus>,
) -> Reply {
    match (kind, verdict) {
        (Kind::Ticket, LogonVerdict::Accepted(accepted)) => {
            let checked = checked_ticket(*accepted, account_of);
            Reply::Ticket(checked.map(Box::new).map_err(TicketFailure::Owner))
        }
        (Kind::Ticket, LogonVerdict::Mic(_)) => invalid(TicketRefused::BadMechListMic),
        (Kind::Ticket, LogonVerdict::TryAgain(token)) => invalid(TicketRefused::TryAgain(token)),
        (Kind::Ticket, LogonVerdict::InvalidTicket) => invalid(TicketRefused::Invalid),
        (Kind::Ticket, LogonVerdict::Refused(status)) => {
            Reply::Ticket(Err(TicketFailure::Owner(status)))
        }
        (Kind::Mic, LogonVerdict::Mic(is_right)) => Reply::Mic(is_right),
        (Kind::Response, LogonVerdict::Accepted(accepted)) => {
            let checked = checked_response(*accepted, account_of);
            Reply::Response(checked.map(Box::new).map_err(ResponseFailure::Refused))
        }
        (Kind::Response, LogonVerdict::NotInDomain) => {
            Reply::Response(Err(ResponseFailure::NotInDomain))
        }
        (Kind::Response, LogonVerdict::Refused(status)) => {
            Reply::Response(Err(ResponseFailure::Refused(status)))
        }
        (kind, verdict) => {
            debug!("{verdict:?} is no answer about a {kind:?}");
            unanswered(kind)
        }
    }
}

fn checked_ticket(
    logon: AcceptedLogon,
    account_of: impl FnOnce(LogonOwner) -> Result<Account, NtStatus>,
) -> Result<CheckedTicket, NtStatus> {
    let AcceptedLogon { key, token, mech_list_mic, context, lifetime, owner } = logon;
    let session_key = SessionKey::from_slice(&key.0).ok_or(NtStatus::LOGON_FAILURE)?;
    let account = account_of(owner)?;
    let lifetime = Duration::from_secs(lifetime.into()).min(LIFETIME_MAX);
    let (user, domain) = (account.user.clone(), account.domain.clone());
    let accepted = TicketAccepted { token, session_key, mech_list_mic, context, user, domain };
    Ok(CheckedTicket { accepted, owner: TicketOwner { account, lifetime } })
}

fn checked_response(
    logon: AcceptedLogon,
    account_of: impl FnOnce(LogonOwner) -> Result<Account, NtStatus>,
) -> Result<CheckedResponse, NtStatus> {
    let key = <[u8; 16]>::try_from(&logon.key.0[..]).map_err(|_| NtStatus::LOGON_FAILURE)?;
    let account = account_of(logon.owner)?;
    Ok(CheckedResponse { session_base_key: SessionBaseKey::new(key), account })
}

fn invalid(refused: TicketRefused) -> Reply {
    Reply::Ticket(Err(TicketFailure::Invalid(refused)))
}

/// Returns the reply for a question without an answer.
fn unanswered(kind: Kind) -> Reply {
    let status = NtStatus::NO_LOGON_SERVERS;
    match kind {
        Kind::Ticket => Reply::Ticket(Err(TicketFailure::Owner(status))),
        Kind::Mic => Reply::Mic(false),
        Kind::Response => Reply::Response(Err(ResponseFailure::Refused(status))),
        Kind::Names => Reply::Names(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use messaging::LogonKey;
    use zeroize::Zeroizing;

    use super::*;

    fn accepted() -> LogonVerdict {
        let owner = LogonOwner::Principal { name: "anna".to_owned(), realm: "LAB.TEST".to_owned() };
        LogonVerdict::Accepted(Box::new(AcceptedLogon {
            key: LogonKey(Zeroizing::new(vec![7; 16])),
            token: Vec::new(),
            mech_list_mic: Vec::new(),
            context: 0,
            lifetime: 600,
            owner,
        }))
    }

    #[test]
    fn an_accepted_user_without_an_account_keeps_the_status_of_the_account() {
        for status in [NtStatus::LOGON_FAILURE, NtStatus::ACCOUNT_RESTRICTION] {
            let reply = reply_of(Kind::Response, accepted(), |_| Err(status));
            let Reply::Response(Err(failure)) = reply else { panic!("{reply:?}") };
            assert_eq!(failure, ResponseFailure::Refused(status));
            let reply = reply_of(Kind::Ticket, accepted(), |_| Err(status));
            let Reply::Ticket(Err(failure)) = reply else { panic!("{reply:?}") };
            assert_eq!(failure, TicketFailure::Owner(status));
        }
    }

    #[test]
    fn an_answer_about_another_kind_of_logon_is_none() {
        let never = |_| panic!("nobody has logged on");
        let reply = reply_of(Kind::Mic, accepted(), never);
        assert!(matches!(reply, Reply::Mic(false)), "{reply:?}");
        let reply = reply_of(Kind::Response, LogonVerdict::InvalidTicket, never);
        let Reply::Response(Err(failure)) = reply else { panic!("{reply:?}") };
        assert_eq!(failure, ResponseFailure::Refused(NtStatus::NO_LOGON_SERVERS));
    }
}
