//! Oplocks and leases of several clients on one file: [MS-SMB2] 3.3.4.6, 3.3.4.7, 3.3.5.9.8,
//! 3.3.5.9.11, 3.3.5.22; [MS-FSA] 2.1.4.12.

use std::time::Duration;

use dtyp::{AccessMask, NtStatus};
use object::ObjectOp;
use proto::Effect;
use testkit::{Create, Outcome, Peer, Response, World};
use trace::Reason;
use wire::cancel::CancelRequest;
use wire::create::{CreateDisposition, CreateResponse, ShareAccess};
use wire::create_context::{LeaseContext, LeaseV2};
use wire::lease::{LeaseFlags, LeaseKey, LeaseState};
use wire::oplock_break::{LeaseBreak, LeaseBreakFlags, LeaseBreakNotification, OplockBreak};
use wire::{Command, Dialect, FileId, OplockLevel};

const R: LeaseState = LeaseState::READ_CACHING;
const H: LeaseState = LeaseState::HANDLE_CACHING;
const W: LeaseState = LeaseState::WRITE_CACHING;

fn ready(world: &World) -> Peer {
    Peer::ready(world, Dialect::SMB_3_1_1)
}

fn lease(key: u8, state: LeaseState) -> LeaseContext {
    LeaseContext {
        lease_key: LeaseKey([key; 16]),
        lease_state: state,
        lease_flags: LeaseFlags::empty(),
        v2: Some(LeaseV2 { parent_lease_key: LeaseKey::ZERO, epoch: 7 }),
    }
}

fn leased(create: Create, context: &LeaseContext) -> Create {
    create.oplock(OplockLevel::LEASE).context(context)
}

/// Returns the rights that a CREATE was granted.
#[track_caller]
fn granted(response: &Response) -> (FileId, OplockLevel, Option<LeaseContext>) {
    assert_eq!(response.outcome(), NtStatus::SUCCESS);
    let body: CreateResponse<'_> = response.body();
    let lease = body.create_contexts.find().expect("well-formed");
    (body.file_id, body.oplock_level, lease)
}

#[track_caller]
fn with_oplock(peer: &mut Peer, name: &str, level: OplockLevel) -> FileId {
    let response = peer.try_create(&Create::open_if(name).oplock(level));
    let (file_id, got, _) = granted(&response);
    assert_eq!(got, level);
    file_id
}

/// Takes the only message, which is a break.
#[track_caller]
fn one_break(peer: &mut Peer) -> Response {
    let mut received = peer.receive();
    assert_eq!(received.len(), 1, "{received:?}");
    let response = received.remove(0);
    assert_eq!(response.header.command, Command::OPLOCK_BREAK);
    assert_eq!((response.header.message_id, response.header.session_id), (u64::MAX, 0));
    response
}

fn acknowledge(peer: &mut Peer, file_id: FileId, oplock_level: OplockLevel) -> Outcome {
    let body = OplockBreak { oplock_level, file_id };
    let request = peer.request(Command::OPLOCK_BREAK, &body);
    peer.call(request).outcome()
}

fn acknowledge_lease(peer: &mut Peer, key: u8, lease_state: LeaseState) -> Outcome {
    let body = LeaseBreak { lease_key: LeaseKey([key; 16]), lease_state };
    let request = peer.request(Command::OPLOCK_BREAK, &body);
    peer.call(request).outcome()
}

/// Sends a CREATE that has to wait, and takes its interim response.
#[track_caller]
fn create_waiting(peer: &mut Peer, create: &Create) {
    let request = peer.request(Command::CREATE, create);
    peer.send(request);
    let received = peer.receive();
    assert!(matches!(&received[..], [one] if one.is_interim()), "{received:?}");
}

#[test]
fn an_open_waits_until_a_batch_oplock_is_given_up() {
    let world = World::new();
    let (mut holder, mut other) = (ready(&world), ready(&world));
    let file_id = with_oplock(&mut holder, "file", OplockLevel::BATCH);
    create_waiting(&mut other, &Create::open("file").oplock(OplockLevel::BATCH));

    let notice: OplockBreak = one_break(&mut holder).body();
    assert_eq!(notice, OplockBreak { oplock_level: OplockLevel::II, file_id });
    assert_eq!(other.receive().len(), 0, "the open waits");
    assert_eq!(acknowledge(&mut holder, file_id, OplockLevel::II), NtStatus::SUCCESS);
    let (_, level, _) = granted(&other.receive().remove(0));
    assert_eq!(level, OplockLevel::II);
    assert_eq!(acknowledge(&mut holder, file_id, OplockLevel::II), Reason::OplockNotBreaking);
}

