//! Ids of users and groups with SIDs of a domain, or of Samba's database, for the stores of this
//! worker.

use std::sync::{Arc, Mutex, PoisonError};

use dtyp::Sid;
use settings::Settings;
use shares::samba_users::SambaUsers;
use store::{DomainIds, Trustee};
use tables::DomainId;
use tracing::warn;

/// The table of a member's domain, which one thread at a time may use, and users of Samba's
/// database.
#[derive(Debug)]
struct Shared {
    table: Option<Mutex<tables::DomainIds>>,
    samba_users: SambaUsers,
}

impl DomainIds for Shared {
    fn id_of(&self, sid: &Sid) -> Option<Trustee> {
        let of_domain = |table: &Mutex<tables::DomainIds>| {
            let ids = table.lock().unwrap_or_else(PoisonError::into_inner);
            ids.id_of(sid).map(|id| match id {
                DomainId::User(uid) => Trustee::User(uid),
                DomainId::Group(gid) => Trustee::Group(gid),
            })
        };
        let found = self.table.as_ref().and_then(of_domain);
        found.or_else(|| self.samba_users.id_of(sid))
    }
}

/// Returns the ids of users to whom Samba gave SIDs, and opens the table of a member. Without that,
/// users and groups of the domain have no entries in POSIX ACLs, as those without ids.
pub(crate) fn open(settings: &Settings, samba_users: SambaUsers) -> Arc<dyn DomainIds> {
    let mut table = None;
    if settings.config.global.is_member() {
        match tables::DomainIds::open(&settings.directories.state) {
            Ok(ids) => table = Some(Mutex::new(ids)),
            Err(error) => warn!("cannot open the table of ids of the domain: {error}"),
        }
    }
    Arc::new(Shared { table, samba_users })
}
