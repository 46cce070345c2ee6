//! A storage that waits stalls nobody: what a client does in other shares of the same connection.
//!
//! The slow share is a FUSE file system of the test. It holds one kind of operation shut until the
//! test opens its gate, so that no result depends on the speed of the machine.

mod harness;

use std::cell::Cell;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Shutdown};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use std::{fs, thread};

use bench::hanging_storage;
use bench::options::Options;
use bench::run::Interrupt;
use clap::Parser;
use dtyp::{AccessMask, FileInformationClass, FsInformationClass, Guid, NtStatus, ServerId, utf16};
use harness::choro::{PATIENCE, Site, built_executable, signal_process, text, wait_until};
use harness::connection::{Connection, random};
use harness::{FORCED_USER, Setup, TestServer, USER, runs_as_root};
use messaging::{Content, MessageKind, Messaging, TransportKind};
use rustix::process::Signal;
use slow_fs::{Behavior, Operation, SlowFs};
use tables::WatchPage;
use wire::change_notify::{ChangeNotifyFlags, ChangeNotifyRequest, CompletionFilter};
use wire::close::CloseRequest;
use wire::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel,
    ShareAccess,
};
use wire::echo::EchoRequest;
use wire::flush::FlushRequest;
use wire::header::HeaderFlags;
use wire::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use wire::query_info::{InfoType, QueryInfoRequest};
use wire::read::{ReadRequest, ReadResponse};
use wire::set_info::SetInfoRequest;
use wire::write::WriteRequest;
use wire::{Command, Decode, FileId, Header};

/// Parameters of a CREATE: path, access, disposition, options.
type Wanted<'a> = (&'a str, AccessMask, CreateDisposition, CreateOptions);