#[test]
fn an_acknowledgment_keeps_at_most_the_level_of_the_break_and_is_for_no_lease() {
    let world = World::new();
    let (mut holder, mut other) = (ready(&world), ready(&world));
    let file_id = with_oplock(&mut holder, "file", OplockLevel::EXCLUSIVE);
    create_waiting(&mut other, &Create::with_disposition("file", CreateDisposition::OVERWRITE));
    one_break(&mut holder);
    let more = acknowledge(&mut holder, file_id, OplockLevel::II);
    assert_eq!(more, Reason::OplockAcknowledgedTooHigh);
    let unknown = acknowledge(&mut holder, file_id, OplockLevel::BATCH);
    assert_eq!(unknown, Reason::OplockLevelInvalid);
    let as_lease = acknowledge(&mut holder, file_id, OplockLevel::LEASE);
    assert_eq!(as_lease, Reason::OplockIsLease);
    assert_eq!(acknowledge_lease(&mut holder, 9, R), Reason::NoSuchLease);
}

#[test]
fn an_open_waits_no_longer_than_a_break_may_take() {
    let world = World::new();
    let (mut holder, mut other) = (ready(&world), ready(&world));
    let file_id = with_oplock(&mut holder, "file", OplockLevel::EXCLUSIVE);
    create_waiting(&mut other, &Create::open("file"));
    one_break(&mut holder);
    world.advance(Duration::from_secs(34));
    assert_eq!(other.receive().len(), 0, "the holder has time");
    world.advance(Duration::from_secs(2));
    granted(&other.receive().remove(0));
    let late = acknowledge(&mut holder, file_id, OplockLevel::II);
    assert_eq!(late, Reason::OplockNotHeld, "nothing is left to give up");
}

#[test]
fn an_open_goes_on_when_the_holder_closes_or_is_gone() {
    for close in [true, false] {
        let world = World::new();
        let (mut holder, mut other) = (ready(&world), ready(&world));
        let file_id = with_oplock(&mut holder, "file", OplockLevel::BATCH);
        create_waiting(&mut other, &Create::open("file").oplock(OplockLevel::BATCH));
        if close {
            holder.receive();
            holder.close(file_id).ok();
        } else {
            holder.disconnect();
        }
        let (_, level, _) = granted(&other.receive().remove(0));
        assert_eq!(level, OplockLevel::BATCH, "nobody else has it open");
    }
}

#[test]
fn a_break_is_sent_after_the_answer_that_grants() {
    for level in [OplockLevel::BATCH, OplockLevel::LEASE] {
        let world = World::new();
        let (mut holder, mut other) = (ready(&world), ready(&world));
        other.create(&Create::open_if("file"));
        other.disconnect();
        let mut other = ready(&world);
        world.delay_replies(|effect| {
            matches!(effect, Effect::Object { op: ObjectOp::Overwrite { .. }, .. })
        });
        let overwrite = Create::with_disposition("file", CreateDisposition::OVERWRITE);
        let overwrite = overwrite.oplock(level).context(&lease(1, R | W | H));
        let request = holder.request(Command::CREATE, &overwrite);
        holder.send(request);
        create_waiting(&mut other, &Create::open("file"));
        assert_eq!(holder.receive().len(), 0, "it does not know what it would lose");

        world.release_all();
        let received = holder.receive();
        let [answer, notice] = &received[..] else { panic!("{received:?}") };
        assert_eq!(granted(answer).1, level);
        assert_eq!(notice.header.command, Command::OPLOCK_BREAK);
    }
}

