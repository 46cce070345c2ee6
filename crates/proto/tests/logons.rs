//! Failed and relayed logons: the notices about them, and the delays of further logons.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::Duration;

use auth::AuthError;
use dtyp::NtStatus;
use proto::notice::LogonRefused;
use proto::settings::MapToGuest;
use proto::{Effect, Notice, Reject};
use testkit::accounts::{ALICE, BOB};
use testkit::{Login, Peer, Request, World};
use trace::Reason;
use wire::Dialect;
use wire::session_setup::SessionSetupResponse;

fn alice() -> Login {
    Login::user(ALICE.0, ALICE.1)
}

fn wrong(user: &str) -> Login {
    Login::user(user, "wrong")
}

fn counting() -> World {
    let world = World::new();
    world.count_failed_logons();
    world
}

fn negotiated(world: &World) -> Peer {
    connected_from(world, Ipv4Addr::new(192, 0, 2, 1))
}

fn connected_from(world: &World, address: Ipv4Addr) -> Peer {
    let mut peer = world.connect_from(address.into());
    peer.negotiate([Dialect::SMB_3_1_1]);
    peer
}

/// Records the look-ups of accounts, from now on.
fn questions(world: &World) -> Rc<RefCell<Vec<&'static str>>> {
    let seen = Rc::<RefCell<Vec<&'static str>>>::default();
    let questions = Rc::clone(&seen);
    world.delay_replies(move |effect| {
        questions.borrow_mut().extend(match effect {
            Effect::FindAccount { .. } => Some("account"),
            Effect::CheckResponse { .. } => Some("proof"),
            Effect::FindGuest => Some("guest"),
            _ => None,
        });
        false
    });
    seen
}

fn refusals(world: &World) -> Vec<LogonRefused> {
    let ledger = world.ledger();
    let refused = ledger.notices().iter().filter_map(|notice| match notice {
        Notice::LogonRefused(refused) => Some((**refused).clone()),
        _ => None,
    });
    refused.collect()
}

/// Begins a session. Returns its next request, which has the proof.
fn proof(peer: &mut Peer, login: &Login) -> Request {
    let (mut initiator, token) = peer.begin(login);
    peer.session_id = 0;
    let request = peer.session_setup(login, &token);
    let response = peer.call(request).expect(NtStatus::MORE_PROCESSING_REQUIRED);
    peer.session_id = response.header.session_id;
    let body: SessionSetupResponse<'_> = response.body();
    let token = initiator.step(body.security_buffer).expect("a challenge").token;
    peer.session_setup(login, &token)
}

fn seconds(times: impl IntoIterator<Item = u64>) -> Vec<Duration> {
    times.into_iter().map(Duration::from_secs).collect()
}

#[test]
fn every_refused_logon_is_reported_with_its_address_user_and_reason() {
    let world = World::new();
    let mut peer = negotiated(&world);
    let mallory = "mal\nlory\"";
    peer.authenticate(&wrong(mallory)).expect(Reason::Authentication);
    peer.authenticate(&wrong(ALICE.0)).expect(Reason::Authentication);
    let reported = refusals(&world);
    let reasons: Vec<_> = reported.iter().map(|it| (it.user.as_str(), it.reject)).collect();
    assert_eq!(
        reasons,
        [
            (mallory, Reject::Authentication(AuthError::NoSuchUser)),
            (ALICE.0, Reject::Authentication(AuthError::WrongPassword)),
        ]
    );
    assert!(reported.iter().all(|it| it.client.ip() == Ipv4Addr::new(192, 0, 2, 1)));
    peer.authenticate(&alice()).ok();
    assert_eq!(refusals(&world).len(), 2, "a good one is not refused");
}

#[test]
fn a_flood_of_failed_logons_is_reported_up_to_a_limit_with_the_number_of_further_ones() {
    let world = counting();
    for _ in 0..200 {
        negotiated(&world).authenticate(&wrong(ALICE.0));
    }
    let reported = refusals(&world).len();
    assert_eq!(reported, 40);
    world.advance(Duration::from_secs(5));
    negotiated(&world).authenticate(&wrong(ALICE.0));
    assert_eq!(refusals(&world).last().expect("one more is told").unlogged, 160);
}

#[test]
fn failed_logons_delay_the_next_from_their_address_over_any_connection() {
    let world = counting();
    let seen = world.record_sleeps();
    for number in 0..12 {
        let mut peer = negotiated(&world);
        let response = peer.authenticate(&wrong(&format!("user {number}")));
        assert_eq!(response.outcome(), Reason::Authentication);
    }
    assert_eq!(*seen.borrow(), seconds(1..=4));
    connected_from(&world, Ipv4Addr::new(192, 0, 2, 2)).authenticate(&alice()).ok();
    assert_eq!(seen.borrow().len(), 4, "another address does not wait");
    world.advance(Duration::from_secs(120));
    negotiated(&world).authenticate(&alice()).ok();
    assert_eq!(seen.borrow().len(), 4, "they are forgotten");
}

