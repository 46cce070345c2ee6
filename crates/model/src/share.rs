//! Shares, as far as the protocol needs them: [MS-SMB2] 3.3.1.6 Per Share.

use std::sync::Arc;

use arbitration::Caching;
use dtyp::AccessMask;
use dtyp::name_expression::NameExpression;
use object::{ObjectPath, RootId, UserId};

use crate::settings::Policy;

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
    /// Patterns of names that clients cannot see.
    pub veto_files: Vec<NameExpression>,
    /// True if every WRITE reaches stable storage before its response.
    pub sync_always: bool,
    /// Settings for Apple's clients; none if their extensions are not served.
    pub apple: Option<AppleShare>,
    /// Path of the share's root, from the root of the host's file system.
    pub folder: ObjectPath,
    /// True if changes by other programs are reported, too.
    pub kernel_change_notify: bool,
    /// Classes for the requests of all its clients.
    pub classes: Arc<qos::Membership>,
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
