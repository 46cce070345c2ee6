//! CREATE and CLOSE: [MS-SMB2] 3.3.5.9 and 3.3.5.10, [MS-FSA] 2.1.5.1 and 2.1.5.5.

use dtyp::name_expression::NameExpression;
use dtyp::{AccessMask, FileAttributes, FileTime, NtStatus};
use object::ObjectOp;
use proto::Effect;
use testkit::store::OpKind;
use testkit::{Create, Outcome, Peer, World};
use trace::Reason;
use wire::cancel::CancelRequest;
use wire::close::{CloseFlags, CloseRequest, CloseResponse};
use wire::create::{
    CreateAction, CreateDisposition, CreateOptions, CreateResponse, ImpersonationLevel, ShareAccess,
};
use wire::create_context::{
    DurableHandleReconnect, QueryMaximalAccessRequest, QueryMaximalAccessResponse,
    QueryOnDiskIdRequest, QueryOnDiskIdResponse, TimewarpToken,
};
use wire::{Command, Dialect, FileId, OplockLevel};

fn ready(world: &World) -> Peer {
    Peer::ready(world, Dialect::SMB_3_1_1)
}

#[track_caller]
fn check_disposition(
    disposition: CreateDisposition,
    existing: Result<CreateAction, NtStatus>,
    missing: Result<CreateAction, NtStatus>,
) {
    for (name, want) in [("existing", existing), ("missing", missing)] {
        let world = World::new();
        world.add_file("data", "existing", b"data");
        let mut peer = ready(&world);
        let response = peer.try_create(&Create::with_disposition(name, disposition));
        let got = match response.status() {
            NtStatus::SUCCESS => Ok(response.body::<CreateResponse<'_>>().create_action),
            status => Err(status),
        };
        assert_eq!(got, want, "{disposition:?} of {name}");
        if let Ok(action) = want {
            let kept = action == CreateAction::OPENED;
            let contents = if kept { b"data".to_vec() } else { Vec::new() };
            assert_eq!(world.contents("data", name), Some(contents), "{disposition:?} of {name}");
        }
        let opens = usize::from(want.is_ok());
        let left = world.store().open_count();
        assert_eq!((left, world.open_count()), (opens, opens));
    }
}

#[test]
fn each_disposition_has_its_effect_on_existing_and_missing_files() {
    use CreateAction as Did;
    use CreateDisposition as Do;
    let not_found = Err(NtStatus::OBJECT_NAME_NOT_FOUND);
    let collision = Err(NtStatus::OBJECT_NAME_COLLISION);
    check_disposition(Do::SUPERSEDE, Ok(Did::SUPERSEDED), Ok(Did::CREATED));
    check_disposition(Do::OPEN, Ok(Did::OPENED), not_found);
    check_disposition(Do::CREATE, collision, Ok(Did::CREATED));
    check_disposition(Do::OPEN_IF, Ok(Did::OPENED), Ok(Did::CREATED));
    check_disposition(Do::OVERWRITE, Ok(Did::OVERWRITTEN), not_found);
    check_disposition(Do::OVERWRITE_IF, Ok(Did::OVERWRITTEN), Ok(Did::CREATED));
    let invalid = Err(NtStatus::INVALID_PARAMETER);
    check_disposition(CreateDisposition(6), invalid, invalid);
}

#[track_caller]
fn check(create: &Create, want: impl Into<Outcome>) {
    let want = want.into();
    let world = World::new();
    world.add_file("data", "file", b"data");
    world.add_directory("data", "dir");
    let mut peer = ready(&world);
    assert_eq!(peer.try_create(create).outcome(), want, "{create:?}");
    if !want.is_success() {
        assert_eq!(world.store().open_count(), 0);
    }
}

#[test]
fn the_kind_that_is_asked_for_must_be_the_kind_that_is_there() {
    let directory = CreateOptions::DIRECTORY_FILE;
    let file = CreateOptions::NON_DIRECTORY_FILE;
    check(&Create::open("file").options(directory), NtStatus::NOT_A_DIRECTORY);
    check(&Create::open("dir").options(file), NtStatus::FILE_IS_A_DIRECTORY);
    check(&Create::open("file").options(file), NtStatus::SUCCESS);
    check(&Create::open("dir").options(directory), NtStatus::SUCCESS);
    check(&Create::open("dir"), NtStatus::SUCCESS);
    check(&Create::open("").options(directory), NtStatus::SUCCESS);
    check(&Create::open("dir").options(directory | file), Reason::CreateOptionsContradict);
    check(&Create::open("file:s:$DATA").options(directory), Reason::StreamIsDirectory);
    check(&Create::open("dir::$DATA").options(directory), Reason::StreamIsDirectory);
    check(&Create::open("dir::$DATA"), NtStatus::FILE_IS_A_DIRECTORY);
    check(&Create::open("file::$data"), NtStatus::SUCCESS);
}

#[test]
fn fields_that_make_no_sense_are_refused() {
    let open = || Create::open("file");
    check(&open().access(AccessMask::empty()), Reason::DesiredAccessInvalid);
    check(&open().access(AccessMask::from_bits_retain(0x0000_0200)), Reason::DesiredAccessInvalid);
    let system = AccessMask::ACCESS_SYSTEM_SECURITY;
    check(&open().access(system), NtStatus::PRIVILEGE_NOT_HELD);
    check(&open().share(ShareAccess::from_bits_retain(8)), Reason::ShareAccessInvalid);
    let bad = FileAttributes::from_bits_retain(0x8000_0000);
    check(&open().attributes(bad), Reason::AttributesInvalid);
    let bad = CreateOptions::from_bits_retain(0x0100_0000);
    check(&open().options(bad), Reason::CreateOptionsReserved);
    check(&open().options(CreateOptions::OPEN_BY_FILE_ID), Reason::CreateOptionsUnsupported);
    let mut create = open();
    create.impersonation_level = ImpersonationLevel(4);
    check(&create, Reason::ImpersonationLevelUnknown);
    let supersede = Create::with_disposition("dir", CreateDisposition::SUPERSEDE);
    check(&supersede.options(CreateOptions::DIRECTORY_FILE), Reason::OverwriteOfDirectory);
}

#[test]
fn names_that_lead_nowhere_or_out_are_refused() {
    check(&Create::open("none\\file"), NtStatus::OBJECT_PATH_NOT_FOUND);
    check(&Create::open("file\\below"), NtStatus::OBJECT_PATH_NOT_FOUND);
    check(&Create::open("..\\file"), Reason::NameLeavesShare);
    check(&Create::open("dir\\..\\..\\file"), Reason::NameLeavesShare);
    check(&Create::open("\\file"), Reason::NameBeginsWithSeparator);
    check(&Create::open("a*b"), Reason::NameComponentInvalid);
    check(&Create::open("dir\\."), Reason::NameComponentInvalid);
    check(&Create::open("dir\\.\\file"), Reason::NameDotComponent);
    check(&Create::open(&"x".repeat(256)), Reason::NameTooLong);
    check(&Create::open_if(&"x".repeat(255)), NtStatus::SUCCESS);
}

#[test]
fn maximum_allowed_is_limited_by_the_share_and_the_file() {
    let world = World::new();
    world.add_file("data", "file", b"data");
    world.add_file("readonly", "file", b"data");
    let mut peer = ready(&world);
    let maximum = Create::open("file").access(AccessMask::MAXIMUM_ALLOWED);
    let file = peer.create(&maximum).file_id;
    peer.write(file, 0, b"x").ok();
    peer.tree("readonly");
    let file = peer.create(&maximum).file_id;
    assert_eq!(peer.read(file, 0, 1), b"d");
    assert_eq!(peer.write(file, 0, b"x").outcome(), Reason::AccessNotGranted);
}

fn shares(bits: u32) -> ShareAccess {
    ShareAccess::from_bits_retain(bits)
}

/// Opens a file twice. Returns the status of the second CREATE.
fn open_twice(first: (AccessMask, u32), second: (AccessMask, u32)) -> NtStatus {
    let world = World::new();
    world.add_file("data", "file", b"data");
    let mut peers = [ready(&world), ready(&world)];
    let create = |(access, share)| Create::open("file").access(access).share(shares(share));
    peers[0].create(&create(first));
    peers[1].try_create(&create(second)).status()
}

#[test]
fn two_opens_coexist_only_if_each_shares_the_others_access() {
    let rights = [
        (AccessMask::READ_DATA, 1),
        (AccessMask::EXECUTE, 1),
        (AccessMask::WRITE_DATA, 2),
        (AccessMask::APPEND_DATA, 2),
        (AccessMask::DELETE, 4),
    ];
    for (access, bit) in rights {
        let neutral = AccessMask::READ_ATTRIBUTES;
        assert_eq!(open_twice((access, 7), (access, 7)), NtStatus::SUCCESS, "{access:?}");
        let violation = NtStatus::SHARING_VIOLATION;
        assert_eq!(open_twice((access, 7), (access, 7 & !bit)), violation, "{access:?}");
        assert_eq!(open_twice((access, 7 & !bit), (access, 7)), violation, "{access:?}");
        // An open that only reads attributes conflicts with none.
        assert_eq!(open_twice((access, 0), (neutral, 0)), NtStatus::SUCCESS, "{access:?}");
        assert_eq!(open_twice((neutral, 0), (access, 0)), NtStatus::SUCCESS, "{access:?}");
    }
    let (read, write) = (AccessMask::READ_DATA, AccessMask::WRITE_DATA);
    assert_eq!(open_twice((read, 2), (write, 1)), NtStatus::SUCCESS);
}

#[test]
fn a_sharing_violation_leaves_the_file_and_no_open() {
    let world = World::new();
    world.add_file("data", "file", b"data");
    let mut peer = ready(&world);
    let reading = Create::open("file").access(AccessMask::READ_DATA);
    let first = peer.create(&reading.clone().share(ShareAccess::READ)).file_id;
    // Overwriting counts as writing, whatever access was desired.
    let overwrite = Create::with_disposition("file", CreateDisposition::OVERWRITE);
    let overwrite = overwrite.access(AccessMask::READ_DATA);
    assert_eq!(peer.try_create(&overwrite).outcome(), Reason::SharingViolation);
    assert_eq!(world.contents("data", "file").as_deref(), Some(&b"data"[..]));
    assert_eq!(world.store().open_count(), 1);
    peer.close(first).ok();
    peer.create(&overwrite);
    assert_eq!(world.contents("data", "file").as_deref(), Some(&b""[..]));
}

#[test]
fn streams_are_shared_each_on_its_own() {
    let world = World::new();
    let mut peer = ready(&world);
    peer.create(&Create::open_if("file").share(ShareAccess::empty()));
    let stream = Create::open_if("file:s").share(ShareAccess::empty());
    peer.create(&stream);
    assert_eq!(peer.try_create(&stream).outcome(), Reason::SharingViolation);
}

#[track_caller]
fn check_overwrite(has: FileAttributes, says: FileAttributes, want: impl Into<Outcome>) {
    let want = want.into();
    for disposition in [CreateDisposition::OVERWRITE_IF, CreateDisposition::SUPERSEDE] {
        let world = World::new();
        world.add_file("data", "file", b"data");
        world.set_attributes("data", "file", has);
        let mut peer = ready(&world);
        let create = Create::with_disposition("file", disposition).attributes(says);
        assert_eq!(peer.try_create(&create).outcome(), want, "{has:?} {says:?}");
        let kept = world.contents("data", "file").is_some_and(|data| data == b"data");
        assert_eq!(kept, !want.is_success());
    }
}

#[test]
fn hidden_and_system_files_are_overwritten_only_with_these_attributes() {
    let (hidden, system) = (FileAttributes::HIDDEN, FileAttributes::SYSTEM);
    let none = FileAttributes::empty();
    check_overwrite(hidden, none, NtStatus::ACCESS_DENIED);
    check_overwrite(hidden, hidden, NtStatus::SUCCESS);
    check_overwrite(hidden | system, hidden, NtStatus::ACCESS_DENIED);
    check_overwrite(hidden | system, hidden | system, NtStatus::SUCCESS);
    check_overwrite(none, hidden, NtStatus::SUCCESS);
}

#[test]
fn a_read_only_file_is_not_overwritten() {
    let read_only = FileAttributes::READONLY;
    check_overwrite(read_only, FileAttributes::empty(), NtStatus::ACCESS_DENIED);
    check_overwrite(read_only, read_only, NtStatus::ACCESS_DENIED);
}

#[test]
fn attributes_are_replaced_by_supersede_and_added_by_overwrite() {
    let (hidden, archive) = (FileAttributes::HIDDEN, FileAttributes::ARCHIVE);
    let temporary = FileAttributes::TEMPORARY;
    for (disposition, want) in [
        (CreateDisposition::SUPERSEDE, hidden | archive),
        (CreateDisposition::OVERWRITE, hidden | temporary | archive),
    ] {
        let world = World::new();
        world.add_file("data", "file", b"data");
        world.set_attributes("data", "file", temporary);
        let create = Create::with_disposition("file", disposition).attributes(hidden);
        let created = ready(&world).create(&create);
        assert_eq!((created.attributes, created.end_of_file), (want, 0));
        assert_eq!(world.attributes("data", "file"), Some(want));
    }
}

#[test]
fn the_read_only_attribute_of_a_new_file_does_not_bind_the_open_that_makes_it() {
    let world = World::new();
    let mut peer = ready(&world);
    let create = Create::new("file").attributes(FileAttributes::READONLY);
    let file = peer.create(&create).file_id;
    peer.write(file, 0, b"first and last").ok();
    assert_eq!(peer.try_create(&Create::open("file")).outcome(), NtStatus::ACCESS_DENIED);
}

#[test]
fn a_file_goes_with_the_last_open_once_one_wanted_that() {
    let world = World::new();
    let mut peers = [ready(&world), ready(&world)];
    let marked = peers[0].create(&Create::new("file").delete_on_close()).file_id;
    let other = peers[1].create(&Create::open("file")).file_id;
    peers[0].close(marked).ok();
    assert!(world.exists("data", "file"));
    assert_eq!(peers[0].try_create(&Create::open("file")).outcome(), Reason::DeletePending);
    peers[1].write(other, 0, b"last words").ok();
    peers[1].close(other).ok();
    assert!(!world.exists("data", "file"));
    peers[0].create(&Create::new("file"));
}

#[test]
fn delete_on_close_needs_the_right_and_a_file_that_may_go() {
    let marked = Create::open("file").delete_on_close();
    check(&marked.clone().access(AccessMask::READ_DATA), Reason::DeleteOnCloseWithoutDelete);
    check(&marked.clone().access(AccessMask::DELETE), NtStatus::SUCCESS);
    check(&marked.access(AccessMask::MAXIMUM_ALLOWED), NtStatus::SUCCESS);
    check(&Create::open("").delete_on_close(), NtStatus::CANNOT_DELETE);
    let world = World::new();
    world.add_file("data", "file", b"data");
    world.set_attributes("data", "file", FileAttributes::READONLY);
    let marked = Create::open("file").access(AccessMask::DELETE).delete_on_close();
    assert_eq!(ready(&world).try_create(&marked).outcome(), NtStatus::CANNOT_DELETE);
}

#[test]
fn a_stream_and_an_empty_directory_go_the_same_way() {
    let world = World::new();
    let mut peer = ready(&world);
    let file = peer.create(&Create::new("file")).file_id;
    let stream = peer.create(&Create::new("file:s").delete_on_close()).file_id;
    peer.close(stream).ok();
    assert_eq!(world.contents("data", "file:s"), None);
    peer.close(file).ok();
    assert!(world.exists("data", "file"));
    let directory = peer.create(&Create::directory("dir").delete_on_close()).file_id;
    peer.close(directory).ok();
    assert!(!world.exists("data", "dir"));
}

/// Only a successful open deletes the file at its close; this one failed.
#[test]
fn a_failed_overwrite_deletes_nothing() {
    let world = World::new();
    world.add_file("data", "file", b"data");
    let mut peer = ready(&world);
    world.store().fail_nth_of(OpKind::Overwrite, 0, NtStatus::DISK_FULL);
    let create = Create::with_disposition("file", CreateDisposition::OVERWRITE).delete_on_close();
    assert_eq!(peer.try_create(&create).outcome(), NtStatus::DISK_FULL);
    assert_eq!(world.store().open_count(), 0);
    assert!(world.exists("data", "file"));
    assert_eq!(world.open_count(), 0);
    peer.create(&Create::open("file").share(ShareAccess::empty()));
}

#[test]
fn an_open_refused_by_the_store_has_its_status() {
    for status in [NtStatus::ACCESS_DENIED, NtStatus::DISK_FULL, NtStatus::TOO_MANY_OPENED_FILES] {
        let world = World::new();
        let mut peer = ready(&world);
        world.store().fail_nth_of(OpKind::Open, 0, status);
        assert_eq!(peer.try_create(&Create::new("file")).outcome(), status);
        assert_eq!(world.open_count(), 0);
    }
}

/// The store has opened the file, but its client cannot close it any more.
#[test]
fn an_open_that_comes_too_late_is_closed_again() {
    let ends: [fn(&mut Peer); 4] = [
        |peer| peer.disconnect(),
        |peer| drop(peer.logoff().ok()),
        |peer| drop(peer.tree_disconnect().ok()),
        |peer| {
            let (user, password) = testkit::accounts::ALICE;
            let mut next = peer.world().connect();
            next.negotiate([Dialect::SMB_3_1_1]);
            let login = testkit::Login::user(user, password);
            next.authenticate(&login.previous_session(peer.session_id)).ok();
            next.disconnect();
        },
    ];
    for end in ends {
        for disposition in [CreateDisposition::OPEN, CreateDisposition::OVERWRITE] {
            let world = World::new();
            world.add_file("data", "file", b"data");
            let mut peer = ready(&world);
            world.delay_replies(|effect| matches!(effect, Effect::Object { .. }));
            let create = Create::with_disposition("file", disposition);
            let request = peer.request(Command::CREATE, &create);
            peer.send(request);
            assert_eq!((world.delayed_replies(), world.store().open_count()), (1, 1));
            end(&mut peer);
            world.release_all();
            assert_eq!(world.store().open_count(), 0);
            peer.disconnect();
            world.assert_nothing_left();
        }
    }
}

#[test]
fn an_open_that_is_being_overwritten_when_its_session_ends_is_closed() {
    let world = World::new();
    world.add_file("data", "file", b"data");
    let mut peer = ready(&world);
    world.delay_replies(|effect| {
        let Effect::Object { op, .. } = effect else { return false };
        OpKind::of(op) == OpKind::Overwrite
    });
    let create = Create::with_disposition("file", CreateDisposition::SUPERSEDE);
    let request = peer.request(Command::CREATE, &create);
    peer.send(request);
    assert_eq!(world.delayed_replies(), 1);
    peer.disconnect();
    world.release_all();
    world.assert_nothing_left();
}

fn delays_opens_of(name: &'static str) -> impl Fn(&Effect) -> bool {
    move |effect| match effect {
        Effect::Object { op: ObjectOp::Open(request), .. } => request.path.as_str() == name,
        _ => false,
    }
}

fn delete(peer: &mut Peer, name: &str) {
    let options = CreateOptions::DELETE_ON_CLOSE;
    let access = AccessMask::DELETE;
    let file = peer.create(&Create::open(name).access(access).options(options)).file_id;
    peer.close(file).ok();
}

/// Returns the open of a CREATE that was delayed.
fn opened(peer: &mut Peer) -> FileId {
    let response = peer.receive().pop().expect("it is not delayed any more").ok();
    response.body::<CreateResponse<'_>>().file_id
}

#[test]
fn deletions_of_other_files_do_not_delay_an_open_forever() {
    let world = World::new();
    world.add_file("data", "file", b"data");
    let (mut peer, mut other) = (ready(&world), ready(&world));
    world.delay_replies(delays_opens_of("file"));
    let request = peer.request(Command::CREATE, &Create::open("file"));
    peer.send(request);
    for number in 0..3 {
        if world.delayed_replies() == 0 {
            break;
        }
        let name = format!("other {number}");
        world.add_file("data", &name, b"");
        delete(&mut other, &name);
        world.release(0);
    }
    assert_eq!(world.delayed_replies(), 0);
    let file = opened(&mut peer);
    assert_eq!(peer.read(file, 0, 4), b"data");
    assert_eq!(world.store().op_count(OpKind::Lookup), 1, "the name leads to it all the same");
}

#[test]
fn a_file_that_is_deleted_while_it_is_opened_is_looked_up_again() {
    for disposition in [CreateDisposition::OPEN, CreateDisposition::OVERWRITE_IF] {
        let world = World::new();
        world.add_file("data", "file", b"old");
        let (mut peer, mut other) = (ready(&world), ready(&world));
        world.delay_replies(delays_opens_of("file"));
        let create = Create::with_disposition("file", disposition);
        let request = peer.request(Command::CREATE, &create);
        peer.send(request);
        world.stop_delaying();
        delete(&mut other, "file");
        world.add_file("data", "file", b"new");
        world.release_all();
        let file = opened(&mut peer);
        peer.write(file, 0, b"more").ok();
        assert_eq!(world.contents("data", "file").as_deref(), Some(&b"more"[..]));
        assert_eq!((world.store().open_count(), world.open_count()), (1, 1));
        peer.disconnect();
        other.disconnect();
        world.assert_nothing_left();
    }
}

#[test]
fn an_open_with_a_repeated_lookup_learns_of_breaks_from_its_response() {
    let world = World::new();
    world.add_file("data", "file", b"data");
    world.add_file("data", "other", b"");
    let (mut peer, mut other) = (ready(&world), ready(&world));
    world.delay_replies(delays_opens_of("file"));
    let request = peer.request(Command::CREATE, &Create::open("file").oplock(OplockLevel::BATCH));
    peer.send(request);
    delete(&mut other, "other");
    world.delay_replies(|effect| {
        matches!(effect, Effect::Object { op: ObjectOp::Lookup { .. }, .. })
    });
    world.release(0);
    assert_eq!(world.delayed_replies(), 1, "the name is looked up again");
    let request = other.request(Command::CREATE, &Create::open("file"));
    other.send(request);
    assert!(other.receive()[0].is_interim(), "it waits for the break");
    assert_eq!(peer.receive().len(), 0, "the client knows of no open");
    world.release_all();
    let reported = peer.receive();
    let commands: Vec<_> = reported.iter().map(|it| it.header.command).collect();
    assert_eq!(commands, [Command::CREATE, Command::OPLOCK_BREAK]);
}

/// The session goes on, so nothing else would ever close it.
#[test]
fn an_open_that_is_being_overwritten_when_its_request_is_canceled_is_closed() {
    for fails in [false, true] {
        let world = World::new();
        world.add_file("data", "file", b"data");
        let mut peer = ready(&world);
        let before = world.memory_taken();
        if fails {
            world.store().fail_nth_of(OpKind::Overwrite, 0, NtStatus::DISK_FULL);
        }
        world.delay_replies(|effect| {
            let Effect::Object { op, .. } = effect else { return false };
            OpKind::of(op) == OpKind::Overwrite
        });
        let create = Create::with_disposition("file", CreateDisposition::OVERWRITE)
            .share(ShareAccess::empty())
            .oplock(OplockLevel::EXCLUSIVE)
            .delete_on_close();
        let id = peer.next_message_id();
        peer.send(peer.request(Command::CREATE, &create));
        cancel_slow(&world, &mut peer, id);
        world.release_all();
        assert_eq!((world.store().open_count(), world.open_count()), (0, 0), "{fails}");
        assert_eq!(world.memory_taken(), before);
        assert!(world.contents("data", "file").is_some(), "its client has no open to delete it");
        let mut other = ready(&world);
        other.create(&Create::open("file"));
        other.disconnect();
        peer.disconnect();
        world.assert_nothing_left();
    }
}

#[test]
fn an_open_canceled_during_a_repeated_lookup_is_closed() {
    let world = World::new();
    world.add_file("data", "file", b"data");
    world.add_file("data", "other", b"");
    let (mut peer, mut other) = (ready(&world), ready(&world));
    world.delay_replies(delays_opens_of("file"));
    let create = Create::open("file").share(ShareAccess::empty()).delete_on_close();
    let id = peer.next_message_id();
    peer.send(peer.request(Command::CREATE, &create));
    delete(&mut other, "other");
    world.delay_replies(|effect| {
        matches!(effect, Effect::Object { op: ObjectOp::Lookup { .. }, .. })
    });
    world.release(0);
    assert_eq!(world.delayed_replies(), 1, "the name is looked up again");
    cancel_slow(&world, &mut peer, id);
    world.release_all();
    assert_eq!((world.store().open_count(), world.open_count()), (0, 0));
    let file = other.create(&Create::open("file")).file_id;
    other.close(file).ok();
    peer.disconnect();
    other.disconnect();
    world.assert_nothing_left();
}

/// Cancels a request that has an interim response, as the store takes long.
#[track_caller]
fn cancel_slow(world: &World, peer: &mut Peer, id: u64) {
    world.report_slow();
    assert_eq!(statuses(peer), [NtStatus::PENDING]);
    peer.send(peer.request(Command::CANCEL, &CancelRequest).message_id(id));
    assert_eq!(statuses(peer), [NtStatus::CANCELLED]);
}

fn statuses(peer: &mut Peer) -> Vec<NtStatus> {
    peer.receive().iter().map(|response| response.status()).collect()
}

#[test]
fn contexts_that_are_asked_for_are_answered() {
    let world = World::new();
    let mut peer = ready(&world);
    let create = Create::open_if("file")
        .context(&QueryMaximalAccessRequest::default())
        .context(&QueryOnDiskIdRequest);
    let response = peer.try_create(&create).ok();
    let body: CreateResponse<'_> = response.body();
    let maximal: QueryMaximalAccessResponse =
        body.create_contexts.find().expect("well-formed").expect("it was asked for");
    assert_eq!(maximal.query_status, NtStatus::SUCCESS);
    assert_eq!(maximal.maximal_access, AccessMask::FILE_ALL);
    let id: QueryOnDiskIdResponse =
        body.create_contexts.find().expect("well-formed").expect("it was asked for");
    assert_ne!(id.disk_file_id, 0);
    let known = QueryMaximalAccessRequest { timestamp: Some(body.last_write_time) };
    let response = peer.try_create(&Create::open("file").context(&known)).ok();
    let maximal: QueryMaximalAccessResponse = response
        .body::<CreateResponse<'_>>()
        .create_contexts
        .find()
        .expect("well-formed")
        .expect("it was asked for");
    assert_eq!(maximal.query_status, NtStatus::NONE_MAPPED);
}

#[test]
fn contexts_of_opens_and_snapshots_that_never_existed_find_nothing() {
    let reconnect = DurableHandleReconnect { file_id: FileId { persistent: 1, volatile: 0 } };
    check(&Create::open("file").context(&reconnect), Reason::NoSuchDurableOpen);
    let snapshot = TimewarpToken { timestamp: FileTime(1) };
    check(&Create::open("file").context(&snapshot), NtStatus::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn vetoed_names_do_not_exist() {
    let world = World::new();
    let root =
        world.add_share("veto", |share| share.veto_files = vec![NameExpression::new("*.tmp")]);
    world.store().add_file(root, "a.tmp", b"");
    let mut peer = ready(&world);
    peer.tree("veto");
    for name in ["a.tmp", "A.TMP", "new.tmp", "dir.tmp\\file"] {
        let refused = peer.try_create(&Create::open_if(name));
        assert_eq!(refused.outcome(), Reason::NameVetoed, "{name}");
    }
    peer.create(&Create::new("a.txt"));
}

#[test]
fn a_close_returns_the_attributes_if_requested() {
    let world = World::new();
    let mut peer = ready(&world);
    for (flags, size) in [(CloseFlags::POSTQUERY_ATTRIB, 4), (CloseFlags::empty(), 0)] {
        let file_id = peer.create(&Create::open_if("file")).file_id;
        peer.write(file_id, 0, b"data").ok();
        let request = peer.request(Command::CLOSE, &CloseRequest { flags, file_id });
        let body: CloseResponse = peer.call(request).ok().body();
        assert_eq!((body.flags, body.end_of_file), (flags, size));
        assert_eq!(body.last_write_time == FileTime::ZERO, size == 0);
    }
}

#[test]
fn a_close_that_cannot_ask_any_more_closes_all_the_same() {
    let world = World::new();
    let mut peer = ready(&world);
    let file_id = peer.create(&Create::open_if("file")).file_id;
    world.store().fail_nth_of(OpKind::QueryMetadata, 0, NtStatus::UNEXPECTED_IO_ERROR);
    let flags = CloseFlags::POSTQUERY_ATTRIB;
    let request = peer.request(Command::CLOSE, &CloseRequest { flags, file_id });
    assert_eq!(peer.call(request).ok().body::<CloseResponse>().flags, CloseFlags::empty());
    assert_eq!(world.store().open_count(), 0);
}

#[test]
fn a_close_that_fails_is_reported_and_the_open_is_gone() {
    let world = World::new();
    let mut peer = ready(&world);
    let file = peer.create(&Create::open_if("file")).file_id;
    world.store().fail_nth_of(OpKind::Close, 0, NtStatus::DISK_FULL);
    assert_eq!(peer.close(file).outcome(), NtStatus::DISK_FULL);
    assert_eq!(peer.close(file).outcome(), Reason::NoSuchOpen);
    assert_eq!(world.open_count(), 0);
}

#[test]
fn a_file_id_closed_twice_or_never_opened_is_answered_as_closed() {
    let world = World::new();
    let mut peer = ready(&world);
    let file = peer.create(&Create::open_if("file")).file_id;
    let FileId { persistent, volatile } = file;
    let wrong = [
        FileId { persistent: persistent ^ 1, volatile },
        FileId { persistent, volatile: volatile + 1 },
        FileId { persistent: 0, volatile: 0 },
        FileId::ANY,
    ];
    for file_id in wrong {
        assert_eq!(peer.close(file_id).outcome(), Reason::NoSuchOpen, "{file_id:?}");
    }
    peer.close(file).ok();
    assert_eq!(peer.close(file).outcome(), Reason::NoSuchOpen);
}

#[test]
fn two_closes_on_their_way_are_one_close() {
    let world = World::new();
    let mut peer = ready(&world);
    let file_id = peer.create(&Create::open_if("file")).file_id;
    world.delay_replies(|effect| matches!(effect, Effect::Object { .. }));
    let flags = CloseFlags::POSTQUERY_ATTRIB;
    for _ in 0..2 {
        let request = peer.request(Command::CLOSE, &CloseRequest { flags, file_id });
        peer.send(request);
    }
    world.release_all();
    let mut statuses: Vec<_> = peer.receive().iter().map(testkit::Response::status).collect();
    statuses.sort_by_key(|status| status.0);
    assert_eq!(statuses, [NtStatus::SUCCESS, NtStatus::FILE_CLOSED]);
    assert_eq!(world.store().op_count(OpKind::Close), 1);
}

#[test]
fn a_file_id_is_never_given_twice() {
    let world = World::new();
    let mut peer = ready(&world);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..100 {
        let file = peer.create(&Create::open_if("file")).file_id;
        assert!(seen.insert(file.volatile) && seen.insert(file.persistent | 1 << 63));
        peer.close(file).ok();
    }
}

#[test]
fn an_open_of_another_session_is_closed_to_this_one() {
    let world = World::new();
    let mut peer = ready(&world);
    let file = peer.create(&Create::open_if("file")).file_id;
    let mut other = ready(&world);
    assert_eq!(other.close(file).outcome(), Reason::NoSuchOpen);
    peer.close(file).ok();
}

#[test]
fn the_tables_have_each_open() {
    let world = World::new();
    world.add_file("data", "Dir/File", b"");
    let mut peer = ready(&world);
    let file_id = peer.create(&Create::open("DIR\\file")).file_id;
    let files = world.files();
    let [(_, record)] = &files[..] else { panic!("{files:?} is not one file") };
    let open = &record.opens[0];
    assert_eq!((open.facts.path.as_str(), open.facts.share.as_str()), ("Dir\\File", "data"));
    assert_eq!((open.facts.persistent, open.id.number), (file_id.persistent, file_id.volatile));
}

#[test]
fn opening_and_closing_a_file_that_nobody_else_uses_costs_two_record_updates() {
    let world = World::new();
    world.add_file("data", "file", b"");
    let mut peer = ready(&world);
    for create in [Create::open("file"), Create::open_if("new")] {
        let before = world.record_updates();
        let file_id = peer.create(&create).file_id;
        peer.close(file_id).ok();
        assert_eq!(world.record_updates() - before, 2, "{create:?}");
    }
}

/// A file that alice's open marks for deletion, and that bob's open has open until now. The store
/// refuses the next close.
fn marked_file_open_by_another(access: AccessMask) -> (World, Peer, FileId) {
    let world = World::new();
    world.add_file("data", "file", b"secret");
    let (mut deleter, mut other) = (ready(&world), ready(&world));
    let file_id = other.create(&Create::open("file").access(access)).file_id;
    let marked = deleter.create(&Create::open("file").delete_on_close()).file_id;
    deleter.close(marked).ok();
    assert!(world.exists("data", "file"), "another open keeps it");
    world.store().fail_nth_of(OpKind::Close, 0, NtStatus::ACCESS_DENIED);
    (world, other, file_id)
}

#[test]
fn an_open_without_the_right_to_delete_undoes_no_deletion() {
    let (world, mut other, file_id) = marked_file_open_by_another(AccessMask::READ_ATTRIBUTES);
    other.close(file_id).ok();
    assert!(!world.exists("data", "file"));
    other.try_create(&Create::open("file")).expect(NtStatus::OBJECT_NAME_NOT_FOUND);
    // Nor does the end of its connection.
    let (world, other, _) = marked_file_open_by_another(AccessMask::READ_ATTRIBUTES);
    other.disconnect();
    assert!(!world.exists("data", "file"));
}

#[test]
fn a_removal_that_the_deleting_user_is_refused_does_not_happen() {
    let (world, mut other, file_id) = marked_file_open_by_another(AccessMask::FILE_ALL);
    other.close(file_id).expect(NtStatus::ACCESS_DENIED);
    assert!(world.exists("data", "file"));
}
