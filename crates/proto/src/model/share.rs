//! Shares, as far as the protocol needs them: [MS-SMB2] 3.3.1.6 Per Share.

use std::sync::Arc;

use arbitration::Caching;
use dtyp::AccessMask;
use dtyp::name_expression::NameExpression;
use object::{ObjectPath, RootId, UserId};

use crate::model::settings::Policy;

/// A share that a tree connect leads to.
#[derive(Clone, Debug)]
pub struct Share {
    /// Its name as configured.
    pub name: String,
    /// The name by which the client reached it, which may stand for others.
    pub requested_name: String,
    /// Comment that browsing clients are shown.
    pub comment: String,
    /// Its root; the pipe share has none.
    pub root: Option<RootId>,
    /// Whose rights the kernel checks: the account's, or those of `force user`.
    pub user: UserId,
    /// Rights that the share grants this user at most.
    pub access_max: AccessMask,
    /// `smb encrypt` of the share.
    pub encryption: Policy,
    /// Names are compared with case.
    pub case_sensitive: bool,
    /// Opens survive their connection: `durable handles`.
    pub durable_handles: bool,
    /// `Share.IsCA`: opens survive the server, too: `smb3 share cap:continuous availability`.
    pub is_ca: bool,
    /// What clients may keep of files at their side: `oplocks`.
    pub caching_max: Caching,
    /// Several clients may keep what they read of one file: `level2 oplocks`.
    pub shared_reading: bool,
    /// `Share.IsDfs`: it is the root of a DFS namespace: `msdfs root`.
    pub is_dfs_root: bool,
    /// What they may keep of directories: `smb3 directory leases`.
    pub directory_caching_max: Caching,
    /// `csc policy`, as the ShareFlags of [MS-SMB2] 2.2.10.
    pub caching: u32,
    /// Extended attributes are kept.
    pub extended_attributes: bool,
    /// Files may have named streams.
    pub named_streams: bool,
    /// Names that do not exist for clients.
    pub veto_files: Vec<NameExpression>,
    /// Every WRITE reaches stable storage before it is answered.
    pub sync_always: bool,
    /// What Apple's clients are told; nothing where their extensions are not served.
    pub apple: Option<AppleShare>,
    /// Where its root is, from the root of the host's file system.
    pub folder: ObjectPath,
    /// Changes that other programs make in it are told, too.
    pub kernel_change_notify: bool,
    /// The classes of the requests of whoever connects to it.
    pub classes: Arc<qos::Membership>,
}

/// A share as Apple's clients see it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AppleShare {
    /// The model of the server that a Finder shows.
    pub model: String,
    /// May hold backups: FLUSH reaches the disk.
    pub full_sync: bool,
}
