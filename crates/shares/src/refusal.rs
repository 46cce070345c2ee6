//! Reasons for refusing a tree connect.

use std::net::IpAddr;

use proto::ShareRefusal;

/// Reason for refusing a tree connect, for administrators. A client is told a [`ShareRefusal`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// There is no such share, it has no path, or it is not `available`.
    NoShare,
    /// A file for this client, which the configuration includes, cannot be served; the reason.
    ClientFile(String),
    /// `hosts allow` and `hosts deny` exclude this address.
    Address(IpAddr),
    /// The share is not for guests: no `guest ok`, or for IPC$ `restrict anonymous`.
    Guest,
    /// Everyone is a guest by `guest only`, and the guest account cannot be looked up.
    NoGuestAccount,
    /// `valid users` and `invalid users` exclude the user.
    User,
    /// As many clients as `max connections` are connected.
    Full,
    /// The ACL of the usershare grants the user nothing.
    Usershare,
    /// The share's descriptor gives the user no right to read.
    Security,
    /// The descriptors of shares cannot be read.
    NoSecurity,
    /// The system has no user of this name.
    NoUser(String),
    /// The system has no group of this name.
    NoGroup(String),
    /// The name service failed, or the client has used too many users.
    NoIdentity,
    /// The name service failed, so the name may be that of a home.
    NoNameService,
    /// `path` has `%H` in it, and the user's home is unknown.
    NoHome,
}

impl From<Refusal> for ShareRefusal {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoShare | Refusal::NoNameService | Refusal::NoHome => Self::BadNetworkName,
            Refusal::Full => Self::TooManyConnections,
            Refusal::ClientFile(_)
            | Refusal::Address(_)
            | Refusal::Guest
            | Refusal::NoGuestAccount
            | Refusal::User
            | Refusal::Usershare
            | Refusal::Security
            | Refusal::NoSecurity
            | Refusal::NoUser(_)
            | Refusal::NoGroup(_)
            | Refusal::NoIdentity => Self::AccessDenied,
        }
    }
}
