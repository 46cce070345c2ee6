//! Connections without a user: their deadlines, and their limits.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use dtyp::NtStatus;
use proto::{Disconnect, Logon, Notice};
use testkit::accounts::ALICE;
use testkit::{Create, Login, Peer, World};
use trace::Reason;
use wire::Dialect;
use wire::session_setup::SessionSetupResponse;

const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

fn negotiated(world: &World) -> Peer {
    let mut peer = world.connect();
    peer.negotiate([Dialect::SMB_3_1_1]);
    peer
}

fn strange(world: &World) -> Peer {
    let mut peer = world.connect_from(ELSEWHERE);
    peer.negotiate([Dialect::SMB_3_1_1]);
    peer
}

fn guest(world: &World) -> Peer {
    let mut peer = negotiated(world);
    peer.authenticate(&Login::anonymous()).ok();
    peer
}

fn fail_to_log_on(peer: &mut Peer) {
    peer.session_id = 0;
    peer.authenticate(&Login::user(ALICE.0, "wrong")).expect(Reason::Authentication);
}

/// Lets time pass until the server has ended the connection. Returns the number of milliseconds, in
/// steps of a hundred.
fn milliseconds_until_closed(world: &World, peer: &Peer) -> u64 {
    for passed in (0..=200_000).step_by(100) {
        if let Some(reason) = peer.closed() {
            assert_eq!(reason, Disconnect::TooSlow);
            return passed;
        }
        world.advance(Duration::from_millis(100));
    }
    panic!("it is open after minutes");
}

#[test]
fn a_client_has_10_seconds_until_its_first_session_setup() {
    let world = World::new();
    let silent = world.connect();
    let negotiated = negotiated(&world);
    assert_eq!(milliseconds_until_closed(&world, &silent), 10_000);
    assert_eq!(negotiated.closed(), Some(Disconnect::TooSlow));
    world.assert_nothing_left();
}

#[test]
fn a_client_has_45_seconds_until_a_user_and_failed_logons_do_not_buy_time() {
    let world = World::new();
    let (mut good, mut bad) = (negotiated(&world), negotiated(&world));
    world.advance(Duration::from_secs(9));
    fail_to_log_on(&mut good);
    fail_to_log_on(&mut bad);
    world.advance(Duration::from_secs(35));
    fail_to_log_on(&mut bad);
    good.login_alice();
    assert_eq!(milliseconds_until_closed(&world, &bad), 1_000);
    good.logoff().ok();
    world.advance(Duration::from_secs(3_600));
    assert!(good.is_open(), "who could log on may do so again");
}

#[test]
fn an_anonymous_session_is_no_logon_and_buys_a_minute() {
    let world = World::new();
    let mut peer = guest(&world);
    world.advance(Duration::from_secs(30));
    peer.session_id = 0;
    peer.authenticate(&Login::anonymous()).ok();
    assert_eq!(milliseconds_until_closed(&world, &peer), 30_000);
    world.assert_nothing_left();
}

#[test]
fn ipc_does_not_keep_a_guest_and_a_share_with_files_does() {
    let world = World::new();
    let (mut lists, mut works) = (guest(&world), guest(&world));
    lists.tree("IPC$");
    works.tree("data");
    assert_eq!(milliseconds_until_closed(&world, &lists), 60_000);
    world.advance(Duration::from_secs(3_600));
    works.create(&Create::open_if("file"));
    works.tree_disconnect().ok();
    let passed = milliseconds_until_closed(&world, &works);
    assert!((60_000..=120_000).contains(&passed), "{passed}");
    world.assert_nothing_left();
}

#[test]
fn a_guest_that_changes_shares_stays() {
    let world = World::new();
    let mut peer = guest(&world);
    for _ in 0..100 {
        peer.tree("data");
        peer.tree_disconnect().ok();
        world.advance(Duration::from_secs(59));
    }
    assert!(peer.is_open());
}

#[test]
fn the_server_reports_each_logon() {
    let world = World::new();
    let reported = || {
        let ledger = world.ledger();
        let logons = ledger.notices().iter().filter_map(|notice| match notice {
            Notice::LogonChanged(logon) => Some(*logon),
            _ => None,
        });
        logons.collect::<Vec<_>>()
    };
    let anonymous = guest(&world);
    let user = Peer::ready(&world, Dialect::SMB_3_1_1);
    assert_eq!(reported(), [Logon::Guest, Logon::User]);
    user.disconnect();
    let waiting = world.connect();
    anonymous.disconnect();
    let all = [Logon::Guest, Logon::User, Logon::Guest, Logon::Nobody];
    assert_eq!(reported(), all);
    let mut last = Peer::ready(&world, Dialect::SMB_3_1_1);
    waiting.disconnect();
    last.logoff().ok();
    last.disconnect();
    assert_eq!(reported()[4..], [Logon::User], "a worker without connections waits for no logon");
}

