//! One client over several connections, with real processes: they find one worker, whatever the
//! workers do meanwhile, and the session is the client's and not a connection's.

mod harness;

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use bench::client::requests::{Purpose, open};
use bench::client::{Client, Protection, Slot};
use dtyp::{AccessMask, Guid, NtStatus, utf16};
use harness::choro::{PATIENCE, is_alive, settled_memory, signal_process, wait_until};
use harness::connection::{self, random};
use harness::{Setup, TestServer};
use messaging::TransportKind;
use rustix::process::Signal;
use wire::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel,
    ShareAccess,
};
use wire::echo::EchoRequest;
use wire::header::HeaderFlags;
use wire::oplock_break::OplockBreak;
use wire::read::{ReadRequest, ReadResponse};
use wire::write::WriteRequest;
use wire::{Command, Decode, Encode, FileId, Header, OplockLevel};

/// Workers that a server keeps ready, beside those that have a client.
const IDLE_WORKERS: usize = 3;

/// A connection of a client whose every request is answered as it should be.
struct Connection(connection::Connection);

impl Connection {
    /// A connection on which nothing was said.
    fn open(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).expect("the server listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
        Self(connection::Connection::new(socket))
    }

    /// A connection that has negotiated.
    #[track_caller]
    fn negotiated(address: SocketAddr, client_guid: Guid) -> Self {
        let mut connection = Self::open(address);
        connection.0.negotiate(client_guid).expect("it is served");
        connection
    }

    /// A session in the share `data`.
    #[track_caller]
    fn logged_on(address: SocketAddr, client_guid: Guid) -> Self {
        let mut connection = Self::negotiated(address, client_guid);
        connection.log_on();
        assert_eq!(connection.0.tree("data").expect("an answer"), NtStatus::SUCCESS);
        connection
    }

    #[track_caller]
    fn log_on(&mut self) {
        self.0.log_on().expect("the right password");
    }

    fn session_id(&self) -> u64 {
        self.0.smb.session_id
    }

    /// Returns whether the server has received all that was sent: nothing waits in the queue of
    /// this socket to be acknowledged, or in that of the server's to be read.
    fn is_received_by(&self, server: SocketAddr) -> bool {
        let own = self.0.socket.local_addr().expect("it is connected");
        let table = fs::read_to_string("/proc/net/tcp").expect("it is Linux");
        let queues = |local: SocketAddr, remote: SocketAddr| {
            let [local, remote] = [local, remote].map(|it| format!(":{:04X}", it.port()));
            table.lines().find_map(|line| {
                let columns: Vec<&str> = line.split_whitespace().collect();
                let is_it = columns.get(1)?.ends_with(&local) && columns.get(2)?.ends_with(&remote);
                is_it.then(|| columns.get(4)?.split_once(':'))?
            })
        };
        let unacknowledged = queues(own, server).map(|(sent, _)| sent);
        let unread = queues(server, own).map(|(_, received)| received);
        [unacknowledged, unread] == [Some("00000000"); 2]
    }

    /// Binds the session of another connection to this one.
    #[track_caller]
    fn bind(&mut self, first: &Self) {
        self.0.bind(first.0.session(), first.0.smb.tree_id).expect("the session is there");
    }

    #[track_caller]
    fn create(&mut self, name: &str) -> FileId {
        self.send_create(name, OplockLevel::NONE);
        self.created()
    }

    /// Opens a file and keeps all of it.
    #[track_caller]
    fn keep(&mut self, name: &str) -> FileId {
        self.send_create(name, OplockLevel::BATCH);
        self.created()
    }

    fn send_create(&mut self, name: &str, requested_oplock_level: OplockLevel) {
        let name = utf16::to_bytes(name);
        let request = CreateRequest {
            requested_oplock_level,
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: AccessMask::FILE_ALL,
            share_access: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
            create_disposition: CreateDisposition::OPEN_IF,
            create_options: CreateOptions::NON_DIRECTORY_FILE,
            name: &name,
            ..CreateRequest::default()
        };
        self.send(Command::CREATE, &request);
    }

