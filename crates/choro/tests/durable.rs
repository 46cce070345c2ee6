//! Opens that outlive their connection, a killed worker, or the server.

mod harness;

use std::fs;
use std::os::unix::fs::symlink;

use bench::client::{Client, Destination, Protection, requests};
use dtyp::{AccessMask, Guid, NtStatus};
use harness::choro::{is_alive, signal_process, wait_until};
use harness::{OTHER_USER, Setup, TestServer, terms};
use rustix::process::Signal;
use wire::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel,
    ShareAccess,
};
use wire::create_context::{
    CreateContextData, CreateContextList, DurableFlags, DurableHandleReconnectV2,
    DurableHandleRequestV2, DurableHandleResponseV2,
};
use wire::echo::EchoRequest;
use wire::lock::{LockElement, LockFlags, LockRequest, Locks};
use wire::read::{ReadRequest, ReadResponse};
use wire::write::WriteRequest;
use wire::{Command, Decode, FileId, OplockLevel};

const GUID: Guid = Guid([0x5A; 16]);

fn start() -> TestServer {
    Setup::new()
        // Otherwise a durable open with locks ends with its connection.
        .share("data", "posix locking = no")
        .global("persistent handles = yes")
        .share("ca", "continuous availability = yes\nsmb3 ca:max lease mask = RWH")
        .start()
}

fn connect(server: &TestServer, share: &str) -> Client {
    server.connect(share, Protection::Signed)
}

/// CREATE of `file` with a batch oplock, sharing nothing; the status, and what it led to.
fn create<'a>(
    client: &mut Client,
    context: &impl CreateContextData<'a>,
) -> (NtStatus, FileId, Option<DurableFlags>) {
    let mut contexts = CreateContextList::new();
    contexts.push(context);
    let name = dtyp::utf16::to_bytes("file");
    let request = CreateRequest {
        requested_oplock_level: OplockLevel::BATCH,
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: AccessMask::FILE_GENERIC_READ | AccessMask::FILE_GENERIC_WRITE,
        share_access: ShareAccess::empty(),
        create_disposition: CreateDisposition::OPEN_IF,
        name: &name,
        create_contexts: contexts.contexts(),
        ..CreateRequest::default()
    };
    let reply = client.call(Command::CREATE, 0, &request).expect("an answer");
    if reply.header.status.is_error() {
        return (reply.header.status, FileId::ANY, None);
    }
    let response = CreateResponse::decode(client.message(&reply)).expect("well-formed");
    let granted = response.create_contexts.find::<DurableHandleResponseV2>();
    let flags = granted.expect("well-formed").map(|it| it.flags);
    (reply.header.status, response.file_id, flags)
}

/// Opens the file as a client that wants it back, locks it, and writes.
fn begin(client: &mut Client, flags: DurableFlags) -> FileId {
    let context = DurableHandleRequestV2 { timeout_ms: 60_000, flags, create_guid: GUID };
    let (status, file_id, granted) = create(client, &context);
    assert_eq!((status, granted), (NtStatus::SUCCESS, Some(flags)));
    let write = WriteRequest::new(file_id, 0, b"kept");
    client.call(Command::WRITE, 4, &write).and_then(|it| it.succeeded()).expect("it is open");
    assert_eq!(lock(client, file_id), NtStatus::SUCCESS);
    file_id
}

fn lock(client: &mut Client, file_id: FileId) -> NtStatus {
    let flags = LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY;
    let elements = [LockElement { offset: 0, length: 4, flags }];
    let request = LockRequest { lock_sequence: 0, file_id, locks: Locks::new(&elements) };
    client.call(Command::LOCK, 0, &request).expect("an answer").header.status
}

fn reconnect(client: &mut Client, file_id: FileId, flags: DurableFlags) -> (NtStatus, FileId) {
    let context = DurableHandleReconnectV2 { file_id, create_guid: GUID, flags };
    let (status, file_id, _) = create(client, &context);
    (status, file_id)
}

/// As [`reconnect`], once the server knows that the open's connection is lost: before that there is
/// nothing to be taken up ([MS-SMB2] 3.3.5.9.12).
#[track_caller]
fn reconnect_to_lost(
    client: &mut Client,
    file_id: FileId,
    flags: DurableFlags,
) -> (NtStatus, FileId) {
    let mut answer = (NtStatus::OBJECT_NAME_NOT_FOUND, FileId::ANY);
    let mut is_lost = || {
        answer = reconnect(client, file_id, flags);
        answer.0 != NtStatus::OBJECT_NAME_NOT_FOUND
    };
    wait_until(&mut is_lost, || "nothing is there to be taken up".to_owned());
    answer
}

