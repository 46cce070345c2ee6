//! Clients beside programs of the server's machine, in virtual time: `posix locking`, `strict
//! locking`, `kernel share modes`, `kernel oplocks`. `choro/tests/local_programs.rs` has real ones.

use dtyp::{AccessMask, NtStatus};
use object::{FileRange, ObjectOp, RangeLock};
use proto::Effect;
use proto::files::LOCAL_CHECK_INTERVAL;
use proto::share::{LocalPrograms, LockChecks};
use testkit::{Create, Outcome, Peer, World};
use trace::Reason;
use wire::cancel::CancelRequest;
use wire::create::{CreateResponse, ShareAccess};
use wire::create_context::{DurableHandleReconnect, DurableHandleRequest};
use wire::lock::{LockElement, LockFlags, LockRequest, Locks};
use wire::oplock_break::OplockBreak;
use wire::read::ReadRequest;
use wire::{Command, Dialect, FileId, OplockLevel};

const EXCLUSIVE: LockFlags = LockFlags::EXCLUSIVE_LOCK;
const AT_ONCE: LockFlags = LockFlags::FAIL_IMMEDIATELY;
const RANGE: FileRange = FileRange { offset: 0, length: 10 };

/// A world with a file, whose share has these settings.
fn world(programs: LocalPrograms) -> World {
    let world = World::new();
    world.change_share("data", |share| share.local_programs = programs);
    world.add_file("data", "file", b"0123456789");
    world
}

fn sees_locks() -> LocalPrograms {
    LocalPrograms { see_locks: true, ..LocalPrograms::default() }
}

fn ready(world: &World) -> Peer {
    Peer::ready(world, Dialect::SMB_3_1_1)
}

fn lock_by_program(world: &World) {
    let root = world.root("data");
    world.store().lock_by_program(root, "file", RangeLock { range: RANGE, exclusive: true });
}

fn lock_request(peer: &Peer, file_id: FileId, flags: LockFlags) -> testkit::Request {
    let elements = [LockElement { offset: RANGE.offset, length: RANGE.length, flags }];
    let body = LockRequest { lock_sequence: 0, file_id, locks: Locks::new(&elements) };
    peer.request(Command::LOCK, &body)
}

fn lock(peer: &mut Peer, file_id: FileId, flags: LockFlags) -> Outcome {
    let request = lock_request(peer, file_id, flags);
    peer.call(request).outcome()
}

/// Sends a LOCK that waits. Returns its message id and AsyncId.
#[track_caller]
fn wait_for_lock(peer: &mut Peer, file_id: FileId) -> (u64, u64) {
    let request = lock_request(peer, file_id, EXCLUSIVE);
    let message_id = peer.send(request);
    let received = peer.receive();
    assert!(matches!(&received[..], [one] if one.is_interim()), "{received:?}");
    (message_id, received[0].header.async_id.expect("an interim response has one"))
}

fn locks_in_records(world: &World) -> usize {
    world.files().iter().map(|(_, record)| record.locks.len()).sum()
}

#[track_caller]
fn assert_locks(world: &World, count: usize) {
    assert_eq!((locks_in_records(world), world.store().shown_locks()), (count, count));
}

#[test]
fn a_lock_that_a_local_program_refuses_leaves_nothing_behind() {
    let world = world(sees_locks());
    let mut peer = ready(&world);
    let file_id = peer.create(&Create::open("file")).file_id;
    lock_by_program(&world);
    assert_eq!(lock(&mut peer, file_id, EXCLUSIVE | AT_ONCE), Reason::LockedByProgram);
    assert_locks(&world, 0);
    world.store().unlock_by_programs();
    assert_eq!(lock(&mut peer, file_id, EXCLUSIVE | AT_ONCE), NtStatus::SUCCESS);
    assert_locks(&world, 1);
    assert_eq!(lock(&mut peer, file_id, LockFlags::UNLOCK), NtStatus::SUCCESS);
    assert_locks(&world, 0);
    assert_eq!(lock(&mut peer, file_id, EXCLUSIVE), NtStatus::SUCCESS);
    peer.close(file_id).ok();
    assert_locks(&world, 0);
}

#[test]
fn a_lock_that_waits_for_a_local_program_changes_no_record_meanwhile() {
    let world = world(sees_locks());
    let mut peer = ready(&world);
    let file_id = peer.create(&Create::open("file")).file_id;
    lock_by_program(&world);
    let (message_id, _) = wait_for_lock(&mut peer, file_id);
    let updates = world.record_updates();
    for _ in 0..10 {
        world.advance(LOCAL_CHECK_INTERVAL);
    }
    assert_eq!((world.record_updates(), peer.receive().len()), (updates, 0));
    world.store().unlock_by_programs();
    world.advance(LOCAL_CHECK_INTERVAL);
    let last = peer.receive().remove(0);
    assert_eq!((last.header.message_id, last.outcome()), (message_id, NtStatus::SUCCESS.into()));
    assert_locks(&world, 1);
}

