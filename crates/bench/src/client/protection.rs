//! What is done to messages once there is a session.

use std::fmt;
use std::sync::Arc;

use crypto::{NonceCounter, Role, SessionKeys, SigningKey, TransformKey};

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

/// The prepared keys of a session, as a client uses them.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) signing: SigningKey,
    pub(super) sealing: Option<Sealing>,
}

/// What encrypts and decrypts.
#[derive(Debug)]
pub(super) struct Sealing {
    pub(super) encryption: Arc<TransformKey>,
    pub(super) decryption: Arc<TransformKey>,
    pub(super) nonces: NonceCounter,
}

impl Keys {
    pub(super) fn new(keys: &SessionKeys) -> Self {
        let encryption = keys.encryption_key(Role::Client);
        let decryption = keys.decryption_key(Role::Client);
        let sealing = encryption.zip(decryption).map(|(encryption, decryption)| Sealing {
            encryption: Arc::new(encryption),
            decryption: Arc::new(decryption),
            nonces: NonceCounter::new([0; 3]),
        });
        Self { signing: keys.signing_key(), sealing }
    }

    /// The keys of a further channel: what is sealed is sealed with the session's, under nonces of
    /// the channel's own.
    pub(super) fn of_channel(&self, signing: SigningKey, number: u8) -> Self {
        let sealing = self.sealing.as_ref().map(|session| Sealing {
            encryption: Arc::clone(&session.encryption),
            decryption: Arc::clone(&session.decryption),
            nonces: NonceCounter::new([number, 0, 0]),
        });
        Self { signing, sealing }
    }
}
