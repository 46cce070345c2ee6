//! Session key of an authentication.

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

/// Key that both sides share after an authentication (ExportedSessionKey of [MS-NLMP] 3.1.1); the
/// source of SMB2's Session.SessionKey. Erased when dropped, never printed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SessionKey([u8; 16]);

impl SessionKey {
    /// Wraps the bytes of a key.
    #[must_use]
    pub fn new(key: [u8; 16]) -> Self {
        Self(key)
    }

    /// The key's 16 bytes, a secret.
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
