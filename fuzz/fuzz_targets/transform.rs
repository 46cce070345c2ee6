//! Transform headers, and decryption: only data sealed with the key can be opened.
#![no_main]

use crypto::{Cipher, Nonce, TransformKey};
use libfuzzer_sys::fuzz_target;
use wire::transform::{CompressionTransformHeader, TransformHeader};

fuzz_target!(|input: &[u8]| {
    if let Ok(header) = TransformHeader::decode(input) {
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        assert_eq!(TransformHeader::decode(&bytes), Ok(header));
        assert_eq!(TransformKey::session_id(input), Some(header.session_id));
    }
    if let Ok(header) = CompressionTransformHeader::decode(input) {
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        assert_eq!(CompressionTransformHeader::decode(&bytes), Ok(header));
    }
    let ciphers = [Cipher::Aes128Ccm, Cipher::Aes128Gcm, Cipher::Aes256Ccm, Cipher::Aes256Gcm];
    let cipher = ciphers[input.len() % ciphers.len()];
    let key = TransformKey::new(cipher, &[0x42; 32][..cipher.key_len()]);
    let mut frame = input.to_vec();
    key.open(&mut frame).expect_err("nobody else has the key");
    if input.len() >= wire::header::SIZE {
        let mut frame = vec![0; TransformKey::HEADER_LEN];
        frame.extend_from_slice(input);
        key.seal(Nonce([7; 12]), 9, &mut frame);
        assert_eq!(key.open(&mut frame).expect("sealed with the same key"), input);
    }
});
