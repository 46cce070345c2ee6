//! Opens that survive their connection, their worker or the whole server: [MS-SMB2] 3.3.5.9.6, .7,
//! .10, .12, .13, 3.3.5.15.9 and 3.3.7.1; and the replay of a CREATE by its CreateGuid.

use std::time::Duration;

use dtyp::fscc::{ReparseData, ReparseTag, SymbolicLinkReparse};
use dtyp::{AccessMask, FileInformationClass, Guid, NtStatus};
use testkit::accounts::BOB;
use testkit::peer::Offer;
use testkit::{Create, Login, Outcome, Peer, Response, World};
use trace::Reason;
use wire::create::{CreateAction, CreateResponse, ShareAccess};
use wire::create_context::{
    AppInstanceId, DurableFlags, DurableHandleReconnect, DurableHandleReconnectV2,
    DurableHandleRequest, DurableHandleRequestV2, DurableHandleResponse, DurableHandleResponseV2,
    LeaseContext, LeaseV2,
};
use wire::header::HeaderFlags;
use wire::ioctl::{FsctlCode, IoctlFlags, IoctlRequest, NetworkResiliencyRequest};
use wire::lease::{LeaseFlags, LeaseKey, LeaseState};
use wire::lock::LockFlags;
use wire::negotiate::{Capabilities, NegotiateResponse};
use wire::query_info::InfoType;
use wire::set_info::SetInfoRequest;
use wire::tree_connect::{ShareCapabilities, TreeConnectResponse};
use wire::{Command, Dialect, FileId, OplockLevel};

#[path = "durable/persistent.rs"]
mod persistent;
#[path = "durable/renaming.rs"]
mod renaming;
#[path = "durable/replay.rs"]
mod replay;
#[path = "durable/resilient.rs"]
mod resilient;

const GUID: Guid = Guid([0x6D; 16]);

/// Connects a client of Alice to a share, with all features of its dialect.
fn client_in(world: &World, client: u8, share: &str) -> Peer {
    let mut peer = world.connect();
    let mut offer = Offer::dialects(&[Dialect::SMB_3_1_1]);
    offer.client_guid = Guid([client; 16]);
    offer.capabilities |= Capabilities::LEASING | Capabilities::PERSISTENT_HANDLES;
    peer.negotiate_with(&offer).ok();
    peer.login_alice();
    peer.tree(share);
    peer
}

fn client(world: &World, client: u8) -> Peer {
    client_in(world, client, "data")
}

/// Opens or creates `file` with a batch oplock, for itself alone.
fn batch() -> Create {
    Create::open_if("file").oplock(OplockLevel::BATCH).share(ShareAccess::empty())
}

fn durable_v1() -> Create {
    batch().context(&DurableHandleRequest)
}

fn v2(flags: DurableFlags, create_guid: Guid) -> DurableHandleRequestV2 {
    DurableHandleRequestV2 { timeout_ms: 30_000, flags, create_guid }
}

fn durable_v2() -> Create {
    batch().context(&v2(DurableFlags::empty(), GUID))
}

fn reconnect_v1(file_id: FileId) -> Create {
    batch().context(&DurableHandleReconnect { file_id })
}

fn reconnect_v2(file_id: FileId, create_guid: Guid) -> Create {
    let flags = DurableFlags::empty();
    batch().context(&DurableHandleReconnectV2 { file_id, create_guid, flags })
}

fn lease(key: u8, state: LeaseState) -> LeaseContext {
    LeaseContext {
        lease_key: LeaseKey([key; 16]),
        lease_state: state,
        lease_flags: LeaseFlags::empty(),
        v2: Some(LeaseV2::default()),
    }
}

fn rwh() -> LeaseState {
    LeaseState::READ_CACHING | LeaseState::WRITE_CACHING | LeaseState::HANDLE_CACHING
}

/// Returns whether a response grants the first version.
fn grants_v1(response: &Response) -> bool {
    let contexts = response.body::<CreateResponse<'_>>().create_contexts;
    contexts.find::<DurableHandleResponse>().expect("well-formed").is_some()
}

