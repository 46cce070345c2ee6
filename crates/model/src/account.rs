//! Accounts of users, and the secrets that check their proofs.

use std::sync::Arc;
use std::time::Duration;

use dtyp::Sid;
use object::UserId;

/// An account as the server knows it.
#[derive(Clone, Debug)]
pub struct Account {
    /// Name of the user as configured.
    pub user: String,
    /// Name that the client gave, in lower case. A username map may have replaced it by `user`.
    pub requested_user: String,
    /// Domain or workgroup of the user.
    pub domain: String,
    /// User whose rights the kernel checks.
    pub unix: UserId,
    /// Key that tells users apart. Users unknown to the system share their rights and so a SID, but
    /// not the ownership of sessions and durable opens.
    pub identity: String,
    /// SID of the user, as access checks use it.
    pub sid: Sid,
    /// SIDs of the groups that the user belongs to. The user's open pipes share them.
    pub groups: Arc<[Sid]>,
    /// True for the account of guests and anonymous users.
    pub is_guest: bool,
}

impl Account {
    /// Memory of its groups in bytes: here, and in the credentials of the store.
    #[must_use]
    pub fn group_bytes(&self) -> usize {
        2 * size_of_val(&*self.groups)
    }
}

/// Owner of a valid Kerberos ticket.
#[derive(Clone, Debug)]
pub struct TicketOwner {
    /// Account of the owner in this system.
    pub account: Account,
    /// Time until the end of the ticket.
    pub lifetime: Duration,
}

/// Secret against which a user's proof is checked.
#[derive(Clone, Debug)]
pub struct Credential {
    /// Name of the user as configured.
    pub user: String,
    /// Name that the client gave, in lower case. A username map may have replaced it by `user`.
    pub requested_user: String,
    /// NT hash of the user's password.
    pub nt_hash: auth::NtHash,
    /// True if the user may not log on.
    pub disabled: bool,
    /// Secrets of other users that the name may mean, where groups decide that are not looked up
    /// yet; none for a user without one.
    pub others: Vec<Option<Self>>,
}

/// The users of this server cannot be read, so nobody knows whether one has a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UsersUnavailable;

impl Credential {
    /// Returns the hashes of all users that the name may mean, those of this one first.
    #[must_use]
    pub fn nt_hashes(&self) -> Vec<Option<auth::NtHash>> {
        let others = self.others.iter().map(|it| it.as_ref().map(|it| it.nt_hash.clone()));
        [Some(self.nt_hash.clone())].into_iter().chain(others).collect()
    }

    /// Returns the secret at an index of [`Self::nt_hashes`], with those of users who have the same
    /// password. Disabled users count only if all are.
    ///
    /// # Panics
    /// If there is no hash at that index.
    #[must_use]
    pub fn proven(mut self, index: usize) -> Self {
        let others = std::mem::take(&mut self.others);
        let mut all: Vec<Option<Self>> = [Some(self)].into_iter().chain(others).collect();
        let first = all[index].take().expect("its hash was right");
        let same = all.into_iter().flatten();
        let same = same.filter(|it| it.nt_hash.as_bytes() == first.nt_hash.as_bytes());
        let mut proven: Vec<Self> = same.collect();
        proven.insert(0, first);
        if proven.iter().any(|it| !it.disabled) {
            proven.retain(|it| !it.disabled);
        }
        let first = proven.remove(0);
        Self { others: proven.into_iter().map(Some).collect(), ..first }
    }

    /// Returns the users that the name may mean.
    #[must_use]
    pub fn into_users(self) -> Vec<String> {
        let others = self.others.into_iter().flatten().map(|it| it.user);
        [self.user].into_iter().chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(user: &str, password: &str, disabled: bool) -> Credential {
        Credential {
            user: user.to_owned(),
            requested_user: "name".to_owned(),
            nt_hash: auth::NtHash::of_password(password),
            disabled,
            others: Vec::new(),
        }
    }

    #[test]
    fn a_proof_is_of_all_users_with_that_password_and_of_enabled_ones_first() {
        let all = || Credential {
            others: vec![None, Some(of("b", "same", true)), Some(of("c", "same", false))],
            ..of("a", "other", false)
        };
        assert_eq!(
            all().nt_hashes().iter().map(Option::is_some).collect::<Vec<_>>(),
            [true, false, true, true]
        );
        assert_eq!(all().proven(0).into_users(), ["a"]);
        for index in [2, 3] {
            let proven = all().proven(index);
            assert!(!proven.disabled);
            assert_eq!(proven.into_users(), ["c"]);
        }
        let disabled = Credential { others: vec![Some(of("b", "same", true))], ..all() };
        assert!(disabled.proven(1).disabled, "nobody else has that password");
    }
}