#[test]
fn a_lock_that_another_client_got_first_is_waited_for_in_the_record() {
    let world = world(sees_locks());
    let (mut one, mut other) = (ready(&world), ready(&world));
    let first = one.create(&Create::open("file")).file_id;
    let second = other.create(&Create::open("file")).file_id;
    lock_by_program(&world);
    wait_for_lock(&mut one, first);
    world.store().unlock_by_programs();
    assert_eq!(lock(&mut other, second, EXCLUSIVE | AT_ONCE), NtStatus::SUCCESS);
    world.advance(LOCAL_CHECK_INTERVAL);
    assert_eq!(one.receive().len(), 0);
    assert_locks(&world, 1);
    assert_eq!(lock(&mut other, second, LockFlags::UNLOCK), NtStatus::SUCCESS);
    world.advance(LOCAL_CHECK_INTERVAL);
    assert_eq!(one.receive().remove(0).outcome(), NtStatus::SUCCESS);
    assert_locks(&world, 1);
}

#[test]
fn a_lock_that_is_canceled_while_the_store_tries_it_is_either_granted_or_canceled() {
    for is_free in [false, true] {
        let world = world(sees_locks());
        let mut peer = ready(&world);
        let file_id = peer.create(&Create::open("file")).file_id;
        lock_by_program(&world);
        let (message_id, async_id) = wait_for_lock(&mut peer, file_id);
        if is_free {
            world.store().unlock_by_programs();
        }
        let takes =
            |effect: &Effect| matches!(effect, Effect::Object { op: ObjectOp::Lock { .. }, .. });
        world.delay_replies(takes);
        world.advance(LOCAL_CHECK_INTERVAL);
        assert_eq!(world.delayed_replies(), 1);
        let cancel = peer.request(Command::CANCEL, &CancelRequest).message_id(message_id);
        peer.send(cancel.async_id(async_id));
        assert_eq!(peer.receive().len(), 0, "the store has not answered");
        world.release_all();
        let outcome = peer.receive().remove(0).outcome();
        match is_free {
            true => assert_eq!(outcome, NtStatus::SUCCESS),
            false => assert_eq!(outcome, Reason::Cancelled),
        }
        assert_locks(&world, usize::from(is_free));
    }
}

#[test]
fn locks_stay_in_the_record_until_the_store_has_closed_the_file() {
    let world = world(sees_locks());
    let (mut one, mut other) = (ready(&world), ready(&world));
    let first = one.create(&Create::open("file")).file_id;
    let second = other.create(&Create::open("file")).file_id;
    assert_eq!(lock(&mut one, first, EXCLUSIVE), NtStatus::SUCCESS);
    world.delay_replies(|effect| {
        matches!(effect, Effect::Object { op: ObjectOp::Close { .. }, .. })
    });
    let close = wire::close::CloseRequest { file_id: first, ..Default::default() };
    let close = one.request(Command::CLOSE, &close);
    one.send(close);
    assert_eq!(lock(&mut other, second, EXCLUSIVE | AT_ONCE), Reason::LockNotGranted);
    world.release_all();
    assert_eq!(one.receive().remove(0).outcome(), NtStatus::SUCCESS);
    assert_eq!(lock(&mut other, second, EXCLUSIVE | AT_ONCE), NtStatus::SUCCESS);
    // Without a CLOSE.
    let again = one.create(&Create::open("file")).file_id;
    wait_for_lock(&mut one, again);
    other.disconnect();
    assert_eq!(one.receive().remove(0).outcome(), NtStatus::SUCCESS);
    assert_locks(&world, 1);
    one.disconnect();
    assert_locks(&world, 0);
    world.assert_nothing_left();
}

#[test]
fn a_durable_open_that_comes_back_takes_its_locks_again_or_is_lost() {
    for is_taken in [false, true] {
        let world = world(sees_locks());
        let mut peer = ready(&world);
        let create = Create::open("file").oplock(OplockLevel::BATCH);
        let before = peer.create(&create.clone().context(&DurableHandleRequest)).file_id;
        assert_eq!(lock(&mut peer, before, EXCLUSIVE), NtStatus::SUCCESS);
        world.kill_worker();
        if is_taken {
            lock_by_program(&world);
        }
        let mut again = ready(&world);
        let reconnect = create.context(&DurableHandleReconnect { file_id: before });
        let response = again.try_create(&reconnect);
        match is_taken {
            true => assert_eq!(response.outcome(), Reason::NoSuchDurableOpen),
            false => assert_eq!(response.outcome(), NtStatus::SUCCESS),
        }
        assert_locks(&world, usize::from(!is_taken));
    }
}