fn granted_v2(response: &Response) -> Option<DurableHandleResponseV2> {
    response.body::<CreateResponse<'_>>().create_contexts.find().expect("well-formed")
}

fn file_id(response: &Response) -> FileId {
    response.body::<CreateResponse<'_>>().file_id
}

fn lock(peer: &mut Peer, file_id: FileId) -> Outcome {
    lock_in_sequence(peer, file_id, 0)
}

fn lock_in_sequence(peer: &mut Peer, file_id: FileId, lock_sequence: u32) -> Outcome {
    let flags = LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY;
    let request = peer.lock_request(file_id, flags, lock_sequence);
    peer.call(request).outcome()
}

/// Reconnects an open that `request` made, after a write to it and a loss of its connection.
#[track_caller]
fn check_taken_up(
    world: &World,
    request: &Create,
    happens: impl FnOnce(&Peer),
    again: impl FnOnce(FileId) -> Create,
) {
    let mut first = client(world, 1);
    let before = first.create(request).file_id;
    first.write(before, 0, b"kept").ok();
    happens(&first);
    let mut second = client(world, 1);
    let after = second.create(&again(before)).file_id;
    assert_eq!(after.persistent, before.persistent);
    assert_eq!(second.read(after, 0, 4), b"kept");
    second.write(after, 0, b"more").ok();
    second.close(after).ok();
    assert_eq!(world.open_count(), 0);
}

#[test]
fn an_open_of_the_first_version_is_taken_up_after_its_connection_was_lost() {
    check_taken_up(&World::new(), &durable_v1(), Peer::disconnect, reconnect_v1);
}

#[test]
fn an_open_of_the_second_version_is_taken_up_after_its_connection_was_lost() {
    let again = |file_id| reconnect_v2(file_id, GUID);
    check_taken_up(&World::new(), &durable_v2(), Peer::disconnect, again);
}

#[test]
fn an_open_is_taken_up_after_its_worker_was_killed() {
    let world = World::new();
    check_taken_up(&world, &durable_v1(), |_| world.kill_worker(), reconnect_v1);
    let again = |file_id| reconnect_v2(file_id, GUID);
    check_taken_up(&world, &durable_v2(), |_| world.kill_worker(), again);
}

#[test]
fn a_durable_open_does_not_outlive_the_server() {
    let world = World::new();
    let mut peer = client(&world, 1);
    let file_id = peer.create(&durable_v2()).file_id;
    world.restart_server();
    let mut peer = client(&world, 1);
    let response = peer.try_create(&reconnect_v2(file_id, GUID));
    assert_eq!(response.outcome(), Reason::NoSuchDurableOpen);
}

#[test]
fn only_an_open_with_handle_caching_is_granted_durability() {
    let world = World::new();
    let mut peer = client(&world, 1);
    for level in [OplockLevel::NONE, OplockLevel::II, OplockLevel::EXCLUSIVE, OplockLevel::BATCH] {
        let v1 = peer.try_create(&durable_v1().oplock(level)).ok();
        assert_eq!(grants_v1(&v1), level == OplockLevel::BATCH, "{level:?}");
        peer.close(file_id(&v1)).ok();
        let v2 = peer.try_create(&durable_v2().oplock(level)).ok();
        let granted = granted_v2(&v2).map(|it| (it.timeout_ms, it.flags));
        let want = (level == OplockLevel::BATCH).then_some((30_000, DurableFlags::empty()));
        assert_eq!(granted, want, "{level:?}");
        peer.close(file_id(&v2)).ok();
    }
    let lease = lease(1, LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING);
    let leased = peer.try_create(&durable_v2().oplock(OplockLevel::LEASE).context(&lease)).ok();
    assert!(granted_v2(&leased).is_some());
}

