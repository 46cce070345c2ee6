//! Encrypted messages: [MS-SMB2] 2.2.41, 3.1.4.3, 3.1.5.2.

use std::fmt;

use aes::{Aes128, Aes256};
use aws_lc_rs::aead::{self, Aad, LessSafeKey, UnboundKey};
use ccm::aead::AeadInOut;
use ccm::consts::{U11, U16};
use ccm::{Ccm, KeyInit};
use wire::transform::{TransformFlags, TransformHeader};

use crate::algorithm::Cipher;
use crate::nonce::Nonce;

/// A key that encrypts in one direction or decrypts in the other, prepared for its cipher.
pub struct TransformKey {
    cipher: Cipher,
    aead: Aead,
}

/// Reason for refusing an encrypted message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OpenError {
    /// The message was encrypted with another key, or changed in transit.
    BadSignature,
    /// Flags (EncryptionAlgorithm in dialects 3.0 and 3.0.2) is not 0x0001.
    Flags(u16),
    /// OriginalMessageSize is not the number of bytes behind the header.
    OriginalMessageSize {
        /// OriginalMessageSize of the header, in bytes.
        stated: u32,
        /// Bytes received behind the header.
        actual: usize,
    },
    /// The frame does not begin with the protocol id of a transform header.
    ProtocolId,
    /// The frame is shorter than a transform header and an SMB2 header.
    TooShort(usize),
}

enum Aead {
    Gcm(LessSafeKey),
    Ccm128(Box<Ccm<Aes128, U16, U11>>),
    Ccm256(Box<Ccm<Aes256, U16, U11>>),
}

impl TransformKey {
    /// Bytes of an SMB2 TRANSFORM_HEADER.
    pub const HEADER_LEN: usize = TransformHeader::SIZE;

    /// Prepares `key` for `cipher`.
    ///
    /// # Panics
    ///
    /// If the length of `key` is not [`Cipher::key_len`].
    #[must_use]
    pub fn new(cipher: Cipher, key: &[u8]) -> Self {
        assert_eq!(key.len(), cipher.key_len(), "the key fits its cipher");
        let gcm = |algorithm| {
            let key = UnboundKey::new(algorithm, key).expect("the length was checked");
            Aead::Gcm(LessSafeKey::new(key))
        };
        let aead = match cipher {
            Cipher::Aes128Gcm => gcm(&aead::AES_128_GCM),
            Cipher::Aes256Gcm => gcm(&aead::AES_256_GCM),
            Cipher::Aes128Ccm => {
                Aead::Ccm128(Box::new(Ccm::new_from_slice(key).expect("the length was checked")))
            }
            Cipher::Aes256Ccm => {
                Aead::Ccm256(Box::new(Ccm::new_from_slice(key).expect("the length was checked")))
            }
        };
        Self { cipher, aead }
    }

    /// Cipher that the key encrypts with.
    #[must_use]
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Encrypts `frame` in place: [`Self::HEADER_LEN`] unused bytes, which become the transform
    /// header, and the SMB2 message (or compound) behind them.
    ///
    /// # Panics
    ///
    /// If the frame is shorter than the header or longer than 4 GiB, which is a mistake of the
    /// caller.
    pub fn seal(&self, nonce: Nonce, session_id: u64, frame: &mut [u8]) {
        let (header, message) = frame.split_at_mut(Self::HEADER_LEN);
        let size = u32::try_from(message.len()).expect("a message is shorter than 4 GiB");
        let mut fields = TransformHeader {
            original_message_size: size,
            flags: TransformFlags::ENCRYPTED,
            session_id,
            ..TransformHeader::default()
        };
        let nonce_len = self.cipher.nonce_len();
        fields.nonce[..nonce_len].copy_from_slice(&nonce.0[..nonce_len]);
        header.copy_from_slice(&fields.to_bytes());
        let signature = self.encrypt(nonce, &header[TransformHeader::AUTHENTICATED], message);
        header[TransformHeader::SIGNATURE].copy_from_slice(&signature);
    }