#[test]
fn the_response_to_an_open_for_attributes_states_an_oplock_that_was_broken_meanwhile() {
    let world = World::new();
    world.add_file("data", "file", b"data");
    let (mut holder, mut other) = (ready(&world), ready(&world));
    world.delay_replies(|effect| {
        matches!(effect, Effect::Object { op: ObjectOp::Overwrite { .. }, .. })
    });
    let overwrite = Create::with_disposition("file", CreateDisposition::OVERWRITE);
    let overwrite = overwrite.access(EVERYONE).oplock(OplockLevel::BATCH);
    let request = holder.request(Command::CREATE, &overwrite);
    holder.send(request);
    other.create(&Create::open("file"));
    world.release_all();
    let received = holder.receive();
    let [answer] = &received[..] else { panic!("a client at level II owes nothing: {received:?}") };
    let (file_id, level, _) = granted(answer);
    assert_eq!(level, OplockLevel::II);
    world.advance(Duration::from_secs(36));
    let writing = other.create(&Create::open("file")).file_id;
    other.write(writing, 0, b"more").ok();
    let notice: OplockBreak = one_break(&mut holder).body();
    assert_eq!(notice, OplockBreak { oplock_level: OplockLevel::NONE, file_id });
}

#[test]
fn an_open_for_attributes_disturbs_no_oplock() {
    let world = World::new();
    let (mut holder, mut other) = (ready(&world), ready(&world));
    with_oplock(&mut holder, "file", OplockLevel::BATCH);
    other.create(&Create::open("file").access(AccessMask::READ_ATTRIBUTES));
    assert_eq!(holder.receive().len(), 0);
}

/// Rights of everybody who can look up a file, and none to its data.
const EVERYONE: AccessMask = AccessMask::READ_ATTRIBUTES
    .union(AccessMask::READ_EA)
    .union(AccessMask::READ_CONTROL)
    .union(AccessMask::SYNCHRONIZE);

#[test]
fn nobody_waits_for_a_client_that_caches_attributes_alone_and_never_acknowledges() {
    let oplock = |create: Create| create.oplock(OplockLevel::BATCH);
    let leasing = |create: Create| leased(create, &lease(1, R | W | H));
    let cachings: [&dyn Fn(Create) -> Create; 2] = [&oplock, &leasing];
    for caching in cachings {
        let world = World::new();
        world.add_file("data", "file", b"data");
        let (mut holder, mut other) = (ready(&world), ready(&world));
        let attributes = || caching(Create::open("file").access(EVERYONE));
        let (held, level, _) = granted(&holder.try_create(&attributes()));
        assert_ne!(level, OplockLevel::NONE);

        let file_id = other.create(&Create::open("file")).file_id;
        one_break(&mut holder);
        other.write(file_id, 0, b"more").ok();
        other.close(file_id).ok();
        // The break is still pending: neither does the next one wait.
        for disposition in [CreateDisposition::OVERWRITE, CreateDisposition::SUPERSEDE] {
            let file_id = other.create(&Create::with_disposition("file", disposition)).file_id;
            other.close(file_id).ok();
        }
        world.advance(Duration::from_secs(36));
        holder.close(held).ok();
        holder.receive();
        // Nor a deletion.
        granted(&holder.try_create(&attributes()));
        let file_id = other.create(&Create::open("file").delete_on_close()).file_id;
        other.close(file_id).ok();
    }
}

#[test]
fn a_client_that_caches_attributes_alone_gets_a_break_and_may_acknowledge_it() {
    let world = World::new();
    world.add_file("data", "file", b"data");
    let (mut holder, mut other) = (ready(&world), ready(&world));
    let attributes = leased(Create::open("file").access(EVERYONE), &lease(1, R | W | H));
    let (_, _, context) = granted(&holder.try_create(&attributes));
    assert_eq!(context.expect("a lease").lease_state, R | W | H);
    other.create(&Create::open("file"));
    let notice: LeaseBreakNotification = one_break(&mut holder).body();
    assert_eq!((notice.current_lease_state, notice.new_lease_state), (R | W | H, R | H));
    assert_eq!(notice.flags, LeaseBreakFlags::ACK_REQUIRED);
    // An open with the same key learns of the break by its response.
    let data = leased(Create::open("file"), &lease(1, R | W | H));
    let (_, _, context) = granted(&holder.try_create(&data));
    let context = context.expect("a lease");
    assert_eq!(context.lease_state, R | H);
    assert_eq!(context.lease_flags, LeaseFlags::BREAK_IN_PROGRESS);
    assert_eq!(acknowledge_lease(&mut holder, 1, R | H), NtStatus::SUCCESS);
    assert_eq!(acknowledge_lease(&mut holder, 1, R | H), Reason::LeaseNotBreaking);
}