    /// The response to a CREATE, which may have had to wait.
    #[track_caller]
    fn created(&mut self) -> FileId {
        let (mut header, mut message) = self.receive();
        if header.status == NtStatus::PENDING {
            (header, message) = self.receive();
        }
        assert_eq!(header.status, NtStatus::SUCCESS);
        CreateResponse::decode(&message).expect("well-formed").file_id
    }

    /// The break of an oplock, and nothing else.
    #[track_caller]
    fn receive_break(&mut self) -> FileId {
        let (header, message) = self.receive_any();
        broken_file(&header, &message)
    }

    #[track_caller]
    fn answer_break(&mut self, file_id: FileId) {
        self.call(Command::OPLOCK_BREAK, &OplockBreak { oplock_level: OplockLevel::II, file_id });
    }

    /// Nothing that the server sends arrives any more, and nothing tells it so: each segment is
    /// dropped before this end's TCP has seen it.
    fn drop_all_packets(&self) {
        let mut drop_it = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 }; // BPF_RET, 0 bytes.
        let filter = libc::sock_fprog { len: 1, filter: &raw mut drop_it };
        let length = libc::socklen_t::try_from(size_of_val(&filter)).expect("a small structure");
        // SAFETY: the kernel copies the filter of one instruction; both outlive the call.
        let result = unsafe {
            libc::setsockopt(
                self.0.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const filter).cast(),
                length,
            )
        };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }

    #[track_caller]
    fn write(&mut self, file_id: FileId, data: &[u8]) {
        self.call(Command::WRITE, &WriteRequest::new(file_id, 0, data));
    }

    #[track_caller]
    fn read(&mut self, file_id: FileId) -> Vec<u8> {
        let request = ReadRequest { file_id, length: 100, ..ReadRequest::default() };
        let (_, message) = self.call(Command::READ, &request);
        ReadResponse::decode(&message).expect("well-formed").data.to_vec()
    }

    #[track_caller]
    fn echo(&mut self) {
        self.call(Command::ECHO, &EchoRequest);
    }

    /// Sends a request and takes its response, which must be a success and signed rightly.
    #[track_caller]
    fn call(&mut self, command: Command, body: &impl Encode) -> (Header, Vec<u8>) {
        self.send(command, body);
        let (header, message) = self.receive();
        assert_eq!(header.status, NtStatus::SUCCESS, "{command:?}");
        (header, message)
    }

    fn send(&mut self, command: Command, body: &impl Encode) {
        self.0.send(command, HeaderFlags::empty(), body).expect("the server reads");
    }

    #[track_caller]
    fn receive(&mut self) -> (Header, Vec<u8>) {
        let (header, message) = self.receive_any();
        assert_eq!(header.message_id, self.0.smb.window.next_id() - 1, "of the last request");
        (header, message)
    }

    #[track_caller]
    fn receive_any(&mut self) -> (Header, Vec<u8>) {
        self.0.receive().expect("the server answers")
    }

    /// The connection is gone as if its cable was.
    fn cut(self) {
        self.0.socket.shutdown(Shutdown::Both).expect("it was connected");
    }
}

fn address(server: &TestServer) -> SocketAddr {
    server.site().address()
}

/// The worker of the only client that `choro status` shows.
#[track_caller]
fn worker_of_the_client(server: &TestServer) -> u32 {
    let status = server.site().run(&["status", "--json"]).succeeds();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&status).expect("it is JSON");
    let pids: Vec<u64> = rows
        .iter()
        .filter(|row| row["kind"] == "client")
        .filter_map(|row| row["pid"].as_u64())
        .collect();
    assert_eq!(pids.len(), 1, "{status}");
    u32::try_from(pids[0]).expect("pids are small")
}