#[track_caller]
fn check_taken_up(server: &TestServer, share: &str, before: FileId, flags: DurableFlags) {
    let mut client = connect(server, share);
    let (status, after) = reconnect_to_lost(&mut client, before, flags);
    assert_eq!(status, NtStatus::SUCCESS, "{}", server.log());
    assert_eq!(after.persistent, before.persistent);
    let read = ReadRequest { length: 4, file_id: after, ..ReadRequest::default() };
    let reply = client.call(Command::READ, 4, &read).and_then(|it| it.succeeded());
    let reply = reply.expect("it is open");
    let response = ReadResponse::decode(client.message(&reply)).expect("well-formed");
    assert_eq!(response.data, b"kept");
    assert_eq!(lock(&mut client, after), NtStatus::LOCK_NOT_GRANTED, "it is held already");
    requests::close(&mut client, after).expect("it is open");
    let (status, _) = reconnect(&mut client, before, flags);
    assert_eq!(status, NtStatus::OBJECT_NAME_NOT_FOUND, "what is closed is gone");
    client.logoff().expect("it ends well");
}

#[test]
fn a_durable_open_is_taken_up_after_its_connection_was_lost() {
    let server = start();
    let mut client = connect(&server, "data");
    let file_id = begin(&mut client, DurableFlags::empty());
    drop(client);
    check_taken_up(&server, "data", file_id, DurableFlags::empty());
    server.stop();
}

/// Both users act as the same one of the system, which knows neither.
#[test]
fn a_durable_open_is_not_taken_up_by_another_user() {
    let server = start();
    let mut client = connect(&server, "data");
    let file_id = begin(&mut client, DurableFlags::empty());
    drop(client);
    let destination = Destination { user: OTHER_USER.to_owned(), ..server.destination("data") };
    let other = Client::connect(&destination, terms(Protection::Signed));
    let mut other = other.expect("the server lets it in");
    let (refused, _) = reconnect_to_lost(&mut other, file_id, DurableFlags::empty());
    assert_eq!(refused, NtStatus::ACCESS_DENIED);
    check_taken_up(&server, "data", file_id, DurableFlags::empty());
    server.stop();
}

#[test]
fn a_durable_open_is_taken_up_after_its_worker_was_killed() {
    let server = start();
    wait_until(|| server.server().workers().len() == 3, || server.log());
    let mut client = connect(&server, "data");
    let file_id = begin(&mut client, DurableFlags::empty());
    for worker in server.server().workers() {
        signal_process(worker, Signal::KILL);
        wait_until(|| !is_alive(worker), || format!("{worker} lives"));
    }
    check_taken_up(&server, "data", file_id, DurableFlags::empty());
    server.stop();
}

/// Makes a file that goes with this open.
fn open_to_delete(client: &mut Client, name: &str) {
    make_to_delete(client, name, CreateOptions::NON_DIRECTORY_FILE);
}

fn make_to_delete(client: &mut Client, name: &str, kind: CreateOptions) {
    let name = dtyp::utf16::to_bytes(name);
    let request = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: AccessMask::FILE_GENERIC_READ | AccessMask::DELETE,
        create_disposition: CreateDisposition::CREATE,
        create_options: CreateOptions::DELETE_ON_CLOSE | kind,
        name: &name,
        ..CreateRequest::default()
    };
    let reply = client.call(Command::CREATE, 0, &request).expect("an answer");
    assert_eq!(reply.header.status, NtStatus::SUCCESS);
}

#[test]
fn a_file_that_goes_with_its_open_goes_when_the_worker_is_killed() {
    let server = start();
    wait_until(|| server.server().workers().len() == 3, || server.log());
    let mut client = connect(&server, "data");
    open_to_delete(&mut client, "file");
    let file = server.share_path("data").join("file");
    assert!(file.exists());
    for worker in server.server().workers() {
        signal_process(worker, Signal::KILL);
        wait_until(|| !is_alive(worker), || format!("{worker} lives"));
        if client.call(Command::ECHO, 0, &EchoRequest).is_err() {
            break;
        }
    }
    wait_until(|| !file.exists(), || server.log());
    server.stop();
}

