//! The key that an authentication gives.

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

/// The key both sides have after an authentication (ExportedSessionKey of [MS-NLMP] 3.1.1);
/// Session.SessionKey of SMB2 is made of it. Erased when dropped, not printed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SessionKey([u8; 16]);

impl SessionKey {
    /// A key of these bytes.
    #[must_use]
    pub fn new(key: [u8; 16]) -> Self {
        Self(key)
    }

    /// The 16 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(..)")
    }
}