/// The rows of `choro status` of a kind.
#[track_caller]
fn status_rows(server: &TestServer, kind: &str) -> Vec<serde_json::Value> {
    let status = server.site().run(&["status", "--json"]).succeeds();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&status).expect("it is JSON");
    rows.into_iter().filter(|row| row["kind"] == kind).collect()
}

/// The channels of a session.
#[track_caller]
fn channels_of(server: &TestServer, session_id: u64) -> Vec<serde_json::Value> {
    let mut rows = status_rows(server, "channel");
    rows.retain(|row| row["session_id"] == format!("{session_id:016x}"));
    rows
}

/// Returns the open whose oplock is broken by a message, which must be a break.
#[track_caller]
fn broken_file(header: &Header, message: &[u8]) -> FileId {
    assert_eq!((header.command, header.message_id), (Command::OPLOCK_BREAK, u64::MAX));
    OplockBreak::decode(message).expect("well-formed").file_id
}

/// Waits until so many workers have a client, and the usual number waits for one.
#[track_caller]
fn wait_for_serving(server: &TestServer, count: usize) {
    wait_until(
        || server.server().workers().len() == IDLE_WORKERS + count,
        || format!("{:?}\n{}", server.server().workers(), server.log()),
    );
}

/// A ClientGuid goes over the wire in clear.
#[test]
fn an_earlier_stranger_with_a_users_client_guid_keeps_no_channel_from_the_user() {
    let server = Setup::new().share("data", "").start();
    let (address, guid) = (server.site().address(), Guid(random()));
    let strange = Ipv4Addr::new(127, 0, 1, 1).into();
    let mut stranger =
        connection::Connection::connect(strange, address, PATIENCE).expect("it listens");
    stranger.negotiate(guid).expect("it is served");
    stranger.log_on_anonymously().expect("it is served");
    let first = Connection::logged_on(address, guid);
    for _ in 0..3 {
        let mut further = Connection::negotiated(address, guid);
        further.bind(&first);
    }
    assert!(stranger.is_open());
    server.stop();
}

/// The line would have the name of a user who did nothing.
#[test]
fn a_stranger_with_a_users_client_guid_is_ended_for_a_cancel_and_writes_no_line() {
    let server = Setup::new().share("data", "").start();
    let (address, guid) = (server.site().address(), Guid(random()));
    let _user = Connection::logged_on(address, guid);
    let before = server.log();
    let strange = Ipv4Addr::new(127, 0, 1, 1).into();
    let mut stranger =
        connection::Connection::connect(strange, address, PATIENCE).expect("it listens");
    stranger.negotiate(guid).expect("it is served");
    stranger.cancel(5, None).expect("it is received");
    wait_until(|| !stranger.is_open(), || "a CANCEL is served to a stranger".to_owned());
    assert_eq!(server.log(), before);
    server.stop();
}

#[test]
fn a_guest_beside_a_user_is_ended_for_cancels_without_end_and_writes_no_line() {
    let server = Setup::new().share("data", "").start();
    let (address, guid) = (server.site().address(), Guid(random()));
    let user = Connection::logged_on(address, guid);
    let mut guest =
        connection::Connection::connect(address.ip(), address, PATIENCE).expect("it listens");
    guest.negotiate(guid).expect("it is served");
    guest.log_on_anonymously().expect("it is served");
    let before = server.log();
    // Its credits are not the reason: it was granted some 8,192 at most.
    while guest.cancel(5, None).is_ok() {}
    wait_until(|| !guest.is_open(), || "CANCELs are served without end".to_owned());
    assert!(user.0.is_open());
    assert_eq!(server.log(), before);
    server.stop();
}