#[test]
fn an_open_that_is_not_durable_goes_with_its_connection() {
    let world = World::new();
    let peer = &mut client(&world, 1);
    let file_id = peer.create(&durable_v1().oplock(OplockLevel::EXCLUSIVE)).file_id;
    peer.disconnect();
    assert_eq!(world.open_count(), 0);
    let again = client(&world, 1).try_create(&reconnect_v1(file_id));
    assert_eq!(again.outcome(), Reason::NoSuchDurableOpen);
}

#[track_caller]
fn check_reconnect(
    request: &Create,
    again: impl FnOnce(FileId) -> Create,
    want: impl Into<Outcome>,
) {
    let want = want.into();
    let world = World::new();
    let mut first = client(&world, 1);
    let file_id = first.create(request).file_id;
    first.disconnect();
    let mut second = client(&world, 1);
    assert_eq!(second.try_create(&again(file_id)).outcome(), want);
}

#[test]
fn an_open_is_found_by_its_persistent_id_and_its_create_guid() {
    let not_found = Reason::NoSuchDurableOpen;
    let other = |id: FileId| FileId { persistent: id.persistent + 1, ..id };
    check_reconnect(&durable_v1(), |id| reconnect_v1(other(id)), not_found);
    check_reconnect(&durable_v2(), |id| reconnect_v2(other(id), GUID), not_found);
    check_reconnect(&durable_v2(), |id| reconnect_v2(id, Guid([1; 16])), not_found);
    // The volatile half of the id is not used any more.
    let forgotten = |id: FileId| reconnect_v1(FileId { volatile: 0, ..id });
    check_reconnect(&durable_v1(), forgotten, NtStatus::SUCCESS);
}

#[test]
fn an_open_with_a_lease_is_taken_up_with_that_lease_only() {
    let leased =
        |create: Create, key| create.oplock(OplockLevel::LEASE).context(&lease(key, rwh()));
    let not_found = Reason::NoSuchDurableOpen;
    let request = leased(durable_v2(), 1);
    check_reconnect(&request, |id| leased(reconnect_v2(id, GUID), 1), NtStatus::SUCCESS);
    check_reconnect(&request, |id| leased(reconnect_v2(id, GUID), 2), not_found);
    check_reconnect(&request, |id| reconnect_v2(id, GUID), not_found);
    let flags = DurableFlags::empty();
    let elsewhere = |file_id| {
        let context = DurableHandleReconnectV2 { file_id, create_guid: GUID, flags };
        leased(Create::open("other").context(&context), 1)
    };
    check_reconnect(&request, elsewhere, Reason::DurableOpenOfAnotherName);
    check_reconnect(&durable_v2(), |id| leased(reconnect_v2(id, GUID), 1), not_found);
}

#[test]
fn an_open_of_another_user_is_not_reconnected() {
    let world = World::new();
    let mut first = client(&world, 1);
    let file_id = first.create(&durable_v1()).file_id;
    first.disconnect();
    let mut second = world.connect();
    second.negotiate([Dialect::SMB_3_1_1]);
    second.login(BOB.0, BOB.1);
    second.tree("data");
    let response = second.try_create(&reconnect_v1(file_id));
    assert_eq!(response.outcome(), Reason::DurableOpenOfAnotherUser);
    client(&world, 1).create(&reconnect_v1(file_id));
}

#[test]
fn an_open_stays_its_users_while_that_user_is_a_guest() {
    let world = World::new();
    let mut first = client(&world, 1);
    let anonymous = Login::anonymous();
    first.authenticate(&anonymous.clone().again(first.session_id)).ok();
    let file_id = first.create(&durable_v1()).file_id;
    first.disconnect();
    let mut guest = world.connect();
    guest.negotiate([Dialect::SMB_3_1_1]);
    guest.authenticate(&anonymous).ok();
    guest.tree("data");
    let response = guest.try_create(&reconnect_v1(file_id));
    assert_eq!(response.outcome(), Reason::DurableOpenOfAnotherUser);
    client(&world, 1).create(&reconnect_v1(file_id));
}

