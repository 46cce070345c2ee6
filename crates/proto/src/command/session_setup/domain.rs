//! Logons with Kerberos tickets.
//!
//! The worker has them checked by a process that holds the key of the service. Without an answer of
//! that process, a logon has failed.

use auth::{AuthError, Outcome, Step as AuthStep, Ticket};
use engine::effect::{CheckedTicket, Effect, TicketFailure};
use engine::request::Incoming;
use engine::response::Step;
use engine::scope::InConnection;
use model::logon_throttle::Admission;
use model::reject::Reject;

use super::{
    Established, LogonStep, Pending, acceptor, authenticate, authentication, conclude, fail, logon,
};

/// Delays the check of a ticket for as long as the throttle demands.
pub(super) fn wait_for_turn(
    scope: &mut InConnection<'_>,
    incoming: &Incoming,
    mut pending: Pending,
    ticket: Box<Ticket>,
) -> Result<Step<Pending>, Reject> {
    let throttle = &scope.globals.logon_throttle;
    let settings = &scope.globals.settings.logon_throttle;
    match throttle.begin_ticket(settings, incoming.now.monotonic, scope.connection.client) {
        Admission::Now => Ok(check(pending, ticket, false)),
        Admission::After(time) => {
            pending.waits_for = LogonStep::TicketTurn(ticket);
            Ok(Step::Wait(Effect::Sleep(time), pending))
        }
        Admission::Refused => Err(fail(scope, incoming, &pending, Reject::TooManyFailedLogons)),
    }
}

/// Has a Kerberos ticket checked by `logond`.
pub(super) fn check(mut pending: Pending, ticket: Box<Ticket>, is_counted: bool) -> Step<Pending> {
    pending.waits_for = LogonStep::Ticket { is_counted };
    Step::Wait(Effect::CheckTicket(ticket), pending)
}

/// Counts the result of a check for the address of the ticket. An owner who cannot log on has sent
/// a right one, and so may one whose ticket nobody could check.
fn count(
    scope: &InConnection<'_>,
    incoming: &Incoming,
    result: Result<(), &TicketFailure>,
    is_counted: bool,
) {
    let throttle = &scope.globals.logon_throttle;
    let (now, client) = (incoming.now.monotonic, scope.connection.client);
    match result {
        Ok(()) => throttle.succeed_ticket(now, client, is_counted),
        Err(TicketFailure::Invalid(_)) => {
            let settings = &scope.globals.settings.logon_throttle;
            throttle.fail_ticket(settings, now, client, is_counted);
        }
        Err(TicketFailure::Owner(_)) if is_counted => throttle.excuse_ticket(now, client),
        Err(TicketFailure::Owner(_)) => {}
    }
}

/// Handles the result of a ticket. Its owner is kept with the acceptor: a mechListMIC may follow.
pub(super) fn take_ticket(
    mut scope: InConnection<'_>,
    incoming: &Incoming,
    pending: Pending,
    result: Result<Box<CheckedTicket>, TicketFailure>,
    is_counted: bool,
) -> Result<Step<Pending>, Reject> {
    count(&scope, incoming, result.as_ref().map(|_| ()), is_counted);
    let is_valid = result.is_ok();
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
    // The client may try another ticket; then the end of the logon does not report this one.
    if let (Ok(AuthStep::Continue(_)), false) = (&step, is_valid) {
        let invalid = Reject::Authentication(AuthError::InvalidTicket);
        logon::refuse(&mut scope, incoming, &pending, invalid);
    }
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