#[test]
fn the_server_says_of_each_further_connection_of_a_user_once() {
    let world = World::new();
    let reported = || {
        let ledger = world.ledger();
        let further = |it: &&Notice| matches!(it, Notice::FurtherUser { .. });
        ledger.notices().iter().filter(further).count()
    };
    let mut first = Peer::ready(&world, Dialect::SMB_3_1_1);
    assert_eq!(reported(), 0, "it is the worker's own user");
    let mut second = Peer::ready(&world, Dialect::SMB_3_1_1);
    assert_eq!(reported(), 1);
    second.logoff().ok();
    first.logoff().ok();
    drop(guest(&world));
    assert_eq!(reported(), 1, "a guest is none");
}

#[test]
fn a_guest_from_elsewhere_is_not_served_beside_a_user() {
    let world = World::new();
    let mut user = Peer::ready(&world, Dialect::SMB_3_1_1);
    let mut stranger = strange(&world);
    let login = Login::anonymous();
    let (mut initiator, token) = stranger.begin(&login);
    let request = stranger.session_setup(&login, &token);
    let response = stranger.call(request).expect(NtStatus::MORE_PROCESSING_REQUIRED);
    stranger.session_id = response.header.session_id;
    let body: SessionSetupResponse<'_> = response.body();
    let token = initiator.step(body.security_buffer).expect("a challenge").token;
    let request = stranger.session_setup(&login, &token);
    stranger.send(request);
    assert!(stranger.receive().is_empty());
    assert_eq!(stranger.closed(), Some(Disconnect::GuestBesideUser));
    guest(&world).tree("IPC$");
    user.create(&Create::open_if("file"));
}

#[test]
fn a_user_does_not_log_on_beside_a_guest_from_elsewhere() {
    let world = World::new();
    let mut stranger = strange(&world);
    stranger.authenticate(&Login::anonymous()).ok();
    let same_machine = guest(&world);
    let mut user = Peer::ready(&world, Dialect::SMB_3_1_1);
    assert_eq!(stranger.closed(), Some(Disconnect::GuestBesideUser));
    assert!(same_machine.is_open());
    user.create(&Create::open_if("file"));
}

#[test]
fn strangers_take_four_places_beside_a_user_and_none_of_the_users_machine() {
    let world = World::new();
    let here = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let user = Peer::ready(&world, Dialect::SMB_3_1_1);
    let mut strangers: Vec<Peer> = Vec::new();
    while world.admits(ELSEWHERE, 0) {
        strangers.push(strange(&world));
    }
    assert_eq!(strangers.len(), 4);
    assert!(world.admits(here, 0));
    let channels: Vec<Peer> = (0..28).map(|_| negotiated(&world)).collect();
    assert!(world.admits(here, 0), "in the place of the oldest");
    assert_eq!(strangers[0].closed(), Some(Disconnect::Crowded));
    assert!(channels.iter().all(Peer::is_open) && user.is_open());
    assert!(!world.admits(ELSEWHERE, 1), "one is on its way");
    assert!(world.admits(ELSEWHERE, 0));
}

#[test]
fn of_connections_without_a_user_a_worker_takes_32() {
    let world = World::new();
    let here = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let peers: Vec<Peer> = (0..31).map(|_| negotiated(&world)).collect();
    assert!(world.admits(here, 0));
    assert!(!world.admits(here, 1));
    assert!(peers.iter().all(Peer::is_open), "one of them may be the user's");
}

#[test]
fn a_client_is_not_passed_to_earlier_strangers_with_its_client_guid() {
    let world = World::new();
    let _stranger = negotiated(&world);
    assert!(!world.admits(ELSEWHERE, 0));
    let _guest = guest(&world);
    assert!(!world.admits(ELSEWHERE, 0));
}

#[test]
fn a_channel_that_is_bound_has_no_deadline() {
    let world = World::new();
    let first = Peer::ready(&world, Dialect::SMB_3_1_1);
    let mut second = negotiated(&world);
    second.bind(&first, &Login::user(ALICE.0, ALICE.1)).ok();
    world.advance(Duration::from_secs(3_600));
    assert!(second.is_open());
}
