//! Shares, as far as the protocol needs them: [MS-SMB2] 3.3.1.6 Per Share.

use std::sync::Arc;

use arbitration::{Caching, Requester, RequestingUser};
use dtyp::AccessMask;
use dtyp::name_expression::NameExpression;
use object::{ObjectPath, RootId, UserId};

use crate::audit::Audit;
use crate::settings::Policy;

/// Commands that tell and set quotas in the place of the file system.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct QuotaCommands {
    /// `get quota command`: true if a command tells quotas.
    pub get: bool,
    /// `set quota command`: true if a command sets quotas.
    pub set: bool,
}

/// A share that a tree connect leads to.
#[derive(Clone, Debug)]
pub struct Share {
    /// Name of the share as configured.
    pub name: String,
    /// Name by which the client connected; one such name may lead to different shares.
    pub requested_name: String,
    /// Comment for clients that list shares.
    pub comment: String,
    /// Root of the share; IPC$ has none.
    pub root: Option<RootId>,
    /// User whose rights the kernel checks: the account's, or `force user`.
    pub user: UserId,
    /// Highest rights that the share grants this user.
    pub access_max: AccessMask,
    /// `smb encrypt`, the policy for this share.
    pub encryption: Policy,
    /// True if names are compared with case.
    pub case_sensitive: bool,
    /// `durable handles`: true if opens may survive their connection.
    pub durable_handles: bool,
    /// `Share.IsCA`: true if opens may survive the server, too (`continuous availability`).
    pub is_ca: bool,
    /// `smb3 share cap:` of the share, as the Capabilities of [MS-SMB2] 2.2.10 from 3.0 on.
    pub capabilities: u32,
    /// `oplocks` and `max lease mask`: highest rights to cache files.
    pub caching_max: Caching,
    /// `level2 oplocks`: true if several clients may cache reads of one file.
    pub shared_reading: bool,
    /// `Share.IsDfs`: true for the root of a DFS namespace (`msdfs root`).
    pub is_dfs_root: bool,
    /// `smb3 directory leases`: highest rights to cache directories.
    pub directory_caching_max: Caching,
    /// `csc policy`, as the ShareFlags of [MS-SMB2] 2.2.10.
    pub caching: u32,
    /// True if extended attributes are supported.
    pub extended_attributes: bool,
    /// True if files may have named streams.
    pub named_streams: bool,
    /// `delete readonly`: files with READONLY may be deleted.
    pub delete_readonly: bool,
    /// Patterns of names that clients cannot see.
    pub veto_files: Vec<NameExpression>,
    /// True if every WRITE reaches stable storage before its response.
    pub sync_always: bool,
    /// Settings for Apple's clients; none if their extensions are not served.
    pub apple: Option<AppleShare>,
    /// Audit of the tree connect, if the share is audited.
    pub audit: Option<Arc<Audit>>,
    /// User of the tree connect, for deletions that other processes carry out; none for IPC$.
    pub requester: Option<Arc<RequestingUser>>,
    /// Path of the share's root, from the root of the host's file system.
    pub folder: ObjectPath,
    /// True if changes by other programs are reported, too.
    pub kernel_change_notify: bool,
    /// `check parent directory delete on close`: true if nothing is created in a directory that is
    /// delete pending.
    pub checks_directory: bool,
    /// `dfree command`: true if a command tells the free space, and not the file system alone.
    pub has_free_space_command: bool,
    /// `get quota command` and `set quota command`: commands in the place of the file system.
    pub quota_commands: QuotaCommands,
    /// `max disk size` in bytes: no volume seems larger.
    pub volume_bytes_max: Option<u64>,
    /// Respect between its clients and local programs.
    pub local_programs: LocalPrograms,
    /// Classes for the requests of all its clients.
    pub classes: Arc<qos::Membership>,
}

impl Share {
    /// Returns whether an open of this tree connect deletes as the requester of a deletion would.
    #[must_use]
    pub fn deletes_as(&self, requester: &Requester) -> bool {
        requester.deletes_as(&self.name, self.folder.as_str(), self.requester.as_deref())
    }

    /// Returns the highest rights to cache a file or a directory.
    #[must_use]
    pub fn caching_max_of(&self, is_directory: bool) -> Caching {
        if is_directory { self.directory_caching_max } else { self.caching_max }
    }
}

/// Respect between clients and other programs on the same files, such as an NFS server: by locks
/// and leases of the kernel.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LocalPrograms {
    /// `posix locking`: true if programs and clients see each other's byte-range locks.
    pub see_locks: bool,
    /// `strict locking`: accesses of clients that byte-range locks of programs refuse.
    pub lock_checks: LockChecks,
    /// `kernel share modes`: true if an open that excludes others locks the whole file.
    pub see_share_modes: bool,
    /// `kernel oplocks`: true if a program that opens a file breaks a client's oplock.
    pub break_oplocks: bool,
}

/// READs and WRITEs for which locks of local programs are checked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LockChecks {
    /// No READ and no WRITE.
    #[default]
    Never,
    /// Those that the client may not cache.
    Uncached,
    /// All of them, whatever the client may cache.
    Always,
}

impl LockChecks {
    /// Returns the accesses to check for a client with these rights to cache.
    #[must_use]
    pub fn with_caching(self, caching: Caching) -> CheckedAccess {
        match self {
            Self::Never => CheckedAccess::default(),
            Self::Uncached => CheckedAccess {
                reads: !caching.contains(Caching::READ),
                writes: !caching.contains(Caching::WRITE),
            },
            Self::Always => CheckedAccess { reads: true, writes: true },
        }
    }
}

/// Accesses of an open for which locks of local programs are checked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CheckedAccess {
    /// True if READs are checked.
    pub reads: bool,
    /// True if WRITEs are checked.
    pub writes: bool,
}

/// A share as Apple's clients see it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AppleShare {
    /// Model of the server for the Finder's icon.
    pub model: String,
    /// True if it may hold backups: FLUSH then reaches the disk.
    pub full_sync: bool,
    /// True if these clients get no file ids: they take them for ids that are never used again.
    pub hides_file_ids: bool,
    /// True if files may be renamed and deleted under the opens of these clients.
    pub posix_opens: bool,
    /// True if a copy without ranges is one of the whole file with its streams.
    pub copies_files: bool,
    /// True if security descriptors tell these clients the mode, which they may change there.
    pub nfs_entries: bool,
    /// True if an access control list without entries is ignored when these clients set it.
    pub ignores_empty_lists: bool,
}
