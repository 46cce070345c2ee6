//! Audit of a share: the options of Samba's `vfs_full_audit`.

use std::sync::Arc;

use arbitration::RequestingUser;
use config::{FullAudit, Share, Substitutions};
use proto::audit::{Audit, AuditEvents, AuditSyslog};

/// The audit of a share for the user of a tree connect; `None` if nothing is recorded.
pub(super) fn audit_of(
    share: &Share,
    user: &RequestingUser,
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
        is_guest: user.is_guest,
        user: user.name.clone(),
        domain: user.domain.clone(),
        client: user.client,
        client_name: user.client_name.clone(),
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
