//! NEGOTIATE: [MS-SMB2] 3.3.5.3 and 3.3.5.4.

use std::ffi::CStr;
use std::time::Duration;

use crypto::{Cipher, SigningAlgorithm};
use dtyp::NtStatus;
use model::connection::CANCELS_PER_SECOND_MAX;
use proto::Disconnect;
use proto::settings::Policy;
use testkit::peer::Offer;
use testkit::{Login, Outcome, Peer, World};
use trace::Reason;
use wire::cancel::CancelRequest;
use wire::echo::EchoRequest;
use wire::negotiate::{Capabilities, NegotiateResponse, SecurityMode};
use wire::negotiate_context::{
    CipherId, EncryptionCapabilities, HashAlgorithmId, NegotiateContextList, NegotiateContextType,
    PreauthIntegrityCapabilities, SigningAlgorithmId, SigningCapabilities,
};
use wire::{Codes, Command, Dialect};

const ALL: [Dialect; 5] = [
    Dialect::SMB_2_0_2,
    Dialect::SMB_2_1,
    Dialect::SMB_3_0,
    Dialect::SMB_3_0_2,
    Dialect::SMB_3_1_1,
];

fn offer_311() -> Offer {
    Offer::dialects(&[Dialect::SMB_3_1_1])
}

#[test]
fn each_dialect_is_spoken_when_it_is_the_only_one_offered() {
    for dialect in ALL {
        let mut peer = World::new().connect();
        peer.negotiate([dialect]);
        assert_eq!(peer.negotiated.dialect, dialect);
    }
}

#[test]
fn the_greatest_common_dialect_is_chosen_in_any_order() {
    let mut peer = World::new().connect();
    peer.negotiate([Dialect::SMB_3_0, Dialect(0x0666), Dialect::SMB_2_1, Dialect::SMB_2_0_2]);
    assert_eq!(peer.negotiated.dialect, Dialect::SMB_3_0);
}

#[test]
fn dialects_outside_the_configured_range_are_not_spoken() {
    let limited = || {
        World::with(|settings| {
            settings.dialect_min = Dialect::SMB_2_1;
            settings.dialect_max = Dialect::SMB_3_0;
        })
    };
    let mut peer = limited().connect();
    peer.negotiate(ALL);
    assert_eq!(peer.negotiated.dialect, Dialect::SMB_3_0);
    let mut peer = limited().connect();
    let response = peer.negotiate_with(&Offer::dialects(&[Dialect::SMB_2_0_2]));
    assert_eq!(response.outcome(), Reason::NoCommonDialect);
}

#[test]
fn no_common_dialect_is_not_supported_and_no_dialect_at_all_is_invalid() {
    let mut peer = World::new().connect();
    let response = peer.negotiate_with(&Offer::dialects(&[Dialect(0x0666)]));
    assert_eq!(response.outcome(), Reason::NoCommonDialect);
    let response = peer.negotiate_with(&Offer::dialects(&[]));
    assert_eq!(response.outcome(), Reason::NoDialectOffered);
    assert!(peer.is_open());
}

#[test]
fn a_client_that_was_refused_may_try_again_and_only_that_attempt_counts() {
    let world = World::new();
    let mut peer = world.connect();
    let refused = Offer { hashes: Vec::new(), ..offer_311() };
    peer.negotiate_with(&refused).expect(Reason::PreauthMissing);
    // The refused message is not part of the hash on either side.
    peer.forget_preauth();
    peer.negotiate([Dialect::SMB_3_1_1]);
    peer.login_alice();
    peer.tree("data");
}

