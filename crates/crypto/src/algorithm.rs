//! Algorithms that a connection negotiates: [MS-SMB2] 2.2.3.1.2 and 2.2.3.1.7.

/// Signing algorithm of messages: [MS-SMB2] 2.2.3.1.7.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum SigningAlgorithm {
    /// HMAC-SHA256, cut to 16 bytes: dialects 2.0.2 and 2.1.
    HmacSha256,
    /// AES-128-CMAC: dialects 3.0 and 3.0.2, and 3.1.1 without a signing context.
    AesCmac,
    /// AES-128-GMAC: dialect 3.1.1 when both sides offer it; by far the fastest.
    AesGmac,
}

impl SigningAlgorithm {
    /// Returns the algorithm with this SigningAlgorithmId.
    #[must_use]
    pub fn from_id(id: u16) -> Option<Self> {
        match id {
            0x0000 => Some(Self::HmacSha256),
            0x0001 => Some(Self::AesCmac),
            0x0002 => Some(Self::AesGmac),
            _ => None,
        }
    }

    /// SigningAlgorithmId: [MS-SMB2] 2.2.3.1.7.
    #[must_use]
    pub fn id(self) -> u16 {
        match self {
            Self::HmacSha256 => 0x0000,
            Self::AesCmac => 0x0001,
            Self::AesGmac => 0x0002,
        }
    }

    /// Returns the signing algorithm of a connection's dialect: [MS-SMB2] 3.1.4.1. Only 3.1.1
    /// negotiates it, with AES-CMAC in place of an absent signing context.
    #[must_use]
    pub fn of_dialect(dialect: u16, negotiated: Option<Self>) -> Self {
        match dialect {
            0x0311 => negotiated.unwrap_or(Self::AesCmac),
            0x0300 | 0x0302 => Self::AesCmac,
            _ => Self::HmacSha256,
        }
    }
}

/// Cipher of encrypted messages: [MS-SMB2] 2.2.3.1.2.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Cipher {
    /// AES-128-CCM: the only one of dialects 3.0 and 3.0.2.
    Aes128Ccm,
    /// AES-128-GCM: in dialect 3.1.1 only.
    Aes128Gcm,
    /// AES-256-CCM: in dialect 3.1.1 only.
    Aes256Ccm,
    /// AES-256-GCM: in dialect 3.1.1 only.
    Aes256Gcm,
}

impl Cipher {
    /// Length of the longest key in bytes.
    pub const KEY_LEN_MAX: usize = 32;

    /// Returns the cipher with this CipherId.
    #[must_use]
    pub fn from_id(id: u16) -> Option<Self> {
        match id {
            0x0001 => Some(Self::Aes128Ccm),
            0x0002 => Some(Self::Aes128Gcm),
            0x0003 => Some(Self::Aes256Ccm),
            0x0004 => Some(Self::Aes256Gcm),
            _ => None,
        }
    }

    /// CipherId: [MS-SMB2] 2.2.3.1.2.
    #[must_use]
    pub fn id(self) -> u16 {
        match self {
            Self::Aes128Ccm => 0x0001,
            Self::Aes128Gcm => 0x0002,
            Self::Aes256Ccm => 0x0003,
            Self::Aes256Gcm => 0x0004,
        }
    }

    /// Length of a key in bytes.
    #[must_use]
    pub fn key_len(self) -> usize {
        match self {
            Self::Aes128Ccm | Self::Aes128Gcm => 16,
            Self::Aes256Ccm | Self::Aes256Gcm => 32,
        }
    }

    /// Bytes of the nonce in a transform header: [MS-SMB2] 2.2.41.
    #[must_use]
    pub fn nonce_len(self) -> usize {
        match self {
            Self::Aes128Ccm | Self::Aes256Ccm => 11,
            Self::Aes128Gcm | Self::Aes256Gcm => 12,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cipher, SigningAlgorithm};

    #[test]
    fn ids_round_trip_and_unknown_ones_are_refused() {
        for id in 0..=2 {
            assert_eq!(SigningAlgorithm::from_id(id).map(SigningAlgorithm::id), Some(id));
        }
        for id in 1..=4 {
            assert_eq!(Cipher::from_id(id).map(Cipher::id), Some(id));
        }
        assert_eq!(SigningAlgorithm::from_id(3), None);
        assert_eq!(Cipher::from_id(0), None);
        assert_eq!(Cipher::from_id(5), None);
    }

    #[test]
    fn only_3_1_1_negotiates_its_signing() {
        let gmac = Some(SigningAlgorithm::AesGmac);
        for (dialect, negotiated, want) in [
            (0x0202, gmac, SigningAlgorithm::HmacSha256),
            (0x0210, None, SigningAlgorithm::HmacSha256),
            (0x0300, gmac, SigningAlgorithm::AesCmac),
            (0x0302, None, SigningAlgorithm::AesCmac),
            (0x0311, None, SigningAlgorithm::AesCmac),
            (0x0311, gmac, SigningAlgorithm::AesGmac),
        ] {
            assert_eq!(SigningAlgorithm::of_dialect(dialect, negotiated), want);
        }
    }
}
