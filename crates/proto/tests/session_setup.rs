//! SESSION_SETUP and LOGOFF: [MS-SMB2] 3.3.5.5 and 3.3.5.6.

use auth::Framing;
use dtyp::NtStatus;
use proto::settings::{MapToGuest, Policy};
use proto::{Disconnect, Effect, Notice};
use testkit::accounts::{ALICE, BOB, CAROL};
use testkit::{Create, Login, Peer, World};
use trace::Reason;
use wire::Dialect;
use wire::session_setup::{SessionFlags, SessionSetupResponse};

const ALL: [Dialect; 5] = [
    Dialect::SMB_2_0_2,
    Dialect::SMB_2_1,
    Dialect::SMB_3_0,
    Dialect::SMB_3_0_2,
    Dialect::SMB_3_1_1,
];

fn negotiated(world: &World, dialect: Dialect) -> Peer {
    let mut peer = world.connect();
    peer.negotiate([dialect]);
    peer
}

fn alice() -> Login {
    Login::user(ALICE.0, ALICE.1)
}

fn flags(response: &testkit::Response) -> SessionFlags {
    response.body::<SessionSetupResponse<'_>>().session_flags
}

/// The peer verifies the signature of the last response with the keys that it derived itself, so
/// both sides have the same, in 3.1.1 over the same messages.
#[test]
fn the_last_response_is_signed_with_the_new_key_in_every_dialect() {
    for dialect in ALL {
        let world = World::new();
        let mut peer = negotiated(&world, dialect);
        let response = peer.authenticate(&alice()).ok();
        assert!(response.is_signed(), "{dialect:?}");
        assert!(peer.has_signing_key(), "{dialect:?}");
        assert_eq!(flags(&response), SessionFlags::empty());
        assert_eq!(world.ledger().session_count(), 1);
    }
}

#[test]
fn every_wrapping_of_ntlm_is_understood() {
    for framing in [Framing::Raw, Framing::Spnego, Framing::SpnegoAfterKerberos] {
        let world = World::new();
        let mut peer = negotiated(&world, Dialect::SMB_3_1_1);
        peer.authenticate(&alice().framing(framing)).ok();
        peer.tree("data");
    }
}

#[test]
fn a_wrong_password_and_an_unknown_user_look_the_same() {
    for (user, password) in [(ALICE.0, "wrong"), ("mallory", "wrong"), (BOB.0, ALICE.1)] {
        let world = World::new();
        let mut peer = negotiated(&world, Dialect::SMB_3_1_1);
        let response = peer.authenticate(&Login::user(user, password));
        assert_eq!(response.outcome(), Reason::Authentication, "{user}");
        assert!(!response.is_signed());
        assert_eq!(world.ledger().session_count(), 0);
    }
}

#[test]
fn a_session_of_a_failed_authentication_is_gone() {
    let world = World::new();
    let mut peer = negotiated(&world, Dialect::SMB_3_0);
    let response = peer.authenticate(&Login::user(ALICE.0, "wrong"));
    peer.session_id = response.header.session_id;
    assert_ne!(peer.session_id, 0);
    assert_eq!(peer.try_tree("data").outcome(), Reason::NoSuchSession);
    let again = peer.session_setup(&alice(), b"");
    assert_eq!(peer.call(again).outcome(), Reason::NoSuchSession);
}

#[test]
fn a_disabled_account_is_told_so_only_with_its_password() {
    let world = World::new();
    let mut peer = negotiated(&world, Dialect::SMB_3_0);
    let response = peer.authenticate(&Login::user(CAROL.0, "wrong"));
    assert_eq!(response.outcome(), Reason::Authentication);
    let response = peer.authenticate(&Login::user(CAROL.0, CAROL.1));
    assert_eq!(response.outcome(), Reason::AccountDisabled);
    assert_eq!(world.ledger().session_count(), 0);
}

#[test]
fn a_token_that_is_none_is_refused_and_the_session_is_gone() {
    let world = World::new();
    let mut peer = negotiated(&world, Dialect::SMB_3_0);
    let request = peer.session_setup(&alice(), b"\x60\x03abc");
    let response = peer.call(request).expect(Reason::Authentication);
    assert_eq!(world.ledger().session_count(), 0);
    peer.session_id = response.header.session_id;
    assert_eq!(peer.logoff().outcome(), Reason::NoSuchSession);
}

