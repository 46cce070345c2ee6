//! Accounts of users, and owners of proofs.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use dtyp::Sid;
use object::UserId;

/// Number of guests and anonymous users in the records of files: anyone can be any of them.
pub const GUESTS_NUMBER: u64 = 0;

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
    /// Returns the number that tells the user apart in the records of files: a hash of its
    /// identity, the same in all processes.
    #[must_use]
    pub fn number(&self) -> u64 {
        // This hasher has no random key.
        let mut hasher = DefaultHasher::new();
        hasher.write(self.identity.as_bytes());
        hasher.finish().max(GUESTS_NUMBER + 1)
    }

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

/// Users of this server whose passwords a response has proven: several, where groups decide which
/// one a name means.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProvenUsers {
    /// Names of the users as configured.
    pub users: Vec<String>,
    /// True if the name may have meant others, too.
    pub is_ambiguous: bool,
    /// True if none of them may log on.
    pub is_disabled: bool,
}
