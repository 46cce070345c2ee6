//! Encryption: [MS-SMB2] 3.3.5.2.1.1, 3.3.4.1.4, and servers or shares that require it. The peer
//! checks that every response is encrypted if its request was, and decrypts with the keys that it
//! derived itself.

use crypto::{Cipher, OpenError, TransformKey};
use proto::Disconnect;
use proto::settings::Policy;
use testkit::peer::Offer;
use testkit::request::RELATED;
use testkit::{Create, Login, Peer, Request, Response, World};
use trace::Reason;
use wire::echo::EchoRequest;
use wire::ioctl::{CopyChunk, CopyChunkCopy, FsctlCode, IoctlFlags, IoctlRequest, ResumeKey};
use wire::negotiate_context::CipherId;
use wire::tree_connect::{ShareFlags, TreeConnectResponse};
use wire::{Command, Dialect, FileId};

/// Connects a client of 3.1.1 with each cipher, and one of 3.0.
fn everyone(world: &World) -> Vec<Peer> {
    let mut peers = Vec::new();
    let ciphers = [
        CipherId::AES_128_CCM,
        CipherId::AES_128_GCM,
        CipherId::AES_256_CCM,
        CipherId::AES_256_GCM,
    ];
    for cipher in ciphers {
        let mut peer = world.connect();
        let offer = Offer::dialects(&[Dialect::SMB_3_1_1]);
        peer.negotiate_with(&Offer { ciphers: vec![cipher], ..offer }).ok();
        assert_eq!(peer.negotiated.cipher.map(Cipher::id), Some(cipher.0));
        peers.push(peer);
    }
    let mut peer = world.connect();
    peer.negotiate([Dialect::SMB_3_0]);
    peers.push(peer);
    for peer in &mut peers {
        peer.login_alice();
    }
    peers
}

/// Connects a client that encrypts by its own choice.
fn sealed(world: &World) -> Peer {
    let mut peer = Peer::ready(world, Dialect::SMB_3_1_1);
    peer.seals = true;
    peer
}

fn encrypting(policy: Policy) -> World {
    World::with(|settings| settings.encryption = policy)
}

#[test]
fn every_cipher_seals_in_both_directions() {
    let world = World::new();
    for mut peer in everyone(&world) {
        peer.seals = true;
        peer.tree("data");
        let file = peer.create(&Create::open_if("file")).file_id;
        peer.write(file, 0, b"nobody reads this").ok();
        assert_eq!(peer.read(file, 7, 5), b"reads");
        peer.close(file).ok();
        assert!(peer.logoff().ok().sealed);
    }
    let plain = world.frames().iter().any(|frame| frame.windows(6).any(|it| it == b"nobody"));
    assert!(!plain, "the data never travels in the clear");
}

#[test]
fn a_client_may_seal_without_a_demand_and_stop_again() {
    let world = World::new();
    let mut peer = sealed(&world);
    assert!(peer.echo().ok().sealed);
    peer.seals = false;
    assert!(!peer.echo().ok().sealed);
}

#[test]
fn a_server_that_wants_encryption_gets_it_from_capable_clients() {
    for policy in [Policy::Desired, Policy::Required] {
        let world = encrypting(policy);
        for mut peer in everyone(&world) {
            assert!(peer.seals, "ENCRYPT_DATA is set");
            peer.tree("data");
        }
    }
    let world = encrypting(Policy::Desired);
    let mut old = world.connect();
    old.negotiate([Dialect::SMB_2_1]);
    old.login_alice();
    assert!(!old.seals);
    old.tree("data");
}

#[test]
fn plaintext_to_an_encrypted_session_is_denied() {
    let world = encrypting(Policy::Desired);
    for mut peer in everyone(&world) {
        peer.tree("data");
        peer.seals = false;
        assert_eq!(peer.try_tree("data").outcome(), Reason::NotEncrypted);
        assert_eq!(peer.try_create(&Create::new("file")).outcome(), Reason::NotEncrypted);
        assert_eq!(peer.logoff().outcome(), Reason::NotEncrypted);
        peer.seals = true;
        peer.create(&Create::open_if("file"));
    }
}

#[test]
fn a_share_that_must_be_encrypted_says_so_and_refuses_plaintext() {
    let world = World::new();
    for mut peer in everyone(&world) {
        let response = peer.try_tree("sealed").ok();
        let body: TreeConnectResponse = response.body();
        assert!(body.share_flags.contains(ShareFlags::ENCRYPT_DATA));
        peer.tree_id = response.header.tree_id;
        assert_eq!(peer.try_create(&Create::new("file")).outcome(), Reason::NotEncrypted);
        assert_eq!(peer.tree_disconnect().outcome(), Reason::NotEncrypted);
        peer.seals = true;
        peer.create(&Create::open_if("file"));
        peer.tree_disconnect().ok();
    }
}