/// Bytes of a bind to srvsvc, and of a NetrShareCheck for a path of one letter.
fn bind_and_check() -> [Vec<u8>; 2] {
    let text = "05000b03 10000000 48000000 01000000 b810b810 00000000 01000000 00000100 \
                c84f324b7016d30112785a47bf6ee188 03000000 \
                045d888aeb1cc9119fe808002b104860 02000000 \
                | 05000003 10000000 2c000000 07000000 14000000 00001400 \
                00000000 02000000 00000000 02000000 7a000000";
    let parts = text.split_once('|').expect("two parts");
    [parts.0, parts.1].map(|part| {
        let digits: Vec<u8> = part.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).expect("digits"), 16);
        digits.chunks(2).map(|pair| byte(pair).expect("two digits")).collect()
    })
}

/// Has a guest write thousands of requests to a pipe in one frame. Returns the status.
fn write_many_requests(guest: &mut connection::Connection) -> NtStatus {
    assert_eq!(guest.tree("IPC$").expect("an answer"), NtStatus::SUCCESS);
    let name = utf16::to_bytes("srvsvc");
    let open = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: AccessMask::READ_DATA | AccessMask::WRITE_DATA,
        create_disposition: CreateDisposition::OPEN,
        name: &name,
        ..CreateRequest::default()
    };
    let (_, message) = guest.call(Command::CREATE, &open).expect("it is connected");
    let file_id = CreateResponse::decode(&message).expect("the pipe is there").file_id;
    let [bind, check] = bind_and_check();
    let mut write = |data: &[u8]| {
        let request = WriteRequest::new(file_id, 0, data);
        guest.smb.push(Command::WRITE, data.len(), HeaderFlags::empty(), &request);
        guest.socket.write_all(guest.smb.finish().expect("credits")).expect("it is connected");
        guest.receive().expect("it is connected").0.status
    };
    assert_eq!([write(&bind), write(&check)], [NtStatus::SUCCESS; 2]);
    write(&check.repeat(8_000))
}

/// Logs a guest on with the ClientGuid of a user, who is served beside it, and has it get credits.
fn guest_with_credits(address: SocketAddr, guid: Guid, credits: u32) -> connection::Connection {
    let mut guest =
        connection::Connection::connect(address.ip(), address, PATIENCE).expect("it listens");
    guest.negotiate(guid).expect("it is served");
    guest.log_on_anonymously().expect("it is served");
    while guest.smb.window.credits() < credits {
        guest.call(Command::ECHO, &EchoRequest).expect("it is served");
    }
    guest
}

/// They would all be answered before anything else.
#[test]
fn a_guest_beside_a_user_delays_no_request_by_thousands_in_one_write_to_a_pipe() {
    let mut setup = Setup::new().share("data", "");
    for number in 0..30 {
        setup = setup.share(&format!("share{number}"), "");
    }
    let server = setup.start();
    let (address, guid) = (server.site().address(), Guid(random()));
    let mut user = Connection::logged_on(address, guid);
    let mut guest = guest_with_credits(address, guid, 8);
    let attack = thread::spawn(move || write_many_requests(&mut guest));
    let mut longest = Duration::ZERO;
    while !attack.is_finished() {
        let begin = Instant::now();
        user.echo();
        longest = longest.max(begin.elapsed());
    }
    assert_eq!(attack.join().expect("it ends"), NtStatus::PIPE_DISCONNECTED);
    assert!(longest < Duration::from_millis(500), "{longest:?}");
    server.stop();
}

/// Requests in the compound of a guest, each of which reads a folder of as many names as it takes
/// for some time.
const GUEST_REQUESTS: u16 = 200;