#[test]
fn a_write_takes_level_ii_from_everybody_and_waits_for_nobody() {
    let world = World::new();
    let (mut one, mut two) = (ready(&world), ready(&world));
    let first = with_oplock(&mut one, "file", OplockLevel::II);
    let second = with_oplock(&mut two, "file", OplockLevel::II);
    let request = one.write_request(first, 0, b"new");
    one.send(request);
    let received = one.receive();
    let [own, written] = &received[..] else { panic!("{received:?}") };
    assert_eq!((written.header.command, written.status()), (Command::WRITE, NtStatus::SUCCESS));
    for (notice, file_id) in [(own.clone(), first), (one_break(&mut two), second)] {
        let notice: OplockBreak = notice.body();
        assert_eq!(notice, OplockBreak { oplock_level: OplockLevel::NONE, file_id });
    }
    one.write(first, 0, b"again").ok();
    assert_eq!(two.receive().len(), 0, "nothing is left to take");
}

#[test]
fn a_lease_gives_up_writing_and_then_its_handle() {
    let world = World::new();
    let (mut holder, mut other) = (ready(&world), ready(&world));
    let response = holder.try_create(&leased(Create::open_if("file"), &lease(1, R | W | H)));
    let (file_id, level, context) = granted(&response);
    assert_eq!(level, OplockLevel::LEASE);
    let context = context.expect("a lease");
    assert_eq!((context.lease_state, context.v2.expect("as asked").epoch), (R | W | H, 8));

    create_waiting(&mut other, &leased(Create::open("file"), &lease(2, R | W | H)));
    let notice: LeaseBreakNotification = one_break(&mut holder).body();
    assert_eq!((notice.current_lease_state, notice.new_lease_state), (R | W | H, R | H));
    assert_eq!((notice.flags, notice.new_epoch), (LeaseBreakFlags::ACK_REQUIRED, 9));
    let more = acknowledge_lease(&mut holder, 1, R | W);
    assert_eq!(more, Reason::LeaseAcknowledgedTooHigh, "more than was left");
    assert_eq!(acknowledge_lease(&mut holder, 1, R | H), NtStatus::SUCCESS);
    let (_, _, context) = granted(&other.receive().remove(0));
    assert_eq!(context.expect("a lease").lease_state, R | H);
    let again = acknowledge_lease(&mut holder, 1, R | H);
    assert_eq!(again, Reason::LeaseNotBreaking, "nothing is being broken");
    holder.close(file_id).ok();

    // A third client excludes the second, whose open may be a cached handle only.
    let mut third = ready(&world);
    let alone = Create::open("file").share(ShareAccess::empty());
    create_waiting(&mut third, &alone);
    // These connections belong to one client, which gets breaks on the oldest.
    let notice: LeaseBreakNotification = one_break(&mut holder).body();
    assert_eq!((notice.current_lease_state, notice.new_lease_state), (R | H, R));
    assert_eq!(acknowledge_lease(&mut other, 2, R), NtStatus::SUCCESS);
    assert_eq!(third.receive().remove(0).outcome(), Reason::SharingViolation, "it was in use");
}

#[test]
fn a_client_does_not_break_its_own_lease() {
    let world = World::new();
    let mut peer = ready(&world);
    let first = peer.try_create(&leased(Create::open_if("file"), &lease(1, R)));
    let second = peer.try_create(&leased(Create::open("file"), &lease(1, R | W | H)));
    let (file_id, _, context) = granted(&second);
    let context = context.expect("the same lease");
    assert_eq!(context.lease_state, R | W | H, "nothing stands against having more");
    let (first, _, _) = granted(&first);
    peer.write(first, 0, b"data").ok();
    peer.write(file_id, 0, b"data").ok();
    assert_eq!(peer.receive().len(), 0);
}

#[test]
fn the_key_of_a_lease_is_for_one_file() {
    let world = World::new();
    let mut peer = ready(&world);
    granted(&peer.try_create(&leased(Create::open_if("file"), &lease(1, R))));
    let other = peer.try_create(&leased(Create::open_if("other"), &lease(1, R)));
    assert_eq!(other.outcome(), Reason::LeaseKeyInUse);
    assert!(!world.exists("data", "other"), "nothing is made for a request that is refused");
}

