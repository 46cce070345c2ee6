//! Signatures: [MS-SMB2] 3.1.4.1, 3.1.5.1.
//!
//! Signing and verifying work on the message in place. The signature covers the whole message with
//! zeros in its Signature field, and the fast implementations (GMAC most of all) take contiguous
//! bytes in a single call; so both functions take the message mutably and write the 16 zeros
//! themselves. `verify` restores the received signature.

use std::fmt;
use std::ops::Range;

use aws_lc_rs::aead::{self, Aad, LessSafeKey, UnboundKey};
use aws_lc_rs::{cmac, constant_time, hmac};
use zeroize::{Zeroize, Zeroizing};

use crate::algorithm::SigningAlgorithm;

/// A key that signs and verifies, prepared for its algorithm.
pub struct SigningKey {
    mac: Mac,
    key: Zeroizing<[u8; 16]>,
}

impl Clone for SigningKey {
    fn clone(&self) -> Self {
        Self::new(self.algorithm(), &self.key)
    }
}

/// The signature does not match the message and the key, or the message is too short for one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BadSignature;

enum Mac {
    /// Boxed: the prepared inner and outer hashes are 1.2 KiB.
    HmacSha256(Box<hmac::Key>),
    AesCmac(cmac::Key),
    AesGmac(LessSafeKey),
}

impl SigningKey {
    /// Prepares `key` for signatures by `algorithm`.
    #[must_use]
    pub fn new(algorithm: SigningAlgorithm, key: &[u8; 16]) -> Self {
        let mac = match algorithm {
            SigningAlgorithm::HmacSha256 => {
                Mac::HmacSha256(Box::new(hmac::Key::new(hmac::HMAC_SHA256, key)))
            }
            SigningAlgorithm::AesCmac => {
                Mac::AesCmac(cmac::Key::new(cmac::AES_128, key).expect("16 bytes fit AES-128"))
            }
            SigningAlgorithm::AesGmac => Mac::AesGmac(LessSafeKey::new(
                UnboundKey::new(&aead::AES_128_GCM, key).expect("16 bytes fit AES-128"),
            )),
        };
        Self { mac, key: Zeroizing::new(*key) }
    }

    /// Returns the key's bytes: for another process of this server that signs in place of the
    /// session's own.
    #[must_use]
    pub fn expose(&self) -> &[u8; 16] {
        &self.key
    }

    /// Algorithm of the key's signatures.
    #[must_use]
    pub fn algorithm(&self) -> SigningAlgorithm {
        match self.mac {
            Mac::HmacSha256(_) => SigningAlgorithm::HmacSha256,
            Mac::AesCmac(_) => SigningAlgorithm::AesCmac,
            Mac::AesGmac(_) => SigningAlgorithm::AesGmac,
        }
    }

    /// Sets SMB2_FLAGS_SIGNED and writes the signature of `message`: one SMB2 message, from its
    /// header to the end of its body, with the padding before the next one of a compound.
    ///
    /// With AES-GMAC the nonce is the MessageId and the direction, so two different messages of one
    /// direction must not be signed under one MessageId (an interim response is not signed:
    /// [MS-SMB2] 3.3.4.1.1).
    ///
    /// # Panics
    ///
    /// If the message is shorter than a header, which is a mistake of the caller.
    pub fn sign(&self, message: &mut [u8]) {
        assert!(message.len() >= HEADER_LEN, "a message begins with its header");
        message[FLAGS] |= FLAG_SIGNED;
        message[SIGNATURE].fill(0);
        let mut signature = [0; SIGNATURE_LEN];
        self.compute(message, &mut signature);
        message[SIGNATURE].copy_from_slice(&signature);
    }

    /// Verifies the signature of `message`, in time that does not depend on it. The message is
    /// unchanged afterwards. The caller checks SMB2_FLAGS_SIGNED.
    ///
    /// # Errors
    ///
    /// [`BadSignature`].
    pub fn verify(&self, message: &mut [u8]) -> Result<(), BadSignature> {
        if message.len() < HEADER_LEN {
            return Err(BadSignature);
        }
        let mut received = [0; SIGNATURE_LEN];
        received.copy_from_slice(&message[SIGNATURE]);
        message[SIGNATURE].fill(0);
        let equal = match &self.mac {
            Mac::AesGmac(key) => {
                let nonce = aead::Nonce::assume_unique_for_key(gmac_nonce(message));
                key.open_separate_gather(nonce, Aad::from(&*message), &[], &received, &mut [])
            }
            Mac::HmacSha256(_) | Mac::AesCmac(_) => {
                let mut computed = [0; SIGNATURE_LEN];
                self.compute(message, &mut computed);
                let equal = constant_time::verify_slices_are_equal(&computed, &received);
                // The right signature of a forged message must not stay on the stack.
                computed.zeroize();
                equal
            }
        };
        message[SIGNATURE].copy_from_slice(&received);
        equal.map_err(|_| BadSignature)
    }

    fn compute(&self, message: &[u8], signature: &mut [u8; SIGNATURE_LEN]) {
        match &self.mac {
            Mac::HmacSha256(key) => {
                signature.copy_from_slice(&hmac::sign(key, message).as_ref()[..SIGNATURE_LEN]);
            }
            Mac::AesCmac(key) => {
                cmac::sign_to_buffer(key, message, signature)
                    .expect("the buffer has the length of the tag");
            }
            Mac::AesGmac(key) => gmac(key, gmac_nonce(message), message, signature),
        }
    }
}

/// AES-GMAC is AES-GCM of an empty message, with all bytes as associated data: RFC 4543.
fn gmac(key: &LessSafeKey, nonce: [u8; 12], message: &[u8], signature: &mut [u8; SIGNATURE_LEN]) {
    let nonce = aead::Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_scatter(nonce, Aad::from(message), &mut [], &[], signature)
        .expect("a message is shorter than the 2^61 bytes GCM can authenticate");
}

/// MessageId, direction, and whether the message is a CANCEL (which reuses the MessageId of the
/// request it cancels): [MS-SMB2] 3.1.4.1.
fn gmac_nonce(message: &[u8]) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&message[MESSAGE_ID]);
    if message[FLAGS] & FLAG_SERVER_TO_REDIR != 0 {
        nonce[8] |= 0x01;
    }
    if message[COMMAND] == COMMAND_CANCEL {
        nonce[8] |= 0x02;
    }
    nonce
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("algorithm", &self.algorithm()).finish_non_exhaustive()
    }
}

impl fmt::Display for BadSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the signature does not match the message")
    }
}

impl std::error::Error for BadSignature {}

// The SMB2 header: [MS-SMB2] 2.2.1.
const HEADER_LEN: usize = wire::header::SIZE;
const COMMAND: Range<usize> = 12..14;
const FLAGS: usize = 16;
const MESSAGE_ID: Range<usize> = 24..32;
const SIGNATURE: Range<usize> = 48..64;
const SIGNATURE_LEN: usize = 16;
/// SMB2_FLAGS_SERVER_TO_REDIR, in the lowest byte of Flags.
const FLAG_SERVER_TO_REDIR: u8 = 0x01;
/// SMB2_FLAGS_SIGNED, in the lowest byte of Flags.
const FLAG_SIGNED: u8 = 0x08;
/// Command of SMB2 CANCEL, little-endian.
const COMMAND_CANCEL: [u8; 2] = [0x0C, 0x00];

#[cfg(test)]
mod tests;
