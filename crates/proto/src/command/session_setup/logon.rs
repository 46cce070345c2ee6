//! Logons: from the name that a client gives to the account of a user with the right password, and
//! notices of refused logons.
//!
//! The order matters: after the throttle's delay `logond` checks the proof, and nothing else; then
//! the client must mean this server; and only after that the system's name service looks up the
//! account. So clients without a password cannot load the name service, or learn the names of users
//! from its timing.

use auth::AuthError;
use dtyp::NtStatus;
use dtyp::upcase::equal_ignoring_case;
use engine::effect::{Authority, CheckedResponse, Effect, ResponseFailure, ResponseOwner};
use engine::notice::{LogonRefused, Notice};
use engine::request::Incoming;
use engine::response::Step;
use engine::scope::InConnection;
use model::logon_throttle::Admission;
use model::reject::Reject;
use trace::LogonOutcome;

use super::{
    Established, LogonStep, Pending, Proven, Source, acceptor, authenticate, conclude, fail,
};

/// Delays the check of a proof for as long as the throttle demands.
pub(super) fn wait_for_turn(
    scope: &mut InConnection<'_>,
    incoming: &Incoming,
    mut pending: Pending,
    user: &str,
) -> Result<Step<Pending>, Reject> {
    let throttle = &scope.globals.logon_throttle;
    let settings = &scope.globals.settings.logon_throttle;
    let (now, client) = (incoming.now.monotonic, scope.connection.client);
    match throttle.begin(settings, now, client, user) {
        Admission::Now => check_response(scope, incoming, pending),
        Admission::After(time) => {
            pending.waits_for = LogonStep::Turn;
            Ok(Step::Wait(Effect::Sleep(time), pending))
        }
        Admission::Refused => Err(fail(scope, incoming, &pending, Reject::TooManyFailedLogons)),
    }
}

/// Has the response checked by the domain, or by this server where that has the user.
pub(super) fn check_response(
    scope: &mut InConnection<'_>,
    incoming: &Incoming,
    pending: Pending,
) -> Result<Step<Pending>, Reject> {
    let claimed = acceptor(scope, incoming, &pending)?.claimed().ok_or(Reject::NoSuchSession)?;
    // To count a reference to the settings would copy their page, which all workers share.
    let domain = claimed.domain.clone();
    let settings = &scope.globals.settings;
    let is_own = equal_ignoring_case(&domain, &settings.netbios_name);
    let authority =
        if settings.is_member && !is_own { Authority::Domain } else { Authority::Server };
    check_response_by(scope, incoming, pending, authority)
}

fn check_response_by(
    scope: &mut InConnection<'_>,
    incoming: &Incoming,
    mut pending: Pending,
    authority: Authority,
) -> Result<Step<Pending>, Reject> {
    let response = acceptor(scope, incoming, &pending)?.response();
    let response = Box::new(response.map_err(Reject::Authentication)?);
    pending.waits_for = LogonStep::Response;
    Ok(Step::Wait(Effect::CheckResponse { response, authority }, pending))
}

/// Handles the answer about a response. A user that the domain does not know may be one of this
/// server: clients send domains of all kinds.
pub(super) fn take_response(
    mut scope: InConnection<'_>,
    incoming: &Incoming,
    pending: Pending,
    result: Result<Box<CheckedResponse>, ResponseFailure>,
) -> Result<Step<Pending>, Reject> {
    let (step, source) = match result {
        Ok(checked) => {
            let CheckedResponse { session_base_key, owner } = *checked;
            let acceptor = acceptor(&mut scope, incoming, &pending)?;
            let step = acceptor.resume_with_key(&session_base_key);
            let source = match owner {
                ResponseOwner::Account(account) => Source::Domain(account),
                ResponseOwner::Users(proven) => Source::Database(proven),
            };
            (step, Some(source))
        }
        Err(ResponseFailure::NotInDomain) => {
            return check_response_by(&mut scope, incoming, pending, Authority::Server);
        }
        Err(ResponseFailure::Refused(NtStatus::NO_SUCH_USER)) => (Err(AuthError::NoSuchUser), None),
        Err(ResponseFailure::Refused(NtStatus::WRONG_PASSWORD)) => {
            (Err(AuthError::WrongPassword), None)
        }
        Err(ResponseFailure::Refused(status)) => {
            return Err(fail(&mut scope, incoming, &pending, Reject::DomainRefused(status)));
        }
        Err(ResponseFailure::Unchecked) => {
            excuse(&mut scope, incoming, &pending);
            return Err(fail(&mut scope, incoming, &pending, Reject::AccountUnavailable));
        }
    };
    authenticate(scope, incoming, pending, step, source)
}