#[test]
fn a_lease_keeps_nothing_of_files_that_only_have_a_name_in_common() {
    let world = World::new();
    let create = leased(Create::open_if("file"), &lease(1, R | W | H));
    let open = |peer: &mut Peer| {
        let (file_id, _, context) = granted(&peer.try_create(&create));
        (file_id, context.expect("a lease").lease_state)
    };
    // Two connections of one client, which the share leads to different folders.
    let mut here = ready(&world);
    world.move_share("data");
    let mut there = ready(&world);
    let (first, kept) = open(&mut here);
    assert_eq!(kept, R | W | H);

    let (second, kept) = open(&mut there);
    assert_eq!(kept, LeaseState::empty(), "the client takes it for the first file");
    let notice: LeaseBreakNotification = one_break(&mut here).body();
    assert_eq!(
        (notice.current_lease_state, notice.new_lease_state),
        (R | W | H, LeaseState::empty())
    );
    assert_eq!(acknowledge_lease(&mut here, 1, LeaseState::empty()), NtStatus::SUCCESS);
    for peer in [&mut here, &mut there] {
        let (file_id, kept) = open(peer);
        assert_eq!(kept, LeaseState::empty(), "both are open");
        peer.close(file_id).ok();
    }

    there.close(second).ok();
    here.close(first).ok();
    let (_, kept) = open(&mut here);
    assert_eq!(kept, R | W | H, "the name leads to one file again");
}

#[test]
fn a_listing_that_is_kept_is_given_up_when_somebody_adds_a_name() {
    let world = World::new();
    world.add_directory("data", "folder");
    let (mut holder, mut other) = (ready(&world), ready(&world));
    let response = holder.try_create(&leased(Create::open("folder"), &lease(1, R | W | H)));
    let (_, _, context) = granted(&response);
    assert_eq!(context.expect("a lease").lease_state, R | H, "nobody writes to a directory");
    other.create(&Create::open_if("folder\\new"));
    let notice: LeaseBreakNotification = one_break(&mut holder).body();
    assert_eq!((notice.current_lease_state, notice.new_lease_state), (R | H, LeaseState::empty()));
}

#[test]
fn a_name_added_by_a_request_without_an_end_is_in_the_listing_too() {
    let world = World::new();
    world.add_directory("data", "folder");
    let (mut holder, mut other) = (ready(&world), ready(&world));
    granted(&holder.try_create(&leased(Create::open("folder"), &lease(1, R | H))));
    world.delay_replies(|effect| matches!(effect, Effect::Object { .. }));
    let request = other.request(Command::CREATE, &Create::open_if("folder\\new"));
    other.send(request);
    assert_eq!(world.delayed_replies(), 1);
    other.disconnect();
    world.release_all();
    assert!(world.exists("data", "folder/new"));
    let notice: LeaseBreakNotification = one_break(&mut holder).body();
    assert_eq!((notice.current_lease_state, notice.new_lease_state), (R | H, LeaseState::empty()));
}

#[test]
fn a_name_added_by_a_refused_request_is_in_the_listing_too() {
    let world = World::new();
    world.add_file("data", "folder/file", b"data");
    let (mut holder, mut other) = (ready(&world), ready(&world));
    let file = Create::open("folder\\file");
    let opens = (0..).find(|_| other.try_create(&file).reason != Reason::NotRefused);
    assert_eq!(opens, Some(1_024), "a client has no more opens of a file");
    granted(&holder.try_create(&leased(Create::open("folder"), &lease(1, R | H))));
    let stream = other.try_create(&Create::open_if("folder\\file:stream"));
    assert_eq!(stream.outcome(), Reason::TooManyOpens);
    assert!(world.contents("data", "folder/file:stream").is_some(), "others may use it by now");
    let notice: LeaseBreakNotification = one_break(&mut holder).body();
    assert_eq!((notice.current_lease_state, notice.new_lease_state), (R | H, LeaseState::empty()));
}