#[test]
fn an_open_is_not_reconnected_when_its_name_is_a_link() {
    let world = World::new();
    let mut first = client(&world, 1);
    let file_id = first.create(&durable_v1()).file_id;
    let (mut data, mut buffer) = (Vec::new(), Vec::new());
    let (name, is_relative) = ("other".to_owned(), true);
    let link = SymbolicLinkReparse { substitute_name: name.clone(), print_name: name, is_relative };
    link.encode(&mut data);
    ReparseData { tag: ReparseTag::SYMLINK, data: &data }.encode(&mut buffer);
    let body = IoctlRequest {
        ctl_code: FsctlCode::SET_REPARSE_POINT,
        file_id,
        input: &buffer,
        flags: IoctlFlags::IS_FSCTL,
        ..IoctlRequest::default()
    };
    let request = first.request(Command::IOCTL, &body);
    first.call(request).ok();
    first.disconnect();
    let response = client(&world, 1).try_create(&reconnect_v1(file_id));
    assert_eq!(response.outcome(), Reason::NoSuchDurableOpen);
}

#[test]
fn an_open_is_given_up_when_its_time_is_over() {
    let world = World::new();
    let mut first = client(&world, 1);
    let file_id = first.create(&durable_v2()).file_id;
    first.disconnect();
    world.advance(Duration::from_millis(29_999));
    world.scavenge();
    assert_eq!(world.open_count(), 1);
    world.advance(Duration::from_millis(1));
    world.scavenge();
    assert_eq!(world.open_count(), 0);
    let response = client(&world, 1).try_create(&reconnect_v2(file_id, GUID));
    assert_eq!(response.outcome(), Reason::NoSuchDurableOpen);
}

/// [MS-FSA] 2.1.5.5: the end of the open deletes the file.
#[test]
fn a_file_that_goes_with_an_open_goes_when_the_open_is_given_up() {
    let world = World::new();
    let mut first = client(&world, 1);
    let file_id = first.create(&durable_v2().delete_on_close()).file_id;
    first.disconnect();
    world.scavenge();
    assert!(world.exists("data", "file"), "the client may come back");
    world.advance(Duration::from_secs(30));
    world.scavenge();
    assert!(!world.exists("data", "file"));
    let response = client(&world, 1).try_create(&reconnect_v2(file_id, GUID));
    assert_eq!(response.outcome(), Reason::NoSuchDurableOpen);
    assert_eq!(world.files(), [], "nothing is left of it");
}

#[test]
fn another_file_of_the_same_name_is_not_deleted_in_its_place() {
    let world = World::new();
    let mut first = client(&world, 1);
    first.create(&durable_v2().delete_on_close());
    first.disconnect();
    world.move_share("data");
    world.add_file("data", "file", b"another");
    world.advance(Duration::from_secs(30));
    world.scavenge();
    assert_eq!(world.contents("data", "file").as_deref(), Some(&b"another"[..]));
    assert_eq!(world.files(), [], "nothing is left of it");
}

#[test]
fn a_file_that_goes_with_an_open_goes_with_the_worker() {
    for is_marked in [false, true] {
        let world = World::new();
        let mut first = client(&world, 1);
        let create = Create::open_if("file");
        let create = if is_marked { create } else { create.delete_on_close() };
        let file_id = first.create(&create).file_id;
        if is_marked {
            let body = SetInfoRequest {
                info_type: InfoType::FILE,
                file_info_class: FileInformationClass::DISPOSITION.0,
                additional_information: 0,
                file_id,
                buffer: &[1],
            };
            let request = first.request(Command::SET_INFO, &body);
            first.call(request).ok();
        }
        world.kill_worker();
        assert!(!world.exists("data", "file"));
        assert_eq!(world.files(), [], "nothing is left of it");
    }
}

