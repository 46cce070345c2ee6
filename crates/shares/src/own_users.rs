//! Users whom the user database gives ids of their own, or SIDs that Samba gave them.
//!
//! The system need not know those with ids: in a container it knows nobody. They take precedence
//! over the system's users of the same name, and cost no question to the name service.

use std::collections::HashMap;

use dtyp::Sid;
use store::Credentials;
use users::KnownUser;

use super::unix_user::UnixUser;

/// RID of the group that all users of Samba's database are in, and so all of a domain.
const DOMAIN_USERS_RID: u32 = 513;

/// Users with ids of their own.
#[derive(Debug, Default)]
pub(super) struct OwnUsers {
    by_name: HashMap<String, UnixUser>,
    /// Name of the first user with each id.
    names: HashMap<u32, String>,
    /// SIDs that Samba gave to users, also to those of the system.
    samba_sids: HashMap<String, Sid>,
}

impl OwnUsers {
    /// Selects the users that have ids of their own.
    pub(super) fn of(users: &[KnownUser]) -> Self {
        let mut own = Self::default();
        for user in users {
            if let Some(sid) = &user.samba_sid {
                own.samba_sids.insert(user.name.to_lowercase(), sid.clone());
            }
            let Some(identity) = &user.identity else { continue };
            let credentials = Credentials {
                uid: identity.uid(),
                gid: identity.gid(),
                groups: identity.gids().to_vec(),
                sid: None,
                sids: Credentials::well_known(),
            };
            own.names.entry(identity.uid()).or_insert_with(|| user.name.clone());
            let unix = UnixUser { name: user.name.clone(), home: String::new(), credentials };
            own.by_name.insert(user.name.to_lowercase(), unix);
        }
        own
    }

    /// Gives a user the SIDs that it has had with Samba.
    pub(super) fn add_samba_sids(&self, user: &mut UnixUser) {
        if self.samba_sids.is_empty() {
            return;
        }
        if let Some(sid) = self.samba_sids.get(&user.name.to_lowercase()) {
            user.credentials.sids.extend(further_sids(sid));
        }
    }

    /// Returns the user of this name, in any case.
    pub(super) fn find(&self, name: &str) -> Option<&UnixUser> {
        if self.by_name.is_empty() {
            return None;
        }
        self.by_name.get(&name.to_lowercase())
    }

    /// Returns the name of the user with this id.
    pub(super) fn name(&self, uid: u32) -> Option<&str> {
        self.names.get(&uid).map(String::as_str)
    }
}

/// Returns the SIDs that a user has besides those of its ids, as with Samba: its own, and that of
/// all users.
fn further_sids(samba_sid: &Sid) -> [Sid; 2] {
    let mut all_users = samba_sid.subauthorities().to_vec();
    if let Some(rid) = all_users.last_mut() {
        *rid = DOMAIN_USERS_RID;
    }
    [samba_sid.clone(), Sid::new(samba_sid.authority(), &all_users)]
}

#[cfg(test)]
mod tests {
    use dtyp::Sid;
    use store::Credentials;
    use users::{Identity, KnownUser};

    use super::super::unix_user::UnixUser;
    use super::OwnUsers;

    fn user(name: &str, identity: Option<Identity>) -> KnownUser {
        let (name, full_name) = (name.to_owned(), String::new());
        KnownUser { name, enabled: true, full_name, identity, samba_sid: None }
    }

    #[test]
    fn users_with_ids_are_found_by_name_and_id_and_others_are_not() {
        let identity = Identity::new(1_001, vec![100, 44]).expect("ids");
        let own = OwnUsers::of(&[user("Anna", Some(identity)), user("bob", None)]);
        let anna = own.find("ANNA").expect("she has ids");
        assert_eq!(anna.name, "Anna");
        let credentials = &anna.credentials;
        assert_eq!((credentials.uid, credentials.gid), (1_001, 100));
        assert_eq!(credentials.groups, [100, 44]);
        assert_eq!(own.name(1_001), Some("Anna"));
        assert!(own.find("bob").is_none() && own.name(1_002).is_none());
    }

    #[test]
    fn a_user_of_samba_is_one_of_all_users() {
        let sid = |rid| Sid::new(5, &[21, 1, 2, 3, rid]);
        let ben = KnownUser { samba_sid: Some(sid(1_001)), ..user("Ben", None) };
        let own = OwnUsers::of(&[ben]);
        for (name, sids) in [("ben", vec![sid(1_001), sid(513)]), ("bob", Vec::new())] {
            let credentials = Credentials { sids: Vec::new(), ..Credentials::default() };
            let mut unix = UnixUser { name: name.to_owned(), home: String::new(), credentials };
            own.add_samba_sids(&mut unix);
            assert_eq!(unix.credentials.sids, sids, "{name}");
        }
    }
}
