//! Keys published by Microsoft, under the names of the client's side.

use super::{KeyMaterial, Role, SessionKeys};
use crate::algorithm::{Cipher, SigningAlgorithm};
use crate::hex;
use crate::preauth::PreauthHash;

struct Want {
    signing: &'static str,
    client_to_server: &'static str,
    server_to_client: &'static str,
    application: &'static str,
}

#[track_caller]
fn check(
    dialect: u16,
    cipher: Cipher,
    session_key: &str,
    preauth_hash: Option<PreauthHash>,
    want: &Want,
) {
    let session_key = hex::array(session_key);
    let keys = SessionKeys::derive(KeyMaterial {
        dialect,
        session_key: &session_key,
        full_session_key: &session_key,
        preauth_hash: preauth_hash.as_ref(),
        cipher: Some(cipher),
        signing_algorithm: None,
    });
    assert_eq!(*keys.signing, hex::array(want.signing), "signing");
    let ciphers = keys.ciphers.as_ref().expect("encrypts");
    assert_eq!(*ciphers.client_to_server, hex::bytes(want.client_to_server), "client to server");
    assert_eq!(*ciphers.server_to_client, hex::bytes(want.server_to_client), "server to client");
    assert_eq!(*keys.application_key(), hex::array(want.application), "application");
}

const PREAUTH_HASH: &str =
    "0DD13628CC3ED218EF9DF9772D436D0887AB9814BFAE63A80AA845F36909DB7928622DDDAD522D97
     51640A459762C5A9D6BB084CBB3CE6BDADEF5D5BCE3C6C01";

/// "SMB 2 and SMB 3 security in Windows 10: the anatomy of signing and cryptographic keys".
#[test]
fn published_keys_of_3_0() {
    for dialect in [0x0300, 0x0302] {
        check(
            dialect,
            Cipher::Aes128Ccm,
            "7CD451825D0450D235424E44BA6E78CC",
            None,
            &Want {
                signing: "0B7E9C5CAC36C0F6EA9AB275298CEDCE",
                client_to_server: "FAD27796665B313EBB578F388632B4F7",
                server_to_client: "B0F0427F7CEB416D1D9DCC0CD4F99447",
                application: "BB23A4575AA26C721AF525AF15A87B4F",
            },
        );
    }
}

#[test]
fn published_keys_of_3_1_1() {
    check(
        0x0311,
        Cipher::Aes128Gcm,
        "270E1BA896585EEB7AF3472D3B4C75A7",
        Some(PreauthHash(hex::array(PREAUTH_HASH))),
        &Want {
            signing: "73FE7A9A77BEF0BDE49C650D8CCB5F76",
            client_to_server: "629BCBC54422A0F572B97F45989B6073",
            server_to_client: "E2AF0DCEFAC68DA71A0DFBD0D1350D74",
            application: "6D7AD7954E9EC61E907B4D473DC178FF",
        },
    );
}

#[test]
fn published_signing_keys_of_second_channels() {
    let derive = |dialect, session_key: &str, hash: Option<&PreauthHash>| {
        let session_key = hex::array(session_key);
        *SessionKeys::derive(KeyMaterial {
            dialect,
            session_key: &session_key,
            full_session_key: &session_key,
            preauth_hash: hash,
            cipher: None,
            signing_algorithm: None,
        })
        .signing
    };
    let of_3_0 = derive(0x0300, "4E01A2B313BCF660CC250BEF021AEDE6", None);
    assert_eq!(of_3_0, hex::array("BA1A17DBBFEC349BCA105563D598952F"));
    let hash = PreauthHash(hex::array(
        "EA3BF912B11CBFEC5B1889E8209614218687F82FA5294521AD3063425E49E88A10BD022124CE2512
         3BC9111F52D9566BA88BF46344E6063DC5E3FF0389026F6C",
    ));
    let of_3_1_1 = derive(0x0311, "84B9DBB730116A8FA6E9889555C265F9", Some(&hash));
    assert_eq!(of_3_1_1, hex::array("C962BCA1A9DD1697B030644199705431"));
}

/// Computed with OpenSSL from another language.
#[test]
fn ciphers_of_256_bits_take_the_full_session_key() {
    let full: [u8; 32] = std::array::from_fn(|i| u8::try_from(i).expect("below 32"));
    let hash = PreauthHash(std::array::from_fn(|i| u8::try_from(i).expect("below 64")));
    let keys = SessionKeys::derive(KeyMaterial {
        dialect: 0x0311,
        session_key: full[..16].try_into().expect("16 bytes"),
        full_session_key: &full,
        preauth_hash: Some(&hash),
        cipher: Some(Cipher::Aes256Gcm),
        signing_algorithm: Some(SigningAlgorithm::AesGmac),
    });
    let ciphers = keys.ciphers.as_ref().expect("encrypts");
    let client_to_server = "e568de865ae188f20138931c5423898fc0d5e94fa094b72d474fc56cf5703db6";
    let server_to_client = "53f8b2fb513a90f5231f5ac12ba0a24b9eed8f6e80596136560f1b0003e8d2ae";
    assert_eq!(*ciphers.client_to_server, hex::bytes(client_to_server));
    assert_eq!(*ciphers.server_to_client, hex::bytes(server_to_client));
    assert_eq!(keys.signing_key().algorithm(), SigningAlgorithm::AesGmac);
}

#[test]
fn dialects_2_x_sign_with_the_session_key() {
    for dialect in [0x0202, 0x0210] {
        let keys = SessionKeys::derive(KeyMaterial {
            dialect,
            session_key: &[5; 16],
            full_session_key: &[5; 16],
            preauth_hash: None,
            cipher: Some(Cipher::Aes128Ccm),
            signing_algorithm: Some(SigningAlgorithm::AesGmac),
        });
        assert_eq!(*keys.signing, [5; 16]);
        assert_eq!(*keys.application_key(), [5; 16]);
        assert_eq!(keys.signing_key().algorithm(), SigningAlgorithm::HmacSha256);
        assert!(keys.encryption_key(Role::Server).is_none());
        assert!(keys.decryption_key(Role::Server).is_none());
    }
}

#[test]
fn each_side_opens_messages_sealed_by_the_other() {
    let keys = SessionKeys::derive(KeyMaterial {
        dialect: 0x0311,
        session_key: &[1; 16],
        full_session_key: &[1; 16],
        preauth_hash: Some(&PreauthHash::ZERO),
        cipher: Some(Cipher::Aes128Gcm),
        signing_algorithm: None,
    });
    for (from, to) in [(Role::Client, Role::Server), (Role::Server, Role::Client)] {
        let mut frame = vec![0x42; 200];
        let sealing = keys.encryption_key(from).expect("encrypts");
        sealing.seal(crate::Nonce([0; 12]), 1, &mut frame);
        let mut reflected = frame.clone();
        let opening = keys.decryption_key(to).expect("encrypts");
        assert_eq!(opening.open(&mut frame), Ok(&mut [0x42; 148][..]));
        let own = keys.decryption_key(from).expect("encrypts");
        assert!(own.open(&mut reflected).is_err(), "one's own messages do not open");
    }
}

#[test]
fn debug_shows_no_key() {
    let material = KeyMaterial {
        dialect: 0x0300,
        session_key: &[0xAB; 16],
        full_session_key: &[0xAB; 16],
        preauth_hash: None,
        cipher: Some(Cipher::Aes128Ccm),
        signing_algorithm: None,
    };
    let text = format!("{material:?} {:?}", SessionKeys::derive(material));
    assert!(!text.contains("171") && !text.to_lowercase().contains("ab, "), "{text}");
}
