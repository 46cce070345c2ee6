//! Signatures: [MS-SMB2] 3.3.5.2.4 and 3.3.4.1.1. The peer checks every signature that comes, that
//! a signed request has a signed response, and that an interim response has none.

use dtyp::NtStatus;
use proto::Disconnect;
use proto::settings::Policy;
use testkit::peer::Offer;
use testkit::request::RELATED;
use testkit::{Create, Login, Peer, World};
use trace::Reason;
use wire::close::CloseRequest;
use wire::echo::EchoRequest;
use wire::negotiate::SecurityMode;
use wire::negotiate_context::SigningAlgorithmId;
use wire::{Command, Dialect, HeaderFlags};

/// Connects a client of each dialect, and one of each algorithm of 3.1.1.
fn everyone(world: &World) -> Vec<Peer> {
    let mut peers = Vec::new();
    let before_3_1_1 = [Dialect::SMB_2_0_2, Dialect::SMB_2_1, Dialect::SMB_3_0, Dialect::SMB_3_0_2];
    for dialect in before_3_1_1 {
        peers.push(Peer::ready(world, dialect));
    }
    let algorithms = [
        SigningAlgorithmId::HMAC_SHA256,
        SigningAlgorithmId::AES_CMAC,
        SigningAlgorithmId::AES_GMAC,
    ];
    for algorithm in algorithms {
        let mut peer = world.connect();
        let offer = Offer::dialects(&[Dialect::SMB_3_1_1]);
        peer.negotiate_with(&Offer { signing: vec![algorithm], ..offer }).ok();
        peer.login_alice();
        peer.tree("data");
        peers.push(peer);
    }
    peers
}

fn insisting() -> World {
    World::with(|settings| settings.signing = Policy::Required)
}

#[test]
fn every_algorithm_signs_in_both_directions() {
    let world = insisting();
    for mut peer in everyone(&world) {
        let file = peer.create(&Create::open_if("file")).file_id;
        assert!(peer.write(file, 0, b"signed").ok().is_signed());
        assert_eq!(peer.read(file, 0, 100), b"signed");
        peer.close(file).ok();
    }
}

#[test]
fn a_changed_bit_at_any_place_is_denied() {
    let world = World::new();
    for mut peer in everyone(&world) {
        // CreditResponse, TreeId, the signature's ends, the body.
        for at in [14, 36, 48, 63, 64, 66] {
            let request = peer.request(Command::ECHO, &EchoRequest).tampered(at);
            let response = peer.call(request);
            assert_eq!(
                response.outcome(),
                Reason::BadSignature,
                "{:?} {at}",
                peer.negotiated.dialect
            );
            assert!(response.is_signed());
        }
        peer.echo().ok();
    }
}

#[test]
fn a_denied_request_does_nothing() {
    let world = World::new();
    for mut peer in everyone(&world) {
        let request = peer.request(Command::CREATE, &Create::new("forged")).tampered(70);
        assert_eq!(peer.call(request).outcome(), Reason::BadSignature);
        assert!(!world.exists("data", "forged"));
    }
}

#[test]
fn an_unsigned_request_is_denied_if_signatures_are_required() {
    for mut peer in everyone(&insisting()) {
        let request = peer.request(Command::CREATE, &Create::new("file")).unsigned();
        let response = peer.call(request);
        assert_eq!(response.outcome(), Reason::NotSigned, "{:?}", peer.negotiated.dialect);
        assert!(response.is_signed(), "the refusal is");
        assert!(!peer.world().exists("data", "file"));
    }
}

#[test]
fn an_unsigned_request_is_served_unsigned_if_they_are_not() {
    let world = World::new();
    for mut peer in everyone(&world) {
        let request = peer.request(Command::CREATE, &Create::open_if("file")).unsigned();
        assert!(!peer.call(request).ok().is_signed());
        assert!(peer.echo().ok().is_signed(), "what is signed is answered so");
    }
}

#[test]
fn the_client_may_require_signatures() {
    let world = World::new();
    let mut in_negotiate = world.connect();
    let mut offer = Offer::dialects(&[Dialect::SMB_2_1]);
    offer.security_mode |= SecurityMode::SIGNING_REQUIRED;
    in_negotiate.negotiate_with(&offer).ok();
    in_negotiate.login_alice();
    let mut in_session_setup = world.connect();
    in_session_setup.negotiate([Dialect::SMB_2_1]);
    let (user, password) = testkit::accounts::ALICE;
    in_session_setup.authenticate(&Login::user(user, password).signing_required()).ok();
    for peer in [&mut in_negotiate, &mut in_session_setup] {
        let request = peer.tree_request("data").unsigned();
        assert_eq!(peer.call(request).outcome(), Reason::NotSigned);
    }
}

#[test]
fn a_signature_of_another_session_is_wrong() {
    let world = World::new();
    let mut peer = Peer::ready(&world, Dialect::SMB_3_0);
    let alice = peer.session_id;
    peer.session_id = 0;
    let bob = peer.login(testkit::accounts::BOB.0, testkit::accounts::BOB.1);
    peer.session_id = alice;
    let request = peer.request(Command::ECHO, &EchoRequest);
    let (mut frame, _) = peer.lay_out([request]);
    // The session id is signed, and selects the key.
    frame[40..48].copy_from_slice(&bob.to_le_bytes());
    peer.send_frame(&frame);
    let responses = peer.receive();
    assert_eq!(responses[0].outcome(), Reason::BadSignature);
}

