//! A session, on whichever connections: [MS-SMB2] 3.2.1.3.

use std::sync::Arc;

use crypto::{Role, SessionKeys, SigningKey, TransformKey};

/// A session with the keys that all its channels share. A further channel is bound with it.
#[derive(Clone, Debug)]
pub struct Session {
    /// `Session.SessionId` in the headers of its messages.
    pub id: u64,
    /// `Session.SigningKey`, which is the first channel's.
    pub signing_key: SigningKey,
    pub(crate) ciphers: Option<Arc<Ciphers>>,
}

/// `Session.EncryptionKey` and `Session.DecryptionKey`.
#[derive(Debug)]
pub(crate) struct Ciphers {
    pub(crate) encryption: TransformKey,
    pub(crate) decryption: TransformKey,
}

impl Session {
    /// Creates a session from its keys, as one of the two sides uses them.
    #[must_use]
    pub fn new(id: u64, keys: &SessionKeys, role: Role) -> Self {
        let ciphers = keys.encryption_key(role).zip(keys.decryption_key(role));
        let ciphers =
            ciphers.map(|(encryption, decryption)| Arc::new(Ciphers { encryption, decryption }));
        Self { id, signing_key: keys.signing_key(), ciphers }
    }
}