#[test]
fn a_disconnected_open_is_closed_for_a_conflicting_one_at_once() {
    let world = World::new();
    let mut first = client(&world, 1);
    let file_id = first.create(&durable_v2()).file_id;
    first.disconnect();
    client(&world, 2).create(&Create::open("file"));
    let response = client(&world, 1).try_create(&reconnect_v2(file_id, GUID));
    assert_eq!(response.outcome(), Reason::NoSuchDurableOpen);
}

#[test]
fn locks_are_kept_while_the_client_is_away() {
    let world = World::new();
    let mut first = client(&world, 1);
    let file_id = first.create(&durable_v2()).file_id;
    assert_eq!(lock(&mut first, file_id), NtStatus::SUCCESS);
    first.disconnect();
    let mut second = client(&world, 1);
    let file_id = second.create(&reconnect_v2(file_id, GUID)).file_id;
    assert_eq!(lock(&mut second, file_id), Reason::LockNotGranted, "it is held already");
    second.write(file_id, 0, b"by its holder").ok();
}

/// [MS-SMB2] 3.3.5.14: a client whose LOCK succeeded repeats the request if the response was lost.
#[test]
fn a_lock_that_is_repeated_when_the_client_is_back_is_done_once() {
    for is_killed in [false, true] {
        let world = World::new();
        let mut first = client(&world, 1);
        let file_id = first.create(&durable_v2()).file_id;
        // LockSequenceIndex 7, LockSequenceNumber 3.
        assert_eq!(lock_in_sequence(&mut first, file_id, 0x73), NtStatus::SUCCESS);
        match is_killed {
            false => first.disconnect(),
            true => world.kill_worker(),
        }
        let mut second = client(&world, 1);
        let file_id = second.create(&reconnect_v2(file_id, GUID)).file_id;
        let again = lock_in_sequence(&mut second, file_id, 0x73);
        assert_eq!(again, NtStatus::SUCCESS, "it is a repetition");
        let another = lock_in_sequence(&mut second, file_id, 0x74);
        assert_eq!(another, Reason::LockNotGranted, "it is held already");
    }
}

/// [MS-SMB2] 3.3.5.14: the use of another number makes the entry invalid.
#[test]
fn a_lock_before_one_that_failed_is_no_repetition_when_the_client_is_back() {
    for is_killed in [false, true] {
        let world = World::new();
        let mut first = client(&world, 1);
        let file_id = first.create(&durable_v2()).file_id;
        assert_eq!(lock_in_sequence(&mut first, file_id, 0x73), NtStatus::SUCCESS);
        assert_eq!(lock_in_sequence(&mut first, file_id, 0x74), Reason::LockNotGranted);
        match is_killed {
            false => first.disconnect(),
            true => world.kill_worker(),
        }
        let mut second = client(&world, 1);
        let file_id = second.create(&reconnect_v2(file_id, GUID)).file_id;
        let older = lock_in_sequence(&mut second, file_id, 0x73);
        assert_eq!(older, Reason::LockNotGranted, "its number is not known any more");
    }
}

/// [MS-SMB2] 3.3.5.9.13: opens that an application left on one node are closed for its open on
/// another.
#[test]
fn an_application_takes_over_from_its_instance_on_another_client() {
    let world = World::new();
    let instance = AppInstanceId { app_instance_id: Guid([0xA9; 16]) };
    let mut first = client(&world, 1);
    let file_id = first.create(&durable_v2().context(&instance)).file_id;
    let again = batch().context(&v2(DurableFlags::empty(), Guid([7; 16])));
    let mut second = client(&world, 2);
    second.create(&again.clone().context(&instance));
    assert_eq!(first.close(file_id).outcome(), Reason::NoSuchOpen);
    assert!(!first.receive().iter().any(|it| it.header.command == Command::OPLOCK_BREAK));
    // Another application waits for the acknowledgment of the break.
    let mut third = client(&world, 3);
    let other = AppInstanceId { app_instance_id: Guid([0xAA; 16]) };
    let request = third.request(Command::CREATE, &again.context(&other));
    third.send(request);
    assert!(third.receive().iter().all(Response::is_interim));
}

