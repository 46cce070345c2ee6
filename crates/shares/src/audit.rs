//! Audit of a share: the options of Samba's `vfs_full_audit`.

use std::sync::Arc;

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
    let audit = FullAudit::of(share).filter(|audit| !audit.is_empty())?;
    Some(Arc::new(Audit {
        success: AuditEvents::named(&audit.success),
        failure: AuditEvents::named(&audit.failure),
        syslog: audit.syslog.map(|syslog| AuditSyslog {
            prefix: substitutions.expand(&syslog.prefix),
            priority: syslog.priority,
        }),
        is_guest: account.is_guest,
        user: account.user.clone(),
        domain: account.domain.clone(),
        client: request.client,
        client_name: request.client_name.clone(),
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
