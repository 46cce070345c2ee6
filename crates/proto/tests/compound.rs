//! Compounds: [MS-SMB2] 3.3.5.2.7 and 3.3.4.1.3.

use dtyp::NtStatus;
use proto::{Disconnect, Effect};
use testkit::request::RELATED;
use testkit::{Create, Login, Outcome, Peer, Request, Response, World};
use trace::Reason;
use wire::close::CloseResponse;
use wire::create::CreateResponse;
use wire::echo::EchoRequest;
use wire::header::{self, set_next_command};
use wire::read::ReadResponse;
use wire::{Command, Decode, DecodeError, Dialect, FileId, HeaderFlags};

fn ready(world: &World) -> Peer {
    world.add_file("data", "file", b"data");
    Peer::ready(world, Dialect::SMB_3_1_1)
}

fn outcomes(responses: &[Response]) -> Vec<Outcome> {
    responses.iter().map(Response::outcome).collect()
}

fn create(peer: &Peer, name: &str) -> Request {
    peer.request(Command::CREATE, &Create::open(name))
}

fn read(peer: &Peer, file_id: FileId) -> Request {
    peer.read_request(file_id, 0, 10)
}

#[test]
fn a_file_is_opened_read_and_closed_in_one_frame() {
    let world = World::new();
    let mut peer = ready(&world);
    let requests = [
        create(&peer, "file"),
        read(&peer, RELATED).related(),
        peer.close_request(RELATED).related(),
    ];
    let frames = world.frames().len();
    let responses = peer.call_all(requests);
    assert_eq!(world.frames().len(), frames + 1);
    assert_eq!(outcomes(&responses), [NtStatus::SUCCESS; 3]);
    assert_eq!(responses[1].body::<ReadResponse<'_>>().data, b"data");
    responses[2].body::<CloseResponse>();
    assert_eq!(world.store().open_count(), 0);
}

#[test]
fn responses_lie_in_one_frame_aligned_to_8_bytes_and_say_that_they_are_related() {
    let world = World::new();
    let mut peer = ready(&world);
    let requests = [
        create(&peer, "file"),
        read(&peer, RELATED).related(),
        peer.close_request(RELATED).related(),
    ];
    let responses = peer.call_all(requests);
    let related = |it: &Response| it.header.flags.contains(HeaderFlags::RELATED_OPERATIONS);
    assert_eq!(responses.iter().map(related).collect::<Vec<_>>(), [false, true, true]);
    let ids = |it: &Response| (it.header.session_id, it.header.tree_id);
    assert!(responses.iter().all(|it| ids(it) == (peer.session_id, peer.tree_id)));
    let next: Vec<u32> = responses.iter().map(|it| it.header.next_command).collect();
    assert!(next[0] > 0 && next[1] > 0 && next[2] == 0, "one frame: {next:?}");
    assert!(next.iter().all(|next| next.is_multiple_of(8)), "{next:?}");
    // 4 bytes of data end off a boundary, so that there is padding.
    assert_eq!(next[1], (64 + 16 + 4_u32).next_multiple_of(8));
}

#[test]
fn requests_related_to_a_failed_create_fail_alike() {
    let world = World::new();
    let mut peer = ready(&world);
    let requests = [
        create(&peer, "missing"),
        read(&peer, RELATED).related(),
        peer.close_request(RELATED).related(),
    ];
    let responses = peer.call_all(requests);
    let previous = Outcome::Refused(Reason::Previous);
    let want = [Outcome::Status(NtStatus::OBJECT_NAME_NOT_FOUND), previous, previous];
    assert_eq!(outcomes(&responses), want);
    let statuses = responses.iter().map(Response::status);
    assert!(statuses.into_iter().all(|status| status == NtStatus::OBJECT_NAME_NOT_FOUND));
}

#[test]
fn requests_after_a_failed_read_still_have_the_file() {
    let world = World::new();
    let mut peer = ready(&world);
    let requests = [
        create(&peer, "file"),
        peer.read_request(RELATED, 100, 1).related(),
        peer.close_request(RELATED).related(),
    ];
    let responses = peer.call_all(requests);
    let at_end = Outcome::Refused(Reason::MinimumCountNotReached);
    let want = [Outcome::SUCCESS, at_end, Outcome::SUCCESS];
    assert_eq!(outcomes(&responses), want);
    assert_eq!(world.store().open_count(), 0);
}

#[test]
fn a_related_request_uses_the_file_of_the_one_before_and_not_its_own_file_id() {
    let world = World::new();
    let mut peer = ready(&world);
    world.add_file("data", "other", b"other");
    let other = peer.create(&Create::open("other")).file_id;
    let requests = [create(&peer, "file"), read(&peer, other).related()];
    let responses = peer.call_all(requests);
    assert_eq!(responses[1].body::<ReadResponse<'_>>().data, b"data");
    // The file id may also come from a request that did not make the open.
    let requests = [read(&peer, other), read(&peer, RELATED).related()];
    let responses = peer.call_all(requests);
    assert_eq!(responses[1].body::<ReadResponse<'_>>().data, b"other");
}

#[test]
fn a_file_id_is_not_handed_down_past_a_request_without_one() {
    let world = World::new();
    let mut peer = ready(&world);
    let echo = peer.request(Command::ECHO, &EchoRequest);
    let requests = [create(&peer, "file"), echo.related(), read(&peer, RELATED).related()];
    let responses = peer.call_all(requests);
    let refused = Outcome::Refused(Reason::NoRelatedFileId);
    let want = [Outcome::SUCCESS, Outcome::SUCCESS, refused];
    assert_eq!(outcomes(&responses), want);
}

#[test]
fn unrelated_requests_share_nothing_but_the_frame() {
    let world = World::new();
    let mut peer = ready(&world);
    let file = peer.create(&Create::open("file")).file_id;
    let requests = [
        create(&peer, "missing"),
        read(&peer, file),
        peer.request(Command::ECHO, &EchoRequest),
        peer.close_request(file),
    ];
    let responses = peer.call_all(requests);
    let missing = NtStatus::OBJECT_NAME_NOT_FOUND;
    let ok = NtStatus::SUCCESS;
    assert_eq!(outcomes(&responses), [missing, ok, ok, ok]);
}

#[test]
fn a_chain_may_be_related_twice() {
    let world = World::new();
    let mut peer = ready(&world);
    let requests = [
        create(&peer, "file"),
        peer.close_request(RELATED).related(),
        create(&peer, "file"),
        read(&peer, RELATED).related(),
    ];
    let responses = peer.call_all(requests);
    assert_eq!(outcomes(&responses), [NtStatus::SUCCESS; 4]);
}

#[test]
fn the_first_cannot_be_related() {
    let world = World::new();
    let mut peer = ready(&world);
    let requests = [create(&peer, "file").related(), read(&peer, RELATED).related()];
    // Signed with the session's key, which ids of all ones do not name.
    let requests = requests.map(Request::unsigned);
    let responses = peer.call_all(requests);
    assert_eq!(responses[0].outcome(), Reason::FirstIsRelated);
    assert_eq!(responses[1].outcome(), Reason::NoRelatedIds);
    assert!(peer.is_open());
    assert_eq!(world.store().open_count(), 0);
}

#[test]
fn session_and_tree_are_made_and_used_in_one_frame() {
    let world = World::new();
    let mut peer = world.connect();
    peer.negotiate([Dialect::SMB_3_0]);
    peer.login_alice();
    world.add_file("data", "file", b"data");
    let requests = [
        peer.tree_request("data"),
        create(&peer, "file").related(),
        read(&peer, RELATED).related(),
    ];
    let responses = peer.call_all(requests);
    assert_eq!(outcomes(&responses), [NtStatus::SUCCESS; 3]);
    let tree_id = responses[0].header.tree_id;
    assert!(tree_id != 0 && responses.iter().all(|it| it.header.tree_id == tree_id));
}

#[test]
fn requests_are_served_in_order_however_long_one_takes() {
    let world = World::new();
    let mut peer = ready(&world);
    world.delay_replies(|effect| matches!(effect, Effect::Object { .. }));
    let requests = [create(&peer, "file"), read(&peer, RELATED).related()];
    peer.send_all(requests);
    for _ in 0..2 {
        assert_eq!(world.delayed_replies(), 1, "one at a time");
        assert!(peer.receive().is_empty());
        world.release(0);
    }
    let responses = peer.receive();
    assert_eq!(outcomes(&responses), [NtStatus::SUCCESS; 2]);
    // Another frame does not wait for this one.
}

#[test]
fn a_frame_overtakes_another_that_waits() {
    let world = World::new();
    let mut peer = ready(&world);
    world.delay_replies(|effect| matches!(effect, Effect::Object { .. }));
    let request = create(&peer, "file");
    peer.send(request);
    peer.echo().ok();
    world.release_all();
    assert_eq!(outcomes(&peer.receive()), [NtStatus::SUCCESS]);
}

#[test]
fn cancel_in_a_compound_leaves_no_gap() {
    let world = World::new();
    let mut peer = ready(&world);
    let cancel = peer.request(Command::CANCEL, &EchoRequest).unsigned();
    let requests = [create(&peer, "file"), cancel, peer.request(Command::ECHO, &EchoRequest)];
    let responses = peer.call_all(requests);
    let commands: Vec<Command> = responses.iter().map(|it| it.header.command).collect();
    assert_eq!(commands, [Command::CREATE, Command::ECHO]);
}

/// 31 MiB of data do not fit the 24 bits of a frame's length; they come in several frames.
#[test]
fn responses_that_do_not_fit_one_frame_come_in_several() {
    let world = World::new();
    let mut peer = ready(&world);
    peer.credit_request = 1_000;
    peer.echo().ok();
    let file = peer.create(&Create::open("file")).file_id;
    peer.write(file, 0, &vec![7; 0x10_0000]).ok();
    let reads: Vec<Request> = (0..31).map(|_| peer.read_request(file, 0, 0x10_0000)).collect();
    let responses = peer.call_all(reads);
    assert_eq!(responses.len(), 31);
    for response in &responses {
        assert_eq!(response.body::<ReadResponse<'_>>().data.len(), 0x10_0000);
    }
    let frames = responses.iter().filter(|it| it.header.next_command == 0).count();
    assert!(frames >= 2, "{frames}");
}

/// Lays out a frame of two ECHO requests by hand.
fn two_echoes(peer: &mut Peer, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let echo = peer.request(Command::ECHO, &EchoRequest).unsigned();
    let (mut frame, _) = peer.lay_out([echo.clone(), echo]);
    change(&mut frame);
    frame
}

#[track_caller]
fn check_chain(change: impl FnOnce(&mut Vec<u8>), want: DecodeError) {
    let world = World::new();
    let mut peer = ready(&world);
    let frame = two_echoes(&mut peer, change);
    peer.send_frame(&frame);
    assert_eq!(peer.closed(), Some(Disconnect::Malformed(want)));
    assert!(peer.receive().is_empty(), "nothing of a broken chain is served");
}

#[test]
fn a_chain_that_is_not_aligned_ends_the_connection() {
    let bad = DecodeError::BadValue { field: "NextCommand", value: 0x44 };
    check_chain(|frame| set_next_command(frame, 0x44), bad);
}

#[test]
fn a_chain_that_points_into_its_own_header_ends_the_connection() {
    for next in [8, 0x38] {
        let bad = DecodeError::BadValue { field: "NextCommand", value: next.into() };
        check_chain(|frame| set_next_command(frame, next), bad);
    }
}

#[test]
fn a_chain_that_leaves_the_frame_ends_the_connection() {
    let len = 2 * (header::SIZE + 8) - 4;
    for next in [0x0001_0000, 0x7FFF_FFF8, 0xFFFF_FFF8] {
        let offset = usize::try_from(next).expect("it fits");
        let bad = DecodeError::Offset { offset, length: header::SIZE, have: len };
        check_chain(|frame| set_next_command(frame, next), bad);
    }
}

#[test]
fn a_second_message_shorter_than_a_header_ends_the_connection() {
    let bad = DecodeError::Short { need: 64, have: 63 };
    check_chain(|frame| frame.truncate(header::SIZE + 8 + 63), bad);
}

#[test]
fn a_body_that_is_too_short_spoils_only_its_own_request() {
    let world = World::new();
    let mut peer = ready(&world);
    let echo = peer.request(Command::ECHO, &EchoRequest);
    let short = echo.clone().body(|body| body.truncate(3));
    let responses = peer.call_all([echo, short]);
    let malformed = Outcome::Refused(Reason::Malformed);
    assert_eq!(outcomes(&responses), [Outcome::SUCCESS, malformed]);
}

#[test]
fn a_compound_of_as_many_requests_as_there_are_credits_is_served() {
    let world = World::with(|settings| settings.credits_max = 512);
    let mut peer = ready(&world);
    peer.credit_request = 512;
    peer.echo().ok();
    let echoes: Vec<Request> =
        (0..512).map(|_| peer.request(Command::ECHO, &EchoRequest)).collect();
    let responses = peer.call_all(echoes);
    assert_eq!(responses.len(), 512);
    assert_eq!(peer.credits(), 512);
}

#[test]
fn a_create_that_another_frame_made_impossible_fails_with_all_that_follows() {
    let world = World::new();
    let mut peer = ready(&world);
    world.delay_replies(|effect| matches!(effect, Effect::Object { .. }));
    let requests = [create(&peer, "file"), read(&peer, RELATED).related()];
    peer.send_all(requests);
    peer.tree_disconnect().ok();
    world.release_all();
    let responses = peer.receive();
    assert_eq!(outcomes(&responses), [Reason::NoSuchTreeConnect, Reason::Previous]);
    assert_eq!(responses[1].status(), NtStatus::NETWORK_NAME_DELETED);
    assert_eq!(world.store().open_count(), 0);
    CreateResponse::decode(&responses[0].message).expect_err("an error has no such body");
}

/// The responses of a frame are kept until the last one exists.
#[test]
fn the_requests_of_one_frame_cost_at_most_512_credits() {
    let world = World::new();
    let mut peer = ready(&world);
    peer.credit_request = 1_000;
    peer.echo();
    let requests: Vec<_> = (0..600).map(|_| peer.request(Command::ECHO, &EchoRequest)).collect();
    let statuses = outcomes(&peer.call_all(requests));
    assert_eq!(statuses[..512], [NtStatus::SUCCESS; 512]);
    assert_eq!(statuses[512..], [Reason::CompoundTooLarge; 88]);
    assert!(peer.is_open());
}

/// A guest and a user of one client, and a compound of the guest that makes three files.
fn guest_beside_user(world: &World) -> (Peer, Peer, [Request; 3]) {
    world.hold_turns();
    let mut guest = world.connect();
    guest.negotiate([Dialect::SMB_3_1_1]);
    guest.authenticate(&Login::anonymous()).ok();
    guest.tree("data");
    let requests = ["1", "2", "3"].map(|name| guest.request(Command::CREATE, &Create::new(name)));
    (Peer::ready(world, Dialect::SMB_3_1_1), guest, requests)
}

#[test]
fn a_user_is_answered_between_the_requests_of_a_guests_compound() {
    let world = World::new();
    let (mut user, mut guest, requests) = guest_beside_user(&world);
    guest.send_all(requests);
    for count in 1..=3 {
        let made = ["1", "2", "3"].iter().filter(|name| world.exists("data", name)).count();
        assert_eq!(made, count);
        let echo = user.request(Command::ECHO, &EchoRequest);
        user.call(echo).ok();
        assert_eq!(world.take_turn(), count < 3);
    }
    let responses = guest.receive();
    assert_eq!(outcomes(&responses), [NtStatus::SUCCESS; 3]);
    assert!(responses[0].header.next_command > 0, "they come in one frame, as of other clients");
}

#[test]
fn the_rest_of_a_guests_compound_waits_for_its_turn_behind_a_request_that_has_waited() {
    let world = World::new();
    let (_user, mut guest, requests) = guest_beside_user(&world);
    world.delay_replies(|effect| matches!(effect, Effect::Object { .. }));
    guest.send_all(requests);
    assert_eq!(world.delayed_replies(), 1);
    for _ in 0..2 {
        world.release(0);
        assert_eq!(world.delayed_replies(), 0, "the next one has not begun");
        assert!(world.take_turn());
        assert_eq!(world.delayed_replies(), 1);
    }
    world.release(0);
    assert_eq!(outcomes(&guest.receive()), [NtStatus::SUCCESS; 3]);
    assert!(!world.take_turn());
}

#[test]
fn a_lost_connection_takes_the_rest_of_its_compound_along() {
    let world = World::new();
    let (user, mut guest, requests) = guest_beside_user(&world);
    guest.send_all(requests);
    guest.disconnect();
    assert!(!world.take_turn());
    assert!(!world.exists("data", "2"));
    user.disconnect();
    world.assert_nothing_left();
}

#[test]
fn compounds_of_users_and_of_guests_alone_are_served_at_once() {
    let world = World::new();
    let (mut user, mut guest, requests) = guest_beside_user(&world);
    let of_user = ["4", "5"].map(|name| user.request(Command::CREATE, &Create::new(name)));
    assert_eq!(outcomes(&user.call_all(of_user)), [NtStatus::SUCCESS; 2]);
    user.disconnect();
    assert_eq!(outcomes(&guest.call_all(requests)), [NtStatus::SUCCESS; 3]);
}