#[test]
fn sixteen_proofs_at_once_are_looked_at_one_after_the_other() {
    let world = counting();
    let seen = Rc::<RefCell<Vec<Duration>>>::default();
    let waits = Rc::clone(&seen);
    world.delay_replies(move |effect| match effect {
        Effect::Sleep(time) => {
            waits.borrow_mut().push(*time);
            true
        }
        _ => false,
    });
    let mut peers: Vec<Peer> = (0..2).map(|_| negotiated(&world)).collect();
    for peer in &mut peers {
        let proofs: Vec<_> = (0..16).map(|_| proof(peer, &wrong(ALICE.0))).collect();
        proofs.into_iter().for_each(|proof| {
            peer.send(proof);
        });
    }
    assert_eq!(*seen.borrow(), seconds(1..=20));
    assert_eq!(world.delayed_replies(), 20, "nobody looks at these yet");
    // Logons with a longer delay than clients endure are refused without a check of their proof.
    let answers: Vec<_> = peers.iter_mut().flat_map(Peer::receive).map(|it| it.status()).collect();
    let count = |status| answers.iter().filter(|it| **it == status).count();
    assert_eq!(count(NtStatus::LOGON_FAILURE), 8);
    assert_eq!(count(NtStatus::ACCOUNT_LOCKED_OUT), 4);
    world.release_all();
    let answers: Vec<_> = peers.iter_mut().flat_map(Peer::receive).map(|it| it.status()).collect();
    assert_eq!(answers, [NtStatus::LOGON_FAILURE; 20]);
    peers.iter().for_each(Peer::disconnect);
    world.assert_nothing_left();
}

/// A worker whose client makes room for another must be able to end at once.
#[test]
fn a_logon_that_waits_for_its_turn_goes_with_its_connection() {
    let world = counting();
    world.delay_replies(|effect| matches!(effect, Effect::Sleep(_)));
    let mut peer = negotiated(&world);
    let proofs: Vec<_> = (0..9).map(|_| proof(&mut peer, &wrong(ALICE.0))).collect();
    proofs.into_iter().for_each(|proof| {
        peer.send(proof);
    });
    assert_eq!(world.delayed_replies(), 1);
    peer.disconnect();
    assert!(world.is_idle(), "a request is left");
    // The delay ends all the same, without an effect.
    world.release_all();
    world.assert_nothing_left();
}

#[test]
fn failed_logons_of_others_delay_a_user_by_two_seconds_at_most() {
    let world = counting();
    for number in 0..100 {
        let mut peer = connected_from(&world, Ipv4Addr::new(198, 51, 100, number));
        peer.authenticate(&wrong(ALICE.0)).expect(Reason::Authentication);
    }
    let seen = world.record_sleeps();
    negotiated(&world).authenticate(&alice()).ok();
    assert_eq!(*seen.borrow(), seconds([2]));
    // From here on alice is familiar at this address.
    negotiated(&world).authenticate(&alice()).ok();
    assert_eq!(seen.borrow().len(), 1);
}

#[test]
fn a_user_known_at_an_address_does_not_wait_for_others_there() {
    let world = counting();
    negotiated(&world).authenticate(&alice()).ok();
    for _ in 0..100 {
        negotiated(&world).authenticate(&wrong(BOB.0));
    }
    let bob = negotiated(&world).authenticate(&Login::user(BOB.0, BOB.1));
    assert_eq!(bob.outcome(), Reason::TooManyFailedLogons);
    let seen = world.record_sleeps();
    negotiated(&world).authenticate(&alice()).ok();
    assert_eq!(seen.borrow().len(), 0);
}

#[test]
fn an_address_with_too_many_failed_logons_is_refused_for_a_time_for_every_user() {
    let world = World::with(|settings| settings.logon_throttle.failures_max = 3);
    world.count_failed_logons();
    for _ in 0..3 {
        negotiated(&world).authenticate(&wrong(BOB.0)).expect(Reason::Authentication);
    }
    let asked = questions(&world);
    for login in [alice(), wrong("mallory"), wrong(ALICE.0)] {
        let refused = negotiated(&world).authenticate(&login);
        assert_eq!(refused.outcome(), Reason::TooManyFailedLogons);
    }
    assert_eq!(asked.borrow().len(), 0, "nothing is looked up");
    let reject = refusals(&world).last().expect("it is told").reject;
    assert_eq!(reject, Reject::TooManyFailedLogons);
    connected_from(&world, Ipv4Addr::new(192, 0, 2, 2)).authenticate(&alice()).ok();
    world.advance(Duration::from_secs(301));
    negotiated(&world).authenticate(&alice()).ok();
}

#[test]
fn guesses_are_reported_and_counted_also_where_they_make_guests() {
    let world = World::with(|settings| {
        settings.map_to_guest = MapToGuest::BadPassword;
        settings.logon_throttle.failures_max = 3;
    });
    world.count_failed_logons();
    for _ in 0..3 {
        negotiated(&world).authenticate(&wrong("mallory")).ok();
    }
    assert_eq!(refusals(&world).len(), 0, "no user has that name");
    for _ in 0..3 {
        negotiated(&world).authenticate(&wrong(ALICE.0)).ok();
    }
    let reported: Vec<Reject> = refusals(&world).iter().map(|it| it.reject).collect();
    assert_eq!(reported, [Reject::Authentication(AuthError::WrongPassword); 3]);
    world.advance(Duration::from_secs(60));
    let right = negotiated(&world).authenticate(&alice());
    assert_eq!(right.outcome(), Reason::TooManyFailedLogons);
}

