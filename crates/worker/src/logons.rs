//! Lines in the log about logons: docs/logons.md has their form, which programs read.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use auth::AuthError;
use dtyp::NtStatus;
use process::clocks::machine_clock;
use process::log::{self, AUTH_AUDIT};
use proto::Reject;
use proto::logon_throttle::{LogonThrottle, Slots};
use proto::notice::{LogonRefused, SessionOpened};
use tables::FailedLogonPage;
use trace::LogonOutcome;
use tracing::{debug, warn};

use super::own_names;

/// Counts of failed logons, shared by all workers.
#[derive(Clone, Debug)]
pub(super) struct SharedLogons(pub(super) Arc<FailedLogonPage>);

impl Slots for SharedLogons {
    fn slots(&self) -> &[AtomicU64] {
        self.0.slots()
    }

    fn key(&self) -> u64 {
        self.0.key()
    }

    fn count(&self, outcome: LogonOutcome) {
        self.0.count(outcome.number());
    }
}

/// Counts lines of the log with those of all other workers of the client's address.
pub(super) fn share_rate_of_lines(logons: SharedLogons, client: SocketAddr) {
    let throttle = LogonThrottle::new(Box::new(logons));
    log::share_rate(move |lines| throttle.may_write(machine_clock(), client, lines));
}

/// Logs a refused logon. Strings of the client are escaped, so that they can neither end the line
/// nor look like another field.
pub(super) fn log_refused(refused: &LogonRefused) {
    let LogonRefused { client, user, domain, target_name, reject, unlogged } = refused;
    log_unlogged(*client, *unlogged);
    let address = client.ip().to_canonical();
    let (mechanism, reason) = (mechanism(*reject, user), reason(*reject));
    let remedy = target_name
        .as_ref()
        .map(|target_name| format!(" target={target_name:?} remedy={:?}", remedy(target_name)));
    warn!(
        target: AUTH_AUDIT,
        "logon refused: address={address} user={user:?} domain={domain:?} mechanism={mechanism} \
         reason={reason:?}{}",
        remedy.unwrap_or_default()
    );
}

/// Logs the number of further refused logons from an address, which have no line of their own.
pub(super) fn log_unlogged(client: SocketAddr, unlogged: u64) {
    if unlogged > 0 {
        let address = client.ip().to_canonical();
        warn!(
            target: AUTH_AUDIT,
            "logons refused: address={address} {unlogged} more from there, which are not listed"
        );
    }
}

/// Logs a successful logon, at the level of the subject `auth_audit`.
pub(super) fn log_opened(opened: &SessionOpened) {
    let SessionOpened { client, user, domain, dialect, outcome, .. } = opened;
    let address = client.ip().to_canonical();
    debug!(
        target: AUTH_AUDIT,
        "logon: address={address} user={user:?} domain={domain:?} as={:?} dialect={:#06x}",
        outcome.name(),
        dialect.0,
    );
}

/// Returns the mechanism of the client's proof.
fn mechanism(reject: Reject, user: &str) -> &'static str {
    match reject {
        Reject::Authentication(AuthError::NtlmV1) => "NTLMv1",
        Reject::Authentication(AuthError::LmResponse) => "LM",
        Reject::Authentication(AuthError::InvalidTicket) => "Kerberos",
        Reject::DomainRefused(_) if user.is_empty() => "Kerberos",
        _ if user.is_empty() => "none",
        _ => "NTLMv2",
    }
}

fn reason(reject: Reject) -> String {
    match reject {
        Reject::Authentication(error) => error.to_string(),
        Reject::AccountDisabled => "the account is disabled".to_owned(),
        Reject::AccountUnavailable => {
            "the account cannot be looked up: the lines before say why".to_owned()
        }
        Reject::BoundByAnotherUser | Reject::UserChanged => {
            "the session is another user's".to_owned()
        }
        // A refusal of this server, whose reason `logond` has logged.
        Reject::DomainRefused(NtStatus::LOGON_FAILURE) => {
            "the user cannot log on here: logond says why".to_owned()
        }
        Reject::DomainRefused(status) => format!("the domain answers {status:?}"),
        Reject::LogonFailure => "there is no account for guests".to_owned(),
        Reject::MeantForAnotherServer => "meant for another server".to_owned(),
        Reject::NotEncrypted => "encryption is required".to_owned(),
        Reject::TooManyFailedLogons => "too many failed logons".to_owned(),
        Reject::TooManySessions => "too many sessions".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Returns the line of smb.conf that makes the client's name one of this server's.
fn remedy(target_name: &str) -> String {
    let host = target_name.split_once('/').map_or(target_name, |(_, host)| host);
    format!("{} = {host}", own_names::PARAMETER)
}