/// Handles a right proof. If the client names its server, the name must be of this one, or a man in
/// the middle may have relayed a proof for another server: [MS-NLMP] 2.2.2.1, MsvAvTargetName. A
/// binding skips that check: it needs the session's key, which no man in the middle has, and its
/// client may have reached the first connection by another name.
pub(super) fn accept_proof(
    mut scope: InConnection<'_>,
    incoming: &Incoming,
    mut pending: Pending,
    mut proven: Proven,
) -> Result<Step<Pending>, Reject> {
    // Whoever has a password must not be taken for all others whom their name may mean.
    if !proven.source.is_ambiguous() {
        succeed(&mut scope, incoming, &pending);
    }
    if matches!(&proven.source, Source::Database(proven) if proven.is_disabled) {
        return Err(fail(&mut scope, incoming, &pending, Reject::AccountDisabled));
    }
    let target_name = proven.target_name.take().filter(|_| !pending.binds);
    let Some(target_name) = target_name else {
        return find_account(scope, incoming, pending, proven, true);
    };
    proven.target_name = Some(target_name.clone());
    pending.waits_for = LogonStep::OwnName(Box::new(proven));
    let server = scope.connection.server;
    Ok(Step::Wait(Effect::IsOwnName { target_name, server }, pending))
}

/// Takes the count of a failed logon back, and notes that the user is known at the address.
pub(super) fn succeed(scope: &mut InConnection<'_>, incoming: &Incoming, pending: &Pending) {
    if let Some(user) = claimed_user(scope, incoming, pending) {
        let (now, client) = (incoming.now.monotonic, scope.connection.client);
        scope.globals.logon_throttle.succeed(now, client, &user);
    }
}

/// Requests the account of a user, if the client means this server. The domain has sent it.
pub(super) fn find_account(
    mut scope: InConnection<'_>,
    incoming: &Incoming,
    mut pending: Pending,
    proven: Proven,
    is_meant: bool,
) -> Result<Step<Pending>, Reject> {
    if !is_meant {
        pending.waits_for = LogonStep::OwnName(Box::new(proven));
        return Err(fail(&mut scope, incoming, &pending, Reject::MeantForAnotherServer));
    }
    let users = match proven.source {
        Source::Database(ref proven) => proven.users.clone(),
        Source::Domain(account) => {
            let done = Established::of_user(proven.token, *account, proven.session_key);
            return conclude(scope, incoming, pending, done);
        }
    };
    let claimed = claimed_user(&mut scope, incoming, &pending).ok_or(Reject::NoSuchSession)?;
    let requested_user = claimed.to_lowercase();
    pending.waits_for = LogonStep::Account(Box::new(proven));
    Ok(Step::Wait(Effect::FindAccount { users, requested_user }, pending))
}

/// Takes the count of a failed logon back, because the logon needs no proof.
pub(super) fn excuse(scope: &mut InConnection<'_>, incoming: &Incoming, pending: &Pending) {
    if let Some(user) = claimed_user(scope, incoming, pending) {
        let (now, client) = (incoming.now.monotonic, scope.connection.client);
        scope.globals.logon_throttle.excuse(now, client, &user);
    }
}

/// Counts a refused logon, and sends a notice for the log.
pub(super) fn refuse(
    scope: &mut InConnection<'_>,
    incoming: &Incoming,
    pending: &Pending,
    reject: Reject,
) {
    let acceptor = acceptor(scope, incoming, pending).ok();
    let claimed = acceptor.and_then(|acceptor| acceptor.claimed().cloned());
    let (user, domain) = claimed.map(|it| (it.user, it.domain)).unwrap_or_default();
    let globals = &mut *scope.globals;
    globals.count_logon(outcome(reject));
    let (now, client) = (incoming.now.monotonic, scope.connection.client);
    if let Reject::Authentication(_) = reject
        && !user.is_empty()
    {
        let settings = &globals.settings.logon_throttle;
        globals.logon_throttle.fail(settings, now, client, &user);
    }
    if !globals.logon_throttle.may_log(now, client) {
        globals.logon_throttle.count_unlogged(client);
        globals.unlogged_client = Some(client);
        return;
    }
    let target_name = match &pending.waits_for {
        LogonStep::OwnName(proven) => proven.target_name.clone(),
        _ => None,
    };
    let unlogged = globals.logon_throttle.take_unlogged(client);
    let refused = LogonRefused { client, user, domain, target_name, reject, unlogged };
    globals.outbox.notices.push_back(Notice::LogonRefused(Box::new(refused)));
}

fn claimed_user(
    scope: &mut InConnection<'_>,
    incoming: &Incoming,
    pending: &Pending,
) -> Option<String> {
    Some(acceptor(scope, incoming, pending).ok()?.claimed()?.user.clone())
}

fn outcome(reject: Reject) -> LogonOutcome {
    match reject {
        Reject::Authentication(AuthError::WrongPassword) => LogonOutcome::WrongPassword,
        Reject::Authentication(AuthError::NoSuchUser) => LogonOutcome::NoSuchUser,
        Reject::Authentication(AuthError::InvalidTicket) => LogonOutcome::WrongTicket,
        Reject::TooManyFailedLogons => LogonOutcome::TooManyFailures,
        Reject::MeantForAnotherServer => LogonOutcome::AnotherServer,
        _ => LogonOutcome::Refused,
    }
}
