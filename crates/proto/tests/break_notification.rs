//! Breaks of oplocks and leases reach the client over any of its channels: [MS-SMB2] 3.3.4.6,
//! 3.3.4.7.

use dtyp::{Guid, NtStatus};
use proto::Disconnect;
use proto::files::BREAK_TIMEOUT;
use proto::settings::BreakRetry;
use testkit::accounts::{ALICE, BOB};
use testkit::peer::Offer;
use testkit::{Create, Login, Outcome, Peer, World};
use trace::Reason;
use wire::create_context::LeaseContext;
use wire::ioctl::{FsctlCode, IoctlFlags, IoctlRequest};
use wire::lease::{LeaseKey, LeaseState};
use wire::oplock_break::{LeaseBreakNotification, OplockBreak};
use wire::{Command, Dialect, FileId, OplockLevel};

const KEY: LeaseKey = LeaseKey([7; 16]);

fn alice() -> Login {
    Login::user(ALICE.0, ALICE.1)
}

/// Binds another connection to Alice's session.
fn channel(world: &World, first: &Peer) -> Peer {
    let mut peer = world.connect();
    peer.negotiate([Dialect::SMB_3_1_1]);
    peer.bind(first, &alice()).ok();
    peer.tree_id = first.tree_id;
    peer
}

fn two_channels(world: &World) -> (Peer, Peer) {
    let first = Peer::ready(world, Dialect::SMB_3_1_1);
    let second = channel(world, &first);
    (first, second)
}

/// Logs on from another client, as Bob.
fn bob(world: &World) -> Peer {
    let mut peer = world.connect();
    let offer = Offer::dialects(&[Dialect::SMB_3_1_1]);
    peer.negotiate_with(&Offer { client_guid: Guid([0xB0; 16]), ..offer }).ok();
    peer.authenticate(&Login::user(BOB.0, BOB.1)).ok();
    peer.tree("data");
    peer
}

/// Opens the file with a batch oplock.
fn keep(peer: &mut Peer) -> FileId {
    peer.create(&Create::open_if("file").oplock(OplockLevel::BATCH)).file_id
}

/// Has Bob open the file, and wait until its holder has answered.
fn disturb(world: &World) -> Peer {
    let mut other = bob(world);
    let create = other.request(Command::CREATE, &Create::open("file"));
    other.send(create);
    assert!(other.receive().iter().all(testkit::Response::is_interim), "the holder is asked first");
    other
}

/// Takes the responses, which are all breaks.
#[track_caller]
fn breaks(peer: &mut Peer) -> Vec<OplockBreak> {
    peer.receive().iter().map(testkit::Response::body).collect()
}

fn answer(peer: &mut Peer, file_id: FileId) {
    let body = OplockBreak { oplock_level: OplockLevel::II, file_id };
    let request = peer.request(Command::OPLOCK_BREAK, &body);
    peer.call(request).ok();
}

#[track_caller]
fn assert_opened(peer: &mut Peer) {
    let answers = peer.receive();
    assert_eq!(answers.iter().map(|it| it.status()).collect::<Vec<_>>(), [NtStatus::SUCCESS]);
}

#[test]
fn a_break_that_is_not_taken_goes_to_the_next_channel() {
    let world = World::new();
    let (mut first, mut second) = two_channels(&world);
    let mut third = channel(&world, &first);
    // The break goes to the oldest channel, on whichever the file was opened.
    let file_id = keep(&mut second);
    let mut other = disturb(&world);
    let notice = OplockBreak { oplock_level: OplockLevel::II, file_id };
    assert_eq!((breaks(&mut first), breaks(&mut second)), (vec![notice], vec![]));
    first.take_nothing();
    assert_eq!(first.closed(), Some(Disconnect::BreakNotConfirmed));
    assert_eq!((breaks(&mut second), breaks(&mut third)), (vec![notice], vec![]));
    second.take_nothing();
    assert_eq!(breaks(&mut third), [notice]);
    let channels = world.channels().into_iter().filter(|it| it.session_id == third.session_id);
    assert_eq!(channels.map(|it| it.repeated_breaks).collect::<Vec<_>>(), [1]);
    assert_eq!(third.confirm(), 1);
    answer(&mut third, file_id);
    assert_opened(&mut other);
}