#[test]
fn a_share_that_must_be_encrypted_refuses_clients_without_encryption() {
    let world = World::new();
    for dialect in [Dialect::SMB_2_0_2, Dialect::SMB_2_1] {
        let mut peer = world.connect();
        peer.negotiate([dialect]);
        peer.login_alice();
        assert_eq!(peer.try_tree("sealed").outcome(), Reason::NotEncrypted);
    }
    let mut guest = world.connect();
    guest.negotiate([Dialect::SMB_3_1_1]);
    guest.authenticate(&Login::anonymous()).ok();
    assert_eq!(guest.try_tree("sealed").outcome(), Reason::NotEncrypted);
    let mut without = world.connect();
    let offer = Offer::dialects(&[Dialect::SMB_3_1_1]);
    without.negotiate_with(&Offer { ciphers: Vec::new(), ..offer }).ok();
    without.login_alice();
    assert_eq!(without.try_tree("sealed").outcome(), Reason::NotEncrypted);
}

/// Sends a changed frame, and compares the reason for the disconnect.
#[track_caller]
fn check_changed(change: impl Fn(&mut Vec<u8>), want: Disconnect) {
    let world = World::new();
    for mut peer in everyone(&world) {
        let request = peer.request(Command::ECHO, &EchoRequest);
        let (frame, _) = peer.lay_out([request]);
        let mut frame = peer.seal(peer.session_id, &frame);
        change(&mut frame);
        peer.send_frame(&frame);
        assert_eq!(peer.closed(), Some(want), "{:?}", peer.negotiated.cipher);
        assert!(peer.receive().is_empty());
    }
    world.assert_nothing_left();
}

#[test]
fn a_changed_bit_at_any_place_ends_the_connection() {
    let bad = Disconnect::Sealed(OpenError::BadSignature);
    // Signature, nonce, reserved, ciphertext of header and body.
    for at in [4, 19, 20, 30, 40, 52, 115, 119] {
        check_changed(|frame| frame[at] ^= 0x80, bad);
    }
}

#[test]
fn a_transform_header_that_makes_no_sense_ends_the_connection() {
    check_changed(|frame| frame[42] = 2, Disconnect::Sealed(OpenError::Flags(2)));
    for (stated, byte) in [(0x45, 0x45), (0x43, 0x43)] {
        let want = OpenError::OriginalMessageSize { stated, actual: 0x44 };
        check_changed(|frame| frame[36] = byte, Disconnect::Sealed(want));
    }
    let longer = OpenError::OriginalMessageSize { stated: 0x44, actual: 0x45 };
    check_changed(|frame| frame.push(0), Disconnect::Sealed(longer));
}

#[test]
fn a_sealed_frame_that_is_too_short_ends_the_connection() {
    check_changed(|frame| frame.truncate(51), Disconnect::SealedForAnotherSession);
    check_changed(|frame| frame.truncate(52), Disconnect::Sealed(OpenError::TooShort(52)));
    check_changed(|frame| frame.truncate(115), Disconnect::Sealed(OpenError::TooShort(115)));
}

#[test]
fn a_transform_of_an_unknown_session_ends_the_connection() {
    check_changed(|frame| frame[44] ^= 1, Disconnect::SealedForAnotherSession);
}

#[test]
fn a_message_sealed_for_one_session_is_refused_for_another() {
    let world = World::new();
    let mut peer = sealed(&world);
    let alice = peer.session_id;
    peer.seals = false;
    peer.session_id = 0;
    let bob = peer.login(testkit::accounts::BOB.0, testkit::accounts::BOB.1);
    peer.session_id = bob;
    let request = peer.request(Command::ECHO, &EchoRequest).unsigned();
    let (frame, _) = peer.lay_out([request]);
    let frame = peer.seal(alice, &frame);
    peer.send_frame(&frame);
    assert_eq!(peer.closed(), Some(Disconnect::SealedForAnotherSession));
}

#[test]
fn a_session_of_another_connection_opens_nothing() {
    let world = World::new();
    let mut alice = sealed(&world);
    let request = alice.request(Command::ECHO, &EchoRequest);
    let (frame, _) = alice.lay_out([request]);
    let frame = alice.seal(alice.session_id, &frame);
    let mut other = Peer::ready(&world, Dialect::SMB_3_1_1);
    other.send_frame(&frame);
    assert_eq!(other.closed(), Some(Disconnect::SealedForAnotherSession));
    assert!(alice.is_open());
}