/// They would all be answered before anything else.
#[test]
fn a_guest_beside_a_user_is_served_one_request_of_a_compound_between_those_of_the_user() {
    let server = Setup::new().share("data", "guest ok = yes\n").start();
    let folder = server.share_path("data").join("folder");
    fs::create_dir(&folder).expect("a share");
    for number in 0..2_000 {
        fs::write(folder.join(format!("name {number}")), "").expect("a folder");
    }
    let (address, guid) = (server.site().address(), Guid(random()));
    let mut user = Connection::logged_on(address, guid);
    let mut guest = guest_with_credits(address, guid, GUEST_REQUESTS.into());
    assert_eq!(guest.tree("data").expect("an answer"), NtStatus::SUCCESS);
    // In another case than on disk, so each is looked for among all names.
    let name = utf16::to_bytes("folder\\NAME 1");
    let open = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: AccessMask::READ_ATTRIBUTES,
        share_access: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
        create_disposition: CreateDisposition::OPEN,
        name: &name,
        ..CreateRequest::default()
    };
    for _ in 0..GUEST_REQUESTS {
        guest.smb.push(Command::CREATE, 0, HeaderFlags::empty(), &open);
    }
    guest.socket.write_all(guest.smb.finish().expect("credits")).expect("it is connected");
    guest.socket.set_nonblocking(true).expect("a socket");
    let is_answered = || guest.socket.peek(&mut [0]).is_ok();
    let mut echoes = 0;
    while !is_answered() {
        user.echo();
        echoes += 1;
    }
    // One or two may come before the compound.
    assert!(echoes > 20, "{echoes}");
    server.stop();
}

#[test]
fn a_session_goes_on_when_one_of_its_channels_is_cut() {
    check_a_session_goes_on_without_a_channel(TestServer::start());
}

/// The sockets of connections are passed on also where messages carry none.
#[test]
fn channels_find_their_worker_over_every_messaging_type() {
    for kind in TransportKind::BUILT {
        let setup = Setup::new().global(&format!("messaging type = {}\n", kind.name()));
        let server = setup.share("data", "").start();
        let asked = server.site().run(&["message", "stats"]).succeeds();
        assert!(asked.contains(kind.name()), "{asked}");
        check_a_session_goes_on_without_a_channel(server);
    }
}

#[track_caller]
fn check_a_session_goes_on_without_a_channel(server: TestServer) {
    let guid = Guid(random());
    let mut first = Connection::logged_on(address(&server), guid);
    let file = first.create("file");
    let mut second = Connection::negotiated(address(&server), guid);
    second.bind(&first);
    second.write(file, b"from the second");
    assert_eq!(first.read(file), b"from the second");
    wait_for_serving(&server, 1);
    first.cut();
    assert_eq!(second.read(file), b"from the second", "the open is the session's");
    // A channel may come again at any time.
    let mut third = Connection::negotiated(address(&server), guid);
    third.bind(&second);
    assert_eq!(third.read(file), b"from the second");
    server.stop();
}

/// Opens a connection and negotiates, as soon as the server has a worker for it: an address without
/// a logon has a limited number of them each second.
fn negotiated_in_time(server: &TestServer, client_guid: Guid) -> Connection {
    let mut negotiated = None;
    wait_until(
        || {
            let mut connection = Connection::open(address(server));
            let is_served = connection.0.negotiate(client_guid).is_ok();
            negotiated = is_served.then_some(connection);
            is_served
        },
        || server.log(),
    );
    negotiated.expect("it was waited for")
}

/// A stranger who has seen a client's ClientGuid can name it.
#[test]
fn connections_of_strangers_leave_room_for_channels_of_a_client_that_is_logged_on() {
    let server = TestServer::start();
    let guid = Guid(random());
    let first = Connection::logged_on(address(&server), guid);
    let mut strangers: Vec<_> = (0..260).map(|_| negotiated_in_time(&server, guid)).collect();
    let mut second = negotiated_in_time(&server, guid);
    second.bind(&first);
    second.echo();
    let mut end = [0];
    assert_eq!(strangers[0].0.socket.read(&mut end).ok(), Some(0), "it has made room");
    server.stop();
}