#[test]
fn nobody_in_particular_gets_a_null_session_without_keys() {
    for dialect in ALL {
        let world = World::new();
        let mut peer = negotiated(&world, dialect);
        let response = peer.authenticate(&Login::anonymous()).ok();
        assert_eq!(flags(&response), SessionFlags::IS_NULL, "{dialect:?}");
        assert!(!peer.has_signing_key());
        // Requests are not signed, because there is no key.
        peer.tree("data");
    }
}

#[test]
fn without_a_guest_account_nobody_in_particular_is_refused() {
    let world = World::new();
    world.set_guest(None);
    let mut peer = negotiated(&world, Dialect::SMB_3_1_1);
    let response = peer.authenticate(&Login::anonymous());
    assert_eq!(response.outcome(), Reason::LogonFailure);
}

#[track_caller]
fn check_guest(map: MapToGuest, user: &str, password: &str, want: Option<SessionFlags>) {
    let world = World::with(|settings| settings.map_to_guest = map);
    let mut peer = negotiated(&world, Dialect::SMB_3_1_1);
    let response = peer.authenticate(&Login::user(user, password));
    match want {
        Some(want) => assert_eq!(flags(&response.ok()), want),
        None => assert_eq!(response.outcome(), Reason::Authentication),
    }
}

#[test]
fn a_setting_decides_on_the_logons_that_become_guests() {
    let guest = Some(SessionFlags::IS_GUEST);
    let user = Some(SessionFlags::empty());
    check_guest(MapToGuest::Never, "mallory", "x", None);
    check_guest(MapToGuest::BadUser, "mallory", "x", guest);
    check_guest(MapToGuest::BadUser, ALICE.0, "x", None);
    check_guest(MapToGuest::BadPassword, ALICE.0, "x", guest);
    check_guest(MapToGuest::BadPassword, "mallory", "x", guest);
    check_guest(MapToGuest::BadPassword, ALICE.0, ALICE.1, user);
}

#[test]
fn a_guest_is_refused_if_everything_must_be_encrypted() {
    let world = World::with(|settings| {
        settings.map_to_guest = MapToGuest::BadUser;
        settings.encryption = Policy::Required;
    });
    let mut peer = negotiated(&world, Dialect::SMB_3_1_1);
    let response = peer.authenticate(&Login::user("mallory", "x"));
    assert_eq!(response.outcome(), Reason::NotEncrypted);
    let response = peer.authenticate(&Login::anonymous());
    assert_eq!(response.outcome(), Reason::NotEncrypted);
    peer.disconnect();
    world.assert_nothing_left();
}

#[test]
fn a_client_that_cannot_encrypt_is_refused_if_it_must() {
    for dialect in [Dialect::SMB_2_0_2, Dialect::SMB_2_1] {
        let world = World::with(|settings| settings.encryption = Policy::Required);
        let mut peer = negotiated(&world, dialect);
        assert_eq!(peer.authenticate(&alice()).outcome(), Reason::NotEncrypted);
    }
}

#[test]
fn session_ids_are_never_zero_and_never_the_same() {
    let world = World::new();
    let mut peer = negotiated(&world, Dialect::SMB_3_0);
    let mut seen = std::collections::HashSet::from([0, u64::MAX]);
    for _ in 0..20 {
        peer.session_id = 0;
        assert!(seen.insert(peer.login_alice()));
    }
    assert_eq!(world.ledger().session_count(), 20);
}

#[test]
fn a_session_of_another_connection_is_none() {
    let world = World::new();
    let first = Peer::ready(&world, Dialect::SMB_3_0);
    let mut second = negotiated(&world, Dialect::SMB_3_0);
    second.session_id = first.session_id;
    assert_eq!(second.try_tree("data").outcome(), Reason::NoSuchSession);
    let (_, token) = second.begin(&alice());
    let request = second.session_setup(&alice(), &token);
    assert_eq!(second.call(request).outcome(), Reason::NoSuchSession);
    assert_eq!(world.ledger().session_count(), 1);
}

#[test]
fn nothing_but_session_setup_is_served_before_the_authentication_is_done() {
    let world = World::new();
    let mut peer = negotiated(&world, Dialect::SMB_3_0);
    let (_, token) = peer.begin(&alice());
    let request = peer.session_setup(&alice(), &token);
    let response = peer.call(request).expect(NtStatus::MORE_PROCESSING_REQUIRED);
    peer.session_id = response.header.session_id;
    assert_eq!(peer.try_tree("data").outcome(), Reason::NoSuchSession);
    assert_eq!(peer.logoff().outcome(), Reason::NoSuchSession);
}

