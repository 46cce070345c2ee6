//! Ids of a domain's users and groups, for the stores of this worker.

use std::sync::{Arc, Mutex, PoisonError};

use dtyp::Sid;
use settings::Settings;
use store::{DomainIds, Trustee};
use tables::DomainId;
use tracing::warn;

/// The table, which one thread at a time may use.
#[derive(Debug)]
struct Shared(Mutex<tables::DomainIds>);

impl DomainIds for Shared {
    fn id_of(&self, sid: &Sid) -> Option<Trustee> {
        let ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ids.id_of(sid).map(|id| match id {
            DomainId::User(uid) => Trustee::User(uid),
            DomainId::Group(gid) => Trustee::Group(gid),
        })
    }
}

/// Opens the table of a member. Without it, users and groups of the domain have no entries in POSIX
/// ACLs, as those without ids.
pub(crate) fn open(settings: &Settings) -> Option<Arc<dyn DomainIds>> {
    if !settings.config.global.is_member() {
        return None;
    }
    match tables::DomainIds::open(&settings.directories.state) {
        Ok(ids) => Some(Arc::new(Shared(Mutex::new(ids)))),
        Err(error) => {
            warn!("cannot open the table of ids of the domain: {error}");
            None
        }
    }
}
