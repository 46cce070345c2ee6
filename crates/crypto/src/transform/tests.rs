//! Encrypted messages published by Microsoft, and round trips.

use proptest::prelude::*;

use super::{OpenError, TransformKey};
use crate::algorithm::Cipher;
use crate::hex;
use crate::nonce::Nonce;

const CIPHERS: [Cipher; 4] =
    [Cipher::Aes128Ccm, Cipher::Aes128Gcm, Cipher::Aes256Ccm, Cipher::Aes256Gcm];

fn seal(key: &TransformKey, nonce: Nonce, session_id: u64, message: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xEE; TransformKey::HEADER_LEN];
    frame.extend_from_slice(message);
    key.seal(nonce, session_id, &mut frame);
    frame
}

#[track_caller]
fn check(cipher: Cipher, key: &str, session_id: u64, message: &str, frame: &str) {
    let key = TransformKey::new(cipher, &hex::bytes(key));
    let (message, mut frame) = (hex::bytes(message), hex::bytes(frame));
    let nonce = Nonce(frame[20..32].try_into().expect("12 bytes"));
    // The published CCM example fills all 16 bytes of Nonce. Here the unused ones are zero, and
    // they are authenticated, so only frames with zeros there can be reproduced.
    if frame[20 + cipher.nonce_len()..36].iter().all(|byte| *byte == 0) {
        assert_eq!(seal(&key, nonce, session_id, &message), frame, "sealed");
    }
    assert_eq!(TransformKey::session_id(&frame), Some(session_id));
    assert_eq!(key.open(&mut frame), Ok(&mut message.clone()[..]), "opened");
}

/// Microsoft's "Encryption in SMB 3.0: A protocol perspective".
#[test]
fn published_messages_of_smb_3_0_open() {
    check(
        Cipher::Aes128Ccm,
        "261B72350558F2E9DCF613070383EDBF",
        0x0008_E400_1400_0011,
        "FE534D4240000100000000000900400008000000000000000400000000000000
         FFFE0000010000001100001400E4080000000000000000000000000000000000
         3100700017000000000000000000000015010000390000020100000039020000
         00000000000000007000000000000000536D623320656E6372797074696F6E20
         74657374696E67",
        "FD534D4281A286535415445DAE393921E44FA42E66E69A111892584FB5ED524A
         744DA3EE87000000000001001100001400E4080025C8FEE16605A437832D1CD5
         2DA9F4645333482A175FE5384563F45FCDAFAEF38BC62BA4D5C62897996625A4
         4C29BE5658DE2E6117585779E7B59FFD971278D08580D7FA899E410E910EABF5
         AA1DB43050B33B49182637759AC15D84BFCDF5B6B238993C0F4CF4D6012023F6
         C627297075D84B7803912D0A9639634453595EF3E33FFE4E7AC2AB",
    );
    check(
        Cipher::Aes128Ccm,
        "8FE2B57EC34D2DB5B1A9727F526BBDB5",
        0x0008_E400_1400_0011,
        "FE534D4240000100000000000900210009000000000000000400000000000000
         FFFE0000010000001100001400E4080000000000000000000000000000000000
         11000000170000000000000000000000",
        "FD534D42A6015530A18F6D9AFFE22AFAE8E66484860000000000000011000014
         00E4080050000000000001001100001400E40800DBF46435C5F14169293CE079
         E344479BF670227E49873F458672C3098DAC467DD5809F369D67409166515787
         1483E01F7BECD02064EAC3E235F913668BBC2F097980D4B378F1993EFF6E60D1
         77309E5B",
    );
}

/// Microsoft's "SMB 3.1.1 Encryption in Windows 10".
#[test]
fn published_messages_of_smb_3_1_1_seal_and_open() {
    check(
        Cipher::Aes128Gcm,
        "A2F5E80E5D59103034F32E52F698E5EC",
        0x1000_0000_0025,
        "FE534D4240000100000000000900010008000000000000000500000000000000FFFE000001000000
         25000000001000000000000000000000000000000000000031007000170000000000000000000000
         0600000004000000010000000400000000000000000000007000000000000000536D623320656E63
         72797074696F6E2074657374696E67",
        "FD534D42BD73D97D2BC9001BCAFAC0FDFF5FEEBCC7D6822D269CAF48904C664C0000000087000000
         0000010025000000001000006ECDD2A7AFC7B47763057A041B8FD4DAFFE990B70C9E09D36C084E02
         D14EF247F8BDE38ACF6256F8B1D3B56F77FBDEB312FEA5E92CBCC1ED8FB2EBBFAA75E49A4A394BB4
         4576545567C24D4C014D47C9FBDFDAFD2C4F9B72F8D256452620A299F48E29E53D6B61D1C13A19E9
         1AF013F00D17E3ABC2FC3D36C8C1B6B93973253852DBD442E46EE8",
    );
    check(
        Cipher::Aes128Gcm,
        "748C50868C90F302962A5C35F5F9A8BF",
        0x1000_0000_0025,
        "FE534D4240000100000000000900010001000000000000000500000000000000FFFE000001000000
         25000000001000000000000000000000000000000000000011000000170000000000000000000000",
        "FD534D42ACBE1CB7ED343ADF1725EF144D90D4B0E06831DD2E8EB7B4000000000000000050000000
         00000100250000000010000026BBBF949983A6C1C796559D0F2C510CB651D1F7B6AC8DED32A2A0B8
         F2D793A815C6F6B848D69767A215841A42D400AE6DDB5F0B44173A014973321FDD7950DA6179159B
         82E03C9E18A050FF0EA1C967",
    );
}

