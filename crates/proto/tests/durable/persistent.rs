//! Opens of continuously available shares: [MS-SMB2] 3.3.5.9.10, 3.3.5.9.12.

use proto::Effect;

use super::*;

fn world() -> World {
    let world = World::new();
    world.add_share("ca", |share| share.is_ca = true);
    world
}

fn client(world: &World, client: u8) -> Peer {
    client_in(world, client, "ca")
}

/// Makes the request without an oplock, since a persistent open needs none.
fn persistent() -> Create {
    Create::open_if("file").share(ShareAccess::empty()).context(&v2(DurableFlags::PERSISTENT, GUID))
}

fn leased(create: Create) -> Create {
    create.oplock(OplockLevel::LEASE).context(&lease(1, rwh()))
}

fn reconnect(file_id: FileId, flags: DurableFlags) -> Create {
    let context = DurableHandleReconnectV2 { file_id, create_guid: GUID, flags };
    Create::open_if("file").share(ShareAccess::empty()).context(&context)
}

fn again(file_id: FileId) -> Create {
    reconnect(file_id, DurableFlags::PERSISTENT)
}

#[track_caller]
fn check_offered(world: &World, dialect: Dialect, share: &str, want: bool) {
    let mut peer = world.connect();
    let mut offer = Offer::dialects(&[dialect]);
    offer.capabilities |= Capabilities::PERSISTENT_HANDLES;
    let response = peer.negotiate_with(&offer).ok();
    let capabilities = response.body::<NegotiateResponse<'_>>().capabilities;
    let is_3 = dialect >= Dialect::SMB_3_0;
    assert_eq!(capabilities.contains(Capabilities::PERSISTENT_HANDLES), is_3, "{dialect:?}");
    peer.login_alice();
    let response = peer.try_tree(share).ok();
    let capabilities = response.body::<TreeConnectResponse>().capabilities;
    let is_ca = capabilities.contains(ShareCapabilities::CONTINUOUS_AVAILABILITY);
    assert_eq!(is_ca, want, "{share} {dialect:?}");
    peer.tree_id = response.header.tree_id;
    let granted = granted_v2(&peer.try_create(&persistent()).ok());
    assert_eq!(granted.is_some_and(|it| it.flags.contains(DurableFlags::PERSISTENT)), want);
}

#[test]
fn persistent_opens_are_granted_if_the_share_and_the_dialect_have_them() {
    for dialect in [Dialect::SMB_2_1, Dialect::SMB_3_0, Dialect::SMB_3_1_1] {
        check_offered(&world(), dialect, "ca", dialect >= Dialect::SMB_3_0);
        check_offered(&world(), dialect, "data", false);
    }
}

#[test]
fn a_server_that_cannot_keep_them_grants_none() {
    let world = World::with(|settings| settings.persistent_handles = false);
    world.add_share("ca", |share| share.is_ca = true);
    let mut peer = client(&world, 1);
    assert_eq!(granted_v2(&peer.try_create(&persistent()).ok()), None);
}

#[track_caller]
fn check_outlives(happens: impl FnOnce(&World, &Peer)) {
    let world = world();
    let mut first = client(&world, 1);
    let before = first.create(&leased(persistent())).file_id;
    first.write(before, 0, b"kept").ok();
    assert_eq!(lock(&mut first, before), NtStatus::SUCCESS);
    happens(&world, &first);
    let mut second = client(&world, 1);
    let response = second.try_create(&leased(again(before))).ok();
    let after = file_id(&response);
    assert_eq!(after.persistent, before.persistent);
    let contexts = response.body::<CreateResponse<'_>>().create_contexts;
    let lease = contexts.find::<LeaseContext>().expect("well-formed").expect("it has a lease");
    assert_eq!(lease.lease_state, rwh());
    assert_eq!(second.read(after, 0, 4), b"kept");
    assert_eq!(lock(&mut second, after), Reason::LockNotGranted, "it is held already");
    second.close(after).ok();
    assert_eq!(world.open_count(), 0);
    world.restart_server();
    assert_eq!(world.open_count(), 0, "what was closed does not come back");
}

#[test]
fn a_persistent_open_outlives_its_connection() {
    check_outlives(|_, peer| peer.disconnect());
}

#[test]
fn a_persistent_open_outlives_its_worker() {
    check_outlives(|world, _| world.kill_worker());
}

#[test]
fn a_persistent_open_outlives_the_server() {
    check_outlives(|world, _| world.restart_server());
    check_outlives(|world, peer| {
        peer.disconnect();
        world.restart_server();
        world.restart_server();
    });
}

#[test]
fn the_time_that_it_is_kept_begins_anew_with_the_server() {
    let world = world();
    let mut peer = client(&world, 1);
    let file_id = peer.create(&persistent()).file_id;
    peer.disconnect();
    world.advance(Duration::from_secs(29));
    world.restart_server();
    world.advance(Duration::from_secs(29));
    world.scavenge();
    assert_eq!(world.open_count(), 1);
    world.advance(Duration::from_secs(1));
    world.scavenge();
    let late = client(&world, 1).try_create(&again(file_id)).outcome();
    assert_eq!(late, Reason::NoSuchDurableOpen);
    world.restart_server();
    assert_eq!(world.open_count(), 0, "nor does it come back");
}