#[test]
fn reads_are_checked_unless_their_client_may_cache_them() {
    for (lock_checks, uncached, cached) in [
        (LockChecks::Never, false, false),
        (LockChecks::Uncached, true, false),
        (LockChecks::Always, true, true),
    ] {
        let world = world(LocalPrograms { lock_checks, ..sees_locks() });
        lock_by_program(&world);
        for (level, is_checked) in [(OplockLevel::NONE, uncached), (OplockLevel::BATCH, cached)] {
            let mut peer = ready(&world);
            let file_id = peer.create(&Create::open("file").oplock(level)).file_id;
            let request = ReadRequest { length: 5, file_id, ..ReadRequest::default() };
            let request = peer.request(Command::READ, &request);
            let status = peer.call(request).header.status;
            let is_refused = status == NtStatus::FILE_LOCK_CONFLICT;
            assert_eq!(is_refused, is_checked, "{lock_checks:?} {level:?}: {status:?}");
            peer.close(file_id).ok();
        }
    }
}

#[test]
fn an_open_that_excludes_others_is_refused_by_a_locked_file() {
    let world = world(LocalPrograms { see_share_modes: true, ..LocalPrograms::default() });
    let mut peer = ready(&world);
    let root = world.root("data");
    world.store().lock_file_by_program(root, "file");
    let alone = Create::open("file").share(ShareAccess::empty());
    assert_eq!(peer.try_create(&alone).outcome(), Reason::SharingViolationByProgram);
    assert_eq!(world.open_count(), 0);
    let shared = peer.create(&Create::open("file")).file_id;
    peer.close(shared).ok();
    world.store().unlock_by_programs();
    peer.create(&alone);
}

#[test]
fn an_oplock_without_a_lease_is_not_granted() {
    let world = world(LocalPrograms { break_oplocks: true, ..LocalPrograms::default() });
    let mut peer = ready(&world);
    let root = world.root("data");
    let create = Create::open("file").oplock(OplockLevel::BATCH);
    let level = |peer: &mut Peer| {
        let response = peer.try_create(&create).ok();
        let body: CreateResponse<'_> = response.body();
        let (level, file_id) = (body.oplock_level, body.file_id);
        peer.close(file_id).ok();
        level
    };
    world.store().open_by_program(root, "file");
    assert_eq!(level(&mut peer), OplockLevel::NONE);
    world.store().unlock_by_programs();
    assert_eq!(level(&mut peer), OplockLevel::BATCH);
    // As in Samba, there are no leases.
    let access = AccessMask::FILE_GENERIC_READ;
    let context = wire::create_context::LeaseContext {
        lease_key: wire::lease::LeaseKey([3; 16]),
        lease_state: wire::lease::LeaseState::READ_CACHING,
        lease_flags: wire::lease::LeaseFlags::empty(),
        v2: None,
    };
    let leased = Create::open("file").access(access).oplock(OplockLevel::LEASE).context(&context);
    let response = peer.try_create(&leased).ok();
    let body: CreateResponse<'_> = response.body();
    let granted: Option<wire::create_context::LeaseContext> =
        body.create_contexts.find().expect("well-formed");
    assert!(granted.is_none_or(|it| it.lease_state.is_empty()), "{granted:?}");
}

#[test]
fn an_open_waits_until_a_local_program_has_given_up_its_lease() {
    let world = world(LocalPrograms::default());
    let mut peer = ready(&world);
    let root = world.root("data");
    world.store().lease_by_program(root, "file");
    let request = peer.request(Command::CREATE, &Create::open("file"));
    peer.send(request);
    world.advance(LOCAL_CHECK_INTERVAL);
    let received = peer.receive();
    assert!(matches!(&received[..], [one] if one.is_interim()), "{received:?}");
    world.store().unlock_by_programs();
    world.advance(LOCAL_CHECK_INTERVAL);
    assert_eq!(peer.receive().remove(0).outcome(), NtStatus::SUCCESS);
}

#[test]
fn reads_are_checked_once_the_client_has_acknowledged_the_loss_of_its_caching() {
    let world = world(LocalPrograms { lock_checks: LockChecks::Uncached, ..sees_locks() });
    lock_by_program(&world);
    let (mut one, mut other) = (ready(&world), ready(&world));
    let create = Create::open("file").oplock(OplockLevel::EXCLUSIVE);
    let file_id = one.create(&create).file_id;
    let read = |peer: &mut Peer| {
        let request = peer.read_request(file_id, 0, 5);
        peer.call(request).header.status
    };
    assert_eq!(read(&mut one), NtStatus::SUCCESS);
    let request = other.request(Command::CREATE, &Create::open("file"));
    other.send(request);
    assert_eq!(one.receive().remove(0).header.command, Command::OPLOCK_BREAK);
    let acknowledgment = OplockBreak { oplock_level: OplockLevel::NONE, file_id };
    let request = one.request(Command::OPLOCK_BREAK, &acknowledgment);
    one.call(request).ok();
    assert_eq!(read(&mut one), NtStatus::FILE_LOCK_CONFLICT);
}
