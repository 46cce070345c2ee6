//! FSCTL_LMR_REQUEST_RESILIENCY: [MS-SMB2] 3.3.5.15.9.

use super::*;

fn request_resiliency(peer: &mut Peer, file_id: FileId, timeout: u32) -> Outcome {
    let mut input = Vec::new();
    NetworkResiliencyRequest { timeout }.encode(&mut input);
    ioctl(peer, file_id, &input)
}

fn ioctl(peer: &mut Peer, file_id: FileId, input: &[u8]) -> Outcome {
    let body = IoctlRequest {
        ctl_code: FsctlCode::LMR_REQUEST_RESILIENCY,
        file_id,
        input,
        flags: IoctlFlags::IS_FSCTL,
        ..IoctlRequest::default()
    };
    let request = peer.request(Command::IOCTL, &body);
    peer.call(request).outcome()
}

fn plain() -> Create {
    batch().oplock(OplockLevel::NONE)
}

/// Leaves a resilient open without an oplock behind, after a loss of its connection.
fn left_behind(world: &World) -> FileId {
    let mut peer = client(world, 1);
    let file_id = peer.create(&plain()).file_id;
    peer.write(file_id, 0, b"kept").ok();
    assert_eq!(request_resiliency(&mut peer, file_id, 10_000), NtStatus::SUCCESS);
    peer.disconnect();
    file_id
}

fn again(file_id: FileId) -> Create {
    plain().context(&DurableHandleReconnect { file_id })
}

#[test]
fn a_resilient_open_is_reconnected_with_any_caching() {
    let world = World::new();
    let file_id = left_behind(&world);
    let mut peer = client(&world, 1);
    let after = peer.create(&again(file_id)).file_id;
    assert_eq!(peer.read(after, 0, 4), b"kept");
    // It stays resilient.
    peer.disconnect();
    client(&world, 1).create(&again(after));
}

#[test]
fn a_resilient_open_is_taken_up_after_its_worker_was_killed() {
    let world = World::new();
    let mut peer = client(&world, 1);
    let file_id = peer.create(&plain()).file_id;
    assert_eq!(request_resiliency(&mut peer, file_id, 0), NtStatus::SUCCESS);
    world.kill_worker();
    client(&world, 1).create(&again(file_id));
}

#[test]
fn a_resilient_open_keeps_its_place_for_the_time_that_was_asked_for() {
    let world = World::new();
    let file_id = left_behind(&world);
    let mut other = client(&world, 2);
    let refused = other.try_create(&Create::open("file")).outcome();
    assert_eq!(refused, Reason::SharingViolation);
    world.advance(Duration::from_secs(10));
    world.scavenge();
    other.create(&Create::open("file"));
    let late = client(&world, 1).try_create(&again(file_id)).outcome();
    assert_eq!(late, Reason::NoSuchDurableOpen);
}

/// An absent client cannot acknowledge a break, so the oplock is lost and the open stays.
#[test]
fn a_resilient_open_loses_its_oplock_to_others_while_its_client_is_away() {
    let world = World::new();
    let mut peer = client(&world, 1);
    let shared = ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE;
    let file_id = peer.create(&batch().share(shared)).file_id;
    assert_eq!(request_resiliency(&mut peer, file_id, 10_000), NtStatus::SUCCESS);
    peer.disconnect();
    client(&world, 2).create(&Create::open("file"));
    let mut peer = client(&world, 1);
    let response = peer.try_create(&again(file_id)).ok();
    assert_eq!(response.body::<CreateResponse<'_>>().oplock_level, OplockLevel::NONE);
}

#[test]
fn the_time_that_can_be_asked_for_is_bounded() {
    let world = World::new();
    let mut peer = client(&world, 1);
    let file_id = peer.create(&plain()).file_id;
    assert_eq!(request_resiliency(&mut peer, file_id, 300_000), NtStatus::SUCCESS);
    assert_eq!(request_resiliency(&mut peer, file_id, 300_001), Reason::ResiliencyTooLong);
    assert_eq!(ioctl(&mut peer, file_id, &[0; 7]), Reason::FsctlInputInvalid);
    assert_eq!(ioctl(&mut peer, FileId::ANY, &[0; 8]), Reason::NoSuchOpen);
}

#[test]
fn the_first_dialect_knows_no_resilient_opens() {
    let world = World::new();
    let mut peer = Peer::ready(&world, Dialect::SMB_2_0_2);
    let file_id = peer.create(&plain()).file_id;
    let status = request_resiliency(&mut peer, file_id, 1_000);
    assert_eq!(status, Reason::ResiliencyBefore21);
}

#[test]
fn a_share_without_durable_handles_has_no_resilient_ones() {
    let world = World::new();
    world.add_share("fleeting", |share| share.durable_handles = false);
    let mut peer = client_in(&world, 1, "fleeting");
    let file_id = peer.create(&plain()).file_id;
    assert_eq!(request_resiliency(&mut peer, file_id, 1_000), Reason::ResiliencyNotOffered);
}

/// Guests have no keys. Anyone can be a guest, and would leave opens behind any number of times.
#[test]
fn a_guest_leaves_no_open_behind() {
    let world = World::new();
    let mut peer = world.connect();
    peer.negotiate([Dialect::SMB_3_0]);
    peer.authenticate(&Login::anonymous()).ok();
    peer.tree("data");
    let context = v2(DurableFlags::empty(), GUID);
    let response = peer.try_create(&batch().context(&context));
    assert_eq!(granted_v2(&response), None);
    let plain = peer.create(&Create::open_if("plain")).file_id;
    assert_eq!(request_resiliency(&mut peer, plain, 10_000), Reason::ResiliencyNotOffered);
    peer.disconnect();
    assert_eq!(world.files(), [], "what is left could be left again");
}

/// The table keeps its limit of one user's opens, and not one more, however often the client
/// returns.
#[test]
fn a_user_leaves_a_bounded_number_of_opens_behind_and_the_others_are_closed() {
    const DISCONNECTED_OF_USER_MAX: usize = 1_024;
    let world = World::new();
    for connection in 0..3 {
        let mut peer = client(&world, connection);
        for number in 0..500 {
            let name = format!("file{connection}-{number}");
            let file_id = peer.create(&Create::open_if(&name)).file_id;
            assert_eq!(request_resiliency(&mut peer, file_id, 60_000), NtStatus::SUCCESS);
        }
        peer.disconnect();
        let left = world.files().len();
        assert_eq!(left, DISCONNECTED_OF_USER_MAX.min((usize::from(connection) + 1) * 500));
    }
    world.advance(Duration::from_secs(60));
    world.scavenge();
    assert_eq!(world.files(), []);
    assert_eq!(world.open_count(), 0, "descriptors are left");
}
