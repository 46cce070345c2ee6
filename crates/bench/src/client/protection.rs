//! Protection of messages of a session.

use std::fmt;
use std::sync::Arc;

use anyhow::{Context, Result};
use crypto::{NonceCounter, Role, SessionKeys, SigningKey, TransformKey};
use wire::frame;

/// Whether messages are signed or encrypted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protection {
    /// Neither; the client says that it can sign and does not ask for it.
    Plain,
    /// The client requires signatures, and checks them.
    Signed,
    /// The client encrypts, and the server does as the client.
    Sealed,
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Signed => "signed",
            Self::Sealed => "sealed",
        })
    }
}

/// The prepared keys of a session, as one of its two sides uses them.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) signing: SigningKey,
    sealing: Option<Sealing>,
}

/// Encryption and decryption of messages.
#[derive(Debug)]
pub(crate) struct Sealing {
    encryption: Arc<TransformKey>,
    decryption: Arc<TransformKey>,
    nonces: NonceCounter,
}

impl Keys {
    pub(crate) fn new(keys: &SessionKeys, role: Role) -> Self {
        let encryption = keys.encryption_key(role);
        let decryption = keys.decryption_key(role);
        let sealing = encryption.zip(decryption).map(|(encryption, decryption)| Sealing {
            encryption: Arc::new(encryption),
            decryption: Arc::new(decryption),
            nonces: NonceCounter::new([0; 3]),
        });
        Self { signing: keys.signing_key(), sealing }
    }

    /// Returns the keys of a further channel: encryption uses the session's keys, with the
    /// channel's own nonces.
    pub(super) fn of_channel(&self, signing: SigningKey, number: u8) -> Self {
        let sealing = self.sealing.as_ref().map(|session| Sealing {
            encryption: Arc::clone(&session.encryption),
            decryption: Arc::clone(&session.decryption),
            nonces: NonceCounter::new([number, 0, 0]),
        });
        Self { signing, sealing }
    }

    /// Returns the encryption of the session, if a cipher was negotiated.
    pub(crate) fn sealing(&mut self) -> Result<&mut Sealing> {
        self.sealing.as_mut().context("no cipher was agreed on")
    }
}

impl Sealing {
    /// Encrypts a frame, which begins with room for its length and a TRANSFORM_HEADER:
    /// [MS-SMB2] 2.2.41.
    pub(crate) fn seal(&mut self, session_id: u64, frame: &mut [u8]) -> Result<()> {
        let nonce = self.nonces.advance()?;
        self.encryption.seal(nonce, session_id, &mut frame[frame::SIZE..]);
        Ok(())
    }

    /// Decrypts a frame without its length, and returns the messages in it.
    pub(crate) fn open<'f>(&self, sealed: &'f mut [u8]) -> Result<&'f mut [u8]> {
        Ok(self.decryption.open(sealed)?)
    }
}