#[test]
fn guests_that_nobody_asks_for_a_password_do_not_wait() {
    let world = World::with(|settings| settings.map_to_guest = MapToGuest::BadUser);
    world.count_failed_logons();
    let seen = world.record_sleeps();
    for _ in 0..50 {
        negotiated(&world).authenticate(&wrong("mallory")).ok();
        negotiated(&world).authenticate(&Login::anonymous()).ok();
    }
    assert_eq!(seen.borrow().len(), 0);
}

#[test]
fn a_delayed_logon_of_a_client_that_leaves_leaves_nothing_and_counts() {
    let world = counting();
    let mut peer = negotiated(&world);
    for _ in 0..8 {
        peer.authenticate(&wrong(ALICE.0)).expect(Reason::Authentication);
    }
    world.delay_replies(|effect| matches!(effect, Effect::Sleep(_)));
    let proof = proof(&mut peer, &wrong(ALICE.0));
    peer.send(proof);
    peer.disconnect();
    world.release_all();
    world.assert_nothing_left();
    let seen = world.record_sleeps();
    negotiated(&world).authenticate(&wrong(ALICE.0));
    assert_eq!(*seen.borrow(), seconds([2]));
}

/// The slow step is the same for every name: the name service looks up only users with the right
/// password.
#[test]
fn a_user_is_looked_up_only_after_the_proof_of_the_password() {
    let world = World::new();
    let asked = questions(&world);
    for user in [ALICE.0, "mallory"] {
        negotiated(&world).authenticate(&wrong(user));
        assert_eq!(asked.take(), ["proof"], "{user}");
    }
    negotiated(&world).authenticate(&alice()).ok();
    assert_eq!(asked.take(), ["proof", "account"]);
}

#[test]
fn a_user_unknown_to_the_name_service_is_refused_and_becomes_no_guest() {
    for map in [MapToGuest::Never, MapToGuest::BadUser, MapToGuest::BadPassword] {
        let world = World::with(|settings| settings.map_to_guest = map);
        world.lose_accounts();
        let asked = questions(&world);
        let response = negotiated(&world).authenticate(&alice());
        assert_eq!(response.outcome(), Reason::AccountUnavailable, "{map:?}");
        assert_eq!(asked.take(), ["proof", "account"], "{map:?}");
        assert_eq!(refusals(&world)[0].reject, Reject::AccountUnavailable);
        assert_eq!(world.ledger().session_count(), 0);
    }
}

/// Everybody is refused alike: a user who exists must not become a guest.
#[test]
fn without_a_list_of_users_nobody_becomes_a_guest() {
    for map in [MapToGuest::Never, MapToGuest::BadUser, MapToGuest::BadPassword] {
        let world = World::with(|settings| settings.map_to_guest = map);
        world.lose_users();
        for login in [alice(), wrong(ALICE.0), wrong("mallory")] {
            let response = negotiated(&world).authenticate(&login);
            assert_eq!(response.outcome(), Reason::AccountUnavailable, "{map:?}");
        }
        assert_eq!(refusals(&world)[0].reject, Reject::AccountUnavailable);
        assert_eq!(world.ledger().session_count(), 0);
    }
}

#[test]
fn a_client_that_means_another_server_is_refused_with_the_right_password() {
    let world = World::new();
    world.set_own_names(&["cifs/server"]);
    let mut peer = negotiated(&world);
    let relayed = alice().target_name("cifs/evil.example");
    assert_eq!(peer.authenticate(&relayed).outcome(), Reason::MeantForAnotherServer);
    assert_eq!(world.ledger().session_count(), 0);
    let reported = &refusals(&world)[0];
    assert_eq!(reported.reject, Reject::MeantForAnotherServer);
    assert_eq!(reported.target_name.as_deref(), Some("cifs/evil.example"));
    peer.authenticate(&alice().target_name("cifs/server")).ok();
    peer.session_id = 0;
    peer.authenticate(&alice().target_name("")).ok();
    // Without the password, no client learns the server's names.
    let relayed = wrong(ALICE.0).target_name("cifs/evil.example");
    assert_eq!(peer.authenticate(&relayed).outcome(), Reason::Authentication);
}

/// The key of the session proves that there is no man in the middle; the client may have used
/// another name for the server.
#[test]
fn a_channel_is_bound_under_any_name_of_the_server() {
    let world = World::new();
    let first = Peer::ready(&world, Dialect::SMB_3_1_1);
    world.set_own_names(&["cifs/server"]);
    let mut second = negotiated(&world);
    second.bind(&first, &alice().target_name("cifs/192.0.2.77")).ok();
}
