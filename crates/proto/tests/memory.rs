//! A client has one limit for the memory that it takes in its worker, and is still served when it
//! reaches the limit.

use std::collections::BTreeSet;

use dtyp::fscc::FileInformationClass;
use dtyp::fscc::directory::decode_directory_list;
use dtyp::{NtStatus, Sid, utf16};
use proto::session::AUTHENTICATION_BYTES;
use proto::{Account, Effect};
use testkit::accounts::ALICE;
use testkit::{Create, Login, Peer, Request, Response, World, accounts};
use wire::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use wire::session_setup::SessionSetupFlags;
use wire::{Command, Dialect, FileId};

const INSUFFICIENT: NtStatus = NtStatus::INSUFFICIENT_RESOURCES;

/// Default limit of guests in bytes: one half for memory that stays, one for memory in transit.
const GUEST_MAX: usize = 16 << 20;

/// Connects a client that logs on anonymously.
fn nobody(world: &World) -> Peer {
    let mut peer = world.connect();
    peer.negotiate([Dialect::SMB_3_1_1]);
    peer.authenticate(&Login::anonymous()).ok();
    peer.tree("IPC$");
    peer
}

/// Connects a user's client with a limit of 16 MiB, which it can reach quickly.
fn user() -> (World, Peer) {
    let world = World::with(|settings| settings.client_memory_max = GUEST_MAX);
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    peer.credit_request = 64;
    (world, peer)
}

/// Repeats a request until it is refused. Returns the number of successful ones.
#[track_caller]
fn until_refused(mut ask: impl FnMut(u32) -> Response) -> u32 {
    for count in 0..100_000 {
        match ask(count).header.status {
            INSUFFICIENT => return count,
            status => assert!(!status.is_error(), "{status} at {count}"),
        }
    }
    panic!("it goes on for ever")
}

/// Sends a request and takes its first response, which may be an interim one.
#[track_caller]
fn first_answer(peer: &mut Peer, request: Request) -> Response {
    peer.send(request);
    peer.receive().remove(0)
}

#[test]
fn pipes_of_nobody_end_in_insufficient_resources_and_the_rest_goes_on() {
    let world = World::new();
    let mut peer = nobody(&world);
    peer.credit_request = 64;
    let mut pipes = Vec::new();
    let pipe = Create::open("srvsvc");
    let opened = until_refused(|_| {
        let response = peer.try_create(&pipe);
        if !response.header.status.is_error() {
            let body: wire::create::CreateResponse<'_> = response.body();
            pipes.push(body.file_id);
        }
        response
    });
    assert_eq!(opened, 256);
    // Each fragment of an unknown kind is answered by a fault, which the client does not read.
    let fragments = [5, 0, 99, 3, 0x10, 0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0].repeat(256);
    let mut written = 0;
    for pipe in pipes.iter().flat_map(|pipe| [pipe; 8]) {
        let response = peer.write(*pipe, 0, &fragments);
        match response.header.status {
            NtStatus::SUCCESS => written += 1,
            status => assert_eq!(status, INSUFFICIENT),
        }
    }
    assert!((64..1_600).contains(&written), "{written} were written to");
    assert!(world.memory_taken() <= GUEST_MAX, "{} bytes", world.memory_taken());
    peer.echo().ok();
    // Memory of closed pipes is free for others: none of the pipes is broken.
    for pipe in &pipes[..128] {
        peer.close(*pipe).ok();
    }
    let last = *pipes.last().expect("256");
    peer.write(last, 0, &fragments).ok();
    peer.disconnect();
    world.assert_nothing_left();
}