#[test]
fn it_is_reconnected_by_a_persistent_request_only() {
    let world = world();
    let mut peer = client(&world, 1);
    let file_id = peer.create(&persistent()).file_id;
    world.restart_server();
    let mut peer = client(&world, 1);
    let plain = peer.try_create(&reconnect(file_id, DurableFlags::empty())).outcome();
    assert_eq!(plain, Reason::NoSuchDurableOpen);
    // The CreateGuid alone identifies the open.
    let unknown = FileId { persistent: 1, volatile: 1 };
    let found = peer.create(&again(unknown)).file_id;
    assert_eq!(found.persistent, file_id.persistent);
}

#[test]
fn the_first_request_may_be_repeated_after_the_server_was_restarted() {
    let world = world();
    let mut peer = client(&world, 1);
    let made = peer.create(&persistent()).file_id;
    world.restart_server();
    let mut peer = client(&world, 1);
    assert_eq!(peer.try_create(&persistent()).outcome(), Reason::DuplicateCreateGuid);
    let request = peer.request(Command::CREATE, &persistent());
    let again = peer.call(request.flags(HeaderFlags::REPLAY_OPERATION)).ok();
    assert_eq!(file_id(&again).persistent, made.persistent);
    assert!(granted_v2(&again).is_some_and(|it| it.flags.contains(DurableFlags::PERSISTENT)));
}

/// [MS-SMB2] 3.3.5.9: other clients must retry later, whether they would share the file or not.
#[test]
fn its_file_is_not_available_to_others_while_its_client_is_away() {
    for restarts in [false, true] {
        let world = world();
        let shared = ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE;
        let mut peer = client(&world, 1);
        let file_id = peer.create(&persistent().share(shared)).file_id;
        match restarts {
            true => world.restart_server(),
            false => peer.disconnect(),
        }
        let mut other = client(&world, 2);
        let refused = other.try_create(&Create::open("file")).outcome();
        assert_eq!(refused, Reason::FileNotAvailable);
        // An open that only reads attributes is granted.
        let stat = Create::open("file").access(AccessMask::READ_ATTRIBUTES);
        other.create(&stat);
        client(&world, 1).create(&again(file_id));
        other.create(&Create::open("file"));
    }
}

/// A lease with handle caching is broken first, and the break lasts until the client's return.
#[test]
fn a_break_waits_for_the_client_that_is_away() {
    let world = world();
    let mut peer = client(&world, 1);
    let shared = ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE;
    let file_id = peer.create(&leased(persistent().share(shared))).file_id;
    peer.disconnect();
    let mut other = client(&world, 2);
    let request = other.request(Command::CREATE, &Create::open("file"));
    other.send(request);
    assert!(other.receive()[0].is_interim());
    let mut peer = client(&world, 1);
    let request = peer.request(Command::CREATE, &leased(again(file_id)));
    peer.send(request);
    let [created, notice] = &peer.receive()[..] else { panic!("a response and a break") };
    assert_eq!(notice.header.command, Command::OPLOCK_BREAK);
    peer.close(self::file_id(created)).ok();
    other.receive().pop().expect("it waits no more").ok();
}

#[test]
fn a_client_may_be_back_before_the_end_of_its_connection_is_read() {
    let world = world();
    let mut first = client(&world, 1);
    let before = first.create(&persistent()).file_id;
    let mut second = client(&world, 2);
    world.delay_replies(|effect| matches!(effect, Effect::Sleep(_)));
    let request = second.request(Command::CREATE, &again(before));
    second.send(request);
    assert_eq!(world.delayed_replies(), 1, "the former connection may have ended");
    first.disconnect();
    world.release_all();
    let response = second.receive().pop().expect("it is found").ok();
    assert_eq!(file_id(&response).persistent, before.persistent);
}

/// The client gives the open up by then, and its application is told.
#[test]
fn an_open_that_stays_connected_is_not_awaited_for_long() {
    let world = world();
    let mut first = client(&world, 1);
    let before = first.create(&persistent()).file_id;
    let mut second = client(&world, 2);
    let seen = world.record_sleeps();
    let response = second.try_create(&again(before));
    assert_eq!(response.outcome(), Reason::NoSuchDurableOpen);
    let longest = || seen.borrow().iter().max().copied();
    assert_eq!(longest(), Some(Duration::from_millis(64)), "126 ms, all together");
    seen.borrow_mut().clear();
    second.try_create(&reconnect(before, DurableFlags::empty())).expect(Reason::NoSuchDurableOpen);
    assert_eq!(longest(), Some(Duration::from_millis(64)), "a durable open is awaited, too");
    first.close(before).ok();
}