#[test]
fn a_session_without_keys_cannot_be_sealed_for() {
    let world = World::new();
    let mut peer = world.connect();
    peer.negotiate([Dialect::SMB_3_1_1]);
    peer.authenticate(&Login::anonymous()).ok();
    let mut frame = vec![0; 200];
    frame[..4].copy_from_slice(b"\xFDSMB");
    frame[44..52].copy_from_slice(&peer.session_id.to_le_bytes());
    assert_eq!(TransformKey::session_id(&frame), Some(peer.session_id));
    peer.send_frame(&frame);
    assert_eq!(peer.closed(), Some(Disconnect::SealedForAnotherSession));
}

#[test]
fn a_frame_that_claims_to_be_compressed_ends_the_connection() {
    let world = World::new();
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    peer.send_frame(b"\xFCSMB and so on");
    assert_eq!(peer.closed(), Some(Disconnect::CompressionNotNegotiated));
}

#[test]
fn a_compound_is_sealed_as_one_and_so_is_its_answer() {
    let world = World::new();
    world.add_file("data", "file", b"data");
    let mut peer = sealed(&world);
    let requests = [
        peer.request(Command::CREATE, &Create::open("file")),
        peer.read_request(RELATED, 0, 3).related(),
        peer.close_request(RELATED).related(),
    ];
    let responses = peer.call_all(requests);
    assert_eq!(responses.len(), 3);
    assert!(responses.iter().all(|it| it.sealed && !it.is_signed()), "sealed is signed enough");
    assert!(responses.iter().all(|it| it.status().is_success()));
}

#[test]
fn an_interim_response_is_sealed_like_its_request() {
    let world = World::new();
    let mut peer = sealed(&world);
    let directory = peer.create(&Create::directory("dir")).file_id;
    let request = peer.watch_request(directory);
    peer.send(request);
    let interim = peer.receive();
    assert!(interim[0].is_interim() && interim[0].sealed);
    let request = peer.close_request(directory);
    peer.send(request);
    let rest: Vec<Response> = peer.receive();
    assert_eq!(rest.len(), 2);
    assert!(rest.iter().all(|it| it.sealed));
}

#[test]
fn reauthentication_of_an_encrypted_session_is_encrypted() {
    let world = encrypting(Policy::Required);
    for mut peer in everyone(&world) {
        let session_id = peer.session_id;
        let (user, password) = testkit::accounts::ALICE;
        let again = Login::user(user, password).again(session_id);
        assert!(peer.authenticate(&again).ok().sealed);
        peer.seals = false;
        peer.session_id = session_id;
        let request = peer.session_setup(&again, b"");
        assert_eq!(peer.call(request).outcome(), Reason::NotEncrypted);
    }
}

/// Copies the first bytes of a file to another one.
fn copy_request(peer: &Peer, source: FileId, target: FileId) -> Request {
    let mut key = [0; 24];
    key[..8].copy_from_slice(&source.persistent.to_le_bytes());
    key[8..16].copy_from_slice(&source.volatile.to_le_bytes());
    let mut input = Vec::new();
    let chunk = CopyChunk { source_offset: 0, target_offset: 0, length: 6 };
    CopyChunkCopy::encode(ResumeKey(key), &[chunk], &mut input);
    let body = IoctlRequest {
        ctl_code: FsctlCode::SRV_COPYCHUNK_WRITE,
        file_id: target,
        input: &input,
        max_input_response: 0,
        output_count: 0,
        max_output_response: 12,
        flags: IoctlFlags::IS_FSCTL,
    };
    peer.request(Command::IOCTL, &body)
}

#[test]
fn a_plain_request_copies_nothing_out_of_an_encrypted_share() {
    let world = World::new();
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    let plain = peer.tree_id;
    let target = peer.create(&Create::open_if("target")).file_id;
    peer.seals = true;
    let encrypted = peer.tree("sealed");
    let source = peer.create(&Create::open_if("source")).file_id;
    peer.write(source, 0, b"secret").ok();
    // Who is between client and server knows the ids of opens: they are counted.
    (peer.seals, peer.signs, peer.tree_id) = (false, false, plain);
    let request = copy_request(&peer, source, target);
    assert_eq!(peer.call(request).outcome(), Reason::NotEncrypted);
    assert_eq!(world.contents("data", "target"), Some(Vec::new()));
    // Within the share, and from another one to it, a client may copy.
    (peer.seals, peer.tree_id) = (true, encrypted);
    let copy = peer.create(&Create::open_if("copy")).file_id;
    for from in [source, target] {
        let request = copy_request(&peer, from, copy);
        let outcome = peer.call(request).outcome();
        assert!(outcome != Reason::NotEncrypted, "{outcome:?}");
    }
}
