//! The NT hash of a password: NTOWFv1 of [MS-NLMP] 3.3.1.

use std::fmt;

use md4::{Digest, Md4};
use zeroize::{Zeroize, Zeroizing};

/// MD4 of a password in UTF-16LE. Equivalent to the password, so it is erased when dropped and
/// never printed. It has a place of its own in memory: a value that moves leaves its bytes behind.
#[derive(Clone)]
pub struct NtHash(Box<[u8; 16]>);

impl Drop for NtHash {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl NtHash {
    /// Wraps a known hash, as from a password database.
    #[must_use]
    pub fn new(hash: [u8; 16]) -> Self {
        let hash = Zeroizing::new(hash);
        Self(Box::new(*hash))
    }

    /// Computes the hash of a password.
    #[must_use]
    pub fn of_password(password: &str) -> Self {
        let mut unicode = Zeroizing::new(Vec::with_capacity(password.len() * 2));
        for unit in password.encode_utf16() {
            unicode.extend_from_slice(&unit.to_le_bytes());
        }
        let mut hash = Self(Box::new([0; 16]));
        let mut md4 = Md4::new();
        md4.update(&unicode);
        md4.finalize_into((&mut *hash.0).into());
        hash
    }

    /// Parses 32 hexadecimal digits, as in an smbpasswd file.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 32 {
            return None;
        }
        let mut hash = Self(Box::new([0; 16]));
        for (byte, pair) in hash.0.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(hash)
    }

    /// The hash's 16 bytes, a secret.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        b'A'..=b'F' => Some(character - b'A' + 10),
        _ => None,
    }
}

impl fmt::Debug for NtHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NtHash(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::NtHash;
    use crate::hex;

    /// [MS-NLMP] 4.2.2.1.2, and the password of Microsoft's example of SMB 3.1.1 keys.
    #[test]
    fn published_hashes() {
        for (password, want) in [
            ("Password", "a4f49c406510bdcab6824ee7c30fd852"),
            ("Password01!", "7c4fe5eada682714a036e39378362bab"),
            ("", "31d6cfe0d16ae931b73c59d7e0c089c0"),
        ] {
            assert_eq!(NtHash::of_password(password).as_bytes(), &hex::array(want), "{password}");
        }
    }

    #[test]
    fn hexadecimal_is_read_in_both_cases_and_nothing_else() {
        let want: [u8; 16] = hex::array("a4f49c406510bdcab6824ee7c30fd852");
        for text in ["A4F49C406510BDCAB6824EE7C30FD852", "a4f49c406510bdcab6824ee7c30fd852"] {
            assert_eq!(NtHash::from_hex(text).expect("a hash").as_bytes(), &want);
        }
        for text in ["", "a4f49c406510bdcab6824ee7c30fd85", "g4f49c406510bdcab6824ee7c30fd852"] {
            assert!(NtHash::from_hex(text).is_none(), "{text}");
        }
        assert!(NtHash::from_hex(&"é".repeat(16)).is_none());
    }

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", NtHash::of_password("Password")), "NtHash(..)");
    }
}
