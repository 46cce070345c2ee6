//! Limits on one client's part of a file's record.

use dtyp::{AccessMask, Guid};
use testkit::accounts::{ALICE, BOB};
use testkit::peer::Offer;
use testkit::{Create, Login, Peer, World};
use trace::Reason;
use wire::Dialect;
use wire::create::CreateOptions;

fn negotiated(world: &World, client: u8) -> Peer {
    let mut peer = world.connect();
    let mut offer = Offer::dialects(&[Dialect::SMB_3_1_1]);
    offer.client_guid = Guid([client; 16]);
    peer.negotiate_with(&offer).ok();
    peer
}

fn root() -> Create {
    Create::open("").access(AccessMask::READ_ATTRIBUTES).options(CreateOptions::DIRECTORY_FILE)
}

/// Opens the root of the share until that is refused.
fn fill(peer: &mut Peer) -> usize {
    for count in 0.. {
        match peer.try_create(&root()).reason {
            Reason::NotRefused => {}
            reason => {
                assert_eq!(reason, Reason::TooManyOpens);
                return count;
            }
        }
    }
    unreachable!("a file has an end of opens");
}

#[test]
fn nobody_in_particular_has_256_opens_of_a_file() {
    let world = World::new();
    let mut guest = negotiated(&world, 1);
    guest.authenticate(&Login::anonymous()).ok();
    guest.tree("data");
    assert_eq!(fill(&mut guest), 256);
}

#[test]
fn a_user_has_1024_opens_of_a_file() {
    let world = World::new();
    let mut peer = negotiated(&world, 1);
    peer.login_alice();
    peer.tree("data");
    assert_eq!(fill(&mut peer), 1_024);
    // Other files are not affected.
    peer.create(&Create::open_if("file"));
}

#[test]
fn a_client_without_room_in_the_table_of_files_creates_none() {
    let world = World::new();
    world.set_record_bytes_max(16 << 10);
    let mut peer = negotiated(&world, 1);
    peer.login_alice();
    peer.tree("data");
    let is_refused = |count: &u32| {
        let reason = peer.try_create(&Create::open_if(&count.to_string())).reason;
        assert!(matches!(reason, Reason::NotRefused | Reason::Records), "{reason:?}");
        reason == Reason::Records
    };
    let count = (0..100).find(is_refused).expect("the table has an end");
    assert!(count > 2);
    assert!(!world.exists("data", &count.to_string()), "nothing was made for it");
}

#[test]
fn opens_of_a_user_have_one_number_with_any_client_and_those_of_guests_none() {
    let world = World::new();
    world.add_file("data", "file", b"data");
    let login = |(user, password)| Login::user(user, password);
    let logins = [login(ALICE), login(ALICE), login(BOB), Login::anonymous()];
    let mut peers = Vec::new();
    for (client, login) in (1..).zip(&logins) {
        let mut peer = negotiated(&world, client);
        peer.authenticate(login).ok();
        peer.tree("data");
        peer.create(&Create::open("file").access(AccessMask::READ_ATTRIBUTES));
        peers.push(peer);
    }
    let files = world.files();
    let [(_, record)] = &files[..] else { panic!("one file: {files:?}") };
    let users: Vec<u64> = record.opens.iter().map(|it| it.facts.user).collect();
    assert_eq!((users[0] == users[1], users[0] == users[2]), (true, false));
    assert_eq!(users.iter().map(|it| *it == 0).collect::<Vec<_>>(), [false, false, false, true]);
}

#[test]
fn opens_of_a_file_that_end_with_their_session_leave_its_record_at_once() {
    let world = World::new();
    let mut peer = negotiated(&world, 1);
    peer.login_alice();
    peer.tree("data");
    for _ in 0..100 {
        peer.create(&root());
    }
    let mut other = negotiated(&world, 2);
    other.login_alice();
    other.tree("data");
    other.create(&root());
    let before = world.record_updates();
    peer.disconnect();
    assert_eq!(world.record_updates() - before, 1);
    let files = world.files();
    assert_eq!(files.iter().map(|(_, it)| it.opens.len()).collect::<Vec<_>>(), [1]);
    other.disconnect();
    world.assert_nothing_left();
}

#[test]
fn a_file_that_one_of_the_ending_opens_deletes_is_deleted() {
    let world = World::new();
    let mut peer = negotiated(&world, 1);
    peer.login_alice();
    peer.tree("data");
    peer.create(&Create::open_if("file"));
    let deleting = Create::open("file").access(AccessMask::DELETE);
    peer.create(&deleting.options(CreateOptions::DELETE_ON_CLOSE));
    peer.create(&Create::open("file").access(AccessMask::READ_ATTRIBUTES));
    peer.disconnect();
    assert!(!world.exists("data", "file"));
    world.assert_nothing_left();
}