#[test]
fn answers_that_a_client_reads_on_none_of_its_channels_are_bounded_for_all_of_them_together() {
    const CHANNELS: usize = 12;
    const READS: usize = 32;
    const MIB: u64 = 1024 * 1024;
    let server = TestServer::start();
    let path = server.share_path("data").join("file");
    fs::write(&path, vec![7; 1024 * 1024]).expect("there is space");
    harness::give_to_server(&path);
    let terms = harness::terms(Protection::Signed);
    let first = server.connect("data", Protection::Signed);
    let further = (1..CHANNELS).map(|number| {
        let number = u8::try_from(number).expect("a few");
        first.bind(&server.destination("data"), terms, number).expect("it may bind")
    });
    let mut channels: Vec<Client> = further.collect();
    channels.push(first);
    let worker = worker_of_the_client(&server);
    for channel in &mut channels {
        let file_id = open(channel, Purpose::Open, "file").expect("it is there");
        channel.gather_credits(READS, 1024 * 1024).expect("there are credits");
        for slot in 0..READS {
            let request = ReadRequest { file_id, length: 1024 * 1024, ..ReadRequest::default() };
            channel.push(Command::READ, 1024 * 1024, &request);
            channel.flush(Slot(slot)).expect("it is sent");
        }
    }
    let memory = settled_memory(worker, 24 * MIB);
    assert!(memory < 96 * MIB, "{} MiB", memory / MIB);
    for channel in &mut channels {
        for _ in 0..READS {
            channel.receive().and_then(bench::client::Reply::succeeded).expect("it is read");
        }
    }
    server.stop();
}

#[test]
fn first_connections_of_a_client_at_the_same_moment_find_one_worker() {
    const CONNECTIONS: usize = 12;
    let server = TestServer::start();
    for _ in 0..5 {
        let (guid, barrier) = (Guid(random()), Barrier::new(CONNECTIONS));
        let mut connections: Vec<Connection> = thread::scope(|scope| {
            let begin = || {
                let mut connection = Connection::open(address(&server));
                barrier.wait();
                connection.0.negotiate(guid).expect("it is served");
                connection
            };
            let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(begin)).collect();
            threads.into_iter().map(|it| it.join().expect("it was answered")).collect()
        });
        // Only the worker that has the session can bind to it.
        let mut first = connections.pop().expect("there are some");
        first.log_on();
        for other in &mut connections {
            other.bind(&first);
            other.echo();
        }
        wait_for_serving(&server, 1);
        drop((first, connections));
        wait_for_serving(&server, 0);
    }
    server.stop();
}

#[test]
fn a_client_of_an_unresponsive_worker_is_served_by_another() {
    let server = TestServer::start();
    let guid = Guid(random());
    let mut first = Connection::logged_on(address(&server), guid);
    let stuck = worker_of_the_client(&server);
    signal_process(stuck, Signal::STOP);
    let asked = Instant::now();
    let mut second = Connection::negotiated(address(&server), guid);
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    // It finds the offer when it goes on, and must not speak on the socket then.
    signal_process(stuck, Signal::CONT);
    first.echo();
    second.log_on();
    for _ in 0..20 {
        second.echo();
        first.echo();
    }
    wait_for_serving(&server, 2);
    server.stop();
}

#[test]
fn a_client_of_a_killed_worker_gets_exactly_one_other_worker() {
    let server = TestServer::start();
    for _ in 0..5 {
        let guid = Guid(random());
        let _lost = Connection::logged_on(address(&server), guid);
        let killed = worker_of_the_client(&server);
        signal_process(killed, Signal::KILL);
        let mut first = Connection::logged_on(address(&server), guid);
        let mut second = Connection::negotiated(address(&server), guid);
        second.bind(&first);
        first.echo();
        second.echo();
        assert!(!is_alive(killed));
        drop((first, second));
        wait_for_serving(&server, 0);
    }
    server.stop();
}

#[test]
fn a_connection_closed_during_its_handover_is_forgotten() {
    let server = TestServer::start();
    let guid = Guid(random());
    let mut first = Connection::logged_on(address(&server), guid);
    for _ in 0..20 {
        let mut hasty = Connection::open(address(&server));
        hasty.0.send_negotiate(guid).expect("the server listens");
    }
    first.echo();
    wait_for_serving(&server, 1);
    drop(first);
    // Some of the connections may not have found a worker yet.
    let status = || server.site().run(&["status", "--json"]).succeeds().trim().to_owned();
    wait_until(|| status() == "[]", status);
    wait_for_serving(&server, 0);
    server.stop();
}

