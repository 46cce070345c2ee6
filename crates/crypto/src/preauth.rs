//! The preauthentication integrity hash: [MS-SMB2] 3.3.5.4, 3.3.5.5.

use aws_lc_rs::digest;

/// Connection.PreauthIntegrityHashValue, or that of a session being established.
///
/// A chain over the messages of NEGOTIATE and SESSION_SETUP, each from its SMB2 header to its end.
/// It is part of the keys of dialect 3.1.1, so that the first signature reveals a change of one of
/// those messages in transit. It is not secret.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PreauthHash(pub [u8; 64]);

impl PreauthHash {
    /// The value before the first message.
    pub const ZERO: Self = Self([0; 64]);

    /// Appends a whole message, without its transport header, by SHA-512, the only algorithm of
    /// [MS-SMB2] 2.2.3.1.1.
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