#[test]
fn reauthentication_keeps_the_session_its_keys_and_its_opens() {
    for dialect in ALL {
        let world = World::new();
        let mut peer = Peer::ready(&world, dialect);
        let file = peer.create(&Create::open_if("file")).file_id;
        let session_id = peer.session_id;
        let response = peer.authenticate(&alice().again(session_id)).ok();
        assert_eq!(response.header.session_id, session_id);
        assert!(response.is_signed());
        peer.write(file, 0, b"still open").ok();
        assert_eq!(world.ledger().session_count(), 1);
    }
}

#[test]
fn a_failed_reauthentication_ends_the_session() {
    let world = World::new();
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    peer.create(&Create::open_if("file"));
    let session_id = peer.session_id;
    let again = Login::user(ALICE.0, "wrong").again(session_id);
    assert_eq!(peer.authenticate(&again).outcome(), Reason::Authentication);
    world.ledger().assert_empty();
    assert_eq!(world.store().open_count(), 0);
}

#[test]
fn a_failed_reauthentication_ends_requests_with_signed_responses() {
    let world = World::new();
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    let directory = peer.create(&Create::directory("dir")).file_id;
    let watch = peer.watch_request(directory);
    let watch = peer.send(watch);
    assert!(peer.receive().remove(0).is_interim());
    let login = Login::user(ALICE.0, ALICE.1);
    let request = peer.session_setup(&login, b"no token");
    peer.send(request);
    let received = peer.receive();
    let ended = received.iter().find(|it| it.header.message_id == watch).expect("an answer");
    assert_eq!(ended.status(), NtStatus::NOTIFY_CLEANUP);
    assert!(ended.is_signed(), "{ended:?}");
    assert_eq!(received.len(), 2, "{received:?}");
    world.ledger().assert_empty();
}

#[test]
fn a_users_session_keeps_its_keys_while_it_is_nobodys() {
    let world = World::new();
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    let file = peer.create(&Create::new("file")).file_id;
    let session_id = peer.session_id;
    let response = peer.authenticate(&Login::anonymous().again(session_id)).ok();
    assert_eq!(flags(&response), SessionFlags::empty());
    assert!(response.is_signed());
    peer.write(file, 0, b"data").ok();
    peer.authenticate(&alice().again(session_id)).ok();
    peer.write(file, 0, b"data").ok();
}

/// A guest's session has no keys, so it could neither sign nor encrypt for a user.
#[test]
fn a_session_without_a_user_does_not_become_a_users() {
    let world = World::new();
    let mut peer = negotiated(&world, Dialect::SMB_3_1_1);
    peer.authenticate(&Login::anonymous()).ok();
    let session_id = peer.session_id;
    let response = peer.authenticate(&alice().again(session_id));
    assert_eq!(response.outcome(), Reason::GuestBecameUser);
    world.ledger().assert_empty();
}

/// Makes a tree connect. Returns the user for whom the server looks up the share.
fn user_of_the_next_tree_connect(world: &World, peer: &mut Peer) -> String {
    let asked = std::rc::Rc::new(std::cell::RefCell::new(String::new()));
    let seen = std::rc::Rc::clone(&asked);
    world.delay_replies(move |effect| {
        if let Effect::ConnectShare(connect) = effect {
            seen.borrow_mut().clone_from(&connect.account.user);
        }
        false
    });
    peer.tree("data");
    world.stop_delaying();
    asked.take()
}

/// The session's opens have the first user's rights, and its keys are that user's.
#[test]
fn a_session_never_becomes_another_users() {
    for via_nobody in [false, true] {
        let world = World::new();
        let mut peer = Peer::ready(&world, Dialect::SMB_3_0);
        let session_id = peer.session_id;
        if via_nobody {
            peer.authenticate(&Login::anonymous().again(session_id)).ok();
        }
        let response = peer.authenticate(&Login::user(BOB.0, BOB.1).again(session_id));
        assert_eq!(response.outcome(), Reason::UserChanged);
        world.ledger().assert_empty();
    }
}

/// smbtorture's session tests rely on that.
#[test]
fn a_session_acts_as_nobody_in_particular_until_its_user_is_back() {
    let world = World::new();
    let mut peer = Peer::ready(&world, Dialect::SMB_3_0);
    let session_id = peer.session_id;
    peer.authenticate(&Login::anonymous().again(session_id)).ok();
    assert_eq!(user_of_the_next_tree_connect(&world, &mut peer), "nobody");
    peer.authenticate(&alice().again(session_id)).ok();
    assert_eq!(user_of_the_next_tree_connect(&world, &mut peer), ALICE.0);
    let failed = Login::user(CAROL.0, CAROL.1).again(session_id);
    assert_eq!(peer.authenticate(&failed).outcome(), Reason::AccountDisabled);
}

