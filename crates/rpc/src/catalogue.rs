//! What the interfaces tell about, given by whoever runs the server.

use dtyp::upcase::equal_ignoring_case;
use dtyp::{FileTime, Sid};

use crate::{Caller, Principal};

/// What there is to tell.
pub trait Catalogue: Send + Sync {
    /// The shares that an enumeration shows to `caller`, in the order to show them. Shares that are not
    /// browseable are left out here.
    fn shares(&self, caller: &Caller) -> Vec<ShareEntry>;

    /// Whether `caller` may ask which shares, users and groups there are. Users always may.
    fn admits(&self, _caller: &Caller) -> bool {
        true
    }

    /// The share that `caller` reaches by that name, in any case, also one that is not browseable.
    fn share(&self, caller: &Caller, name: &str) -> Option<ShareEntry> {
        self.shares(caller).into_iter().find(|share| equal_ignoring_case(&share.name, name))
    }

    /// The server itself.
    fn server(&self) -> ServerEntry;

    /// The SID of the domain of the server's own accounts; its name is the server's.
    fn domain_sid(&self) -> Sid;

    /// The user of that name, in any case if that is not ambiguous.
    fn find_user(&self, name: &str) -> Option<Principal>;

    /// The group of that name.
    fn find_group(&self, name: &str) -> Option<Principal>;

    /// The user or group of that SID.
    fn find_sid(&self, sid: &Sid) -> Option<Principal>;

    /// The time, in UTC.
    fn now(&self) -> FileTime;
}

/// One share: [MS-SRVS] 2.2.4.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ShareEntry {
    /// Its name.
    pub name: String,
    /// What it gives access to: one of the constants of this type.
    pub kind: u32,
    /// A remark for people.
    pub comment: String,
    /// The folder it shows. A Unix path is shown in the form `C:\…` that clients expect.
    pub path: String,
    /// Users at once; `u32::MAX` for any number.
    pub max_users: u32,
    /// Users at present.
    pub current_users: u32,
    /// Marked as special, which a client hides from people: IPC$ and names that end in `$`.
    pub hidden: bool,
}

impl ShareEntry {
    /// STYPE_DISKTREE: files.
    pub const DISK: u32 = 0;
    /// STYPE_PRINTQ: a printer.
    pub const PRINT_QUEUE: u32 = 1;
    /// STYPE_IPC: named pipes.
    pub const IPC: u32 = 3;
}

/// The server: [MS-SRVS] 2.2.4.40 and [MS-WKST] 2.2.5.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ServerEntry {
    /// The NetBIOS name.
    pub name: String,
    /// The workgroup or domain.
    pub domain: String,
    /// A remark for people.
    pub comment: String,
    /// The version of Windows that clients are to take it for.
    pub version_major: u32,
    /// Its second part.
    pub version_minor: u32,
    /// SV_TYPE bits: [MS-SRVS] 2.2.2.7.
    pub server_type: u32,
}
