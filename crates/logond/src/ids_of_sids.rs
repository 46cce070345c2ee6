//! Ids of users and groups of the domain, written down for the workers: they make POSIX ACLs of
//! descriptors, whose SIDs may be those of users who have never logged on.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use dtyp::Sid;
use logon::winbind::{Connection, DomainName};
use tables::{DomainId, DomainIds};
use tracing::{debug, warn};

/// The table of all processes; none without a domain, or if it cannot be opened.
#[derive(Debug)]
pub(crate) struct IdsOfSids(Option<Mutex<DomainIds>>);

// SidTypeUser of [MS-LSAT] 2.2.13.
const USER: u16 = 1;
// SidTypeGroup.
const GROUP: u16 = 2;
// SidTypeAlias.
const ALIAS: u16 = 4;

impl IdsOfSids {
    pub(crate) fn open(state_dir: Option<&Path>) -> Self {
        let open = |folder| {
            DomainIds::open(folder)
                .inspect_err(|error| warn!("cannot open the table of ids of the domain: {error}"))
                .ok()
        };
        Self(state_dir.and_then(open).map(Mutex::new))
    }

    /// Writes the ids of a user who logs on, and of the groups that have some.
    pub(crate) fn learn_account(&self, user: (&Sid, u32), groups: &[Sid], gids: &[Option<u32>]) {
        self.learn(user.0, DomainId::User(user.1));
        for (sid, gid) in groups.iter().zip(gids) {
            // With some backends a user's SID has a group id, too; the user comes first.
            if let Some(gid) = gid.filter(|_| sid != user.0) {
                self.learn(sid, DomainId::Group(gid));
            }
        }
    }

    /// Asks for the id of a name that somebody looks up: it may be in a descriptor next.
    pub(crate) fn learn_found(&self, domain: &mut Connection, found: &DomainName) {
        let id = match found.kind {
            USER => domain.system_user(&found.sid).map(|it| Some(DomainId::User(it.uid))),
            GROUP | ALIAS => domain
                .group_ids(std::slice::from_ref(&found.sid))
                .map(|ids| ids.first().copied().flatten().map(DomainId::Group)),
            _ => return,
        };
        match id {
            Ok(Some(id)) => self.learn(&found.sid, id),
            Ok(None) => debug!("{} has no id", found.sid),
            Err(error) => debug!("the id of {} is not known: {error}", found.sid),
        }
    }

    fn learn(&self, sid: &Sid, id: DomainId) {
        let Some(ids) = &self.0 else { return };
        let ids = ids.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = ids.learn(sid, id) {
            warn!("the id of {sid} is not kept: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_and_the_groups_with_ids_are_kept_for_workers() {
        let folder = tempfile::tempdir().expect("there is space");
        let [alice, engineers, nobody] =
            [1_103, 1_106, 1_107].map(|rid| Sid::new(5, &[21, 1, 2, 3, rid]));
        let ids = IdsOfSids::open(Some(folder.path()));
        let groups = [alice.clone(), engineers.clone(), nobody.clone()];
        ids.learn_account((&alice, 5), &groups, &[Some(5), Some(6), None]);
        drop(ids);
        let kept = DomainIds::open(folder.path()).expect("the same file");
        assert_eq!(kept.id_of(&alice), Some(DomainId::User(5)));
        assert_eq!(kept.id_of(&engineers), Some(DomainId::Group(6)));
        assert_eq!(kept.id_of(&nobody), None);
    }
}
