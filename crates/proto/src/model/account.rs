//! Accounts of users, and proofs of who they are.

use dtyp::Sid;
use object::UserId;

/// An account as the server knows it.
#[derive(Clone, Debug)]
pub struct Account {
    /// Name of the user as configured.
    pub user: String,
    /// The name that the client gave, in small letters: it may have meant another.
    pub requested_user: String,
    /// Domain or workgroup of the user.
    pub domain: String,
    /// Whose rights the kernel checks.
    pub unix: UserId,
    /// Who it is. Users whom the system does not know share their rights, and with them a SID; what
    /// belongs to one of them is not another's all the same.
    pub identity: String,
    /// SID of the user, as access checks use it.
    pub sid: Sid,
    /// SIDs of the groups that the user belongs to.
    pub groups: Vec<Sid>,
    /// True for the account of guests and anonymous users.
    pub is_guest: bool,
}

/// What a user's proof is checked with.
#[derive(Clone, Debug)]
pub struct Credential {
    /// Name of the user as configured.
    pub user: String,
    /// The name that the client gave, in small letters: it may have meant another.
    pub requested_user: String,
    /// The hash of the password.
    pub nt_hash: auth::NtHash,
    /// The user may not log on.
    pub disabled: bool,
}