#[test]
fn the_session_that_a_client_had_before_is_ended() {
    let world = World::new();
    let mut lost = Peer::ready(&world, Dialect::SMB_3_1_1);
    lost.create(&Create::open_if("file"));
    let mut peer = negotiated(&world, Dialect::SMB_3_1_1);
    peer.authenticate(&alice().previous_session(lost.session_id)).ok();
    assert_eq!(world.store().open_count(), 0);
    assert_eq!(world.ledger().session_count(), 1);
    assert_eq!(lost.try_tree("data").outcome(), Reason::NoSuchSession);
}

#[test]
fn somebody_elses_previous_session_is_left_alone() {
    let world = World::new();
    let mut victim = Peer::ready(&world, Dialect::SMB_3_1_1);
    let mut peer = negotiated(&world, Dialect::SMB_3_1_1);
    peer.authenticate(&Login::user(BOB.0, BOB.1).previous_session(victim.session_id)).ok();
    victim.create(&Create::open_if("file"));
    assert_eq!(world.ledger().session_count(), 2);
}

#[test]
fn guests_and_wrong_passwords_end_no_previous_session() {
    let world = World::with(|settings| settings.map_to_guest = MapToGuest::BadPassword);
    let mut victim = Peer::ready(&world, Dialect::SMB_3_1_1);
    let mut peer = negotiated(&world, Dialect::SMB_3_1_1);
    let previous = victim.session_id;
    peer.authenticate(&Login::user(ALICE.0, "wrong").previous_session(previous)).ok();
    peer.authenticate(&Login::anonymous().previous_session(previous)).ok();
    victim.create(&Create::open_if("file"));
}

#[test]
fn a_previous_session_that_is_unknown_here_is_asked_for_elsewhere() {
    let world = World::new();
    let mut peer = negotiated(&world, Dialect::SMB_3_1_1);
    peer.authenticate(&alice().previous_session(0x1234)).ok();
    assert_eq!(world.previous_sessions(), [(0x1234, ALICE.0.to_owned())]);
    peer.tree("data");
}

#[test]
fn another_worker_ends_sessions_of_the_same_user_only() {
    let world = World::new();
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    world.close_session_of(peer.session_id, BOB.0);
    peer.create(&Create::open_if("file"));
    world.close_session_of(peer.session_id, ALICE.0);
    world.ledger().assert_empty();
    assert_eq!(world.store().open_count(), 0);
    assert_eq!(peer.try_tree("data").outcome(), Reason::NoSuchSession);
}

/// Begins as many logons over a connection as possible, and ends none.
fn unfinished(world: &World) -> Peer {
    let mut peer = negotiated(world, Dialect::SMB_3_1_1);
    let mut begun = 0;
    loop {
        let (_, token) = peer.begin(&alice());
        let request = peer.session_setup(&alice(), &token);
        match peer.call(request).status() {
            NtStatus::MORE_PROCESSING_REQUIRED => begun += 1,
            status => {
                assert_eq!((begun, status), (16, NtStatus::INSUFF_SERVER_RESOURCES));
                return peer;
            }
        }
    }
}

#[test]
fn logons_that_nobody_finishes_take_no_place_from_another_connection() {
    let world = World::new();
    let mut peers: Vec<Peer> = (0..70).map(|_| unfinished(&world)).collect();
    Peer::ready(&world, Dialect::SMB_3_1_1).create(&Create::open_if("file"));
    peers.iter_mut().for_each(|peer| peer.disconnect());
    let _ = Peer::ready(&world, Dialect::SMB_3_1_1);
}

#[test]
fn a_client_has_1024_sessions_of_users_and_unproven_ones_take_none_of_them() {
    let world = World::new();
    let mut peer = negotiated(&world, Dialect::SMB_3_0);
    for _ in 0..1_024 {
        peer.authenticate(&Login::anonymous()).ok();
        peer.session_id = 0;
    }
    let refused = peer.authenticate(&Login::anonymous());
    assert_eq!(refused.outcome(), Reason::TooManySessions);
    let mut last = 0;
    for _ in 0..1_024 {
        peer.session_id = 0;
        last = peer.authenticate(&alice()).ok().header.session_id;
    }
    peer.session_id = 0;
    let refused = peer.authenticate(&alice());
    assert_eq!(refused.outcome(), Reason::TooManySessions);
    assert_eq!(world.ledger().session_count(), 2_048);
    peer.session_id = last;
    peer.logoff().ok();
    peer.session_id = 0;
    peer.authenticate(&alice()).ok();
    peer.disconnect();
    world.assert_nothing_left();
}

