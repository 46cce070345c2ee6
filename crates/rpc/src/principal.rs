//! Users, groups and domains with their SIDs.

use std::net::IpAddr;
use std::sync::Arc;

use dtyp::Sid;

/// SID_NAME_USE: [MS-LSAT] 2.2.13.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u16)]
pub enum PrincipalKind {
    /// SidTypeUser.
    User = 1,
    /// SidTypeGroup.
    Group = 2,
    /// SidTypeDomain.
    Domain = 3,
    /// SidTypeAlias: a local group.
    Alias = 4,
    /// SidTypeWellKnownGroup.
    WellKnownGroup = 5,
    /// SidTypeUnknown.
    Unknown = 8,
    /// SidTypeLabel: a mandatory label.
    Label = 10,
}

/// A user, a group, or another object with a SID and a name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Principal {
    /// Kind of the principal.
    pub kind: PrincipalKind,
    /// Name of its domain; may be empty.
    pub domain: String,
    /// Name within the domain.
    pub name: String,
    /// SID of the principal.
    pub sid: Sid,
}

impl Principal {
    /// SID of the principal's domain: all but the last subauthority; its own SID if it is a domain.
    #[must_use]
    pub fn domain_sid(&self) -> Sid {
        match self.sid.subauthorities().split_last() {
            Some((_, domain)) if self.kind != PrincipalKind::Domain => {
                Sid::new(self.sid.authority(), domain)
            }
            _ => self.sid.clone(),
        }
    }
}

/// User that opened a pipe.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Caller {
    /// Name of the account.
    pub user: String,
    /// Name that the client sent for the account.
    pub requested_user: String,
    /// Domain of the account.
    pub domain: String,
    /// SID of the account, if it is known.
    pub sid: Option<Sid>,
    /// SIDs of the account's groups.
    pub groups: Arc<[Sid]>,
    /// True for the account of guests.
    pub is_guest: bool,
    /// Connection that the pipe was opened by.
    pub origin: Origin,
}

/// Connection of a [`Caller`], for values in comments of shares.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Origin {
    /// Address of the client.
    pub client: Option<IpAddr>,
    /// Name of the client machine, as the client gave it; unproven.
    pub client_name: String,
    /// Address that the client connected to.
    pub server: Option<IpAddr>,
    /// Dialect in use, as its code of [MS-SMB2] 2.2.3.
    pub dialect: u16,
}

/// A name or a SID to be looked up in a domain.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NameQuestion {
    /// The principal with this SID.
    Sid(Sid),
    /// The principal with this name.
    Name {
        /// Name of the domain; may be empty.
        domain: String,
        /// Name within the domain, without it.
        name: String,
    },
}
