//! [MS-SMB2] 3.3.1.9 Per Tree Connect.

use std::sync::Arc;

use dtyp::AccessMask;
use qos::Membership;

use crate::model::memory_account::Charge;
use crate::model::share::Share;

/// Bytes that a tree connect takes: itself, what is known of its share, and its places in the
/// tables.
pub(crate) const TREE_CONNECT_BYTES: usize = size_of::<TreeConnect>() + size_of::<Share>() + 1_024;

/// `TreeConnect`.
#[derive(Debug)]
pub struct TreeConnect {
    /// `TreeConnect.TreeId`.
    pub tree_id: u32,
    /// `TreeConnect.Share`.
    pub share: Arc<Share>,
    /// `TreeConnect.MaximalAccess`.
    pub maximal_access: AccessMask,
    /// Requests must come encrypted.
    pub encrypt_data: bool,
    /// Where its requests are counted.
    pub counted: trace::PartyId,
    /// The classes of its requests.
    pub classes: Arc<Membership>,
    /// The memory that it takes.
    pub memory: Charge,
}

impl TreeConnect {
    /// Whether this is IPC$.
    #[must_use]
    pub fn is_pipe(&self) -> bool {
        self.share.root.is_none()
    }
}
