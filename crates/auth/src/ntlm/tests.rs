//! The examples of [MS-NLMP] 4.2.4.

use super::acceptor::{Authenticated, Established, NtlmAcceptor};
use super::response::{
    client_challenge, hmac_md5, nt_proof, ntowf_v2, session_base_key, uppercase,
};
use super::security::rc4;
use crate::acceptor::{Identity, IdentityKind};
use crate::error::AuthError;
use crate::hex;
use crate::nt_hash::NtHash;

const CHALLENGE: [u8; 8] = [0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF];
const CLIENT_CHALLENGE: [u8; 8] = [0xAA; 8];
const FLAGS: u32 = 0xE28A_8233;
const TARGET_INFO: &str =
    "02000c0044006f006d00610069006e0001000c0053006500720076006500720000000000";
const AUTHENTICATE: &str = "4e544c4d53535000030000001800180
    06c00000054005400840000000c000c00480000000800080054000000100010005c00000010001000
    d8000000358288e20501280a0000000f44006f006d00610069006e00550073006500720043004f00
    4d005000550054004500520086c35097ac9cec102554764a57cccc19aaaaaaaaaaaaaaaa68cd0ab8
    51e51c96aabc927bebef6a1c01010000000000000000000000000000aaaaaaaaaaaaaaaa00000000
    02000c0044006f006d00610069006e0001000c0053006500720076006500720000000000000000
    00c5dad2544fc9799094ce1ce90bc9d03e";

fn resume(acceptor: &mut NtlmAcceptor, hash: NtHash) -> Result<Established, AuthError> {
    let (_, key) = acceptor.response()?.verify(&[Some(hash)])?;
    acceptor.resume_with_key(key.as_bytes())
}

#[test]
fn published_ntlm_v2_response() {
    let key = ntowf_v2(&NtHash::of_password("Password"), "User", "Domain");
    assert_eq!(*key, hex::array("0c868a403bfd7a93a3001ef22ef02e3f"), "NTOWFv2");
    let temp = client_challenge(0, CLIENT_CHALLENGE, &hex::bytes(TARGET_INFO));
    let proof = nt_proof(&key, CHALLENGE, &temp);
    assert_eq!(*proof, hex::array("68cd0ab851e51c96aabc927bebef6a1c"), "NTProofStr");
    let base = session_base_key(&key, &proof);
    assert_eq!(*base, hex::array("8de40ccadbc14a82f15cb0ad0de95ca3"), "SessionBaseKey");
    let lm = hmac_md5(&key[..], &[&CHALLENGE, &CLIENT_CHALLENGE]);
    assert_eq!(*lm, hex::array("86c35097ac9cec102554764a57cccc19"), "LMv2");
    let mut random_session_key = [0x55; 16];
    rc4(&base, &mut random_session_key);
    assert_eq!(random_session_key, hex::array("c5dad2544fc9799094ce1ce90bc9d03e"));
}

#[track_caller]
fn authenticate(message: &[u8]) -> (NtlmAcceptor, Result<Authenticated, AuthError>) {
    let mut acceptor = NtlmAcceptor::after(CHALLENGE, FLAGS, Vec::new());
    let authenticated = acceptor.authenticate(message);
    (acceptor, authenticated)
}

#[test]
fn published_authenticate_message_is_accepted() {
    let (mut acceptor, authenticated) = authenticate(&hex::bytes(AUTHENTICATE));
    let want = Identity {
        user: "User".into(),
        domain: "Domain".into(),
        workstation: "COMPUTER".into(),
        kind: IdentityKind::User,
    };
    let authenticated = authenticated.expect("parses");
    assert!(matches!(authenticated, Authenticated::Account(identity) if identity == want));
    let hash = NtHash::of_password("Password");
    let established = resume(&mut acceptor, hash.clone()).expect("the right password");
    assert_eq!(established.identity, want);
    assert_eq!(established.security.key.as_bytes(), &[0x55; 16]);
}

/// The proof covers each bit of the response.
#[test]
fn response_with_a_bit_flipped_is_a_wrong_password() {
    let message = hex::bytes(AUTHENTICATE);
    let hash = NtHash::of_password("Password");
    for at in 132..216 {
        let mut message = message.clone();
        message[at] ^= 0x10;
        let (mut acceptor, authenticated) = authenticate(&message);
        match authenticated {
            Ok(_) => {
                let error = resume(&mut acceptor, hash.clone()).expect_err("refused");
                assert_eq!(error, AuthError::WrongPassword, "byte {at}");
            }
            Err(error) => assert!(matches!(error, AuthError::Malformed(_)), "byte {at}: {error}"),
        }
    }
}

#[test]
fn older_responses_have_their_reasons() {
    let message = hex::bytes(AUTHENTICATE);
    let with_response_len = |len: u8| {
        let mut message = message.clone();
        (message[20], message[22]) = (len, len);
        authenticate(&message).1.expect_err("refused")
    };
    assert_eq!(with_response_len(0), AuthError::LmResponse);
    assert_eq!(with_response_len(24), AuthError::NtlmV1);
    for len in [1, 16, 23, 25, 43] {
        assert!(matches!(with_response_len(len), AuthError::Malformed(_)), "{len}");
    }
}

#[test]
fn fields_outside_the_message_are_refused() {
    let message = hex::bytes(AUTHENTICATE);
    for field in [12, 20, 28, 36, 44, 52] {
        for offset in [0xE8_u32, 0xFFFF_FFF0, u32::MAX] {
            let mut message = message.clone();
            message[field + 4..field + 8].copy_from_slice(&offset.to_le_bytes());
            let error = authenticate(&message).1.expect_err("refused");
            assert_eq!(
                error,
                AuthError::Malformed("an NTLM field points outside its message"),
                "{field}"
            );
        }
    }
}

#[test]
fn names_that_are_no_names_are_refused() {
    let message = hex::bytes(AUTHENTICATE);
    let mut lone_surrogate = message.clone();
    lone_surrogate[0x55] = 0xD8;
    let error = authenticate(&lone_surrogate).1.expect_err("refused");
    assert_eq!(error, AuthError::Malformed("a name is not UTF-16"));
    let mut odd = message.clone();
    odd[36] = 7;
    let error = authenticate(&odd).1.expect_err("refused");
    assert_eq!(error, AuthError::Malformed("a name is not UTF-16"));
    let mut oem = message;
    oem[60] &= !1;
    assert_eq!(authenticate(&oem).1.expect_err("refused"), AuthError::NotUnicode);
}

/// An exchanged key must be sent.
#[test]
fn missing_session_key_is_refused() {
    let mut message = hex::bytes(AUTHENTICATE);
    message[52] = 0;
    let (mut acceptor, authenticated) = authenticate(&message);
    authenticated.expect("parses");
    let error = resume(&mut acceptor, NtHash::of_password("Password")).expect_err("refused");
    assert_eq!(error, AuthError::Malformed("EncryptedRandomSessionKey"));
}

#[test]
fn upper_case_is_made_character_by_character() {
    assert_eq!(uppercase("Jürgen straße ǆ"), "JÜRGEN STRAßE Ǆ");
}