#[test]
fn each_unfinished_authentication_is_charged() {
    let (world, mut peer) = user();
    let before = world.memory_taken();
    let mut other = world.connect();
    other.negotiate([Dialect::SMB_3_1_1]);
    other.claim_key(&peer);
    let again = Login::user(ALICE.0, ALICE.1);
    for (peer, login, bytes) in [
        (&mut other, again.clone().flags(SessionSetupFlags::BINDING), AUTHENTICATION_BYTES),
        (&mut peer, again.clone(), 2 * AUTHENTICATION_BYTES),
    ] {
        let (_, token) = peer.begin(&login);
        let request = peer.session_setup(&login, &token);
        assert_eq!(peer.call(request).outcome(), NtStatus::MORE_PROCESSING_REQUIRED);
        assert_eq!(world.memory_taken() - before, bytes);
    }
    other.disconnect();
    assert_eq!(world.memory_taken() - before, AUTHENTICATION_BYTES);
}

#[test]
fn the_groups_of_an_account_are_charged_once_for_its_session_and_pipes() {
    let taken = |groups| {
        let world = World::new();
        let groups = vec![Sid::users(); groups].into();
        world.set_guest(Some(Account { groups, ..accounts::guest() }));
        let mut peer = nobody(&world);
        for _ in 0..2 {
            peer.create(&Create::open("srvsvc"));
        }
        world.memory_taken()
    };
    assert_eq!(taken(1_000) - taken(0), 2 * 1_000 * size_of::<Sid>());
}

/// Reads one entry of a directory; the store returns many.
fn next_entry(peer: &mut Peer, directory: FileId) -> Response {
    let body = QueryDirectoryRequest {
        file_information_class: FileInformationClass::ID_BOTH_DIRECTORY,
        flags: QueryDirectoryFlags::RETURN_SINGLE_ENTRY,
        file_index: 0,
        file_id: directory,
        output_buffer_length: 65_536,
        file_name: &utf16::to_bytes("entry*"),
    };
    let request = peer.request(Command::QUERY_DIRECTORY, &body);
    peer.call(request)
}

fn name_of(response: &Response) -> String {
    let body: QueryDirectoryResponse<'_> = response.body();
    let class = FileInformationClass::ID_BOTH_DIRECTORY;
    let entries = decode_directory_list(class, body.output_buffer).expect("it is a listing");
    entries[0].file_name.to_string()
}

#[test]
fn listings_left_over_end_in_insufficient_resources_and_one_that_was_refused_goes_on_whole() {
    const ENTRIES: usize = 600;
    let (world, mut peer) = user();
    for index in 0..ENTRIES {
        world.add_file("data", &format!("many/entry {index:03}"), b"");
    }
    let open = Create::open("many");
    let mut directories = Vec::new();
    let begun = until_refused(|_| {
        let directory = peer.create(&open).file_id;
        directories.push(directory);
        next_entry(&mut peer, directory)
    });
    assert!((16..200).contains(&begun), "{begun} are under way");
    assert!(world.memory_taken() <= GUEST_MAX / 2, "{} bytes", world.memory_taken());
    let refused = directories.pop().expect("it was the last one");
    assert_eq!(next_entry(&mut peer, refused).header.status, INSUFFICIENT);
    peer.close(directories[0]).ok();
    let mut names = BTreeSet::new();
    for _ in 0..ENTRIES {
        let response = next_entry(&mut peer, refused).ok();
        assert!(names.insert(name_of(&response)));
    }
    assert_eq!(next_entry(&mut peer, refused).header.status, NtStatus::NO_MORE_FILES);
    peer.disconnect();
    world.assert_nothing_left();
}

#[test]
fn requests_that_wait_for_ever_end_in_insufficient_resources() {
    let (world, mut peer) = user();
    let directory = peer.create(&Create::directory("watched")).file_id;
    let padded = |peer: &Peer, directory: FileId| {
        let request = peer.watch_request(directory).charge(4);
        request.body(|body| body.resize(body.len() + 200_000, 0))
    };
    let waiting = until_refused(|_| {
        let request = padded(&peer, directory);
        first_answer(&mut peer, request)
    });
    assert!((30..42).contains(&waiting), "{waiting} wait");
    assert!(world.memory_taken() <= GUEST_MAX / 2, "{} bytes", world.memory_taken());
    peer.echo().ok();
    // The requests end with their open, and their memory is free again.
    peer.send(peer.close_request(directory));
    let ended = peer.receive();
    assert_eq!(ended.len(), usize::try_from(waiting).expect("few") + 1);
    let directory = peer.create(&Create::directory("watched")).file_id;
    let request = padded(&peer, directory);
    assert_eq!(first_answer(&mut peer, request).header.status, NtStatus::PENDING);
    peer.disconnect();
    world.assert_nothing_left();
}

