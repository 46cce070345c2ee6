//! Users of the database to whom Samba gave SIDs: access lists that Samba has stored name them so.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dtyp::Sid;
use store::{DomainIds, Trustee};
use users::KnownUser;

use super::name_service::Question;
use super::unix;

/// The users of one worker, for all of its threads. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct SambaUsers(Arc<Mutex<BTreeMap<Sid, SambaUser>>>);

/// A user of the system.
#[derive(Clone, Debug)]
struct SambaUser {
    name: String,
    /// Its id, unless the system knows that.
    uid: Option<u32>,
}

impl SambaUsers {
    /// Replaces all users by those of a database.
    pub(super) fn replace(&self, users: &[KnownUser]) {
        let user = |user: &KnownUser| {
            let uid = user.identity.as_ref().map(users::Identity::uid);
            let sid = user.samba_sid.clone()?;
            Some((sid, SambaUser { name: user.name.clone(), uid }))
        };
        *self.lock() = users.iter().filter_map(user).collect();
    }

    /// Returns the name and id of the user of this system with a SID.
    pub(super) fn find(&self, sid: &Sid) -> Option<(String, u32)> {
        // The name service may take its time, and is asked without the lock.
        let SambaUser { name, uid } = self.lock().get(sid).cloned()?;
        match uid {
            Some(uid) => Some((name, uid)),
            None => unix::find_for_client(Question::UserId(name)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Sid, SambaUser>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DomainIds for SambaUsers {
    fn id_of(&self, sid: &Sid) -> Option<Trustee> {
        self.find(sid).map(|(_, uid)| Trustee::User(uid))
    }
}

#[cfg(test)]
mod tests {
    use dtyp::Sid;
    use store::{DomainIds, Trustee};
    use users::{Identity, KnownUser};

    use super::super::name_service::{Answer, Question};
    use super::super::unix;
    use super::SambaUsers;

    fn sid(rid: u32) -> Sid {
        Sid::new(5, &[21, 1, 2, 3, rid])
    }

    #[test]
    fn a_sid_of_samba_stands_for_the_user_of_the_system_or_of_the_database() {
        unix::replace_name_service(|question| {
            let Question::UserId(name) = question else { anyhow::bail!("not asked here") };
            Ok(Answer::Named((name == "ben").then(|| (name.clone(), 1_001))))
        });
        let user = |name: &str, rid| KnownUser {
            name: name.to_owned(),
            enabled: true,
            full_name: String::new(),
            identity: None,
            samba_sid: Some(sid(rid)),
        };
        let identity = Identity::new(7, vec![7]).ok();
        let carla = KnownUser { identity, ..user("carla", 1_003) };
        let users = SambaUsers::default();
        users.replace(&[user("ben", 1_001), user("gone", 1_002), carla]);
        assert_eq!(users.id_of(&sid(1_001)), Some(Trustee::User(1_001)));
        assert_eq!(users.id_of(&sid(1_002)), None, "the system has no such user");
        assert_eq!(users.id_of(&sid(1_003)), Some(Trustee::User(7)));
        assert_eq!(users.id_of(&sid(1_004)), None);
        users.clone().replace(&[]);
        assert_eq!(users.id_of(&sid(1_001)), None);
    }
}