#[test]
fn sizes_and_capabilities_follow_the_dialect() {
    let with_2_1 = Capabilities::LARGE_MTU | Capabilities::LEASING;
    let with_3_0 = with_2_1 | Capabilities::DIRECTORY_LEASING | Capabilities::MULTI_CHANNEL;
    for (dialect, size, capabilities) in [
        (Dialect::SMB_2_0_2, 0x1_0000, Capabilities::empty()),
        (Dialect::SMB_2_1, 0x10_0000, with_2_1),
        (Dialect::SMB_3_0, 0x10_0000, with_3_0 | Capabilities::ENCRYPTION),
        (Dialect::SMB_3_1_1, 0x10_0000, with_3_0),
    ] {
        let mut peer = World::new().connect();
        let response = peer.negotiate([dialect]);
        let body: NegotiateResponse<'_> = response.body();
        assert_eq!(body.max_read_size, size, "{dialect:?}");
        assert_eq!(body.max_write_size, size, "{dialect:?}");
        assert_eq!(body.max_transact_size, size, "{dialect:?}");
        assert_eq!(body.capabilities, capabilities, "{dialect:?}");
        assert_eq!(body.security_mode, SecurityMode::SIGNING_ENABLED);
        assert_eq!(
            body.security_buffer,
            auth::Acceptor::negotiate_hint(auth::Mechanisms::default())
        );
        assert_eq!(body.system_time, peer.world().now().wall);
    }
}

