//! Quotas: storage that users have and may have on a file system.

use dtyp::Sid;

/// Storage of one user on a file system.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Quota {
    /// Number of bytes that the user has.
    pub used_bytes: u64,
    /// Highest numbers of bytes that the user may have.
    pub limits: QuotaLimits,
    /// True if the user has the highest number of files.
    pub is_out_of_files: bool,
}

/// Limits of the storage of a user; `None` for any number of bytes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct QuotaLimits {
    /// Bytes above which the user is warned.
    pub soft_bytes: Option<u64>,
    /// Bytes above which writes fail.
    pub hard_bytes: Option<u64>,
}

impl Quota {
    /// Returns true if so many files are the highest number; a limit of 0 is none.
    #[must_use]
    pub fn has_most_files(used: u64, [soft, hard]: [u64; 2]) -> bool {
        [soft, hard].into_iter().any(|limit| limit > 0 && used >= limit)
    }
}

impl QuotaLimits {
    /// Bytes of the blocks of [`QuotaLimits::in_blocks`].
    pub const BLOCK_BYTES: u64 = 1_024;

    /// Returns the soft and the hard limit in blocks, of which the last may not be whole. No limit
    /// is 0, so no storage at all is one block, as in Samba.
    #[must_use]
    pub fn in_blocks(self) -> [u64; 2] {
        let blocks = |bytes: u64| bytes.div_ceil(Self::BLOCK_BYTES).max(1);
        [self.soft_bytes, self.hard_bytes].map(|bytes| bytes.map_or(0, blocks))
    }
}

/// Quota of a user, and its SID.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UserQuota {
    /// User who has the storage.
    pub user: QuotaUser,
    /// Storage that the user has.
    pub quota: Quota,
}

/// User of this system who may have a quota.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct QuotaUser {
    /// SID that clients know the user by.
    pub sid: Sid,
    /// Id of the user on this system.
    pub uid: u32,
}

/// New limits of a user.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewQuota {
    /// SID that clients know the user by.
    pub sid: Sid,
    /// Limits in the place of those that the user has.
    pub limits: QuotaLimits,
}

/// Operation on quotas of users, with the rights of the user of the request.
#[derive(Debug)]
pub enum QuotaOp {
    /// Finds users by their SIDs, for a command in place of the file system; without a SID the user
    /// of the request. ACCESS_DENIED if they are others, or are changed, and the user is no
    /// administrator. Reply: `QuotaUsers`.
    FindUsers {
        /// SIDs of the users to find.
        sids: Vec<Sid>,
        /// Whether their quotas are to be changed.
        to_change: bool,
    },
    /// Queries quotas. Without the right to see those of others, a scan has that of the user alone.
    /// Reply: `Quotas`.
    Query(QuotaQuery),
    /// Queries the state of the quotas of the file system. Reply: `QuotaState`.
    QueryState,
    /// Sets limits of users, in this order and up to the first that fails. No user is changed if
    /// one of them is unknown. Reply: `Done`.
    Set(Vec<NewQuota>),
}

/// Users whose quotas are queried.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum QuotaQuery {
    /// Users with these SIDs, in this order.
    Named(Vec<Sid>),
    /// All that have a quota, in the order of their ids.
    Scan {
        /// First user of the reply.
        start: QuotaStart,
        /// Highest number of users in the reply.
        count_max: u32,
    },
}

/// First user of a scan.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum QuotaStart {
    /// User with this SID, and those behind.
    Sid(Sid),
    /// User with this id, or the next higher one.
    Uid(u32),
}

/// State of the quotas of a file system.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum QuotaState {
    /// The storage of users is not counted.
    #[default]
    Off,
    /// The storage of each user is counted.
    Tracked,
    /// It is counted, and limits are enforced.
    Enforced,
}

/// Quota as the command of a server prints it, and not the file system.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ToldQuota {
    /// State of the quotas of the file system.
    pub state: QuotaState,
    /// Storage that the user has.
    pub quota: Quota,
}

/// Subject of a command for quotas.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum QuotaSubject {
    /// Users without limits of their own.
    Defaults,
    /// User of the tree connect.
    Requester,
    /// User with this id on the system.
    User(u32),
}

/// Change that the command for it carries out.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct QuotaChange {
    /// User to change, or the defaults.
    pub subject: QuotaSubject,
    /// State of the quotas from then on.
    pub state: QuotaState,
    /// Limits in the place of those that the subject has.
    pub limits: QuotaLimits,
}
