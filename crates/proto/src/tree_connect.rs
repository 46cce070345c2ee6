//! [MS-SMB2] 3.3.1.9 Per Tree Connect.

use std::sync::Arc;

use dtyp::AccessMask;
use qos::Membership;

use crate::effect::Share;

/// `TreeConnect`.
#[derive(Clone, Debug)]
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
}

impl TreeConnect {
    /// Whether this is IPC$.
    #[must_use]
    pub fn is_pipe(&self) -> bool {
        self.share.root.is_none()
    }
}
