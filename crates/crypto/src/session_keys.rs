//! The keys of a session: [MS-SMB2] 3.1.4.2, 3.2.5.3.1, 3.3.5.5.3.

use std::fmt;

use aws_lc_rs::hmac;
use zeroize::Zeroizing;

use crate::algorithm::{Cipher, SigningAlgorithm};
use crate::preauth::PreauthHash;
use crate::signing::SigningKey;
use crate::transform::TransformKey;

/// Inputs of the keys of a session, or of the signing key of a further channel.
#[derive(Clone, Copy)]
pub struct KeyMaterial<'a> {
    /// Connection.Dialect, from 0x0202 to 0x0311.
    pub dialect: u16,
    /// Session.SessionKey: the first 16 bytes of the key of the authentication.
    pub session_key: &'a [u8; 16],
    /// Session.FullSessionKey: all bytes of that key, for 256-bit ciphers. NTLM's has 16 bytes
    /// only.
    pub full_session_key: &'a [u8],
    /// Session.PreauthIntegrityHashValue; required in dialect 3.1.1, ignored in others.
    pub preauth_hash: Option<&'a PreauthHash>,
    /// Connection.CipherId (AES-128-CCM for 3.0 and 3.0.2); `None` without encryption.
    pub cipher: Option<Cipher>,
    /// Connection.SigningAlgorithmId if it was negotiated; see [`SigningAlgorithm::of_dialect`].
    pub signing_algorithm: Option<SigningAlgorithm>,
}

/// The derived keys of a session.
pub struct SessionKeys {
    signing_algorithm: SigningAlgorithm,
    signing: Key,
    application: Key,
    ciphers: Option<CipherKeys>,
}

/// Side of the connection that uses a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// Sends requests and receives responses.
    Client,
    /// Receives requests and sends responses.
    Server,
}

type Key = Zeroizing<[u8; 16]>;

struct CipherKeys {
    cipher: Cipher,
    client_to_server: Zeroizing<Vec<u8>>,
    server_to_client: Zeroizing<Vec<u8>>,
}

impl SessionKeys {
    /// Derives the keys.
    ///
    /// The signing and the application key always have 128 bits and come from the 16-byte session
    /// key: [MS-SMB2] 3.1.4.2 lets L follow the cipher, but Windows and Samba do so for the
    /// encryption keys only.
    ///
    /// # Panics
    ///
    /// If the dialect is 3.1.1 and there is no preauthentication hash.
    #[must_use]
    pub fn derive(material: KeyMaterial<'_>) -> Self {
        let session_key = Zeroizing::new(*material.session_key);
        let signing_algorithm =
            SigningAlgorithm::of_dialect(material.dialect, material.signing_algorithm);
        let Some(purposes) = Purposes::of_dialect(material.dialect) else {
            let application = session_key.clone();
            return Self { signing_algorithm, signing: session_key, application, ciphers: None };
        };
        let preauth = material.preauth_hash.map_or(&[][..], |hash| &hash.0[..]);
        let hashed = material.dialect == 0x0311;
        assert!(!hashed || !preauth.is_empty(), "3.1.1 has a preauthentication hash");
        let context = |fixed: &'static [u8]| if hashed { preauth } else { fixed };
        let derive_key = |purpose: Purpose| {
            let mut key = Zeroizing::new([0; 16]);
            key_derivation(&session_key[..], purpose.label, context(purpose.context), &mut key[..]);
            key
        };
        let ciphers = material.cipher.map(|cipher| {
            let from = match cipher.key_len() {
                32 => material.full_session_key,
                _ => &session_key[..],
            };
            let derive_key = |purpose: Purpose| {
                let mut key = Zeroizing::new(vec![0; cipher.key_len()]);
                key_derivation(from, purpose.label, context(purpose.context), &mut key);
                key
            };
            CipherKeys {
                cipher,
                client_to_server: derive_key(purposes.client_to_server),
                server_to_client: derive_key(purposes.server_to_client),
            }
        });
        Self {
            signing_algorithm,
            signing: derive_key(purposes.signing),
            application: derive_key(purposes.application),
            ciphers,
        }
    }