#[test]
fn watches_end_in_insufficient_resources() {
    let world = World::with(|settings| settings.client_memory_max = 1 << 20);
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    peer.credit_request = 64;
    let watched = until_refused(|count| {
        let created = peer.try_create(&Create::directory(&format!("watched {count}")));
        if created.header.status.is_error() {
            return created;
        }
        let directory = created.body::<wire::create::CreateResponse<'_>>().file_id;
        let request = peer.watch_request(directory);
        first_answer(&mut peer, request)
    });
    assert!((50..500).contains(&watched), "{watched} watches");
    assert!(world.memory_taken() <= 1 << 19, "{} bytes", world.memory_taken());
    peer.echo().ok();
    peer.disconnect();
    world.assert_nothing_left();
}

#[test]
fn tree_connects_end_in_insufficient_resources() {
    let world = World::with(|settings| settings.guest_memory_max = 4 << 20);
    let mut peer = nobody(&world);
    peer.credit_request = 64;
    let connected = until_refused(|_| peer.try_tree("IPC$"));
    assert!((200..4_000).contains(&connected), "{connected} tree connects");
    assert!(world.memory_taken() <= 2 << 20, "{} bytes", world.memory_taken());
    peer.echo().ok();
    peer.disconnect();
    world.assert_nothing_left();
}

#[test]
fn tree_connects_that_wait_for_their_shares_are_charged_also_without_their_connection() {
    let (world, mut stays) = user();
    world.delay_replies(|effect| matches!(effect, Effect::ConnectShare(_)));
    let is_refused = |response: &Response| response.header.status == INSUFFICIENT;
    let mut waiting = 0;
    loop {
        let mut peer = world.connect();
        peer.negotiate([Dialect::SMB_3_1_1]);
        peer.credit_request = 64;
        peer.login_alice();
        for _ in 0..32 {
            let request = peer.tree_request("data");
            peer.send(request);
        }
        let is_full = peer.receive().iter().any(is_refused);
        peer.disconnect();
        if is_full {
            break;
        }
        waiting += 32;
        assert!(waiting < 8_000, "{} bytes", world.memory_taken());
    }
    assert!((500..8_000).contains(&waiting), "{waiting} tree connects");
    stays.echo().ok();
    world.release_all();
    stays.tree("data");
    stays.disconnect();
    world.assert_nothing_left();
}

#[test]
fn a_client_has_the_memory_of_a_user_while_one_is_logged_on() {
    let opens = |peer: &mut Peer| until_refused(|_| peer.try_create(&Create::open("srvsvc")));
    let settings = |settings: &mut proto::ServerSettings| {
        (settings.guest_memory_max, settings.client_memory_max) = (256 << 10, 1 << 20);
    };
    let world = World::with(settings);
    let mut guest = nobody(&world);
    let few = opens(&mut guest);
    let mut user = Peer::ready(&world, Dialect::SMB_3_1_1);
    let more = opens(&mut guest);
    assert!(few > 5 && more > 2 * few, "{few}, then {more} more");
    user.logoff().ok();
    assert_eq!(opens(&mut guest), 0);
    user.disconnect();
    guest.disconnect();
    world.assert_nothing_left();
}

#[test]
fn a_user_is_admitted_after_guests_have_used_all_their_memory() {
    let world = World::with(|settings| settings.guest_memory_max = 256 << 10);
    let mut guest = nobody(&world);
    until_refused(|_| guest.try_create(&Create::open("srvsvc")));
    let mut user = Peer::ready(&world, Dialect::SMB_3_1_1);
    user.create(&Create::new("file"));
    user.disconnect();
    guest.disconnect();
    world.assert_nothing_left();
}
