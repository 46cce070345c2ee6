//! A user as all processes may know it: without the password hash.

use dtyp::Sid;

use super::{Identity, UserEntry};

/// Field of a line in place of the hash.
pub(crate) const NO_HASH: &str = "-";

/// A user without the password hash.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KnownUser {
    /// The name as it was given.
    pub name: String,
    /// Whether the user may log on.
    pub enabled: bool,
    /// For display; may be empty.
    pub full_name: String,
    /// Ids on the server's files; `None` for those of the system's user of this name.
    pub identity: Option<Identity>,
    /// SID in Samba's database, from which the user was imported.
    pub samba_sid: Option<Sid>,
}

impl From<&UserEntry> for KnownUser {
    fn from(user: &UserEntry) -> Self {
        Self {
            name: user.name.clone(),
            enabled: user.enabled,
            full_name: user.full_name.clone(),
            identity: user.identity.clone(),
            samba_sid: user.samba_sid.clone(),
        }
    }
}
