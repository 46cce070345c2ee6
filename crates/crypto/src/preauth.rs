//! The preauthentication integrity hash: [MS-SMB2] 3.3.5.4, 3.3.5.5.

use aws_lc_rs::digest;

/// Connection.PreauthIntegrityHashValue, or that of a session being established.
///
/// A chain over the messages of NEGOTIATE and SESSION_SETUP, each from its SMB2 header to its end.
/// It is mixed into the keys of dialect 3.1.1, so that whoever changed one of those messages on
/// the way is found out by the first signature. It is no secret.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PreauthHash(pub [u8; 64]);

impl PreauthHash {
    /// The value before the first message.
    pub const ZERO: Self = Self([0; 64]);

    /// Appends a message, whole, without its transport header: SHA-512 is the only algorithm the
    /// document names ([MS-SMB2] 2.2.3.1.1).
    pub fn update(&mut self, message: &[u8]) {
        let mut context = digest::Context::new(&digest::SHA512);
        context.update(&self.0);
        context.update(message);
        self.0.copy_from_slice(context.finish().as_ref());
    }
}

impl Default for PreauthHash {
    fn default() -> Self {
        Self::ZERO
    }
}

#[cfg(test)]
mod tests;