#[test]
fn a_signature_without_a_session_is_no_session() {
    let world = World::new();
    let mut peer = Peer::ready(&world, Dialect::SMB_3_0);
    let request = peer
        .request(Command::ECHO, &EchoRequest)
        .unsigned()
        .session(0x1234)
        .flags(HeaderFlags::SIGNED);
    assert_eq!(peer.call(request).outcome(), Reason::NoSuchSession);
}

#[test]
fn a_tree_connect_of_3_1_1_that_proves_nothing_ends_the_connection() {
    let world = World::new();
    let mut peer = world.connect();
    peer.negotiate([Dialect::SMB_3_1_1]);
    peer.login_alice();
    let request = peer.tree_request("data").unsigned();
    peer.send(request);
    assert_eq!(peer.closed(), Some(Disconnect::TreeConnectNotSigned));
    world.assert_nothing_left();
}

#[test]
fn a_tree_connect_before_3_1_1_need_not_be_signed() {
    for dialect in [Dialect::SMB_2_0_2, Dialect::SMB_3_0_2] {
        let world = World::new();
        let mut peer = world.connect();
        peer.negotiate([dialect]);
        peer.login_alice();
        let request = peer.tree_request("data").unsigned();
        peer.call(request).ok();
    }
}

#[test]
fn each_message_of_a_compound_is_signed_and_verified_with_its_padding() {
    let world = insisting();
    world.add_file("data", "file", b"data");
    for mut peer in everyone(&world) {
        let requests = [
            peer.request(Command::CREATE, &Create::open("file")),
            peer.read_request(RELATED, 0, 3).related(),
            peer.request(
                Command::CLOSE,
                &CloseRequest { file_id: RELATED, ..CloseRequest::default() },
            )
            .related(),
        ];
        let responses = peer.call_all(requests);
        assert_eq!(responses.len(), 3);
        for response in responses {
            assert!(response.ok().is_signed());
        }
    }
}

#[test]
fn one_forged_message_of_a_compound_is_denied_and_takes_its_dependants_along() {
    let world = insisting();
    world.add_file("data", "file", b"data");
    for mut peer in everyone(&world) {
        let requests = [
            peer.request(Command::ECHO, &EchoRequest),
            peer.request(Command::CREATE, &Create::open("file")).tampered(80),
            peer.read_request(RELATED, 0, 3).related(),
            peer.request(Command::ECHO, &EchoRequest),
        ];
        let responses = peer.call_all(requests);
        let statuses: Vec<NtStatus> = responses.iter().map(testkit::Response::status).collect();
        let (ok, denied) = (NtStatus::SUCCESS, NtStatus::ACCESS_DENIED);
        assert_eq!(statuses, [ok, denied, denied, ok], "{:?}", peer.negotiated.dialect);
        assert_eq!(world.store().open_count(), 0);
    }
}

/// The nonce of AES-GMAC is the message id and the direction: only one message may be signed under
/// one id.
#[test]
fn an_interim_response_is_not_signed_and_the_final_one_is() {
    let world = insisting();
    for mut peer in everyone(&world) {
        let directory = peer.create(&Create::directory("dir")).file_id;
        let request = peer.watch_request(directory);
        let id = peer.send(request);
        let interim = peer.receive();
        assert_eq!(interim.len(), 1);
        assert!(interim[0].is_interim() && !interim[0].is_signed());
        let cancel = peer.request(Command::CANCEL, &EchoRequest).message_id(id);
        peer.send(cancel);
        let last = peer.receive();
        assert_eq!(last.len(), 1);
        assert_eq!(last[0].outcome(), Reason::Cancelled);
        assert!(last[0].is_signed());
        peer.close(directory).ok();
    }
}

/// [MS-SMB2] 3.2.4.24, 3.3.5.2.4: an attacker who can only write into the connection cancels no
/// request.
#[test]
fn a_cancel_that_is_not_signed_as_the_session_demands_ends_nothing() {
    let world = insisting();
    for mut peer in everyone(&world) {
        let directory = peer.create(&Create::directory("dir")).file_id;
        let request = peer.watch_request(directory);
        let id = peer.send(request);
        assert!(peer.receive()[0].is_interim());
        let session_id = peer.session_id;
        let cancel = |peer: &Peer| peer.request(Command::CANCEL, &EchoRequest).message_id(id);
        let unsigned = cancel(&peer).unsigned();
        peer.send(unsigned);
        for at in [48, 64] {
            let changed = cancel(&peer).tampered(at);
            peer.send(changed);
        }
        // These requests belong to no session that could demand a signature.
        for other in [0, 0x1234] {
            peer.session_id = other;
            let foreign = cancel(&peer).unsigned();
            peer.session_id = session_id;
            peer.send(foreign);
        }
        assert_eq!(peer.receive().len(), 0, "{:?}", peer.negotiated.dialect);
        let signed = cancel(&peer);
        peer.send(signed);
        assert_eq!(peer.receive()[0].outcome(), Reason::Cancelled);
        peer.close(directory).ok();
    }
}

#[test]
fn guests_are_served_although_nothing_of_theirs_can_be_signed() {
    let world = World::new();
    let mut peer = world.connect();
    peer.negotiate([Dialect::SMB_3_1_1]);
    peer.authenticate(&Login::anonymous()).ok();
    peer.tree("data");
    peer.create(&Create::open_if("file"));
}