    /// Session.SigningKey, or Channel.SigningKey if derived for a further channel.
    #[must_use]
    pub fn signing_key(&self) -> SigningKey {
        SigningKey::new(self.signing_algorithm, &self.signing)
    }

    /// Key that `role` encrypts with; `None` without encryption.
    #[must_use]
    pub fn encryption_key(&self, role: Role) -> Option<TransformKey> {
        self.transform_key(role == Role::Client)
    }

    /// Key that `role` decrypts with; `None` without encryption.
    #[must_use]
    pub fn decryption_key(&self, role: Role) -> Option<TransformKey> {
        self.transform_key(role == Role::Server)
    }

    /// Session.ApplicationKey, for protocols above SMB2 (the session key in dialects 2.0.2 and
    /// 2.1: [MS-SMB2] 3.3.4.6).
    #[must_use]
    pub fn application_key(&self) -> &[u8; 16] {
        &self.application
    }

    fn transform_key(&self, client_to_server: bool) -> Option<TransformKey> {
        let keys = self.ciphers.as_ref()?;
        let key = if client_to_server { &keys.client_to_server } else { &keys.server_to_client };
        Some(TransformKey::new(keys.cipher, key))
    }
}

/// Label and context of a derived key, each with a final zero byte.
#[derive(Clone, Copy)]
struct Purpose {
    label: &'static [u8],
    /// Replaced by the preauthentication hash in dialect 3.1.1.
    context: &'static [u8],
}

struct Purposes {
    signing: Purpose,
    client_to_server: Purpose,
    server_to_client: Purpose,
    application: Purpose,
}

impl Purposes {
    /// Labels of a dialect; `None` for 2.0.2 and 2.1, whose only key is the session key.
    fn of_dialect(dialect: u16) -> Option<Self> {
        let purpose = |label, context| Purpose { label, context };
        match dialect {
            0x0300 | 0x0302 => Some(Self {
                signing: purpose(b"SMB2AESCMAC\0", b"SmbSign\0"),
                client_to_server: purpose(b"SMB2AESCCM\0", b"ServerIn \0"),
                server_to_client: purpose(b"SMB2AESCCM\0", b"ServerOut\0"),
                application: purpose(b"SMB2APP\0", b"SmbRpc\0"),
            }),
            0x0311 => Some(Self {
                signing: purpose(b"SMBSigningKey\0", b""),
                client_to_server: purpose(b"SMBC2SCipherKey\0", b""),
                server_to_client: purpose(b"SMBS2CCipherKey\0", b""),
                application: purpose(b"SMBAppKey\0", b""),
            }),
            _ => None,
        }
    }
}

/// NIST SP 800-108 5.1 in counter mode with HMAC-SHA256 and 32-bit counter and length. No key is
/// longer than one block of the hash, so the counter stays at 1.
fn key_derivation(from: &[u8], label: &[u8], context: &[u8], key: &mut [u8]) {
    let bits = u32::try_from(key.len() * 8).expect("a key has at most 256 bits");
    let mut mac = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, from));
    mac.update(&1_u32.to_be_bytes());
    mac.update(label);
    mac.update(&[0]);
    mac.update(context);
    mac.update(&bits.to_be_bytes());
    key.copy_from_slice(&mac.sign().as_ref()[..key.len()]);
}

impl fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionKeys")
            .field("signing_algorithm", &self.signing_algorithm)
            .field("cipher", &self.ciphers.as_ref().map(|keys| keys.cipher))
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for KeyMaterial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyMaterial")
            .field("dialect", &self.dialect)
            .field("cipher", &self.cipher)
            .field("signing_algorithm", &self.signing_algorithm)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
