//! Signatures of published messages, and of messages that another implementation signed.

use proptest::prelude::*;

use super::{BadSignature, HEADER_LEN, SIGNATURE, SigningKey, gmac};
use crate::algorithm::SigningAlgorithm;
use crate::hex;

use aws_lc_rs::aead::{AES_128_GCM, LessSafeKey, UnboundKey};
use aws_lc_rs::cmac;

const ALGORITHMS: [SigningAlgorithm; 3] =
    [SigningAlgorithm::HmacSha256, SigningAlgorithm::AesCmac, SigningAlgorithm::AesGmac];

#[track_caller]
fn check(algorithm: SigningAlgorithm, key: &str, message: &str, signature: &str) {
    let key = SigningKey::new(algorithm, &hex::array(key));
    let mut message = hex::bytes(message);
    message[SIGNATURE].fill(0xA5);
    message[16] &= !0x08;
    key.sign(&mut message);
    assert_eq!(message[SIGNATURE], hex::bytes(signature), "the signature");
    assert_eq!(message[16] & 0x08, 0x08, "the flag");
    assert_eq!(key.verify(&mut message), Ok(()));
}

/// The two channels of the example in Microsoft's "SMB 2 and SMB 3 security in Windows 10: the
/// anatomy of signing and cryptographic keys".
#[test]
fn cmac_signs_the_published_session_setups() {
    check(
        SigningAlgorithm::AesCmac,
        "73FE7A9A77BEF0BDE49C650D8CCB5F76",
        "FE534D4240000100000000000100800009000000000000000300000000000000FFFE000000000000
         1900000000100000EBE146DA120BA25FC3376A49DFE31BC10900000048001D00A11B3019A0030A01
         00A3120410010000003B453CDC3524164200000000",
        "EBE146DA120BA25FC3376A49DFE31BC1",
    );
    check(
        SigningAlgorithm::AesCmac,
        "73FE7A9A77BEF0BDE49C650D8CCB5F76",
        "FE534D4240000100000000000100800008000000000000000200000000000000FFFE000000000000
         190000000010000068BD0C58F613CE1334B1EB51C68D39EA19000101010000000000000058004A00
         0000000000000000604806062B0601050502A03E303CA00E300C060A2B06010401823702020AA22A
         04284E544C4D5353500001000000978208E200000000000000000000000000000000060380250000
         000F",
        "68BD0C58F613CE1334B1EB51C68D39EA",
    );
    check(
        SigningAlgorithm::AesCmac,
        "C962BCA1A9DD1697B030644199705431",
        "FE534D4240000100000000000100800009000000000000000300000000000000FFFE000000000000
         19000000001000008D604217FFBACF40635BF9D8729921500900000048001D00A11B3019A0030A01
         00A312041001000000CFB046FC5D368E2200000000",
        "8D604217FFBACF40635BF9D872992150",
    );
}

/// RFC 4493 4: the primitive itself, on messages shorter than a header.
#[test]
fn cmac_is_that_of_the_rfc() {
    let key = cmac::Key::new(cmac::AES_128, &hex::bytes("2b7e151628aed2a6abf7158809cf4f3c"))
        .expect("16 bytes");
    let message = hex::bytes(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51
         30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
    );
    for (len, want) in [
        (0, "bb1d6929e95937287fa37d129b756746"),
        (16, "070a16b46b4d4144f79bdd9dd04a287c"),
        (40, "dfa66747de9ae63030ca32611497c827"),
        (64, "51f0bebf7e3b9d92fc49741779363cfe"),
    ] {
        let tag = cmac::sign(&key, &message[..len]).expect("signs");
        assert_eq!(tag.as_ref(), hex::bytes(want), "{len} bytes");
    }
}

/// NIST CAVP, gcmEncryptExtIV128, PTlen 0, AADlen 128.
#[test]
fn gmac_is_that_of_nist() {
    let key = UnboundKey::new(&AES_128_GCM, &hex::bytes("77be63708971c4e240d1cb79e8d77feb"))
        .expect("16 bytes");
    let mut tag = [0; 16];
    gmac(
        &LessSafeKey::new(key),
        hex::array("e0e00f19fed7ba0136a797f3"),
        &hex::bytes("7a43ec1d9c0a5a78a0b16533a6213cab"),
        &mut tag,
    );
    assert_eq!(tag, hex::array("209fcc8d3675ed938e9c7166709dd946"));
}

const KEY: &str = "000102030405060708090a0b0c0d0e0f";
const ECHO_REQUEST: &str = "fe534d4240000100000000000d00010008000000000000000807060504030201
    fffe00000500000019000000001000000000000000000000000000000000000004000000";
const ECHO_RESPONSE: &str = "fe534d4240000100000000000d00010009000000000000000807060504030201
    fffe00000500000019000000001000000000000000000000000000000000000004000000";
const CANCEL: &str = "fe534d4240000100000000000c00010008000000000000000700000000000000
    fffe00000500000019000000001000000000000000000000000000000000000004000000";

/// Computed with OpenSSL from another language.
#[test]
fn gmac_nonce_has_the_message_id_the_direction_and_cancel() {
    let gmac = SigningAlgorithm::AesGmac;
    check(gmac, KEY, ECHO_REQUEST, "a9e05fd6b7c0103dad8f0ed563ee028c");
    check(gmac, KEY, ECHO_RESPONSE, "0f50a9ae8ebc45956b55e9e3880cf177");
    check(gmac, KEY, CANCEL, "0ece8d0fc2046d6f96f68f693cdce2e2");
}

/// Computed with OpenSSL from another language.
#[test]
fn hmac_is_cut_to_16_bytes() {
    let hmac = SigningAlgorithm::HmacSha256;
    check(hmac, KEY, ECHO_REQUEST, "17816184330abd1efcf6887dbfebcd73");
    check(hmac, KEY, CANCEL, "bcd953a9f772527372bb5ab5e4e6d93c");
}

#[test]
fn too_short_for_a_header_is_a_bad_signature() {
    for algorithm in ALGORITHMS {
        let key = SigningKey::new(algorithm, &[7; 16]);
        for len in 0..HEADER_LEN {
            assert_eq!(key.verify(&mut vec![0; len]), Err(BadSignature));
        }
    }
}

#[test]
fn debug_shows_no_key() {
    let key = SigningKey::new(SigningAlgorithm::AesCmac, &[0xAB; 16]);
    assert_eq!(format!("{key:?}"), "SigningKey { algorithm: AesCmac, .. }");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_signed_message_verifies_and_one_with_a_bit_flipped_does_not(
        key: [u8; 16],
        other_key: [u8; 16],
        mut message in proptest::collection::vec(any::<u8>(), 64..400),
        flip: prop::sample::Index,
    ) {
        prop_assume!(key != other_key);
        for algorithm in ALGORITHMS {
            let signing = SigningKey::new(algorithm, &key);
            signing.sign(&mut message);
            let signed = message.clone();
            prop_assert_eq!(signing.verify(&mut message), Ok(()));
            prop_assert_eq!(&message, &signed, "verifying changes nothing");
            prop_assert_eq!(
                SigningKey::new(algorithm, &other_key).verify(&mut message),
                Err(BadSignature)
            );
            let bit = flip.index(message.len() * 8);
            message[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(signing.verify(&mut message), Err(BadSignature), "bit {}", bit);
            message.copy_from_slice(&signed);
        }
    }
}
