//! [MS-SMB2] 3.3.1.9 Per Tree Connect.

use std::sync::Arc;

use dtyp::AccessMask;
use qos::Membership;

use crate::memory_account::Charge;
use crate::share::Share;

/// Memory of a tree connect in bytes: itself, its share's settings, and its entries in tables.
pub const TREE_CONNECT_BYTES: usize = size_of::<TreeConnect>() + size_of::<Share>() + 1_024;

/// `TreeConnect` of [MS-SMB2] 3.3.1.9.
#[derive(Debug)]
pub struct TreeConnect {
    /// `TreeConnect.TreeId`.
    pub tree_id: u32,
    /// `TreeConnect.Share`.
    pub share: Arc<Share>,
    /// `TreeConnect.MaximalAccess`.
    pub maximal_access: AccessMask,
    /// True if requests must be encrypted.
    pub encrypt_data: bool,
    /// Its share and user, whose counters count its requests.
    pub party: trace::PartyId,
    /// Classes for the requests of the tree connect.
    pub classes: Arc<Membership>,
    /// Memory charged for the tree connect.
    pub memory: Charge,
}

impl TreeConnect {
    /// True for the tree connect to IPC$.
    #[must_use]
    pub fn is_pipe(&self) -> bool {
        self.share.root.is_none()
    }
}