    /// Decrypts `frame`, with its transform header, in place and returns the SMB2 message in it.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; the bytes behind the header are useless then.
    pub fn open<'f>(&self, frame: &'f mut [u8]) -> Result<&'f mut [u8], OpenError> {
        if frame.len() < Self::HEADER_LEN + wire::header::SIZE {
            return Err(OpenError::TooShort(frame.len()));
        }
        let (header, message) = frame.split_at_mut(Self::HEADER_LEN);
        let fields = TransformHeader::decode(header).map_err(|_| OpenError::ProtocolId)?;
        if fields.flags != TransformFlags::ENCRYPTED {
            return Err(OpenError::Flags(fields.flags.bits()));
        }
        // Only authenticated bytes are returned, so a remainder is refused.
        let stated = fields.original_message_size;
        if u32::try_from(message.len()) != Ok(stated) {
            return Err(OpenError::OriginalMessageSize { stated, actual: message.len() });
        }
        let nonce = Nonce(*fields.nonce.first_chunk().expect("it has 16 bytes"));
        let authenticated = &header[TransformHeader::AUTHENTICATED];
        self.decrypt(nonce, authenticated, fields.signature, message)?;
        Ok(message)
    }

    /// Returns the SessionId of a transform header, which selects the key; `None` if `frame` is
    /// shorter than a header or is not an encrypted message.
    #[must_use]
    pub fn session_id(frame: &[u8]) -> Option<u64> {
        TransformHeader::decode(frame).ok().map(|header| header.session_id)
    }

    fn encrypt(&self, nonce: Nonce, authenticated: &[u8], message: &mut [u8]) -> [u8; 16] {
        const FITS: &str = "4 GiB are within the limits of the cipher";
        match &self.aead {
            Aead::Gcm(key) => {
                let nonce = aead::Nonce::assume_unique_for_key(nonce.0);
                let tag = key.seal_in_place_separate_tag(nonce, Aad::from(authenticated), message);
                tag.expect(FITS).as_ref().try_into().expect("a GCM tag has 16 bytes")
            }
            Aead::Ccm128(key) => key
                .encrypt_inout_detached(&ccm_nonce(nonce).into(), authenticated, message.into())
                .expect(FITS)
                .into(),
            Aead::Ccm256(key) => key
                .encrypt_inout_detached(&ccm_nonce(nonce).into(), authenticated, message.into())
                .expect(FITS)
                .into(),
        }
    }

    fn decrypt(
        &self,
        nonce: Nonce,
        authenticated: &[u8],
        signature: [u8; 16],
        message: &mut [u8],
    ) -> Result<(), OpenError> {
        let nonce_ccm = ccm_nonce(nonce).into();
        let opened = match &self.aead {
            Aead::Gcm(key) => {
                let nonce = aead::Nonce::assume_unique_for_key(nonce.0);
                let aad = Aad::from(authenticated);
                key.open_in_place_separate_tag(nonce, aad, &signature, message).is_ok()
            }
            Aead::Ccm128(key) => key
                .decrypt_inout_detached(
                    &nonce_ccm,
                    authenticated,
                    message.into(),
                    &signature.into(),
                )
                .is_ok(),
            Aead::Ccm256(key) => key
                .decrypt_inout_detached(
                    &nonce_ccm,
                    authenticated,
                    message.into(),
                    &signature.into(),
                )
                .is_ok(),
        };
        if opened { Ok(()) } else { Err(OpenError::BadSignature) }
    }
}

fn ccm_nonce(nonce: Nonce) -> [u8; 11] {
    nonce.0[..11].try_into().expect("11 of 12 bytes")
}

impl fmt::Debug for TransformKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransformKey").field("cipher", &self.cipher).finish_non_exhaustive()
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadSignature => f.write_str("not encrypted with this key, or changed"),
            Self::Flags(flags) => write!(f, "Flags {flags:#06x} is not 0x0001"),
            Self::OriginalMessageSize { stated, actual } => {
                write!(f, "OriginalMessageSize {stated} of a message of {actual} bytes")
            }
            Self::ProtocolId => f.write_str("no transform header"),
            Self::TooShort(len) => write!(f, "{len} bytes are no encrypted message"),
        }
    }
}

impl std::error::Error for OpenError {}

#[cfg(test)]
mod tests;
