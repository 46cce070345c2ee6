//! Logons that another authority decides: Kerberos tickets, and NTLM responses of domain users.
//!
//! The worker has them checked by a process that holds the key of the service, or asks the domain.
//! Whatever that process does not answer is a failed logon.

use auth::{AuthError, Outcome};
use dtyp::NtStatus;
use engine::effect::{CheckedResponse, CheckedTicket, ResponseFailure, TicketFailure};
use engine::request::Incoming;
use engine::response::Step;
use engine::scope::InConnection;
use model::reject::Reject;

use super::{
    Established, Pending, Source, acceptor, authenticate, authentication, conclude, fail, logon,
};

/// Handles the result of a ticket. Its owner is kept with the acceptor: a mechListMIC may follow.
pub(super) fn take_ticket(
    mut scope: InConnection<'_>,
    incoming: &Incoming,
    pending: Pending,
    result: Result<Box<CheckedTicket>, TicketFailure>,
) -> Result<Step<Pending>, Reject> {
    let result = match result {
        Ok(checked) => {
            let CheckedTicket { accepted, owner } = *checked;
            let authentication = authentication(&mut scope, incoming, &pending)?;
            authentication.ticket_owner = Some(Box::new(owner));
            Ok(accepted)
        }
        Err(TicketFailure::Invalid(refused)) => Err(refused),
        Err(TicketFailure::Owner(status)) => {
            return Err(fail(&mut scope, incoming, &pending, Reject::DomainRefused(status)));
        }
    };
    let step = acceptor(&mut scope, incoming, &pending)?.resume_ticket(result);
    authenticate(scope, incoming, pending, step, None)
}

/// Concludes the logon of a ticket's owner.
pub(super) fn accept_ticket(
    mut scope: InConnection<'_>,
    incoming: &Incoming,
    pending: Pending,
    outcome: Outcome,
) -> Result<Step<Pending>, Reject> {
    let authentication = authentication(&mut scope, incoming, &pending)?;
    let owner = authentication.ticket_owner.take();
    let owner = owner.expect("it was kept with the result of the ticket");
    let Outcome { token, session_key, .. } = outcome;
    let lifetime = Some(owner.lifetime);
    let done = Established { lifetime, ..Established::of_user(token, owner.account, session_key) };
    conclude(scope, incoming, pending, done)
}

/// Handles the domain's answer on a response. A user that the domain does not know may be one of
/// this server: clients send domains of all kinds.
pub(super) fn take_response(
    mut scope: InConnection<'_>,
    incoming: &Incoming,
    pending: Pending,
    result: Result<Box<CheckedResponse>, ResponseFailure>,
) -> Result<Step<Pending>, Reject> {
    let refused = |error| Err::<auth::Step, _>(error);
    let (step, source) = match result {
        Ok(checked) => {
            let CheckedResponse { session_base_key, account } = *checked;
            let acceptor = acceptor(&mut scope, incoming, &pending)?;
            let step = acceptor.resume_with_key(&session_base_key);
            (step, Some(Source::Domain(Box::new(account))))
        }
        Err(ResponseFailure::NotInDomain) => {
            return logon::find_own_credential(&mut scope, incoming, pending);
        }
        Err(ResponseFailure::Refused(NtStatus::NO_SUCH_USER)) => {
            (refused(AuthError::NoSuchUser), None)
        }
        Err(ResponseFailure::Refused(NtStatus::WRONG_PASSWORD)) => {
            (refused(AuthError::WrongPassword), None)
        }
        Err(ResponseFailure::Refused(status)) => {
            return Err(fail(&mut scope, incoming, &pending, Reject::DomainRefused(status)));
        }
    };
    authenticate(scope, incoming, pending, step, source)
}
