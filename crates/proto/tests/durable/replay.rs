//! The replay of a CREATE: [MS-SMB2] 3.3.5.9.10.

use dtyp::fscc::FileRenameInformation;
use object::ObjectOp;
use proto::Effect;
use wire::create::CreateDisposition;

use super::renaming::set;
use super::*;

#[track_caller]
fn replay(peer: &mut Peer, create: &Create) -> Response {
    let request = peer.request(Command::CREATE, create).flags(HeaderFlags::REPLAY_OPERATION);
    peer.call(request)
}

#[test]
fn a_repetition_is_answered_with_the_open_that_is_there() {
    let world = World::new();
    let mut peer = client(&world, 1);
    let first = peer.try_create(&durable_v2()).ok();
    let again = replay(&mut peer, &durable_v2()).ok();
    assert_eq!(file_id(&again), file_id(&first));
    let (first, again): (CreateResponse<'_>, CreateResponse<'_>) = (first.body(), again.body());
    assert_eq!(again.create_action, CreateAction::CREATED, "what was done the first time");
    assert_eq!(again.oplock_level, first.oplock_level);
    assert_eq!(again.change_time, first.change_time);
    assert_eq!(world.open_count(), 1);
}

#[test]
fn a_repetition_over_another_channel_meets_the_open_of_the_session() {
    let world = World::new();
    let mut first = client(&world, 1);
    let made = first.try_create(&durable_v2()).ok();
    let mut second = world.connect();
    let mut offer = Offer::dialects(&[Dialect::SMB_3_1_1]);
    offer.client_guid = Guid([1; 16]);
    offer.capabilities |= Capabilities::LEASING | Capabilities::PERSISTENT_HANDLES;
    second.negotiate_with(&offer).ok();
    let alice = testkit::accounts::ALICE;
    second.bind(&first, &Login::user(alice.0, alice.1)).ok();
    first.disconnect();
    assert_eq!(file_id(&replay(&mut second, &durable_v2()).ok()), file_id(&made));
}

