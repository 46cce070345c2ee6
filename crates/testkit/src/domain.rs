//! The domain as tests have it: tickets that are texts, and users with passwords.

use std::time::Duration;

use auth::{LateMic, NtlmResponse, SessionKey, Ticket, TicketAccepted, TicketRefused};
use dtyp::{NtStatus, Sid};
use proto::Account;
use proto::account::TicketOwner;
use proto::effect::{
    CheckedResponse, CheckedTicket, ResponseFailure, ResponseOwner, TicketFailure,
};

/// What the domain of a test answers.
#[derive(Debug)]
pub struct Domain {
    /// Owner of each valid ticket, which is the user's name; the account is made of it.
    pub lifetime: Duration,
    /// Status for every ticket and every response, if the domain refuses all.
    pub refuses: Option<NtStatus>,
    /// Answer to each response; users that are not in the domain without one.
    pub response: Option<Answer>,
    /// Account whose other fields all users of the domain have.
    pub template: Option<Account>,
    /// Users and groups that the domain knows by name and SID.
    pub names: Vec<rpc::Principal>,
}

/// Function that answers a response.
pub type Answer = fn(&NtlmResponse) -> Option<auth::SessionBaseKey>;

/// Beginning of a valid ticket; the rest is the user's name.
pub const VALID: &[u8] = b"valid:";
/// A ticket from which the client learns that its clock is wrong.
pub const SKEWED: &[u8] = b"skewed";
/// The error that the client gets for it.
pub const KRB_ERROR: &[u8] = b"KRB-ERROR";
/// The server's answer to a valid ticket.
pub const AP_REP: &[u8] = b"AP-REP";
/// The MIC of a client over any list.
pub const CLIENT_MIC: &[u8] = b"client's MIC";
/// Session key of valid tickets: of AES-256.
pub const KEY: [u8; 32] = *b"key of a ticket, with 32 bytes..";

impl Default for Domain {
    fn default() -> Self {
        let lifetime = Duration::from_secs(36_000);
        Self { lifetime, refuses: None, response: None, template: None, names: Vec::new() }
    }
}

impl Domain {
    pub(crate) fn check_ticket(&self, ticket: &Ticket) -> Result<CheckedTicket, TicketFailure> {
        if let Some(status) = self.refuses {
            return Err(TicketFailure::Owner(status));
        }
        if ticket.token == SKEWED {
            let token = KRB_ERROR.to_vec();
            return Err(TicketFailure::Invalid(TicketRefused::TryAgain(token)));
        }
        let user = ticket.token.strip_prefix(VALID).and_then(|it| std::str::from_utf8(it).ok());
        let user = user.ok_or(TicketFailure::Invalid(TicketRefused::Invalid))?;
        if ticket.mech_list_mic.as_ref().is_some_and(|mic| mic != CLIENT_MIC) {
            return Err(TicketFailure::Invalid(TicketRefused::BadMechListMic));
        }
        let account = self.account(user);
        let accepted = TicketAccepted {
            token: AP_REP.to_vec(),
            session_key: SessionKey::from_slice(&KEY).expect("32 bytes"),
            mech_list_mic: b"server's MIC".to_vec(),
            context: 7,
            user: account.user.clone(),
            domain: account.domain.clone(),
        };
        Ok(CheckedTicket { accepted, owner: TicketOwner { account, lifetime: self.lifetime } })
    }

    pub(crate) fn find_name(&self, question: &rpc::NameQuestion) -> Option<rpc::Principal> {
        let is_it = |known: &&rpc::Principal| match question {
            rpc::NameQuestion::Sid(sid) => known.sid == *sid,
            rpc::NameQuestion::Name { domain, name } => {
                (&known.domain, &known.name) == (domain, name)
            }
        };
        self.names.iter().find(is_it).cloned()
    }

    pub(crate) fn check_mic(&self, mic: &LateMic) -> bool {
        mic.context == 7 && mic.mech_list_mic == CLIENT_MIC
    }

    pub(crate) fn check_response(
        &self,
        response: &NtlmResponse,
    ) -> Result<CheckedResponse, ResponseFailure> {
        if let Some(status) = self.refuses {
            return Err(ResponseFailure::Refused(status));
        }
        let answer = self.response.ok_or(ResponseFailure::NotInDomain)?;
        let session_base_key =
            answer(response).ok_or(ResponseFailure::Refused(NtStatus::WRONG_PASSWORD))?;
        let owner = ResponseOwner::Account(Box::new(self.account(&response.user)));
        Ok(CheckedResponse { session_base_key, owner })
    }

    /// The account of a user of the domain.
    ///
    /// # Panics
    /// Without a template.
    #[must_use]
    pub fn account(&self, user: &str) -> Account {
        let rid = user.bytes().fold(1_000, |rid, byte| rid * 31 % 65_521 + u32::from(byte));
        let sid = Sid::new(5, &[21, 1, 2, 3, rid]);
        Account {
            user: format!("ADLAB\\{user}"),
            requested_user: user.to_owned(),
            domain: "ADLAB".to_owned(),
            identity: sid.to_string(),
            sid,
            ..self.template.clone().expect("a world has users")
        }
    }
}