#[test]
fn a_server_that_insists_on_signatures_says_so() {
    let world = World::with(|settings| settings.signing = Policy::Required);
    let response = world.connect().negotiate([Dialect::SMB_2_1]);
    let both = SecurityMode::SIGNING_ENABLED | SecurityMode::SIGNING_REQUIRED;
    assert_eq!(response.body::<NegotiateResponse<'_>>().security_mode, both);
}

#[test]
fn encryption_of_3_0_is_a_capability_that_both_must_have() {
    let plain =
        Offer { capabilities: Capabilities::empty(), ..Offer::dialects(&[Dialect::SMB_3_0]) };
    let mut peer = World::new().connect();
    peer.negotiate_with(&plain).ok();
    assert_eq!(peer.negotiated.cipher, None);
    let mut peer = World::with(|settings| settings.encryption = Policy::Off).connect();
    peer.negotiate([Dialect::SMB_3_0_2]);
    assert_eq!(peer.negotiated.cipher, None);
    let mut peer = World::new().connect();
    peer.negotiate([Dialect::SMB_3_0_2]);
    assert_eq!(peer.negotiated.cipher, Some(Cipher::Aes128Ccm));
}

#[track_caller]
fn check_cipher(offered: &[CipherId], want: Option<u16>) {
    let mut peer = World::new().connect();
    let response = peer.negotiate_with(&Offer { ciphers: offered.to_vec(), ..offer_311() }).ok();
    let contexts = response.body::<NegotiateResponse<'_>>().negotiate_contexts;
    let answer: Option<EncryptionCapabilities<'_>> = contexts.find().expect("well-formed");
    let chosen = answer.map(|it| it.ciphers.iter().map(|it| it.0).collect::<Vec<_>>());
    assert_eq!(chosen, want.map(|cipher| vec![cipher]));
}

#[test]
fn the_servers_order_chooses_the_cipher() {
    check_cipher(&[CipherId::AES_256_CCM, CipherId::AES_256_GCM], Some(0x0004));
    check_cipher(&[CipherId::AES_128_CCM, CipherId::AES_128_GCM], Some(0x0002));
    check_cipher(&[CipherId(0x7777), CipherId::AES_256_CCM], Some(0x0003));
}

#[test]
fn ciphers_without_a_common_one_are_answered_with_none() {
    check_cipher(&[CipherId(0x7777)], Some(0));
    check_cipher(&[], None);
}

#[track_caller]
fn check_signing(offered: &[SigningAlgorithmId], want: Option<SigningAlgorithm>) {
    let mut peer = World::new().connect();
    peer.negotiate_with(&Offer { signing: offered.to_vec(), ..offer_311() }).ok();
    assert_eq!(peer.negotiated.signing_algorithm, want);
}

#[test]
fn the_servers_order_chooses_the_signing_algorithm() {
    let all = [
        SigningAlgorithmId::HMAC_SHA256,
        SigningAlgorithmId::AES_CMAC,
        SigningAlgorithmId::AES_GMAC,
    ];
    check_signing(&all, Some(SigningAlgorithm::AesGmac));
    check_signing(&all[..2], Some(SigningAlgorithm::AesCmac));
    check_signing(&all[..1], Some(SigningAlgorithm::HmacSha256));
}

/// The attack: who reads three bindings of a session that signs with AES-GMAC can forge messages.
#[test]
fn a_server_that_insists_on_signatures_takes_no_gmac_for_clients_with_channels() {
    let both = vec![SigningAlgorithmId::AES_GMAC, SigningAlgorithmId::AES_CMAC];
    let channels = Capabilities::MULTI_CHANNEL;
    for (policy, capabilities, offered, want) in [
        (Policy::Required, channels, both.clone(), SigningAlgorithm::AesCmac),
        (Policy::Required, channels, both[..1].to_vec(), SigningAlgorithm::AesGmac),
        (Policy::Required, Capabilities::empty(), both.clone(), SigningAlgorithm::AesGmac),
        (Policy::Enabled, channels, both, SigningAlgorithm::AesGmac),
    ] {
        let world = World::with(|settings| settings.signing = policy);
        let mut peer = world.connect();
        peer.negotiate_with(&Offer { capabilities, signing: offered, ..offer_311() }).ok();
        assert_eq!(peer.negotiated.signing_algorithm, Some(want), "{policy:?} {capabilities:?}");
    }
}

#[test]
fn signing_algorithms_without_a_common_one_are_not_answered() {
    check_signing(&[SigningAlgorithmId(0x7777)], None);
    check_signing(&[], None);
}

#[track_caller]
fn check_contexts(build: impl FnOnce(&mut NegotiateContextList), want: impl Into<Outcome>) {
    let want = want.into();
    let mut contexts = NegotiateContextList::new();
    build(&mut contexts);
    let mut peer = World::new().connect();
    let response = peer.negotiate_contexts(&offer_311(), &contexts);
    assert_eq!(response.outcome(), want);
    assert!(peer.is_open());
}

fn preauth(contexts: &mut NegotiateContextList, hashes: &[HashAlgorithmId]) {
    let hash_algorithms = Codes::new(hashes);
    contexts.push(&PreauthIntegrityCapabilities { hash_algorithms, salt: &[1; 32] });
}

#[test]
fn a_3_1_1_client_must_offer_a_common_hash() {
    check_contexts(|_| {}, Reason::PreauthMissing);
    check_contexts(|contexts| preauth(contexts, &[]), Reason::PreauthMissing);
    check_contexts(
        |contexts| preauth(contexts, &[HashAlgorithmId(0x7777)]),
        Reason::PreauthWithoutCommonHash,
    );
    let both = [HashAlgorithmId(0x7777), HashAlgorithmId::SHA_512];
    check_contexts(|contexts| preauth(contexts, &both), NtStatus::SUCCESS);
}

#[test]
fn a_context_that_comes_twice_is_invalid() {
    let sha = [HashAlgorithmId::SHA_512];
    check_contexts(
        |contexts| {
            preauth(contexts, &sha);
            preauth(contexts, &sha);
        },
        Reason::NegotiateContextTwice,
    );
    let ciphers = [CipherId::AES_128_GCM];
    check_contexts(
        |contexts| {
            preauth(contexts, &sha);
            for _ in 0..2 {
                contexts.push(&EncryptionCapabilities { ciphers: Codes::new(&ciphers) });
            }
        },
        Reason::NegotiateContextTwice,
    );
    let algorithms = [SigningAlgorithmId::AES_CMAC];
    check_contexts(
        |contexts| {
            preauth(contexts, &sha);
            for _ in 0..2 {
                let signing_algorithms = Codes::new(&algorithms);
                contexts.push(&SigningCapabilities { signing_algorithms });
            }
        },
        Reason::NegotiateContextTwice,
    );
}

#[test]
fn a_context_that_is_empty_is_invalid() {
    let sha = [HashAlgorithmId::SHA_512];
    check_contexts(
        |contexts| {
            preauth(contexts, &sha);
            contexts.push(&EncryptionCapabilities::default());
        },
        Reason::NoCipherOffered,
    );
    check_contexts(
        |contexts| {
            preauth(contexts, &sha);
            contexts.push(&SigningCapabilities::default());
        },
        Reason::NoSigningAlgorithmOffered,
    );
}

#[test]
fn a_context_that_nobody_knows_is_ignored_even_twice() {
    check_contexts(
        |contexts| {
            contexts.push_raw(NegotiateContextType(0x7777), b"who knows");
            preauth(contexts, &[HashAlgorithmId::SHA_512]);
            contexts.push_raw(NegotiateContextType(0x7777), b"");
        },
        NtStatus::SUCCESS,
    );
}

#[test]
fn every_answer_of_3_1_1_has_a_salt_of_its_own() {
    let salt = |peer: &mut Peer| {
        let response = peer.negotiate([Dialect::SMB_3_1_1]);
        let contexts = response.body::<NegotiateResponse<'_>>().negotiate_contexts;
        let preauth: PreauthIntegrityCapabilities<'_> =
            contexts.find().expect("well-formed").expect("3.1.1 has it");
        assert!(preauth.hash_algorithms.iter().eq([HashAlgorithmId::SHA_512]));
        assert_eq!(preauth.salt.len(), 32);
        preauth.salt.to_vec()
    };
    let world = World::new();
    assert_ne!(salt(&mut world.connect()), salt(&mut world.connect()));
}

#[test]
fn a_second_negotiate_ends_the_connection() {
    let mut peer = World::new().connect();
    peer.negotiate([Dialect::SMB_3_1_1]);
    let again = peer.negotiate_request(&offer_311(), &offer_311().contexts());
    peer.send(again);
    assert!(peer.receive().is_empty());
    assert_eq!(peer.closed(), Some(Disconnect::NegotiatedTwice));
}

#[test]
fn a_cancel_before_any_session_ends_the_connection() {
    let world = World::new();
    for has_begun in [false, true] {
        let mut peer = world.connect();
        peer.negotiate([Dialect::SMB_3_1_1]);
        if has_begun {
            // A logon that has begun is no session yet.
            let login = Login::user("alice", "wrong");
            let (_, token) = peer.begin(&login);
            peer.send(peer.session_setup(&login, &token));
            peer.receive();
        }
        peer.send(peer.request(Command::CANCEL, &CancelRequest).unsigned());
        assert_eq!(peer.closed(), Some(Disconnect::CancelWithoutSession), "{has_begun}");
    }
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    peer.send(peer.request(Command::CANCEL, &CancelRequest));
    peer.echo().ok();
    assert_eq!(peer.closed(), None);
}

#[test]
fn cancels_without_end_end_the_connection() {
    let world = World::new();
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    for second in 0..2 {
        for _ in 0..CANCELS_PER_SECOND_MAX {
            peer.send(peer.request(Command::CANCEL, &CancelRequest));
        }
        peer.echo().ok();
        assert_eq!(peer.closed(), None, "a client may cancel each request in flight: {second}");
        world.advance(Duration::from_secs(1));
    }
    for _ in 0..=CANCELS_PER_SECOND_MAX {
        peer.send(peer.request(Command::CANCEL, &CancelRequest));
    }
    assert_eq!(peer.closed(), Some(Disconnect::TooManyCancels));
}

#[test]
fn two_negotiates_in_one_frame_end_the_connection() {
    let mut peer = World::new().connect();
    // A refused NEGOTIATE has granted the credits for more.
    peer.negotiate_with(&Offer::dialects(&[Dialect(0x0666)])).expect(Reason::NoCommonDialect);
    let offer = Offer::dialects(&[Dialect::SMB_2_1]);
    let request = peer.negotiate_request(&offer, &offer.contexts());
    peer.send_all([request.clone(), request]);
    assert_eq!(peer.closed(), Some(Disconnect::NegotiatedTwice));
}

#[test]
fn anything_else_before_negotiate_ends_the_connection() {
    for command in [Command::ECHO, Command::SESSION_SETUP, Command::CANCEL, Command::CREATE] {
        let mut peer = World::new().connect();
        let request = peer.request(command, &EchoRequest).message_id(0);
        peer.send(request);
        assert_eq!(peer.closed(), Some(Disconnect::NotNegotiated), "{command:?}");
    }
}

const NT_LM: &CStr = c"NT LM 0.12";
const SMB_2_002: &CStr = c"SMB 2.002";
const SMB_2_WILDCARD: &CStr = c"SMB 2.???";

#[test]
fn an_smb1_client_that_can_do_more_than_2_0_2_is_asked_to_negotiate_again() {
    let world = World::new();
    let mut peer = world.connect();
    let responses = peer.negotiate_smb1(&[NT_LM, SMB_2_002, SMB_2_WILDCARD]);
    assert_eq!(responses.len(), 1);
    let body: NegotiateResponse<'_> = responses[0].body();
    assert_eq!(body.dialect_revision, Dialect::SMB_2_WILDCARD);
    assert_eq!((responses[0].header.message_id, peer.next_message_id()), (0, 1));
    // The hash begins with the successful NEGOTIATE.
    peer.negotiate([Dialect::SMB_3_1_1]);
    peer.login_alice();
    peer.tree("data");
}

#[test]
fn an_smb1_client_that_can_do_2_0_2_only_gets_that() {
    let world = World::new();
    let mut peer = world.connect();
    assert_eq!(peer.negotiate_smb1(&[NT_LM, SMB_2_002]).len(), 1);
    assert_eq!(peer.negotiated.dialect, Dialect::SMB_2_0_2);
    assert_eq!(peer.negotiated.max_read_size, 0x1_0000);
    peer.login_alice();
    peer.tree("data");
}

#[test]
fn an_smb1_client_without_smb2_is_disconnected() {
    let mut peer = World::new().connect();
    assert!(peer.negotiate_smb1(&[NT_LM]).is_empty());
    assert_eq!(peer.closed(), Some(Disconnect::Smb1Only));
    let mut peer = World::with(|settings| settings.dialect_min = Dialect::SMB_3_0).connect();
    assert!(peer.negotiate_smb1(&[NT_LM, SMB_2_002]).is_empty());
    assert_eq!(peer.closed(), Some(Disconnect::Smb1Only));
}

#[test]
fn smb1_is_for_the_beginning() {
    for first in [&[SMB_2_002][..], &[SMB_2_WILDCARD]] {
        let mut peer = World::new().connect();
        peer.negotiate_smb1(first);
        peer.negotiate_smb1(&[SMB_2_WILDCARD]);
        assert_eq!(peer.closed(), Some(Disconnect::NegotiatedTwice));
    }
    let mut peer = World::new().connect();
    peer.negotiate([Dialect::SMB_2_1]);
    peer.negotiate_smb1(&[SMB_2_WILDCARD]);
    assert_eq!(peer.closed(), Some(Disconnect::NegotiatedTwice));
}

#[test]
fn only_negotiate_follows_the_wildcard() {
    let mut peer = World::new().connect();
    peer.negotiate_smb1(&[SMB_2_WILDCARD]);
    let request = peer.request(Command::ECHO, &EchoRequest);
    peer.send(request);
    assert_eq!(peer.closed(), Some(Disconnect::NotNegotiated));
}
