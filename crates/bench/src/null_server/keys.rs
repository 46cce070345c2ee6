//! Keys of the session: what comes is opened and verified with them, what goes signed and sealed.

use anyhow::{Context, Result};
use crypto::{NonceCounter, Role, SessionKeys, SigningKey, TransformKey};
use wire::frame;

/// The keys of a session, as a server uses them.
pub(super) struct Keys {
    pub(super) signing: SigningKey,
    encryption: TransformKey,
    decryption: TransformKey,
    nonces: NonceCounter,
}

impl Keys {
    pub(super) fn new(keys: &SessionKeys) -> Result<Self> {
        let no_cipher = "no cipher was agreed on";
        Ok(Self {
            signing: keys.signing_key(),
            encryption: keys.encryption_key(Role::Server).context(no_cipher)?,
            decryption: keys.decryption_key(Role::Server).context(no_cipher)?,
            nonces: NonceCounter::new([0; 3]),
        })
    }

    /// The messages in a sealed frame.
    pub(super) fn open<'f>(&self, frame: &'f mut [u8]) -> Result<&'f mut [u8]> {
        Ok(self.decryption.open(frame)?)
    }

    /// Seals a frame, which begins with its length and has room for what tells that it is sealed.
    pub(super) fn seal(&mut self, frame: &mut [u8]) -> Result<()> {
        let nonce = self.nonces.advance()?;
        self.encryption.seal(nonce, super::SESSION_ID, &mut frame[frame::SIZE..]);
        Ok(())
    }
}
