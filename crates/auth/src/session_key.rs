//! Session key of an authentication.

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

/// Key that both sides share after an authentication (ExportedSessionKey of [MS-NLMP] 3.1.1, or the
/// key of a Kerberos context); the source of SMB2's Session.SessionKey. Erased when dropped, never
/// printed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SessionKey {
    bytes: [u8; KEY_BYTES_MAX],
    len: usize,
}

impl SessionKey {
    /// Wraps the bytes of an NTLM key.
    #[must_use]
    pub fn new(key: [u8; 16]) -> Self {
        let mut bytes = [0; KEY_BYTES_MAX];
        bytes[..key.len()].copy_from_slice(&key);
        Self { bytes, len: key.len() }
    }

    /// Wraps the bytes of a key of any mechanism; `None` if no mechanism has keys of this length.
    #[must_use]
    pub fn from_slice(key: &[u8]) -> Option<Self> {
        if !(KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&key.len()) {
            return None;
        }
        let mut bytes = [0; KEY_BYTES_MAX];
        bytes[..key.len()].copy_from_slice(key);
        Some(Self { bytes, len: key.len() })
    }

    /// Session.SessionKey of [MS-SMB2] 3.3.1.8, a secret: the first 16 bytes of the key, with zeros
    /// behind a shorter one.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.bytes.first_chunk().expect("a key has room for 32 bytes")
    }

    /// Session.FullSessionKey of [MS-SMB2] 3.3.1.8, a secret: all bytes, for ciphers of 256 bits.
    #[must_use]
    pub fn full(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(..)")
    }
}

/// SessionBaseKey of an NTLM response that was verified elsewhere: [MS-NLMP] 3.3.2. Erased when
/// dropped, never printed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SessionBaseKey([u8; 16]);

impl SessionBaseKey {
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

impl fmt::Debug for SessionBaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionBaseKey(..)")
    }
}

/// Bytes of the longest key: AES-256 in Kerberos.
const KEY_BYTES_MAX: usize = 32;
/// Bytes of the shortest key: DES in Kerberos. A shorter one is no key.
const KEY_BYTES_MIN: usize = 8;

#[cfg(test)]
mod tests {
    use super::SessionKey;

    #[test]
    fn keys_are_cut_and_padded_for_the_session_key_and_whole_for_the_full_one() {
        let long = SessionKey::from_slice(&[7; 32]).expect("AES-256 has it");
        assert_eq!((long.as_bytes(), long.full()), (&[7; 16], &[7; 32][..]));
        let short = SessionKey::from_slice(&[7; 8]).expect("DES has it");
        assert_eq!(short.as_bytes(), &[7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(short.full(), &[7; 8]);
        assert_eq!(SessionKey::new([9; 16]).full(), &[9; 16]);
        for len in [0, 7, 33, 64] {
            assert!(SessionKey::from_slice(&vec![7; len]).is_none(), "{len}");
        }
    }
}
