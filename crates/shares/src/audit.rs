//! Audit of a share: the options of Samba's `vfs_full_audit`.

use std::net::SocketAddr;
use std::sync::Arc;

use arbitration::RequestingUser;
use config::{FullAudit, Share, Substitutions};
use proto::Account;
use proto::audit::{Audit, AuditEvents, AuditSyslog};
use proto::effect::ConnectShare;

/// The audit of a tree connect; `None` if nothing of the share is recorded.
pub(super) fn audit_of(
    share: &Share,
    account: &Account,
    request: &ConnectShare,
    substitutions: &Substitutions,
) -> Option<Arc<Audit>> {
    let user = (&*account.user, &*account.domain, account.is_guest);
    new(share, user, (request.client, &request.client_name), substitutions)
}

/// The audit of a deletion, for the user who has marked the file.
pub(super) fn audit_of_user(
    share: &Share,
    user: &RequestingUser,
    substitutions: &Substitutions,
) -> Option<Arc<Audit>> {
    let RequestingUser { name, domain, is_guest, client, client_name, .. } = user;
    new(share, (name, domain, *is_guest), (*client, client_name), substitutions)
}

fn new(
    share: &Share,
    (user, domain, is_guest): (&str, &str, bool),
    (client, client_name): (SocketAddr, &str),
    substitutions: &Substitutions,
) -> Option<Arc<Audit>> {
    let audit = FullAudit::of(share).filter(|audit| !audit.is_empty())?;
    Some(Arc::new(Audit {
        success: AuditEvents::named(&audit.success),
        failure: AuditEvents::named(&audit.failure),
        syslog: audit.syslog.map(|syslog| AuditSyslog {
            prefix: substitutions.expand(&syslog.prefix),
            priority: syslog.priority,
        }),
        is_guest,
        user: user.to_owned(),
        domain: domain.to_owned(),
        client,
        client_name: client_name.to_owned(),
        share: share.name.clone(),
    }))
}

#[cfg(test)]
mod tests {
    use super::AuditEvents;

    #[test]
    fn each_event_of_the_configuration_is_known() {
        for name in config::audit_events() {
            assert_ne!(AuditEvents::named(&[name]), AuditEvents::default(), "{name}");
        }
    }
}
