//! Whom a SID stands for.

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

/// A user, a group, or something else that has a SID and a name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Principal {
    /// What it is.
    pub kind: PrincipalKind,
    /// The domain that it belongs to; may be empty.
    pub domain: String,
    /// Its name.
    pub name: String,
    /// Its SID.
    pub sid: Sid,
}

impl Principal {
    /// The SID of its domain: all but the last subauthority; its own if it is a domain.
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

/// Who opened a pipe.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Caller {
    /// The name of the account.
    pub user: String,
    /// The name that it was given by the client.
    pub requested_user: String,
    /// Its domain.
    pub domain: String,
    /// The SIDs of its groups.
    pub groups: Vec<Sid>,
    /// Whether it is the account of guests.
    pub is_guest: bool,
}