#[test]
fn a_break_is_sent_again_at_once_when_its_channel_is_lost() {
    let world = World::new();
    let (mut first, mut second) = two_channels(&world);
    let file_id = keep(&mut first);
    let mut other = disturb(&world);
    first.disconnect();
    assert_eq!(breaks(&mut second).len(), 1);
    answer(&mut second, file_id);
    assert_opened(&mut other);
}

/// The client's TCP had the break; its program may not have read it before the channel was lost.
#[test]
fn a_break_that_was_taken_and_not_answered_is_sent_again_when_its_channel_is_lost() {
    let world = World::new();
    let (mut first, mut second) = two_channels(&world);
    let file_id = keep(&mut first);
    let mut other = disturb(&world);
    assert_eq!(breaks(&mut first).len(), 1);
    assert_eq!(first.confirm(), 1);
    assert_eq!(first.closed(), None);
    assert_eq!(breaks(&mut second), [], "not while the channel lives");
    first.disconnect();
    assert_eq!(breaks(&mut second).len(), 1);
    answer(&mut second, file_id);
    assert_opened(&mut other);
}

#[test]
fn a_timed_out_break_is_not_sent_again() {
    let world = World::new();
    let (mut first, mut second) = two_channels(&world);
    keep(&mut first);
    let mut other = disturb(&world);
    first.confirm();
    world.advance(BREAK_TIMEOUT);
    assert_opened(&mut other);
    first.disconnect();
    assert_eq!(breaks(&mut second), []);
}

#[test]
fn a_break_that_was_answered_is_sent_once() {
    let world = World::new();
    let (mut first, mut second) = two_channels(&world);
    let file_id = keep(&mut first);
    let mut other = disturb(&world);
    assert_eq!(breaks(&mut first).len(), 1);
    answer(&mut second, file_id);
    assert_opened(&mut other);
    first.disconnect();
    assert_eq!(breaks(&mut second), []);
}

#[test]
fn without_retry_a_break_is_sent_once_and_nobody_asks_for_it() {
    let world = World::with(|settings| settings.break_retry = BreakRetry::Never);
    let (mut first, mut second) = two_channels(&world);
    keep(&mut first);
    disturb(&world);
    assert_eq!(first.confirm(), 0);
    first.disconnect();
    assert_eq!(breaks(&mut second), []);
}

#[test]
fn as_by_windows_a_break_of_an_oplock_is_sent_once_on_the_newest_channel() {
    let world = World::with(|settings| settings.break_retry = BreakRetry::LeasesOnly);
    let (mut first, mut second) = two_channels(&world);
    let file_id = keep(&mut first);
    disturb(&world);
    let notice = OplockBreak { oplock_level: OplockLevel::II, file_id };
    assert_eq!((breaks(&mut first), breaks(&mut second)), (vec![], vec![notice]));
    assert_eq!(second.confirm(), 0);
    second.disconnect();
    assert_eq!(breaks(&mut first), []);
}

#[test]
fn as_by_windows_a_break_of_a_lease_is_sent_again() {
    let world = World::with(|settings| settings.break_retry = BreakRetry::LeasesOnly);
    let (mut first, mut second) = two_channels(&world);
    keep_by_lease(&mut second);
    disturb(&world);
    let count = |peer: &mut Peer| peer.receive().len();
    assert_eq!((count(&mut first), count(&mut second)), (1, 0));
    first.take_nothing();
    assert_eq!(count(&mut second), 1);
}

#[test]
fn when_no_channel_is_left_nobody_has_to_answer() {
    let world = World::new();
    let (mut first, second) = two_channels(&world);
    keep(&mut first);
    let mut other = disturb(&world);
    first.take_nothing();
    second.take_nothing();
    assert_opened(&mut other);
    other.disconnect();
    world.assert_nothing_left();
}

#[test]
fn responses_need_no_confirmation() {
    let world = World::new();
    let (mut first, _second) = two_channels(&world);
    let file_id = keep(&mut first);
    first.write(file_id, 0, b"data").ok();
    assert_eq!(first.confirm(), 0);
}

fn keep_by_lease(peer: &mut Peer) -> FileId {
    let lease_state =
        LeaseState::READ_CACHING | LeaseState::WRITE_CACHING | LeaseState::HANDLE_CACHING;
    let lease = LeaseContext { lease_key: KEY, lease_state, ..LeaseContext::default() };
    let create = Create::open_if("file").oplock(OplockLevel::LEASE).context(&lease);
    peer.create(&create).file_id
}

