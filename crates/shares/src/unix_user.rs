//! A user of the system that the server runs on.

use store::Credentials;

/// A user of this system.
#[derive(Clone, Debug)]
pub struct UnixUser {
    /// Login name of the user.
    pub(crate) name: String,
    /// Home directory of the user.
    pub(crate) home: String,
    /// Ids and groups that the kernel checks.
    pub(crate) credentials: Credentials,
}
