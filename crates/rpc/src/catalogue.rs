//! Data behind the interfaces, provided by the caller.

use std::sync::Arc;

use dtyp::upcase::equal_ignoring_case;
use dtyp::{FileTime, Sid};

use crate::{Caller, NameQuestion, Outcome, Principal, Task};

/// Shares, users and groups of a server.
pub trait Catalogue: Send + Sync {
    /// The shares that `caller` may list, in order, without those that are not browseable.
    fn shares(&self, caller: &Caller) -> Arc<[ShareEntry]>;

    /// Begins a request of `caller`: questions before [`Self::end_call`] belong to it.
    fn begin_call(&self, _caller: &Caller) {}

    /// Ends the request of [`Self::begin_call`].
    fn end_call(&self) {}

    /// True if `caller` may list shares, users and groups. Users always may.
    fn admits(&self, _caller: &Caller) -> bool {
        true
    }

    /// The share that `caller` reaches by `name`, in any case of letters, even if it is not
    /// browseable.
    fn share(&self, caller: &Caller, name: &str) -> Option<ShareEntry> {
        let shares = self.shares(caller);
        shares.iter().find(|share| equal_ignoring_case(&share.name, name)).cloned()
    }

    /// True if `caller` may manage the server: shares, sessions, open files.
    fn is_administrator(&self, _caller: &Caller) -> bool {
        false
    }

    /// The descriptor of a share, self-relative; `None` where it cannot be read. Only for an
    /// administrator.
    fn share_security(&self, _name: &str) -> Option<Vec<u8>> {
        None
    }

    /// The outcome of a task; `None` while nobody has carried it out.
    fn carry_out(&self, _task: Task) -> Option<Outcome> {
        None
    }

    /// Users of the server's own domain, ordered by RID; `None` if they cannot be read.
    fn accounts(&self) -> Option<Vec<AccountEntry>> {
        Some(Vec::new())
    }

    /// The user of the server's own domain with this name, in any case of letters.
    fn account_by_name(&self, _name: &str) -> Option<AccountEntry> {
        None
    }

    /// The user of the server's own domain with this RID.
    fn account_by_rid(&self, _rid: u32) -> Option<AccountEntry> {
        None
    }

    /// Names and version of the server.
    fn server(&self) -> ServerEntry;

    /// SID of the domain of the server's own accounts, which has the server's name.
    fn domain_sid(&self) -> Sid;

    /// True for a member of a domain: names that this server does not know may be the domain's.
    fn is_member(&self) -> bool {
        false
    }

    /// The user or group of a domain, as far as the domain was asked before.
    fn find_in_domain(&self, _question: NameQuestion) -> Option<Principal> {
        None
    }

    /// The user named `name`; in any case of letters, if that is not ambiguous.
    fn find_user(&self, name: &str) -> Option<Principal>;

    /// The group named `name`, if it exists.
    fn find_group(&self, name: &str) -> Option<Principal>;

    /// The user or group with this SID.
    fn find_sid(&self, sid: &Sid) -> Option<Principal>;

    /// The current time, in UTC.
    fn now(&self) -> FileTime;
}

/// One share: [MS-SRVS] 2.2.4.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ShareEntry {
    /// Name of the share.
    pub name: String,
    /// Kind of the share: one of the constants of this type.
    pub kind: u32,
    /// Remark for users.
    pub comment: String,
    /// Folder of the share. A Unix path is presented in the form `C:\…` that clients expect.
    pub path: String,
    /// Highest number of concurrent users; `u32::MAX` without a limit.
    pub max_users: u32,
    /// Current number of users.
    pub current_users: u32,
    /// Caching by offline clients, from 0 (manual) to 3 (none): CSC_MASK of [MS-SRVS] 2.2.4.29.
    pub offline_caching: u8,
    /// True for special shares, which clients hide: IPC$ and names that end in `$`.
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

/// A user of the server's own domain: [MS-SAMR] 3.1.1.8.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AccountEntry {
    /// Last subauthority of the SID; the rest is [`Catalogue::domain_sid`].
    pub rid: u32,
    /// Name of the account.
    pub name: String,
    /// Name for display; may be empty.
    pub full_name: String,
    /// False if the user may not log on.
    pub enabled: bool,
    /// True if the user may manage the server.
    pub is_administrator: bool,
}

/// The server: [MS-SRVS] 2.2.4.40 and [MS-WKST] 2.2.5.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ServerEntry {
    /// NetBIOS name of the server.
    pub name: String,
    /// Further NetBIOS names of the server.
    pub aliases: Vec<String>,
    /// DNS name of the server; may be empty.
    pub dns_name: String,
    /// Workgroup or domain of the server.
    pub domain: String,
    /// Remark for users.
    pub comment: String,
    /// Major version of Windows that the server claims.
    pub version_major: u32,
    /// Minor version of Windows that the server claims.
    pub version_minor: u32,
    /// SV_TYPE bits: [MS-SRVS] 2.2.2.7.
    pub server_type: u32,
}
