//! Logons that `logond` checks: passwords and Kerberos tickets. A worker has no secret that could
//! check one.
//!
//! If `logond` dies, passwords are sent to its successor: their clients notice a delay. A logon
//! without an answer in time has failed.

mod names;
pub(super) mod pending;

use std::time::{Duration, Instant};

use auth::{
    LateMic, NtlmResponse, SessionBaseKey, SessionKey, Ticket, TicketAccepted, TicketRefused,
};
use dtyp::NtStatus;
use messaging::{
    AcceptedLogon, Content, LogonAnswer, LogonOwner, LogonProof, LogonQuestion, LogonVerdict,
    Message, MessageKind, OwnUsers,
};
use proto::account::TicketOwner;
use proto::effect::{
    Authority, CheckedResponse, CheckedTicket, ResponseFailure, ResponseOwner, TicketFailure,
};
use proto::{Account, ProvenUsers, Reply, RequestId};
use shares::accounts::UsersUnavailable;
use tables::{SingleProcess, announced};
use tracing::debug;
use zeroize::{Zeroize, Zeroizing};

use super::event_loop::Worker;
use pending::{AskedLogon, Kind};

/// Time for an answer. Clients wait about a minute.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// Highest number of times that a password is sent, to one `logond` after the other.
const SENDS_MAX: u32 = 3;

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

    /// Has an NTLM response checked by the domain, or with the passwords of this server's users.
    pub(super) fn check_response(
        &mut self,
        request: RequestId,
        response: NtlmResponse,
        authority: Authority,
    ) {
        let NtlmResponse { user, domain, workstation, challenge, nt_response } = response;
        if authority == Authority::Domain {
            let proof = LogonProof::Response { user, domain, workstation, challenge, nt_response };
            return self.check_logon(request, Kind::Response, proof);
        }
        self.store.revert_to_server();
        match self.accounts.candidates(&user) {
            Ok(users) => {
                let proof = LogonProof::OwnResponse { users, user, domain, challenge, nt_response };
                self.check_logon(request, Kind::OwnResponse, proof);
            }
            Err(UsersUnavailable) => self.answer(Some(request), unanswered(Kind::OwnResponse)),
        }
    }

    fn check_logon(&mut self, request: RequestId, kind: Kind, proof: LogonProof) {
        let number = self.asked_logons.next_number();
        let data = LogonQuestion { number, proof }.encode();
        let until = Instant::now() + CHECK_TIMEOUT;
        let (of, sends) = (None, 0);
        let asked = AskedLogon { number, of, request, kind, until, data: None, sends };
        self.ask_logond(asked, MessageKind::CHECK_LOGON, data);
    }

    /// Sends a question. Without a `logond`, one that may be repeated waits for the next one, and
    /// other requests are answered.
    fn ask_logond(&mut self, asked: AskedLogon, kind: MessageKind, data: Zeroizing<Vec<u8>>) {
        self.store.revert_to_server();
        let mut asked = AskedLogon { of: None, sends: asked.sends + 1, ..asked };
        if let Some(logond) = announced(&self.settings.directories.lock, SingleProcess::Logond) {
            match self.messaging.send(Instant::now(), logond, &Content::new(kind, &data)) {
                Ok(()) => asked.of = Some(logond),
                Err(error) => debug!("logond cannot be reached: {error}"),
            }
        }
        if asked.kind.may_repeat() {
            asked.data = Some(data);
        } else if asked.of.is_none() {
            return self.answer(Some(asked.request), unanswered(asked.kind));
        }
        self.asked_logons.add(asked);
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

    /// Fails the questions that a dead `logond` was asked and its successor cannot answer. Those
    /// that have ended several ones may be the reason.
    pub(super) fn fail_logons(&mut self) {
        self.store.revert_to_server();
        for asked in self.asked_logons.take_all() {
            // A server that stops has no successor.
            let may_repeat = asked.kind.may_repeat() && self.stop_at.is_none();
            if may_repeat && asked.sends < SENDS_MAX {
                self.asked_logons.add(AskedLogon { of: None, ..asked });
                continue;
            }
            self.answer(Some(asked.request), unanswered(asked.kind));
            self.serve_effects();
        }
    }

    /// Sends a new `logond` the questions that its predecessor has not answered.
    pub(super) fn repeat_logons(&mut self) {
        let logond = announced(&self.settings.directories.lock, SingleProcess::Logond);
        for mut asked in self.asked_logons.take_all() {
            match asked.data.take() {
                Some(data) if asked.of.is_none() || asked.of != logond => {
                    self.ask_logond(asked, MessageKind::CHECK_LOGON, data);
                }
                data => self.asked_logons.add(AskedLogon { data, ..asked }),
            }
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
                // Only asked about by `OwnResponse`.
                LogonOwner::Own(_) => Err(NtStatus::LOGON_FAILURE),
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
        (Kind::OwnResponse, LogonVerdict::Accepted(accepted)) => {
            Reply::Response(checked_own_response(*accepted).map(Box::new))
        }
        (
            Kind::OwnResponse,
            LogonVerdict::Refused(NtStatus::NO_LOGON_SERVERS | NtStatus::INSUFF_SERVER_RESOURCES),
        ) => unanswered(Kind::OwnResponse),
        (Kind::Response, LogonVerdict::NotInDomain) => {
            Reply::Response(Err(ResponseFailure::NotInDomain))
        }
        (Kind::Response | Kind::OwnResponse, LogonVerdict::Refused(status)) => {
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
    let session_base_key = session_base_key(&logon)?;
    let owner = ResponseOwner::Account(Box::new(account_of(logon.owner)?));
    Ok(CheckedResponse { session_base_key, owner })
}

fn checked_own_response(logon: AcceptedLogon) -> Result<CheckedResponse, ResponseFailure> {
    let session_base_key = session_base_key(&logon).map_err(ResponseFailure::Refused)?;
    let LogonOwner::Own(own) = logon.owner else { return Err(ResponseFailure::Unchecked) };
    let OwnUsers { users, is_ambiguous, is_disabled } = own;
    let owner = ResponseOwner::Users(ProvenUsers { users, is_ambiguous, is_disabled });
    Ok(CheckedResponse { session_base_key, owner })
}

fn session_base_key(logon: &AcceptedLogon) -> Result<SessionBaseKey, NtStatus> {
    let key = <[u8; 16]>::try_from(&logon.key.0[..]).map_err(|_| NtStatus::LOGON_FAILURE)?;
    Ok(SessionBaseKey::new(key))
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
        Kind::OwnResponse => Reply::Response(Err(ResponseFailure::Unchecked)),
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

    fn own(verdict: LogonVerdict) -> Result<Box<CheckedResponse>, ResponseFailure> {
        match reply_of(Kind::OwnResponse, verdict, |_| panic!("its account is looked up later")) {
            Reply::Response(result) => result,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_about_a_user_of_this_server_names_the_proven_users() {
        let LogonVerdict::Accepted(accepted) = accepted() else { panic!("it is one") };
        let (users, is_ambiguous, is_disabled) = (vec!["anna".to_owned()], true, false);
        let owner = LogonOwner::Own(OwnUsers { users: users.clone(), is_ambiguous, is_disabled });
        let verdict = LogonVerdict::Accepted(Box::new(AcceptedLogon { owner, ..*accepted }));
        let checked = own(verdict).expect("it is right");
        assert_eq!(checked.session_base_key.as_bytes(), &[7; 16]);
        let ResponseOwner::Users(proven) = checked.owner else { panic!("{checked:?}") };
        assert_eq!(proven, ProvenUsers { users, is_ambiguous, is_disabled });
    }

    /// The client is not to blame, and the logon does not count as failed.
    #[test]
    fn a_password_that_logond_could_not_check_is_unchecked_and_a_wrong_one_is_refused() {
        for status in [NtStatus::NO_LOGON_SERVERS, NtStatus::INSUFF_SERVER_RESOURCES] {
            let failure = own(LogonVerdict::Refused(status)).expect_err("nobody has checked it");
            assert_eq!(failure, ResponseFailure::Unchecked, "{status:?}");
        }
        for status in [NtStatus::WRONG_PASSWORD, NtStatus::NO_SUCH_USER] {
            let failure = own(LogonVerdict::Refused(status)).expect_err("it is wrong");
            assert_eq!(failure, ResponseFailure::Refused(status));
        }
        let failure = own(accepted()).expect_err("a principal is no user of this server");
        assert_eq!(failure, ResponseFailure::Unchecked);
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