#[test]
fn two_clients_have_two_workers() {
    let server = TestServer::start();
    let _first = Connection::logged_on(address(&server), Guid(random()));
    let _second = Connection::logged_on(address(&server), Guid(random()));
    wait_for_serving(&server, 2);
    server.stop();
}

/// A session of one client with two channels, and another client that has none yet.
fn two_channels_and_another(server: &TestServer) -> (Connection, Connection, Connection) {
    let guid = Guid(random());
    let first = Connection::logged_on(address(server), guid);
    let mut second = Connection::negotiated(address(server), guid);
    second.bind(&first);
    (first, second, Connection::logged_on(address(server), Guid(random())))
}

#[test]
fn an_administrator_sees_the_channels_of_a_session_with_their_bytes() {
    let server = TestServer::start();
    let guid = Guid(random());
    let mut first = Connection::logged_on(address(&server), guid);
    let text = server.site().run(&["status"]).succeeds();
    let why =
        format!("Session {:016x} has one channel: clients are told of one", first.session_id());
    assert!(text.contains("Channels: 1\n") && text.contains(&why), "{text}");

    let mut second = Connection::negotiated(address(&server), guid);
    second.bind(&first);
    let file = first.create("file");
    second.write(file, &[7; 50_000]);
    let channels = channels_of(&server, first.session_id());
    assert_eq!(channels.len(), 2, "{channels:?}");
    let local = |it: &Connection| it.0.socket.local_addr().expect("it is connected").to_string();
    for (channel, connection) in channels.iter().zip([&first, &second]) {
        assert_eq!(channel["client_address"], local(connection));
        assert_eq!(channel["server_address"], address(&server).to_string());
        assert_eq!(channel["interface"], "lo");
        assert_eq!(channel["speed_bits_per_s"], 1_000_000_000);
        assert_eq!(channel["break_retries"], 0);
        assert!(channel["bytes_out"].as_u64() > Some(0) && channel["connected_at_unix_s"].is_u64());
    }
    let bytes_in = |it: &serde_json::Value| it["bytes_in"].as_u64().expect("a number");
    assert!(bytes_in(&channels[0]) < 50_000 && bytes_in(&channels[1]) > 50_000, "{channels:?}");
    let sessions = status_rows(&server, "session");
    assert_eq!(sessions[0]["channels"], 2);
    assert!(sessions[0]["single_channel"].is_null());

    first.cut();
    wait_until(
        || channels_of(&server, second.session_id()).len() == 1,
        || "the first channel stays".to_owned(),
    );
    let sessions = status_rows(&server, "session");
    assert_eq!(sessions[0]["single_channel"], "one_interface");
    server.stop();
}

#[test]
fn status_names_a_worker_that_does_not_report_its_channels() {
    let server = TestServer::start();
    let client = Connection::logged_on(address(&server), Guid(random()));
    let worker = worker_of_the_client(&server);
    signal_process(worker, Signal::STOP);
    let outcome = server.site().run(&["status", "--json"]);
    signal_process(worker, Signal::CONT);
    assert!(outcome.error().contains(&format!("worker {worker} did not answer")));
    let rows: Vec<serde_json::Value> =
        serde_json::from_str(&outcome.succeeds()).expect("it is JSON");
    let session = rows.iter().find(|row| row["kind"] == "session").expect("it is in the tables");
    assert!(session["channels"].is_null(), "{session}");
    assert_eq!(channels_of(&server, client.session_id()).len(), 1);
    server.stop();
}