/// Computed with OpenSSL from another language; Microsoft published no example with 256 bits.
#[test]
fn ciphers_of_256_bits_agree_with_openssl() {
    let key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    let message: Vec<u8> = (0..100_u8)
        .map(|i| if i < 4 { b"\xFESMB"[usize::from(i)] } else { i.wrapping_mul(7) })
        .collect();
    let message: String = message.iter().map(|byte| format!("{byte:02x}")).collect();
    check(
        Cipher::Aes256Ccm,
        key,
        0x1122_3344_5566_7788,
        &message,
        "fd534d42b4528f89de1bac64039e86d6b075ac57a0a1a2a3a4a5a6a7a8a9aa000000000064000000
         00000100887766554433221166f20ecded71de7fd0c473bf62bed680babb205c15a208f15a24fb90
         85f2f7adb1d0c0eb9c397bde4ffff79e5d22f0f9d2d7fc3692dfa4ca0e5fb3cb9527c2ba9a8d2f49
         aa0e911a59cdc291ffe298f6ba564916d1a1deae8bd09f7175162b614aa0c08f",
    );
    check(
        Cipher::Aes256Gcm,
        key,
        0x1122_3344_5566_7788,
        &message,
        "fd534d42d923c27cb255d050012c37cfbc9bb176a0a1a2a3a4a5a6a7a8a9aaab0000000064000000
         000001008877665544332211184b316f59e8288e5a5ac19e5321a2b700db27951e24d8cd34a1903b
         bb60a7d83291a90a5321592c478322e53d41c1b0174c182d0ea360ffc9d19dc300db3709747b4bba
         ec460e110c1df9159bd5ee93fd3c95e18992c31b861a48e73511df0d2f23851e",
    );
}

#[test]
fn each_broken_rule_of_the_header_has_its_reason() {
    let key = TransformKey::new(Cipher::Aes128Gcm, &[3; 16]);
    let frame = seal(&key, Nonce([1; 12]), 9, &[0; 80]);
    let open = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = frame.clone();
        change(&mut frame);
        key.open(&mut frame).map(|_| ()).expect_err("refused")
    };
    for len in 0..116 {
        assert_eq!(open(&|frame| frame.truncate(len)), OpenError::TooShort(len));
    }
    assert_eq!(open(&|frame| frame[0] = 0xFE), OpenError::ProtocolId);
    assert_eq!(open(&|frame| frame[42] = 2), OpenError::Flags(2));
    let stated = 80;
    let wrong_size = |actual| OpenError::OriginalMessageSize { stated, actual };
    assert_eq!(open(&|frame| frame.truncate(131)), wrong_size(79));
    assert_eq!(open(&|frame| frame.push(0)), wrong_size(81));
}

#[test]
fn only_encrypted_frames_have_a_session_id() {
    let key = TransformKey::new(Cipher::Aes128Gcm, &[3; 16]);
    let mut frame = seal(&key, Nonce([1; 12]), 0xFFFF_0000_1234_5678, &[0; 80]);
    assert_eq!(TransformKey::session_id(&frame), Some(0xFFFF_0000_1234_5678));
    assert_eq!(TransformKey::session_id(&frame[..51]), None);
    frame[0] = 0xFE;
    assert_eq!(TransformKey::session_id(&frame), None);
}

#[test]
fn debug_shows_no_key() {
    let key = TransformKey::new(Cipher::Aes128Ccm, &[0xAB; 16]);
    assert_eq!(format!("{key:?}"), "TransformKey { cipher: Aes128Ccm, .. }");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_sealed_message_opens_and_one_with_a_bit_flipped_does_not(
        key: [u8; 32],
        nonce: [u8; 12],
        session_id: u64,
        message in proptest::collection::vec(any::<u8>(), 64..400),
        flip: prop::sample::Index,
    ) {
        for cipher in CIPHERS {
            let key = TransformKey::new(cipher, &key[..cipher.key_len()]);
            let sealed = seal(&key, Nonce(nonce), session_id, &message);
            prop_assert_ne!(&sealed[TransformKey::HEADER_LEN..], &message[..]);
            let mut frame = sealed.clone();
            prop_assert_eq!(key.open(&mut frame).expect("opens"), &message[..]);
            let bit = flip.index(sealed.len() * 8);
            let mut frame = sealed;
            frame[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(key.open(&mut frame).is_err(), "{:?}, bit {}", cipher, bit);
        }
    }
}