/// A request of the slow share.
#[derive(Clone, Copy, Debug)]
enum Request {
    Change(FileInformationClass, &'static [u8]),
    Close,
    Create(Wanted<'static>),
    Flush,
    List,
    Query(FileInformationClass),
    QueryFileSystem,
    Read,
    Write,
}

/// Bytes of a file that is larger than what may wait for a client.
const BIG: u64 = 48 << 20;
const BIG_SIZE: [u8; 8] = BIG.to_le_bytes();

/// ClientGuid of the scene's client.
const GUID: Guid = Guid([7; 16]);

const EVERYTHING: AccessMask = AccessMask::FILE_ALL;
const FILE: Wanted<'static> =
    ("file", EVERYTHING, CreateDisposition::OPEN, CreateOptions::NON_DIRECTORY_FILE);
const FOLDER: Wanted<'static> =
    ("folder", EVERYTHING, CreateDisposition::OPEN, CreateOptions::DIRECTORY_FILE);
const ROOT: Wanted<'static> =
    ("", EVERYTHING, CreateDisposition::OPEN, CreateOptions::DIRECTORY_FILE);
const NEW_FILE: Wanted<'static> =
    ("new", EVERYTHING, CreateDisposition::CREATE, CreateOptions::NON_DIRECTORY_FILE);
const NEW_FOLDER: Wanted<'static> =
    ("new folder", EVERYTHING, CreateDisposition::CREATE, CreateOptions::DIRECTORY_FILE);

/// FILE_RENAME_INFORMATION_TYPE_2 ([MS-FSCC] 2.4.43.2) with the name `moved`.
const RENAMED: &[u8] = b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x0a\0\0\0m\0o\0v\0e\0d\0\0\0\0\0\0\0";

/// The same with the name `file`.
const RENAMED_BACK: &[u8] = b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x08\0\0\0f\0i\0l\0e\0\0\0\0\0\0\0";

/// FILE_FULL_EA_INFORMATION ([MS-FSCC] 2.4.16) with the attribute `A` of one byte.
const ATTRIBUTE: &[u8] = b"\0\0\0\0\0\x01\x01\0A\0x";

/// Kind of operation of the file system, the open for the request, and the request.
const CASES: &[(Operation, Option<Wanted<'static>>, Request)] = &[
    (Operation::Lookup, None, Request::Create(FILE)),
    (Operation::GetAttributes, Some(FILE), Request::Query(FileInformationClass::ALL)),
    (Operation::Open, None, Request::Create(FILE)),
    (Operation::Create, None, Request::Create(NEW_FILE)),
    (Operation::MakeDirectory, None, Request::Create(NEW_FOLDER)),
    (Operation::OpenDirectory, Some(FOLDER), Request::List),
    (Operation::ReadDirectory, Some(FOLDER), Request::List),
    (Operation::Read, Some(FILE), Request::Read),
    (Operation::Write, Some(FILE), Request::Write),
    (Operation::Sync, Some(FILE), Request::Flush),
    (Operation::Rename, Some(FILE), Request::Change(FileInformationClass::RENAME, RENAMED)),
    (
        Operation::SetAttributes,
        Some(FILE),
        Request::Change(FileInformationClass::END_OF_FILE, &7u64.to_le_bytes()),
    ),
    (Operation::GetExtendedAttribute, None, Request::Create(FILE)),
    (
        Operation::SetExtendedAttribute,
        Some(FILE),
        Request::Change(FileInformationClass::FULL_EA, ATTRIBUTE),
    ),
    (Operation::ListExtendedAttributes, Some(FILE), Request::Query(FileInformationClass::FULL_EA)),
    (Operation::FileSystemStatus, Some(FILE), Request::QueryFileSystem),
    (Operation::Unlink, Some(FILE), Request::Close),
];

/// A server with a fast and a slow share, and a client in both.
struct Scene {
    // Dropped first: what hangs keeps the server from ending.
    slow_fs: SlowFs,
    server: TestServer,
    client: Connection,
    fast: u32,
    slow: u32,
}

impl Scene {
    /// Nothing on a machine without FUSE.
    fn new(lines: &str) -> Option<Self> {
        Self::with_global("", lines)
    }

    /// As [`Scene::new`], with more lines in `[global]`.
    fn with_global(global: &str, lines: &str) -> Option<Self> {
        Self::with(Setup::new().global(global), ("", lines))
    }

    /// The same, where half of what is written below may wait for a client.
    fn with_little_memory() -> Option<Self> {
        let limit = format!("max client memory = {}", BIG);
        Self::with(Setup::new().global(&limit), ("", ""))
    }

    /// As [`Scene::new`], with lines for both shares.
    fn with(setup: Setup, (fast, slow): (&str, &str)) -> Option<Self> {
        let slow = format!("{slow}\nea support = yes\nstore dos attributes = yes\n");
        let setup = setup.share("fast", fast).share("slow", &slow);
        let slow_fs = mount_at(&setup, "slow")?;
        let server = setup.start();
        let mut client = logged_on(&server, GUID);
        let fast = tree(&mut client, "fast");
        let slow = tree(&mut client, "slow");
        let mut scene = Self { slow_fs, server, client, fast, slow };
        for (tree, path) in [(fast, "file"), (slow, "file"), (slow, "folder\\")] {
            let options = match path.strip_suffix('\\') {
                Some(_) => CreateOptions::DIRECTORY_FILE,
                None => CreateOptions::NON_DIRECTORY_FILE,
            };
            let path = path.trim_end_matches('\\');
            let open = scene.open(tree, (path, EVERYTHING, CreateDisposition::OPEN_IF, options));
            if options == CreateOptions::NON_DIRECTORY_FILE {
                let request = WriteRequest::new(open, 0, b"some data");
                scene.finish(Command::WRITE, &request);
            }
            scene.close(open);
        }
        Some(scene)
    }

    /// The worker of the client, if no other one has a session.
    #[track_caller]
    fn worker(&self) -> u32 {
        let text = self.server.site().run(&["status", "--json"]).succeeds();
        let rows: Vec<serde_json::Value> = serde_json::from_str(&text).expect("an array");
        let pid = rows.iter().find_map(|row| row["pid"].as_u64().filter(|_| row["user"] == USER));
        u32::try_from(pid.expect("its session is shown")).expect("a pid")
    }

    /// Marks the file of an open of the slow share for deletion.
    fn mark_for_deletion(&mut self, open: FileId) {
        let sent = self.send(open, Request::Change(FileInformationClass::DISPOSITION, &[1]));
        self.receive(sent);
    }

    /// Has storage hang in the middle of a FLUSH; it has to be waited for before anything else.
    fn hang_in_flush(&mut self, open: FileId) {
        self.slow_fs.gate().set(Operation::Sync, Behavior::Hang);
        self.send(open, Request::Flush);
        assert!(self.slow_fs.gate().wait_until_hanging(Operation::Sync, PATIENCE));
    }

    /// Waits until another client can open a file of a share, or learns that it is gone.
    #[track_caller]
    fn wait_until_free(&self, share: &str) {
        let mut other = logged_on(&self.server, Guid([9; 16]));
        tree(&mut other, share);
        let seen = Cell::new(NtStatus::PENDING);
        wait_until(
            || {
                let status = try_to_open(&mut other);
                seen.set(status);
                !status.is_error() || status == NtStatus::OBJECT_NAME_NOT_FOUND
            },
            || format!("{:?}\n{}", seen.get(), self.server.log()),
        );
    }

    /// Ends the file system and the server.
    fn stop(self) {
        self.slow_fs.gate().open();
        drop(self.client);
        self.server.stop();
    }

    fn open(&mut self, tree: u32, wanted: Wanted<'_>) -> FileId {
        self.client.smb.tree_id = tree;
        let name = utf16::to_bytes(wanted.0);
        let (_, answer) = self.finish(Command::CREATE, &create(&name, wanted));
        CreateResponse::decode(&answer).expect("well-formed").file_id
    }

    fn close(&mut self, file_id: FileId) {
        self.finish(Command::CLOSE, &CloseRequest { file_id, ..CloseRequest::default() });
    }

    /// Sends a request and waits for its final response, which is a success.
    #[track_caller]
    fn finish(&mut self, command: Command, body: &impl wire::Encode) -> (Header, Vec<u8>) {
        let sent = self.begin(command, body);
        self.receive(sent)
    }

    /// Sends a request; returns its message id.
    #[track_caller]
    fn begin(&mut self, command: Command, body: &impl wire::Encode) -> u64 {
        self.client.send(command, HeaderFlags::empty(), body).expect("it is connected")
    }

    /// Waits for a success of the request; interim responses are passed over.
    #[track_caller]
    fn receive(&mut self, message_id: u64) -> (Header, Vec<u8>) {
        let (header, answer) = self.receive_any(message_id);
        assert!(!header.status.is_error(), "{:?}: {:?}", header.command, header.status);
        (header, answer)
    }

    /// Waits for the final response to the request; no other one may come before it.
    #[track_caller]
    fn receive_any(&mut self, message_id: u64) -> (Header, Vec<u8>) {
        loop {
            let (header, answer) = self.client.receive().expect("the server answers");
            if header.status == NtStatus::PENDING {
                continue;
            }
            assert_eq!(header.message_id, message_id, "{header:?} came first");
            return (header, answer);
        }
    }

    fn send(&mut self, file_id: FileId, request: Request) -> u64 {
        self.client.smb.tree_id = self.slow;
        match request {
            Request::Create(wanted) => {
                let name = utf16::to_bytes(wanted.0);
                self.begin(Command::CREATE, &create(&name, wanted))
            }
            Request::Close => {
                let body = CloseRequest { file_id, ..CloseRequest::default() };
                self.begin(Command::CLOSE, &body)
            }
            Request::Flush => {
                let body = FlushRequest { file_id };
                self.begin(Command::FLUSH, &body)
            }
            Request::Read => {
                let body = ReadRequest { length: 9, file_id, ..ReadRequest::default() };
                self.begin(Command::READ, &body)
            }
            Request::Write => {
                let body = WriteRequest::new(file_id, 0, b"other data");
                self.begin(Command::WRITE, &body)
            }
            Request::List => {
                let body = QueryDirectoryRequest {
                    file_information_class: FileInformationClass::ID_BOTH_DIRECTORY,
                    flags: QueryDirectoryFlags::RESTART_SCANS,
                    file_index: 0,
                    file_id,
                    output_buffer_length: 4096,
                    file_name: b"*\0",
                };
                self.begin(Command::QUERY_DIRECTORY, &body)
            }
            Request::Query(class) => self.query(file_id, InfoType::FILE, class.0),
            Request::QueryFileSystem => {
                let class = FsInformationClass::FULL_SIZE.0;
                self.query(file_id, InfoType::FILESYSTEM, class)
            }
            Request::Change(class, buffer) => {
                let body = SetInfoRequest {
                    info_type: InfoType::FILE,
                    file_info_class: class.0,
                    additional_information: 0,
                    file_id,
                    buffer,
                };
                self.begin(Command::SET_INFO, &body)
            }
        }
    }

    fn query(&mut self, file_id: FileId, info_type: InfoType, file_info_class: u8) -> u64 {
        let body = QueryInfoRequest {
            info_type,
            file_info_class,
            output_buffer_length: 4096,
            file_id,
            ..QueryInfoRequest::default()
        };
        self.begin(Command::QUERY_INFO, &body)
    }

    /// Works in the fast share, and echoes.
    fn work_elsewhere(&mut self) {
        let open = self.open(self.fast, FILE);
        self.finish(Command::ECHO, &EchoRequest);
        self.client.smb.tree_id = self.fast;
        let read = ReadRequest { length: 9, file_id: open, ..ReadRequest::default() };
        self.finish(Command::READ, &read);
        self.finish(Command::WRITE, &WriteRequest::new(open, 0, b"fast data"));
        self.close(open);
    }
}

/// A connection with a session.
#[track_caller]
fn logged_on(server: &TestServer, client_guid: Guid) -> Connection {
    let mut client = connect(server);
    client.negotiate(client_guid).expect("it negotiates");
    client.log_on().expect("the password is right");
    client
}

fn connect(server: &TestServer) -> Connection {
    let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
    Connection::connect(from, server.site().address(), PATIENCE).expect("it listens")
}

/// Connects to a share; returns the id of the tree connect.
#[track_caller]
fn tree(client: &mut Connection, share: &str) -> u32 {
    assert_eq!(client.tree(share).expect("it answers"), NtStatus::SUCCESS);
    client.smb.tree_id
}

/// Final status of a CREATE for [`FILE`].
#[track_caller]
fn try_to_open(client: &mut Connection) -> NtStatus {
    let name = utf16::to_bytes(FILE.0);
    client.send(Command::CREATE, HeaderFlags::empty(), &create(&name, FILE)).expect("it listens");
    loop {
        let (header, _) = client.receive().expect("the server answers");
        if header.status != NtStatus::PENDING {
            return header.status;
        }
    }
}

fn create<'a>(name: &'a [u8], wanted: Wanted<'_>) -> CreateRequest<'a> {
    let (_, desired_access, create_disposition, create_options) = wanted;
    CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access,
        share_access: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
        create_disposition,
        create_options,
        name,
        ..CreateRequest::default()
    }
}

/// Mounts a slow file system over the folder of a share.
fn mount_at(setup: &Setup, share: &str) -> Option<SlowFs> {
    let owner = if runs_as_root() { FORCED_USER.1 } else { rustix::process::geteuid().as_raw() };
    match SlowFs::mount(&setup.path("shares").join(share), owner, owner) {
        Ok(slow_fs) => Some(slow_fs),
        Err(error) => {
            harness::smbtorture::progress(&format!("no slow file system: {error}"));
            None
        }
    }
}

#[test]
fn an_operation_that_hangs_stalls_no_other_share_and_no_echo() {
    for &(operation, wanted, request) in CASES {
        let Some(mut scene) = Scene::new("") else { return };
        let open = wanted.map(|wanted| scene.open(scene.slow, wanted));
        if let (Request::Close, Some(open)) = (request, open) {
            scene.mark_for_deletion(open);
        }
        scene.slow_fs.gate().set(operation, Behavior::Hang);
        let sent = scene.send(open.unwrap_or_default(), request);
        let hangs = scene.slow_fs.gate().wait_until_hanging(operation, PATIENCE);
        assert!(hangs, "{request:?} needs no {operation:?}");
        scene.work_elsewhere();
        scene.slow_fs.gate().open();
        let (answer, _) = scene.receive_any(sent);
        let is_fine = !answer.status.is_error() || answer.status == NtStatus::NO_EAS_ON_FILE;
        assert!(is_fine, "{request:?}: {:?}", answer.status);
        scene.stop();
    }
}

#[test]
fn a_tree_connect_that_hangs_stalls_no_other_share_and_no_echo() {
    for lines in ["", "vfs objects = shadow_copy2", "vfs objects = shadow_copy2\nshadow:auto = yes"]
    {
        let Some(mut scene) = Scene::new(lines) else { return };
        let operation = Operation::GetAttributes;
        scene.slow_fs.gate().set(operation, Behavior::Hang);
        let path = utf16::to_bytes(r"\\server\slow");
        let request = wire::tree_connect::TreeConnectRequest { path: &path, ..Default::default() };
        let sent = scene.begin(Command::TREE_CONNECT, &request);
        assert!(scene.slow_fs.gate().wait_until_hanging(operation, PATIENCE), "{lines}");
        scene.work_elsewhere();
        scene.slow_fs.gate().open();
        scene.receive(sent);
        scene.stop();
    }
}

#[test]
fn snapshots_on_storage_that_hangs_stall_no_share_but_their_own() {
    let setup = Setup::new();
    let snapshots = text(&setup.path("shares/slow/snaps"));
    let lines = format!("vfs objects = shadow_copy2\nshadow:snapdir = {snapshots}");
    let Some(mut scene) = Scene::with(setup.share("kept", &lines), ("", "")) else { return };
    scene.slow_fs.gate().set(Operation::Lookup, Behavior::Hang);
    let path = utf16::to_bytes(r"\\server\kept");
    let request = wire::tree_connect::TreeConnectRequest { path: &path, ..Default::default() };
    let sent = scene.begin(Command::TREE_CONNECT, &request);
    assert!(scene.slow_fs.gate().wait_until_hanging(Operation::Lookup, PATIENCE));
    scene.work_elsewhere();
    scene.slow_fs.gate().open();
    scene.receive(sent);
    scene.stop();
}

/// A tree connect ends without waiting for its files to be closed. Other clients must not open one
/// that is about to go.
#[test]
fn a_file_is_delete_pending_until_storage_that_hangs_has_deleted_it() {
    let Some(mut scene) = Scene::new("") else { return };
    let mut other = logged_on(&scene.server, Guid([8; 16]));
    tree(&mut other, "slow");
    let open = scene.open(scene.slow, FILE);
    scene.mark_for_deletion(open);

    scene.slow_fs.gate().set(Operation::Unlink, Behavior::Hang);
    scene.finish(Command::TREE_DISCONNECT, &wire::tree_disconnect::TreeDisconnectRequest);
    assert!(scene.slow_fs.gate().wait_until_hanging(Operation::Unlink, PATIENCE));
    assert_eq!(try_to_open(&mut other), NtStatus::DELETE_PENDING);
    scene.slow_fs.gate().open();
    wait_until(
        || try_to_open(&mut other) == NtStatus::OBJECT_NAME_NOT_FOUND,
        || "the file is still there".to_owned(),
    );
    drop(other);
    scene.stop();
}

/// True if a process has exited, or waits only for threads that the kernel cannot end: a request
/// that a FUSE file system has begun cannot be interrupted.
fn has_exited(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

#[test]
fn a_worker_ends_after_its_client_though_its_storage_hangs() {
    let Some(mut scene) = Scene::new("") else { return };
    let worker = scene.worker();
    let open = scene.open(scene.slow, FILE);
    scene.hang_in_flush(open);
    drop(scene.client);
    let server = &scene.server;
    wait_until(|| has_exited(worker), || server.server().log());
    scene.slow_fs.gate().open();
    scene.server.stop();
}

#[test]
fn a_deletion_that_an_ending_worker_has_not_done_is_another_workers() {
    let Some(mut scene) = Scene::new("") else { return };
    let worker = scene.worker();
    let open = scene.open(scene.slow, FILE);
    scene.mark_for_deletion(open);
    scene.hang_in_flush(open);
    scene.client.socket.shutdown(Shutdown::Both).expect("it is connected");
    wait_until(|| has_exited(worker), || scene.server.log());
    scene.slow_fs.gate().open();
    scene.wait_until_free("slow");
    assert!(!scene.server.log().contains("failed"), "no crash: {}", scene.server.log());
    scene.stop();
}

#[test]
fn a_delegated_deletion_that_an_ending_worker_has_not_done_is_another_workers() {
    let Some(mut scene) = Scene::new("") else { return };
    let worker = scene.worker();
    let mut other = logged_on(&scene.server, Guid([8; 16]));
    tree(&mut other, "slow");
    let serving = 2;
    let server = scene.server.server();
    wait_until(|| server.workers().len() == serving + 3, || scene.server.log());
    let idle = server.workers().split_off(serving);
    let open = scene.open(scene.slow, FILE);
    scene.mark_for_deletion(open);
    scene.slow_fs.gate().set(Operation::Lookup, Behavior::Hang);
    signal_process(worker, Signal::KILL);
    assert!(scene.slow_fs.gate().wait_until_hanging(Operation::Lookup, PATIENCE));
    scene.server.server().signal(Signal::HUP);
    wait_until(|| idle.iter().all(|it| has_exited(*it)), || scene.server.log());
    scene.slow_fs.gate().open();
    let status = try_to_open(&mut other);
    let is_free = !status.is_error() || status == NtStatus::OBJECT_NAME_NOT_FOUND;
    assert!(is_free, "{status:?}");
    scene.stop();
}

/// A connection of the scene's client that its worker has accepted from another one, and that is
/// passed to it only after the first connection has ended. `meanwhile` happens before that.
fn connect_while_the_first_ends(scene: &Scene, meanwhile: impl FnOnce()) -> Connection {
    let worker = scene.worker();
    signal_process(worker, Signal::STOP);
    let mut second = connect(&scene.server);
    let offer = second.send_negotiate(GUID).expect("it listens");
    scene.server.server().wait_for_log(&format!("is offered to worker {worker}"));
    scene.client.socket.shutdown(Shutdown::Both).expect("it is connected");
    meanwhile();
    signal_process(worker, Signal::CONT);
    scene.server.server().wait_for_log("was passed here by worker");
    let (_, message) = second.receive().expect("it is served");
    second.smb.handle_negotiate(&offer, &message).expect("the offer was good");
    second.log_on().expect("the password is right");
    second
}

/// Opens [`FILE`] of the fast share and lets nobody else do so.
fn open_alone(client: &mut Connection) {
    tree(client, "fast");
    let name = utf16::to_bytes(FILE.0);
    let request = CreateRequest { share_access: ShareAccess::empty(), ..create(&name, FILE) };
    let (header, _) = client.call(Command::CREATE, &request).expect("the server answers");
    assert_eq!(header.status, NtStatus::SUCCESS);
}

#[test]
fn a_connection_accepted_before_the_last_one_ends_is_served_for_as_long_as_it_likes() {
    let Some(scene) = Scene::with_global("log level = 3\n", "") else { return };
    let mut second = connect_while_the_first_ends(&scene, || ());
    open_alone(&mut second);
    // The time that storage has for a client that has left, and some more.
    for _ in 0..12 {
        thread::sleep(Duration::from_secs(1));
        let echo = second.call(Command::ECHO, &EchoRequest);
        let (header, _) = echo.expect("it is served");
        assert_eq!(header.status, NtStatus::SUCCESS);
    }
    drop(second);
    scene.wait_until_free("fast");
    scene.stop();
}

#[test]
fn opens_of_a_connection_that_a_worker_has_at_its_end_are_closed() {
    let Some(scene) = Scene::with_global("log level = 3\n", "") else { return };
    let worker = scene.worker();
    let lock_dir = scene.server.site().path("lock");
    let mut second = connect_while_the_first_ends(&scene, || shut_down(&lock_dir, worker));
    open_alone(&mut second);
    wait_until(|| has_exited(worker), || scene.server.log());
    scene.wait_until_free("fast");
    drop(second);
    scene.stop();
}

/// Tells a worker to end, as the supervisor tells it through another channel.
fn shut_down(lock_dir: &Path, worker: u32) {
    let own = ServerId { pid: std::process::id(), unique_id: u64::from_le_bytes(random()) };
    let mut messaging =
        Messaging::init(lock_dir, own, TransportKind::DEFAULT).expect("the server is there");
    let members = messaging.members().expect("they can be read");
    let to = members.into_iter().find(|it| it.pid == worker).expect("it lives");
    let (now, content) = (Instant::now(), Content::new(MessageKind::SHUTDOWN, &[]));
    messaging.send(now, to, &content).expect("there is room");
    messaging.flush(now);
}

/// Requests that get an interim response when the storage is slow.
const SLOW_CASES: &[(Operation, Option<Wanted<'static>>, Request)] = &[
    (Operation::Lookup, None, Request::Create(FILE)),
    (Operation::Create, None, Request::Create(NEW_FILE)),
    (Operation::ReadDirectory, Some(FOLDER), Request::List),
    (Operation::Read, Some(FILE), Request::Read),
    (Operation::Write, Some(FILE), Request::Write),
    (Operation::Sync, Some(FILE), Request::Flush),
    (Operation::Rename, Some(FILE), Request::Change(FileInformationClass::RENAME, RENAMED)),
];

#[test]
fn a_request_that_waits_long_has_an_interim_response_and_can_be_canceled() {
    let Some(mut scene) = Scene::new("") else { return };
    for &(operation, wanted, request) in SLOW_CASES {
        let open = wanted.map(|wanted| scene.open(scene.slow, wanted));
        scene.slow_fs.gate().set(operation, Behavior::Hang);
        let sent = scene.send(open.unwrap_or_default(), request);
        let (interim, _) = scene.client.receive().expect("the server answers");
        assert_eq!((interim.message_id, interim.status), (sent, NtStatus::PENDING), "{request:?}");
        assert!(interim.async_id.is_some() && interim.credits > 0, "{interim:?}");
        scene.client.cancel(sent, interim.async_id).expect("it is connected");
        let (answer, _) = scene.receive_any(sent);
        assert_eq!(answer.status, NtStatus::CANCELLED, "{request:?}");
        assert_eq!((answer.async_id, answer.credits), (interim.async_id, 0));
        scene.work_elsewhere();
        scene.slow_fs.gate().open();
        // The next one waits for it, as its work goes on; its result is not sent.
        scene.client.smb.tree_id = scene.slow;
        if let Some(open) = open {
            scene.close(open);
        }
        if request_renames(request) {
            let moved = scene.open(scene.slow, ("moved", FILE.1, FILE.2, FILE.3));
            let class = FileInformationClass::RENAME;
            let sent = scene.send(moved, Request::Change(class, RENAMED_BACK));
            scene.receive(sent);
            scene.close(moved);
        }
    }
    scene.stop();
}

fn request_renames(request: Request) -> bool {
    matches!(request, Request::Change(FileInformationClass::RENAME, _))
}

#[test]
fn many_reads_that_hang_leave_room_for_others() {
    const READ_BYTES: u32 = 1 << 20;
    let Some(mut scene) = Scene::new("") else { return };
    let open = scene.open(scene.slow, FILE);
    let sent = scene.send(open, Request::Change(FileInformationClass::END_OF_FILE, &BIG_SIZE));
    scene.receive(sent);
    scene.slow_fs.gate().set(Operation::Read, Behavior::Hang);
    // Together more than may wait for one client.
    let mut sent = Vec::new();
    for at in (0..BIG).step_by(1 << 20) {
        scene.client.smb.tree_id = scene.slow;
        let (length, payload) = (READ_BYTES, 1 << 20);
        let read = ReadRequest { length, offset: at, file_id: open, ..ReadRequest::default() };
        let flags = HeaderFlags::empty();
        sent.push(scene.client.smb.push(Command::READ, payload, flags, &read));
        let frame = scene.client.smb.finish().expect("the interim responses brought credits");
        scene.client.socket.write_all(frame).expect("it is connected");
        let (interim, _) = scene.client.receive().expect("the server answers");
        assert_eq!((Some(&interim.message_id), interim.status), (sent.last(), NtStatus::PENDING));
    }
    scene.work_elsewhere();
    scene.slow_fs.gate().open();
    for _ in 0..sent.len() {
        let (header, answer) = scene.client.receive().expect("the server answers");
        assert!(sent.contains(&header.message_id), "{header:?}");
        let answer = ReadResponse::decode(&answer).expect("well-formed");
        assert_eq!(answer.data.len(), 1 << 20);
    }
    scene.client.smb.tree_id = scene.slow;
    scene.close(open);
    scene.stop();
}

/// Bytes of a WRITE of many.
const WRITE_BYTES: usize = 1 << 20;

impl Scene {
    /// Sends one WRITE of many; returns its message id.
    fn write_block(&mut self, file_id: FileId, number: u64) -> u64 {
        self.client.smb.tree_id = self.slow;
        let data = vec![u8::try_from(number + 1).expect("there are few"); WRITE_BYTES];
        let offset = number * u64::try_from(WRITE_BYTES).expect("64 bits");
        let write = WriteRequest::new(file_id, offset, &data);
        let flags = HeaderFlags::empty();
        let sent = self.client.smb.push(Command::WRITE, WRITE_BYTES, flags, &write);
        let frame = self.client.smb.finish().expect("the interim responses brought credits");
        self.client.socket.write_all(frame).expect("it is connected");
        sent
    }

    /// Status of a READ of one byte of such a block.
    fn read_block(&mut self, file_id: FileId, number: u64) -> NtStatus {
        self.client.smb.tree_id = self.slow;
        let offset = number * u64::try_from(WRITE_BYTES).expect("64 bits");
        let read = ReadRequest { length: 1, offset, file_id, ..ReadRequest::default() };
        let sent = self.begin(Command::READ, &read);
        self.receive_any(sent).0.status
    }
}

/// More blocks than may wait for a client, with the default limit of its memory.
const BLOCKS_MAX: u64 = 160;

/// Times that the client uses all credits for WRITEs, and works elsewhere in between.
const ROUNDS: usize = 100;

impl Scene {
    /// Sends as many WRITEs as there are credits for, behind `sent`; one credit is left.
    fn write_while_there_are_credits(&mut self, file_id: FileId, sent: &mut Vec<u64>) {
        let charge = u32::try_from(WRITE_BYTES >> 16).expect("a few");
        loop {
            let number = u64::try_from(sent.len()).expect("there are few");
            if number >= BLOCKS_MAX || self.client.smb.window.credits() <= charge {
                return;
            }
            let message_id = self.write_block(file_id, number);
            sent.push(message_id);
        }
    }

    /// Has all WRITEs of the slow share hang, and sends as many as there are credits for, again
    /// and again. Returns their open and their message ids.
    fn hang_in_writes(&mut self) -> (FileId, Vec<u64>) {
        let open = self.open(self.slow, FILE);
        self.slow_fs.gate().set(Operation::Write, Behavior::Hang);
        let mut sent = Vec::new();
        for _ in 0..ROUNDS {
            self.write_while_there_are_credits(open, &mut sent);
            self.work_elsewhere();
        }
        (open, sent)
    }

    /// Asserts that the slow share's file consists of so many blocks.
    #[track_caller]
    fn assert_blocks(&self, count: usize) {
        let data = fs::read(self.server.share_path("slow").join("file")).expect("it is there");
        assert_eq!(data.len(), count * WRITE_BYTES);
        for (block, number) in data.chunks(WRITE_BYTES).zip(1_u8..) {
            assert!(block.iter().all(|it| *it == number), "block {number}");
        }
    }
}

#[test]
fn writes_that_hang_leave_credits_for_other_shares_and_lose_no_data() {
    let Some(mut scene) = Scene::new("") else { return };
    let (open, mut sent) = scene.hang_in_writes();
    assert!(sent.len() >= 16, "{}", sent.len());
    let count = sent.len();
    scene.slow_fs.gate().open();
    while !sent.is_empty() {
        let (header, _) = scene.client.receive().expect("the server answers");
        if header.status != NtStatus::PENDING {
            assert_eq!(header.status, NtStatus::SUCCESS);
            let place = sent.iter().position(|it| *it == header.message_id);
            sent.remove(place.expect("each is answered once"));
        }
    }
    scene.assert_blocks(count);
    // The client has its window again.
    scene.finish(Command::ECHO, &EchoRequest);
    let credits = scene.client.smb.window.credits();
    assert!((256..=512).contains(&credits), "{credits}");
    scene.client.smb.tree_id = scene.slow;
    scene.close(open);
    scene.stop();
}

#[test]
fn writes_that_hang_are_done_though_their_connection_is_lost() {
    let Some(mut scene) = Scene::new("") else { return };
    let mut other = logged_on(&scene.server, GUID);
    let (_, sent) = scene.hang_in_writes();
    scene.client.socket.shutdown(Shutdown::Both).expect("it is connected");
    tree(&mut other, "fast");
    assert_eq!(try_to_open(&mut other), NtStatus::SUCCESS);
    let (echo, _) = other.call(Command::ECHO, &EchoRequest).expect("it is served");
    assert_eq!(echo.status, NtStatus::SUCCESS);
    scene.slow_fs.gate().open();
    let path = scene.server.share_path("slow").join("file");
    let length = || fs::metadata(&path).map_or(0, |it| it.len());
    let want = u64::try_from(sent.len() * WRITE_BYTES).expect("64 bits");
    wait_until(|| length() == want, || format!("{} of {want}", length()));
    drop(other);
    scene.stop();
}

/// The client has had its credits before it has connected to the slow share, and they are for more
/// than half of what may wait.
#[test]
fn writes_that_hang_are_refused_beyond_the_memory_for_them() {
    let Some(mut scene) = Scene::with_little_memory() else { return };
    let open = scene.open(scene.slow, FILE);
    scene.slow_fs.gate().set(Operation::Write, Behavior::Hang);
    let mut pending = Vec::new();
    scene.write_while_there_are_credits(open, &mut pending);
    let sent = pending.len();
    let echo = scene.begin(Command::ECHO, &EchoRequest);
    let mut is_echoed = false;
    while !is_echoed {
        let (header, _) = scene.client.receive().expect("the server answers");
        is_echoed = header.message_id == echo;
        if header.status == NtStatus::INSUFFICIENT_RESOURCES {
            pending.retain(|it| *it != header.message_id);
        }
    }
    scene.work_elsewhere();
    // Half of what may wait, which is half of the memory of a client.
    assert!(sent > 24 && (8..12).contains(&pending.len()), "{pending:?} of {sent}");
    scene.slow_fs.gate().open();
    while !pending.is_empty() {
        let (header, _) = scene.client.receive().expect("the server answers");
        if header.status != NtStatus::PENDING {
            assert_eq!(header.status, NtStatus::SUCCESS);
            pending.retain(|it| *it != header.message_id);
        }
    }
    // It works as before.
    let sent = scene.write_block(open, 0);
    scene.receive(sent);
    scene.close(open);
    scene.stop();
}

#[test]
fn canceled_writes_that_wait_behind_one_that_hangs_are_not_done_and_take_no_memory() {
    let blocks = BIG >> 20;
    let Some(mut scene) = Scene::with_little_memory() else { return };
    let open = scene.open(scene.slow, FILE);
    scene.slow_fs.gate().set(Operation::Write, Behavior::Hang);
    let first = scene.write_block(open, 0);
    assert!(scene.slow_fs.gate().wait_until_hanging(Operation::Write, PATIENCE));
    let (interim, _) = scene.client.receive().expect("the server answers");
    assert_eq!((interim.message_id, interim.status), (first, NtStatus::PENDING));
    for number in 1..blocks {
        let sent = scene.write_block(open, number);
        let (interim, _) = scene.client.receive().expect("the server answers");
        assert_eq!((interim.message_id, interim.status), (sent, NtStatus::PENDING));
        scene.client.cancel(sent, interim.async_id).expect("it is connected");
        assert_eq!(scene.receive_any(sent).0.status, NtStatus::CANCELLED);
    }
    scene.work_elsewhere();
    scene.slow_fs.gate().open();
    scene.receive(first);
    assert_eq!(scene.read_block(open, 0), NtStatus::SUCCESS);
    for number in 1..blocks {
        assert_eq!(scene.read_block(open, number), NtStatus::END_OF_FILE, "block {number}");
    }
    scene.client.smb.tree_id = scene.slow;
    scene.close(open);
    scene.stop();
}

/// File systems of a client that have threads of their own.
const THREADS_MAX: usize = 32;

#[test]
fn a_file_system_that_is_not_used_any_more_leaves_its_thread_to_another() {
    let names: Vec<String> = (0..=THREADS_MAX).map(|number| format!("slow{number}")).collect();
    let setup = names.iter().fold(Setup::new(), |setup, name| setup.share(name, ""));
    let mut slow = Vec::new();
    for name in &names {
        let Some(slow_fs) = mount_at(&setup, name) else { return };
        slow.push(slow_fs);
    }
    let server = setup.start();
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let to = server.site().address();
    let mut client = Connection::connect(address, to, PATIENCE).expect("it listens");
    client.negotiate(Guid([7; 16])).expect("it negotiates");
    client.log_on().expect("the password is right");
    let (last, others) = names.split_last().expect("there are some");
    let mut trees = Vec::new();
    for name in others {
        assert_eq!(client.tree(name).expect("it answers"), NtStatus::SUCCESS);
        trees.push(client.smb.tree_id);
    }
    assert_ne!(client.tree(last).expect("it answers"), NtStatus::SUCCESS, "all are in use");
    client.smb.tree_id = trees[5];
    let disconnect = wire::tree_disconnect::TreeDisconnectRequest;
    let (header, _) = client.call(Command::TREE_DISCONNECT, &disconnect).expect("it answers");
    assert_eq!(header.status, NtStatus::SUCCESS);
    wait_until(
        || client.tree(last).expect("it answers") == NtStatus::SUCCESS,
        || server.server().log(),
    );
    // All are in use again.
    assert_ne!(client.tree(&names[5]).expect("it answers"), NtStatus::SUCCESS);
    drop((client, slow));
    server.stop();
}

#[test]
fn a_listing_that_takes_long_lets_others_pass_between_its_parts() {
    for way in ["inline", "threads"] {
        let Some(mut scene) = Scene::new(&format!("choro:storage path = {way}")) else { return };
        let names: Vec<String> = (10..30).map(|number| format!("folder\\{number}")).collect();
        for name in &names {
            let open = scene.open(scene.slow, (name, EVERYTHING, NEW_FILE.2, NEW_FILE.3));
            scene.close(open);
        }
        let open = scene.open(scene.slow, FOLDER);
        // Each entry is looked up.
        scene.slow_fs.gate().set(Operation::Lookup, Behavior::Delay(Duration::from_millis(20)));
        let listing = scene.send(open, Request::List);
        let echo = scene.begin(Command::ECHO, &EchoRequest);
        scene.receive(echo);
        let (_, answer) = scene.receive(listing);
        scene.slow_fs.gate().open();
        // Entries behind the first one are looked up at the same time.
        let together = scene.slow_fs.gate().together_max(Operation::Lookup);
        assert!((8..=16).contains(&together), "{way}: {together}");
        let answer = QueryDirectoryResponse::decode(&answer).expect("well-formed");
        let mut places = Vec::new();
        for name in &names {
            let name = utf16::to_bytes(name.trim_start_matches("folder\\"));
            let at = |it: &[u8]| it == name.as_slice();
            places.push(answer.output_buffer.windows(name.len()).position(at));
        }
        assert!(places.is_sorted() && places.iter().all(Option::is_some), "{way}: {places:?}");
        scene.client.smb.tree_id = scene.slow;
        scene.close(open);
        scene.stop();
    }
}

impl Scene {
    /// Watches a directory; returns the message id.
    fn watch(&mut self, tree: u32, file_id: FileId, flags: ChangeNotifyFlags) -> u64 {
        self.client.smb.tree_id = tree;
        let completion_filter = CompletionFilter::FILE_NAME;
        let request =
            ChangeNotifyRequest { flags, output_buffer_length: 4096, file_id, completion_filter };
        self.begin(Command::CHANGE_NOTIFY, &request)
    }

    /// Makes files on the host until the client is told of one.
    fn receive_change_of_host(&mut self, message_id: u64, folder: &Path) {
        let (done, is_done) = channel();
        // A failure drops `done`, and so ends the thread.
        thread::scope(move |scope| {
            scope.spawn(move || {
                for number in 0.. {
                    fs::write(folder.join(format!("host{number}")), "").expect("there is space");
                    match is_done.recv_timeout(Duration::from_millis(50)) {
                        Err(RecvTimeoutError::Timeout) => {}
                        _ => return,
                    }
                }
            });
            let (_, answer) = self.receive(message_id);
            done.send(()).expect("the thread waits for it");
            let name = utf16::to_bytes("host");
            assert!(answer.windows(name.len()).any(|it| it == name.as_slice()), "{answer:?}");
        });
    }
}

#[test]
fn a_watch_that_hangs_hides_no_changes_in_other_shares() {
    for operation in [
        Operation::Lookup,
        Operation::GetAttributes,
        Operation::OpenDirectory,
        Operation::ReadDirectory,
    ] {
        let Some(mut scene) = Scene::new("") else { return };
        let folders = [("fast", ""), ("slow", "folder")]
            .map(|(share, folder)| scene.server.share_path(share).join(folder));
        // One that starts later sends all clients to look.
        let page = WatchPage::open(&scene.server.site().path("lock")).expect("there is a page");
        wait_until(|| page.notifyd().is_some(), || "notifyd does not start".to_owned());
        let slow = scene.open(scene.slow, FOLDER);
        let fast = scene.open(scene.fast, ROOT);
        scene.slow_fs.gate().set(operation, Behavior::Hang);
        let slow_watch = scene.watch(scene.slow, slow, ChangeNotifyFlags::WATCH_TREE);
        let hangs = scene.slow_fs.gate().wait_until_hanging(operation, PATIENCE);
        assert!(hangs, "a watch needs no {operation:?}");
        let fast_watch = scene.watch(scene.fast, fast, ChangeNotifyFlags::empty());
        scene.receive_change_of_host(fast_watch, &folders[0]);
        // It begins when its storage answers.
        scene.slow_fs.gate().open();
        scene.receive_change_of_host(slow_watch, &folders[1]);
        scene.stop();
    }
}

#[test]
fn work_beside_a_storage_that_hangs_is_measured_for_every_kind_of_operation() {
    if mount_at(&Setup::new().share("slow", ""), "slow").is_none() {
        return;
    }
    let site = Site::new();
    let (program, directory) = (text(&built_executable()), text(&site.path("data")));
    let arguments = ["--quick", "--choro", &program, "--directory", &directory];
    let options = Options::parse_from([&["choro-bench"], &arguments[..]].concat());
    let measured = hanging_storage::run(&options, &Interrupt::default(), &mut std::io::sink())
        .expect("the server serves");
    let kinds: Vec<&str> = measured.kinds.iter().map(|kind| kind.operation.as_str()).collect();
    let tested: Vec<String> = CASES.iter().map(|(kind, ..)| format!("{kind:?}")).collect();
    assert_eq!(kinds, tested);
    assert!(measured.kinds.iter().all(|kind| kind.echo_beside.max > 0.0));
}

#[test]
fn a_local_disk_that_hung_once_stalls_no_echo_when_it_hangs_again() {
    let Some(mut scene) = Scene::with(Setup::new(), ("wide links = yes", "")) else { return };
    let link = scene.server.share_path("fast").join("link");
    // The server takes what lies behind it for a local disk.
    symlink(scene.server.share_path("slow"), link).expect("it is new");
    let through_link = ("link\\file", FILE.1, FILE.2, FILE.3);
    let earlier = scene.open(scene.fast, FILE);
    let lookup = Operation::Lookup;
    scene.slow_fs.gate().set(lookup, Behavior::Delay(Duration::from_millis(600)));
    let slow = scene.open(scene.fast, through_link);
    scene.slow_fs.gate().set(lookup, Behavior::Hang);
    scene.client.smb.tree_id = scene.fast;
    let name = utf16::to_bytes(through_link.0);
    let sent = scene.begin(Command::CREATE, &create(&name, through_link));
    assert!(scene.slow_fs.gate().wait_until_hanging(lookup, PATIENCE));
    scene.finish(Command::ECHO, &EchoRequest);
    scene.slow_fs.gate().open();
    let (_, answer) = scene.receive(sent);
    let again = CreateResponse::decode(&answer).expect("well-formed").file_id;
    // What was opened before the move, too.
    for open in [earlier, slow, again] {
        let read = ReadRequest { length: 9, file_id: open, ..ReadRequest::default() };
        let (_, answer) = scene.finish(Command::READ, &read);
        assert_eq!(ReadResponse::decode(&answer).expect("well-formed").data, b"some data");
        scene.finish(Command::WRITE, &WriteRequest::new(open, 9, b"more"));
        scene.close(open);
    }
    scene.work_elsewhere();
    scene.stop();
}
