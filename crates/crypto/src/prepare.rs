//! Preparation of a process whose forks encrypt.

use crate::algorithm::{Cipher, SigningAlgorithm};
use crate::nonce::NonceCounter;
use crate::preauth::PreauthHash;
use crate::session_keys::{KeyMaterial, SessionKeys};
use crate::signing::SigningKey;
use crate::transform::TransformKey;

/// Uses each algorithm once, with zeros. The library looks at the processor and fills in tables at
/// the first use; forks of this process inherit that, instead of each doing the same. It draws no
/// random number.
pub fn prepare() {
    let zeros = [0; 16];
    let mut hash = PreauthHash::ZERO;
    hash.update(&zeros);
    let _ = crate::fingerprint("choro preparation", &zeros);
    for signing in
        [SigningAlgorithm::HmacSha256, SigningAlgorithm::AesCmac, SigningAlgorithm::AesGmac]
    {
        SigningKey::new(signing, &zeros).sign(&mut [0; MESSAGE_LEN]);
    }
    let mut nonces = NonceCounter::new([0; 3]);
    for cipher in [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::Aes128Ccm, Cipher::Aes256Ccm] {
        let nonce = nonces.advance().expect("it is new");
        let key = TransformKey::new(cipher, &[0; 32][..cipher.key_len()]);
        key.seal(nonce, 0, &mut [0; TransformKey::HEADER_LEN + MESSAGE_LEN]);
    }
    // The key derivation of 3.1.1 is that of 3.0 as well.
    drop(SessionKeys::derive(KeyMaterial {
        dialect: 0x0311,
        session_key: &zeros,
        full_session_key: &zeros,
        preauth_hash: Some(&hash),
        cipher: None,
        signing_algorithm: None,
    }));
}

/// Bytes of an SMB2 header without a command.
const MESSAGE_LEN: usize = 64;

#[cfg(test)]
mod tests {
    #[test]
    fn all_algorithms_take_a_header_of_zeros() {
        super::prepare();
    }
}
