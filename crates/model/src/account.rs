//! Accounts of users, and the secrets that check their proofs.

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
    /// SIDs of the groups that the user belongs to.
    pub groups: Vec<Sid>,
    /// True for the account of guests and anonymous users.
    pub is_guest: bool,
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
}