/// Another worker releases the lock, and its message is lost.
#[test]
fn a_lock_that_waits_is_granted_although_nobody_tells_that_it_can_be() {
    use arbitration::{ByteRange, FileRecords as _, OpenId, WorkersToNotify};
    use wire::lock::{LockElement, LockFlags, LockRequest, LockResponse, Locks};
    let world = World::new();
    world.add_file("data", "file", &[1; 100]);
    let (mut one, mut two) = (ready(&world), ready(&world));
    let holder = one.create(&Create::open("file")).file_id;
    let waiter = two.create(&Create::open("file")).file_id;
    let lock = |peer: &mut Peer, file_id| {
        let flags = LockFlags::EXCLUSIVE_LOCK;
        let elements = [LockElement { offset: 10, length: 10, flags }];
        let body = LockRequest { lock_sequence: 0, file_id, locks: Locks::new(&elements) };
        let request = peer.request(Command::LOCK, &body);
        peer.send(request);
        peer.receive()
    };
    assert_eq!(lock(&mut one, holder)[0].outcome(), NtStatus::SUCCESS);
    assert!(lock(&mut two, waiter)[0].is_interim());
    let (file, record) = world.files().remove(0);
    let open = OpenId { number: holder.volatile, ..record.opens[0].id };
    let range = ByteRange { offset: 10, length: 10 };
    let release = &mut |record: &mut arbitration::FileRecord| {
        let released =
            record.release_locks(open, [range].into_iter(), &mut WorkersToNotify::default());
        released.expect("it is held");
        true
    };
    world.file_table().change(file, release).expect("memory is there");
    assert_eq!(two.receive().len(), 0, "nobody has told it");
    world.advance(proto::files::CHECK_INTERVAL);
    two.receive().remove(0).ok().body::<LockResponse>();
    two.close(waiter).ok();
    one.close(holder).ok();
    one.disconnect();
    two.disconnect();
    world.assert_nothing_left();
}

#[test]
fn locked_bytes_stop_the_reads_and_writes_of_other_clients() {
    use wire::lock::{LockElement, LockFlags, LockRequest, Locks};
    let world = World::new();
    world.add_file("data", "file", &[1; 100]);
    let (mut one, mut two) = (ready(&world), ready(&world));
    let first = one.create(&Create::open("file")).file_id;
    let second = two.create(&Create::open("file")).file_id;
    let elements = [LockElement {
        offset: 10,
        length: 10,
        flags: LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY,
    }];
    let body = LockRequest { lock_sequence: 0, file_id: first, locks: Locks::new(&elements) };
    let request = one.request(Command::LOCK, &body);
    one.call(request).ok();
    assert_eq!(two.write(second, 5, &[2; 10]).status(), NtStatus::FILE_LOCK_CONFLICT);
    assert_eq!(two.write(second, 20, &[2; 10]).status(), NtStatus::SUCCESS);
    one.write(first, 10, &[2; 10]).ok();
    one.close(first).ok();
    assert_eq!(two.write(second, 5, &[2; 10]).status(), NtStatus::SUCCESS);
}

/// A world whose CREATEs wait for 10 ms before their interim response, a client that holds a batch
/// oplock, and another one whose CREATE has to wait for its break.
fn patient_world() -> (World, Peer, FileId, Peer, u64) {
    let world = World::with(|settings| settings.interim_delay = Duration::from_millis(10));
    let (mut holder, mut other) = (ready(&world), ready(&world));
    let file = with_oplock(&mut holder, "file", OplockLevel::BATCH);
    let request = other.request(Command::CREATE, &Create::open("file"));
    let id = other.send(request);
    one_break(&mut holder);
    (world, holder, file, other, id)
}

#[test]
fn a_break_that_is_acknowledged_at_once_spares_the_interim_response() {
    let (_world, mut holder, file, mut other, _) = patient_world();
    assert!(other.receive().is_empty(), "not yet");
    holder.close(file).ok();
    let received = other.receive();
    assert_eq!(received.len(), 1, "{received:?}");
    assert_eq!(received[0].outcome(), NtStatus::SUCCESS);
    assert_eq!(received[0].header.async_id, None, "it has never been asynchronous");
}

#[test]
fn a_create_that_waits_longer_gets_its_interim_response() {
    let (world, mut holder, file, mut other, _) = patient_world();
    world.advance(Duration::from_millis(9));
    assert!(other.receive().is_empty(), "not yet");
    world.advance(Duration::from_millis(1));
    let received = other.receive();
    assert_eq!(received.len(), 1, "{received:?}");
    assert!(received[0].is_interim());
    holder.close(file).ok();
    let received = other.receive();
    assert_eq!(received.len(), 1, "{received:?}");
    assert_eq!(received[0].outcome(), NtStatus::SUCCESS);
}

#[test]
fn a_create_is_canceled_before_its_interim_response() {
    let (world, _holder, _, mut other, id) = patient_world();
    other.send(other.request(Command::CANCEL, &CancelRequest).message_id(id));
    let received = other.receive();
    assert_eq!(received.len(), 1, "{received:?}");
    assert_eq!(received[0].outcome(), Reason::Cancelled);
    world.advance(Duration::from_millis(20));
    assert!(other.receive().is_empty());
}
