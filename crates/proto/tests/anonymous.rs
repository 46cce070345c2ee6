//! Keys of anonymous sessions: [MS-SMB2] 3.3.5.5.3 with [MS-NLMP] 3.3.2. Everybody can derive them,
//! so they protect nothing; each test does with them what an attacker would.

use proto::Disconnect;
use proto::settings::Policy;
use testkit::accounts::ALICE;
use testkit::{Login, Peer, World};
use trace::Reason;
use wire::Dialect;
use wire::session_setup::{SessionFlags, SessionSetupFlags, SessionSetupResponse};

fn negotiated(world: &World) -> Peer {
    let mut peer = world.connect();
    peer.negotiate([Dialect::SMB_3_1_1]);
    peer
}

/// An anonymous client that signs.
fn anonymous(world: &World) -> Peer {
    let mut peer = negotiated(world);
    let response = peer.authenticate(&Login::anonymous_with_keys()).ok();
    let flags = response.body::<SessionSetupResponse<'_>>().session_flags;
    assert_eq!(flags, SessionFlags::IS_NULL);
    peer
}

fn alice() -> Login {
    Login::user(ALICE.0, ALICE.1)
}

#[test]
fn a_signed_request_is_verified_and_its_response_is_signed() {
    let world = World::new();
    let mut peer = anonymous(&world);
    peer.tree("data");
    assert!(peer.echo().is_signed());
    let request = peer.tree_request("data").tampered(70);
    assert_eq!(peer.call(request).outcome(), Reason::BadSignature);
}

#[test]
fn signing_is_required_of_no_anonymous_client() {
    let world = World::with(|settings| settings.signing = Policy::Required);
    let mut peer = anonymous(&world);
    peer.signs = false;
    peer.tree("data");
    assert!(!peer.echo().is_signed());
}

#[test]
fn sealed_messages_need_a_user_on_the_connection() {
    let world = World::new();
    let mut peer = anonymous(&world);
    peer.seals = true;
    let request = peer.tree_request("data");
    peer.send(request);
    assert_eq!(peer.closed(), Some(Disconnect::SealedForAnotherSession));

    let mut peer = negotiated(&world);
    peer.authenticate(&alice()).ok();
    peer.authenticate(&Login::anonymous_with_keys()).ok();
    peer.seals = true;
    peer.tree("data");
    assert!(peer.echo().sealed);
}

#[test]
fn a_share_that_must_be_encrypted_stays_closed_to_clients_that_seal() {
    let world = World::new();
    let mut peer = negotiated(&world);
    peer.authenticate(&alice()).ok();
    peer.authenticate(&Login::anonymous_with_keys()).ok();
    peer.seals = true;
    assert_eq!(peer.try_tree("sealed").outcome(), Reason::NotEncrypted);
}

#[test]
fn a_server_that_must_be_encrypted_refuses_the_logon() {
    let world = World::with(|settings| settings.encryption = Policy::Required);
    let mut peer = negotiated(&world);
    let response = peer.authenticate(&Login::anonymous_with_keys());
    assert_eq!(response.outcome(), Reason::NotEncrypted);
}

#[test]
fn the_key_binds_no_connection() {
    let world = World::new();
    let first = anonymous(&world);
    assert!(world.lend_session(first.session_id).is_none(), "its key proves nothing");
    for login in [Login::anonymous_with_keys(), alice()] {
        let mut second = negotiated(&world);
        second.claim_key(&first);
        let login = login.flags(SessionSetupFlags::BINDING).again(first.session_id);
        assert_eq!(second.authenticate(&login).outcome(), Reason::BoundByNobody);
    }
    // Nor does it bind a connection to the session of a user.
    let owner = Peer::ready(&world, Dialect::SMB_3_1_1);
    let mut second = negotiated(&world);
    let response = second.bind(&owner, &Login::anonymous_with_keys());
    assert_eq!(response.outcome(), Reason::BoundByAnotherUser);
}

#[test]
fn a_session_with_such_keys_becomes_no_users() {
    let world = World::new();
    let mut peer = anonymous(&world);
    let session_id = peer.session_id;
    let response = peer.authenticate(&alice().again(session_id));
    assert_eq!(response.outcome(), Reason::GuestBecameUser);
}

#[test]
fn the_previous_session_of_a_user_survives() {
    let world = World::new();
    let mut owner = Peer::ready(&world, Dialect::SMB_3_1_1);
    let mut peer = negotiated(&world);
    peer.authenticate(&Login::anonymous_with_keys().previous_session(owner.session_id)).ok();
    owner.echo().ok();
    owner.tree("data");
}