/// Logs on as Alice, in an encrypted session.
fn sealed(world: &World) -> Peer {
    let mut peer = world.connect();
    peer.negotiate([Dialect::SMB_3_1_1]);
    peer.login_alice();
    peer.seals = true;
    peer.tree("data");
    peer
}

/// The peers have only the keys of their own session.
#[test]
fn a_break_is_sealed_for_a_session_of_its_connection() {
    let world = World::with(|settings| settings.encryption = proto::settings::Policy::Desired);
    let (mut first, mut second) = (sealed(&world), sealed(&world));
    keep_by_lease(&mut second);
    let mut other = sealed(&world);
    let create = other.request(Command::CREATE, &Create::open("file"));
    other.send(create);
    let mut notice = first.receive();
    first.take_nothing();
    notice.extend(second.receive());
    assert_eq!(notice.iter().map(|it| it.sealed).collect::<Vec<_>>(), [true, true]);
}

/// A lease belongs to the ClientGuid: the break may go over connections of another session, too.
#[test]
fn the_break_of_a_lease_goes_to_any_session_of_the_client() {
    let world = World::new();
    let mut first = Peer::ready(&world, Dialect::SMB_3_1_1);
    let mut second = Peer::ready(&world, Dialect::SMB_3_1_1);
    let mut stranger = bob(&world);
    keep_by_lease(&mut second);
    let other = disturb(&world);
    let notice = |peer: &mut Peer| -> Vec<LeaseKey> {
        let received = peer.receive();
        received.iter().map(|it| it.body::<LeaseBreakNotification>().lease_key).collect()
    };
    assert_eq!((notice(&mut first), notice(&mut second)), (vec![KEY], vec![]));
    first.take_nothing();
    assert_eq!(notice(&mut second), [KEY]);
    // The client's last session with the file open takes the ownership along.
    second.take_nothing();
    assert!(stranger.receive().is_empty(), "nobody else is told");
    other.disconnect();
    stranger.disconnect();
    world.assert_nothing_left();
}

/// ClientGuids are sent in the clear.
#[test]
fn another_user_with_the_same_client_guid_gets_no_break_of_the_holder() {
    let world = World::new();
    let mut impostor = world.connect();
    impostor.negotiate([Dialect::SMB_3_1_1]);
    impostor.authenticate(&Login::user(BOB.0, BOB.1)).ok();
    let mut holder = Peer::ready(&world, Dialect::SMB_3_1_1);
    keep_by_lease(&mut holder);
    let other = disturb(&world);
    assert!(impostor.receive().is_empty());
    let notice = holder.receive();
    let keys: Vec<LeaseKey> =
        notice.iter().map(|it| it.body::<LeaseBreakNotification>().lease_key).collect();
    assert_eq!(keys, [KEY]);
    for peer in [impostor, holder, other] {
        peer.disconnect();
    }
    world.assert_nothing_left();
}

fn force_unacked_timeout(peer: &mut Peer) -> Outcome {
    let body = IoctlRequest {
        ctl_code: FsctlCode::SMBTORTURE_FORCE_UNACKED_TIMEOUT,
        file_id: FileId::ANY,
        flags: IoctlFlags::IS_FSCTL,
        ..IoctlRequest::default()
    };
    // smbtorture names neither session nor tree connect.
    let request = peer.request(Command::IOCTL, &body).session(0).unsigned();
    peer.call(request).outcome()
}

#[test]
fn a_test_can_have_a_channel_confirm_nothing_if_the_setting_permits_it() {
    let world = World::new();
    let mut first = Peer::ready(&world, Dialect::SMB_3_1_1);
    assert_eq!(force_unacked_timeout(&mut first), Reason::NoSuchSession);

    let world = World::with(|settings| settings.smbtorture_hooks = true);
    let (mut first, mut second) = two_channels(&world);
    keep(&mut first);
    assert_eq!(force_unacked_timeout(&mut first), NtStatus::SUCCESS);
    disturb(&world);
    assert_eq!(first.confirm(), 1);
    assert_eq!(first.closed(), Some(Disconnect::BreakNotConfirmed));
    assert_eq!(breaks(&mut second).len(), 1);
}