#[test]
fn the_durable_opens_of_a_replaced_session_stay() {
    let world = World::new();
    let mut first = client(&world, 1);
    let made = first.try_create(&durable_v2()).ok();
    let mut second = world.connect();
    let mut offer = Offer::dialects(&[Dialect::SMB_3_1_1]);
    offer.client_guid = Guid([1; 16]);
    second.negotiate_with(&offer).ok();
    let alice = testkit::accounts::ALICE;
    second.authenticate(&Login::user(alice.0, alice.1).previous_session(first.session_id)).ok();
    second.tree("data");
    let again = replay(&mut second, &durable_v2()).ok();
    assert_eq!(file_id(&again).persistent, file_id(&made).persistent);
    assert_eq!(again.body::<CreateResponse<'_>>().create_action, CreateAction::CREATED);
}

#[test]
fn a_create_guid_is_used_once_by_requests_that_are_no_repetition() {
    let world = World::new();
    let mut peer = client(&world, 1);
    let first = peer.create(&durable_v2()).file_id;
    assert_eq!(peer.try_create(&durable_v2()).outcome(), Reason::DuplicateCreateGuid);
    assert_eq!(replay(&mut peer, &durable_v2()).outcome(), NtStatus::SUCCESS);
    peer.close(first).ok();
    // The open is gone, and with it its name.
    let second = peer.create(&durable_v2()).file_id;
    assert_ne!(second.persistent, first.persistent);
}

/// A client that has used the open has the response, so a replay must be another request.
#[test]
fn an_open_that_was_used_is_not_given_out_again() {
    let world = World::new();
    let mut peer = client(&world, 1);
    let shared = durable_v2().share(ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE);
    let first = peer.create(&shared).file_id;
    peer.write(first, 0, b"x").ok();
    // A new open, which breaks the first one's oplock.
    let request = peer.request(Command::CREATE, &shared).flags(HeaderFlags::REPLAY_OPERATION);
    peer.send(request);
    assert!(peer.receive().iter().any(|it| it.header.command == Command::OPLOCK_BREAK));
}

#[test]
fn without_an_oplock_a_request_may_be_repeated_as_well() {
    let world = World::new();
    let mut peer = client(&world, 1);
    let plain = durable_v2().oplock(OplockLevel::NONE);
    let first = peer.try_create(&plain).ok();
    assert_eq!(granted_v2(&first), None);
    let again = replay(&mut peer, &plain).ok();
    assert_eq!((file_id(&again), granted_v2(&again)), (file_id(&first), None));
}

#[test]
fn a_repetition_is_told_of_no_more_than_it_asks_for() {
    let world = World::new();
    let mut peer = client(&world, 1);
    let first = peer.try_create(&durable_v2()).ok();
    let again = replay(&mut peer, &durable_v2().oplock(OplockLevel::NONE)).ok();
    assert_eq!(file_id(&again), file_id(&first));
    assert_eq!(again.body::<CreateResponse<'_>>().oplock_level, OplockLevel::NONE);
    assert_eq!(granted_v2(&again), None);
}

#[test]
fn a_repetition_names_the_same_lease() {
    let world = World::new();
    let mut peer = client(&world, 1);
    let leased = |key| durable_v2().oplock(OplockLevel::LEASE).context(&lease(key, rwh()));
    let first = peer.try_create(&leased(1)).ok();
    assert_eq!(replay(&mut peer, &leased(2)).outcome(), Reason::ReplayOfAnotherLease);
    assert_eq!(replay(&mut peer, &durable_v2()).outcome(), Reason::ReplayOfAnotherLease);
    assert_eq!(file_id(&replay(&mut peer, &leased(1)).ok()), file_id(&first));
}

#[test]
fn a_request_that_waits_is_not_begun_a_second_time() {
    let world = World::new();
    let mut holder = client(&world, 1);
    let held = holder.create(&durable_v2()).file_id;
    let mut peer = client(&world, 2);
    let wanted = Create::open("file").context(&v2(DurableFlags::empty(), Guid([9; 16])));
    let request = peer.request(Command::CREATE, &wanted);
    peer.send(request);
    assert!(peer.receive()[0].is_interim());
    assert_eq!(holder.receive()[0].header.command, Command::OPLOCK_BREAK);
    assert_eq!(replay(&mut peer, &wanted).outcome(), Reason::FileNotAvailable);
    assert_eq!(peer.try_create(&wanted).outcome(), Reason::FileNotAvailable);
    holder.close(held).ok();
    let first = peer.receive().pop().expect("it waits no more").ok();
    let again = replay(&mut peer, &wanted).ok();
    assert_eq!(file_id(&again), file_id(&first));
}

/// The open is in the tables, and may yet be withdrawn: the file is looked up again, or truncated.
#[test]
fn a_replay_before_the_response_is_refused() {
    let is_open = |effect: &Effect| match effect {
        Effect::Object { op: ObjectOp::Open(open), .. } => open.path.as_str() == "file",
        _ => false,
    };
    for disposition in [CreateDisposition::OPEN, CreateDisposition::OVERWRITE] {
        let world = World::new();
        world.add_file("data", "file", b"data");
        let (mut peer, mut other) = (client(&world, 1), client(&world, 2));
        let gone = other.create(&Create::open_if("other").delete_on_close()).file_id;
        let create = Create::with_disposition("file", disposition)
            .context(&v2(DurableFlags::empty(), Guid([9; 16])));
        world.delay_replies(is_open);
        let request = peer.request(Command::CREATE, &create);
        peer.send(request);
        if disposition == CreateDisposition::OPEN {
            other.close(gone).ok();
        }
        world.delay_replies(|effect| {
            matches!(
                effect,
                Effect::Object { op: ObjectOp::Lookup { .. } | ObjectOp::Overwrite { .. }, .. }
            )
        });
        world.release(0);
        assert_eq!(world.delayed_replies(), 1, "{disposition:?}: its open is in the tables");
        assert_eq!(replay(&mut peer, &create).outcome(), Reason::FileNotAvailable);
        assert_eq!(peer.try_create(&create).outcome(), Reason::FileNotAvailable);
        world.release_all();
        let first = peer.receive().pop().expect("it is made").ok();
        assert_eq!(file_id(&replay(&mut peer, &create).ok()), file_id(&first));
    }
}

#[test]
fn a_replayed_request_is_not_begun_again_during_the_lookup_of_its_lease() {
    let world = World::new();
    let mut peer = client(&world, 1);
    let leased = |create: Create| create.oplock(OplockLevel::LEASE).context(&lease(1, rwh()));
    let first = peer.create(&leased(Create::open_if("file"))).file_id;
    let mut link = Vec::new();
    let file_name = "link".to_owned();
    FileRenameInformation { flags: 0, root_directory: 0, file_name }.encode(&mut link);
    assert_eq!(set(&mut peer, first, FileInformationClass::LINK, &link), NtStatus::SUCCESS);
    let create = leased(Create::open("link"));
    let create = create.context(&v2(DurableFlags::empty(), Guid([9; 16])));
    world.delay_replies(|effect| {
        matches!(effect, Effect::Object { op: ObjectOp::Lookup { .. }, .. })
    });
    let request = peer.request(Command::CREATE, &create);
    peer.send(request);
    assert_eq!(world.delayed_replies(), 1, "the lease is known by another name");
    assert_eq!(replay(&mut peer, &create).outcome(), Reason::FileNotAvailable);
    world.release_all();
    let second = peer.receive().pop().expect("it was looked up").ok();
    assert_ne!(file_id(&second), first);
    assert_eq!(file_id(&replay(&mut peer, &create).ok()), file_id(&second));
}

#[test]
fn an_open_of_a_lost_session_is_taken_up_by_its_create_guid() {
    let world = World::new();
    let mut first = client(&world, 1);
    let made = first.create(&durable_v2()).file_id;
    first.disconnect();
    let mut second = client(&world, 1);
    assert_eq!(second.try_create(&durable_v2()).outcome(), Reason::DuplicateCreateGuid);
    let again = replay(&mut second, &durable_v2()).ok();
    assert_eq!(file_id(&again).persistent, made.persistent);
    assert_eq!(again.body::<CreateResponse<'_>>().create_action, CreateAction::CREATED);
    assert!(granted_v2(&again).is_some());
    // Each client has names of its own.
    let mut other = client(&world, 2);
    let other_file = Create::open_if("other").context(&v2(DurableFlags::empty(), GUID));
    assert_ne!(other.create(&other_file).file_id.persistent, made.persistent);
}