#[test]
fn a_crowded_client_keeps_the_connections_of_logged_on_users() {
    let world = World::new();
    let mut guest = negotiated(&world, Dialect::SMB_3_1_1);
    guest.authenticate(&Login::anonymous()).ok();
    let mut user = Peer::ready(&world, Dialect::SMB_3_1_1);
    let half = unfinished(&world);
    let silent = world.connect();
    let is_open = || [&guest, &half, &silent].map(|it| it.is_open());
    for left in [[true, false, true], [true, false, false], [false; 3]] {
        assert!(world.crowd());
        assert_eq!(is_open(), left);
    }
    assert_eq!(half.closed(), Some(Disconnect::Crowded));
    assert!(!world.crowd());
    user.create(&Create::open_if("file"));
    user.disconnect();
    world.assert_nothing_left();
}

#[test]
fn a_token_that_comes_while_the_account_is_looked_up_ends_the_session() {
    let world = World::new();
    let mut peer = negotiated(&world, Dialect::SMB_3_0);
    let (mut initiator, token) = peer.begin(&alice());
    let request = peer.session_setup(&alice(), &token);
    let response = peer.call(request).expect(NtStatus::MORE_PROCESSING_REQUIRED);
    peer.session_id = response.header.session_id;
    let body: SessionSetupResponse<'_> = response.body();
    let token = initiator.step(body.security_buffer).expect("a challenge").token;
    world.delay_replies(|effect| matches!(effect, Effect::CheckResponse { .. }));
    let first = peer.session_setup(&alice(), &token);
    peer.send(first.clone());
    assert_eq!(peer.call(first).outcome(), Reason::Authentication);
    world.release_all();
    let late = peer.receive();
    assert_eq!(late.len(), 1);
    assert_eq!(late[0].outcome(), Reason::NoSuchSession);
    peer.disconnect();
    world.assert_nothing_left();
}

#[test]
fn a_connection_that_ends_during_a_logon_leaves_nothing() {
    for held in 0..5_u8 {
        let world = World::with(|settings| settings.map_to_guest = MapToGuest::BadUser);
        let mut peer = negotiated(&world, Dialect::SMB_3_1_1);
        world.delay_replies(move |effect| match effect {
            Effect::CheckResponse { .. } => held == 0,
            Effect::FindAccount { .. } => held == 3,
            Effect::IsOwnName { .. } => held == 4,
            Effect::FindGuest => held == 1,
            Effect::ClosePreviousSession { .. } => held == 2,
            _ => false,
        });
        let user = if held == 1 { "mallory" } else { ALICE.0 };
        let login = Login::user(user, ALICE.1).previous_session(7).target_name("cifs/server");
        let (mut initiator, token) = peer.begin(&login);
        let request = peer.session_setup(&login, &token);
        let response = peer.call(request).expect(NtStatus::MORE_PROCESSING_REQUIRED);
        peer.session_id = response.header.session_id;
        let body: SessionSetupResponse<'_> = response.body();
        let token = initiator.step(body.security_buffer).expect("a challenge").token;
        let request = peer.session_setup(&login, &token);
        peer.send(request);
        assert_eq!(world.delayed_replies(), 1);
        peer.disconnect();
        assert!(!world.is_idle(), "an answer is still to come");
        world.release_all();
        world.assert_nothing_left();
    }
}

#[test]
fn logoff_ends_the_session_and_is_signed_with_its_key() {
    for dialect in ALL {
        let world = World::new();
        let mut peer = Peer::ready(&world, dialect);
        peer.create(&Create::open_if("file"));
        assert!(peer.logoff().ok().is_signed());
        world.ledger().assert_empty();
        assert_eq!(world.store().open_count(), 0);
        assert_eq!(peer.logoff().outcome(), Reason::NoSuchSession);
    }
}

#[test]
fn the_tables_have_each_session() {
    let world = World::new();
    let mut peer = negotiated(&world, Dialect::SMB_3_1_1);
    peer.authenticate(&alice().signing_required()).ok();
    let ledger = world.ledger();
    let opened = ledger.notices().iter().find_map(|notice| match notice {
        Notice::SessionOpened(opened) => Some(opened),
        _ => None,
    });
    let opened = opened.expect("a session was opened");
    assert_eq!(opened.session_id, peer.session_id);
    assert_eq!((opened.user.as_str(), opened.dialect), (ALICE.0, Dialect::SMB_3_1_1));
    assert!(opened.signing_required && !opened.encrypted);
    assert_eq!((opened.signing_algorithm, opened.cipher), (2, 2));
}