/// The deleting process may have more rights than the dead client: a replaced path must not lead it
/// elsewhere.
/// Deletions that an open leaves behind are done as root, so what it may delete is decided before.
#[test]
fn an_open_deletes_nothing_from_a_share_that_can_only_be_read() {
    let server = Setup::new().share("data", "read only = yes").start();
    fs::write(server.share_path("data").join("file"), "kept").expect("there is room");
    let mut client = connect(&server, "data");
    let name = dtyp::utf16::to_bytes("file");
    let mut contexts = CreateContextList::new();
    let flags = DurableFlags::empty();
    contexts.push(&DurableHandleRequestV2 { timeout_ms: 1_000, flags, create_guid: GUID });
    let request = CreateRequest {
        requested_oplock_level: OplockLevel::BATCH,
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: AccessMask::MAXIMUM_ALLOWED,
        share_access: ShareAccess::empty(),
        create_disposition: CreateDisposition::OPEN,
        create_options: CreateOptions::DELETE_ON_CLOSE,
        name: &name,
        create_contexts: contexts.contexts(),
        ..CreateRequest::default()
    };
    let reply = client.call(Command::CREATE, 0, &request).expect("an answer");
    assert_eq!(reply.header.status, NtStatus::ACCESS_DENIED);
    assert!(server.share_path("data").join("file").exists());
    server.stop();
}

#[test]
fn a_path_that_leads_elsewhere_by_now_deletes_nothing() {
    let server = start();
    wait_until(|| server.server().workers().len() == 3, || server.log());
    let folder = server.share_path("data");
    let (own, other) = (folder.join("own"), folder.join("other"));
    for folder in [&own, &other] {
        fs::create_dir(folder).expect("there is space");
        harness::give_to_server(folder);
    }
    let mut client = connect(&server, "data");
    open_to_delete(&mut client, "own\\file");
    fs::hard_link(own.join("file"), other.join("file")).expect("it is there");
    fs::rename(&own, folder.join("moved")).expect("it is there");
    symlink("other", &own).expect("the name is free");
    for worker in server.server().workers() {
        signal_process(worker, Signal::KILL);
    }
    wait_until(|| server.log().contains("file\" after its last close"), || server.log());
    assert!(other.join("file").exists(), "another name, which nobody asked to delete");
    server.stop();
}

/// As above: vetoed entries may belong to another user, whom the kernel protects from the dead
/// client.
#[test]
fn a_folder_that_goes_with_its_open_takes_nothing_unseen_with_it_when_the_worker_is_killed() {
    let lines = "veto files = /.*/\ndelete veto files = yes";
    let server = Setup::new().share("data", lines).start();
    wait_until(|| server.server().workers().len() == 3, || server.log());
    let mut client = connect(&server, "data");
    make_to_delete(&mut client, "folder", CreateOptions::DIRECTORY_FILE);
    let unseen = server.share_path("data").join("folder/.unseen");
    fs::write(&unseen, "").expect("there is space");
    for worker in server.server().workers() {
        signal_process(worker, Signal::KILL);
    }
    let is_done = || server.log().contains("folder\" after its last close") || !unseen.exists();
    wait_until(is_done, || server.log());
    assert!(unseen.exists(), "removed with the server's rights");
    server.stop();
}

#[test]
fn a_file_that_goes_with_its_open_goes_though_no_worker_is_left() {
    let server = start();
    wait_until(|| server.server().workers().len() == 3, || server.log());
    let mut client = connect(&server, "data");
    open_to_delete(&mut client, "file");
    wait_until(|| server.server().workers().len() == 4, || server.log());
    let file = server.share_path("data").join("file");
    assert!(file.exists());
    // It hears of all deaths at once.
    server.server().signal(Signal::STOP);
    let workers = server.server().workers();
    workers.iter().for_each(|worker| signal_process(*worker, Signal::KILL));
    wait_until(|| !workers.iter().any(|worker| is_alive(*worker)), || "they live".to_owned());
    server.server().signal(Signal::CONT);
    wait_until(|| !file.exists(), || server.log());
    server.stop();
}

#[test]
fn a_persistent_open_is_taken_up_after_the_server_was_stopped_and_started() {
    for kill in [false, true] {
        let mut server = start();
        let mut client = connect(&server, "ca");
        let file_id = begin(&mut client, DurableFlags::PERSISTENT);
        server.restart(kill);
        check_taken_up(&server, "ca", file_id, DurableFlags::PERSISTENT);
        server.restart(kill);
        assert!(!server.log().contains("persistent opens"), "{}", server.log());
        server.stop();
    }
}

#[test]
fn a_durable_open_does_not_outlive_the_server() {
    let mut server = start();
    let mut client = connect(&server, "ca");
    let file_id = begin(&mut client, DurableFlags::empty());
    server.restart(false);
    let (status, _) = reconnect(&mut connect(&server, "ca"), file_id, DurableFlags::empty());
    assert_eq!(status, NtStatus::OBJECT_NAME_NOT_FOUND);
    server.stop();
}