/// [MS-SMB2] 3.3.5.9.13: the share, the path and the right to read must be those of the open.
#[test]
fn an_application_instance_id_closes_nothing_elsewhere_and_nothing_unreadable() {
    let world = World::new();
    let instance = AppInstanceId { app_instance_id: Guid([0xA9; 16]) };
    let root = world.root("data");
    world.add_share("again", |share| share.root = Some(root));
    let shared = || Create::open_if("file").context(&instance);
    let mut first = client(&world, 1);
    let file_id = first.create(&shared()).file_id;

    client(&world, 2).create(&Create::open_if("other").context(&instance));
    client(&world, 2).create(&Create::directory("").context(&instance));
    client_in(&world, 2, "again").create(&shared());
    world.change_share("data", |share| share.access_max -= AccessMask::READ_DATA);
    client(&world, 2).create(&shared().access(AccessMask::WRITE_DATA));
    client(&world, 2).try_create(&shared().access(AccessMask::READ_DATA));
    assert_eq!(lock(&mut first, file_id), NtStatus::SUCCESS, "it is open");

    world.change_share("data", |share| share.access_max |= AccessMask::READ_DATA);
    client(&world, 2).create(&shared());
    assert_eq!(first.close(file_id).outcome(), Reason::NoSuchOpen);
}

/// A CREATE reads the record of its own file, however many others are open.
#[test]
fn an_application_instance_id_has_no_other_record_looked_at() {
    let world = World::new();
    let mut peer = client(&world, 1);
    let instance = AppInstanceId { app_instance_id: Guid([0xA9; 16]) };
    let before = world.record_walks();
    for number in 0..10 {
        peer.create(&Create::open_if(&format!("file{number}")).context(&instance));
    }
    assert_eq!(world.record_walks() - before, 0);
}

/// A client can name any FileId, and as often as it likes: that of nothing, or of an open that is
/// connected.
#[test]
fn a_reconnect_that_finds_no_disconnected_open_has_no_other_record_looked_at() {
    let world = World::new();
    let mut owner = client(&world, 1);
    let connected = owner.create(&durable_v2()).file_id;
    let mut peer = client(&world, 2);
    let before = world.record_walks();
    for file_id in [connected, FileId { persistent: 0x1234, volatile: 0x5678 }] {
        let persistent = DurableHandleReconnectV2 {
            file_id,
            create_guid: GUID,
            flags: DurableFlags::PERSISTENT,
        };
        for request in
            [reconnect_v1(file_id), reconnect_v2(file_id, GUID), batch().context(&persistent)]
        {
            assert_eq!(peer.try_create(&request).outcome(), Reason::NoSuchDurableOpen);
        }
    }
    assert_eq!(world.record_walks() - before, 0);
    assert_eq!(lock(&mut owner, connected), NtStatus::SUCCESS, "it is its owner's");
}

#[test]
fn the_contexts_of_two_versions_do_not_go_together() {
    let world = World::new();
    let mut peer = client(&world, 1);
    let both = durable_v1().context(&v2(DurableFlags::empty(), GUID));
    assert_eq!(peer.try_create(&both).outcome(), Reason::DurableContextsExclude);
    let both = durable_v2().context(&DurableHandleReconnect { file_id: FileId::ANY });
    assert_eq!(peer.try_create(&both).outcome(), Reason::DurableContextsExclude);
}

#[test]
fn an_open_is_gone_the_moment_its_time_is_up() {
    let world = World::new();
    let mut first = client(&world, 1);
    let file_id = first.create(&durable_v2()).file_id;
    first.disconnect();
    world.advance(Duration::from_secs(30));
    // Nobody has looked for late opens meanwhile.
    assert_eq!(
        client(&world, 1).try_create(&reconnect_v2(file_id, GUID)).outcome(),
        Reason::NoSuchDurableOpen
    );
    client(&world, 2).create(&batch());
    assert_eq!(world.open_count(), 1);
}