/// Nobody tells the server that the first channel is dead; it finds out within six retransmissions,
/// of 0.2 seconds each on the loopback.
#[test]
fn a_break_reaches_the_client_though_a_channel_drops_all_packets() {
    let server = TestServer::start();
    let (mut first, mut second, mut other) = two_channels_and_another(&server);
    let file = first.keep("file");
    first.write(file, b"written");
    first.drop_all_packets();
    let asked = Instant::now();
    other.send_create("file", OplockLevel::NONE);
    assert_eq!(second.receive_break(), file);
    let elapsed = asked.elapsed();
    assert!((1_000..10_000).contains(&elapsed.as_millis()), "{elapsed:?}");
    second.answer_break(file);
    other.created();
    // The session goes on without that channel.
    assert_eq!(second.read(file), b"written");
    let channels = channels_of(&server, second.session_id());
    assert_eq!(channels.len(), 1, "{channels:?}");
    assert_eq!(channels[0]["break_retries"], 1);
    server.stop();
}

#[test]
fn a_client_without_a_living_channel_holds_nobody_up() {
    let server = TestServer::start();
    let (mut first, second, mut other) = two_channels_and_another(&server);
    first.keep("file");
    first.drop_all_packets();
    second.drop_all_packets();
    let asked = Instant::now();
    other.send_create("file", OplockLevel::NONE);
    other.created();
    let elapsed = asked.elapsed();
    assert!((2_000..20_000).contains(&elapsed.as_millis()), "{elapsed:?}");
    wait_for_serving(&server, 1);
    server.stop();
}

/// The client's TCP has it; that the client takes its time is no reason to tell it again.
#[test]
fn a_break_that_arrived_is_sent_once() {
    let server = TestServer::start();
    let (mut first, mut second, mut other) = two_channels_and_another(&server);
    let file = first.keep("file");
    other.send_create("file", OplockLevel::NONE);
    assert_eq!(first.receive_break(), file);
    thread::sleep(Duration::from_millis(2_500));
    // Were there a break before them, the answers would not be the next that comes.
    second.echo();
    first.echo();
    second.answer_break(file);
    other.created();
    server.stop();
}

/// Acknowledged bytes show that the channel lives: it is only slow, with many bytes before the
/// break. Answers and breaks have no order of their own, so the break may overtake a few.
#[test]
fn a_slow_channel_is_not_given_up() {
    // Together less than may wait for one connection, so that all are answered before the break.
    const READS: usize = 160;
    const CHUNK: usize = 65_536;
    let server = TestServer::start();
    let (mut first, mut second, mut other) = two_channels_and_another(&server);
    let big = first.create("big");
    first.write(big, &[7; CHUNK]);
    let file = first.keep("file");
    (0..READS / 8).for_each(|_| first.echo()); // Each brings credits for more requests.
    let length = u32::try_from(CHUNK).expect("64 KiB");
    for _ in 0..READS {
        let request = ReadRequest { file_id: big, length, ..ReadRequest::default() };
        first.send(Command::READ, &request);
    }
    // The break is queued behind earlier answers: the worker takes what it has received in the
    // order of arrival, so it has begun the READs when it answers on the other channel.
    let server_has_all = || first.is_received_by(server.site().address());
    wait_until(server_has_all, || "the server does not receive".to_owned());
    second.echo();
    other.send_create("file", OplockLevel::NONE);
    let asked = Instant::now();
    let (mut answers, mut breaks) = (0, 0);
    while answers < READS || breaks == 0 {
        thread::sleep(Duration::from_millis(16));
        let (header, message) = first.receive_any();
        assert_eq!(header.status, NtStatus::SUCCESS);
        match header.command {
            Command::READ => answers += 1,
            _ => {
                assert_eq!(broken_file(&header, &message), file);
                breaks += 1;
            }
        }
    }
    assert_eq!(breaks, 1);
    assert!(asked.elapsed() > Duration::from_secs(2), "that was not slow: {:?}", asked.elapsed());
    // Were there another break before them, the answers would not be the next that comes.
    first.echo();
    second.echo();
    first.answer_break(file);
    other.created();
    server.stop();
}
