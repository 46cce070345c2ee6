//! Limits of classes, with real processes: who is over one waits, and nobody else.

mod harness;

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bench::client::requests::{Purpose, open};
use bench::client::{Client, Protection, Reply, Slot};
use dtyp::{AccessMask, Guid, NtStatus, utf16};
use harness::choro::{Over, PATIENCE, settled_memory, wait_until};
use harness::connection::{Connection, random};
use harness::{Setup, TestServer, USER};
use rustix::process::Signal;
use wire::create::{CreateDisposition, CreateRequest, ImpersonationLevel, ShareAccess};
use wire::echo::EchoRequest;
use wire::ioctl::{FsctlCode, IoctlFlags, IoctlRequest};
use wire::read::{ReadRequest, ReadResponse};
use wire::write::WriteRequest;
use wire::{Command, Decode, FileId};

const BLOCK: usize = 64 * 1024;

/// Workers that a server keeps ready, beside those that have a client.
const IDLE_WORKERS: usize = 3;

/// A server with a share that is so slow that nothing but the first block ever moves there, and one
/// that is not.
fn start() -> TestServer {
    start_with("")
}

/// The same, with lines for the latter.
fn start_with(lines: &str) -> TestServer {
    let setup = Setup::new().share("data", lines).share("slow", "");
    let setup = setup.global("[qos:slow]\nmatch = share slow\nmax bandwidth = 1\n[global]\n");
    let server = setup.start();
    for share in ["data", "slow"] {
        let path = server.share_path(share).join("file");
        fs::write(&path, vec![b'x'; 16 * BLOCK]).expect("the share is there");
        harness::give_to_server(&path);
    }
    server
}

/// A server whose storage takes so many microseconds, with two shares that have parts of it.
fn start_with_slow_storage(delay: u32) -> TestServer {
    let setup = Setup::new().share("heavy", "").share("light", "");
    let server = setup
        .global(&format!(
            "choro:storage delay = {delay}\nchoro:storage parallel = 4\n\
             [qos:heavy]\nmatch = share heavy\nweight = 8\n\
             [qos:light]\nmatch = share light\nweight = 1\n[global]\n"
        ))
        .start();
    for share in ["heavy", "light"] {
        let path = server.share_path(share).join("file");
        fs::write(&path, vec![b'x'; 16 * BLOCK]).expect("the share is there");
        harness::give_to_server(&path);
    }
    server
}

/// Keeps 16 READs of a share under way until `is_enough` is set.
fn keep_reading(server: &TestServer, share: &str, is_enough: &AtomicBool) {
    let mut client = connect(server, share);
    let file_id = open(&mut client, Purpose::Open, "file").expect("it is there");
    client.gather_credits(32, BLOCK).expect("there are credits");
    (0..16).for_each(|at| push_read(&mut client, file_id, at));
    while client.in_flight() > 0 {
        let at = receive_block(&mut client);
        if !is_enough.load(Ordering::Relaxed) {
            push_read(&mut client, file_id, at);
        }
    }
}

/// Use of the classes, sorted by name.
fn had(server: &TestServer) -> Vec<u64> {
    let text = server.site().run(&["qos", "show", "--json"]).succeeds();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).expect("it is JSON");
    rows.iter().map(|row| row["requests"].as_u64().expect("a number")).collect()
}

fn storage(server: &TestServer) -> serde_json::Value {
    let text = server.site().run(&["qos", "show", "--storage", "--json"]).succeeds();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(rows.len(), 1, "{text}");
    rows[0].clone()
}

fn connect(server: &TestServer, share: &str) -> Client {
    server.connect(share, Protection::Plain)
}

fn push_read(client: &mut Client, file_id: FileId, at: usize) {
    let offset = u64::try_from(at * BLOCK).expect("a small file");
    let length = u32::try_from(BLOCK).expect("a small block");
    let request = ReadRequest { file_id, offset, length, ..ReadRequest::default() };
    client.push(Command::READ, BLOCK, &request);
    client.flush(Slot(at)).expect("it is sent");
}

fn figures(server: &TestServer) -> serde_json::Value {
    let text = server.site().run(&["qos", "show", "--json"]).succeeds();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(rows.len(), 1, "{text}");
    rows[0].clone()
}

#[track_caller]
fn wait_for_waiting(server: &TestServer, count: u64) {
    wait_until(|| figures(server)["waiting"] == count, || figures(server).to_string());
}

/// The next answer, which must be a block of the file.
#[track_caller]
fn receive_block(client: &mut Client) -> usize {
    let reply = client.receive().and_then(Reply::succeeded).expect("it is answered");
    let response = ReadResponse::decode(client.message(&reply)).expect("well-formed");
    assert!(response.data == vec![b'x'; BLOCK]);
    reply.slot.0
}

#[test]
fn one_connection_moves_on_while_its_slow_share_waits() {
    let server = start();
    let mut client = connect(&server, "slow");
    let slow = open(&mut client, Purpose::Open, "file").expect("it is there");
    client.gather_credits(16, BLOCK).expect("there are credits");
    for at in 0..8 {
        push_read(&mut client, slow, at);
    }
    assert_eq!(receive_block(&mut client), 0, "the first one is within the limit");
    wait_for_waiting(&server, 7);
    client.tree_connect(&server.destination("data")).expect("there is another share");
    let fast = open(&mut client, Purpose::Open, "file").expect("it is there");
    for at in 8..16 {
        push_read(&mut client, fast, at);
    }
    let mut answered: Vec<usize> = (8..16).map(|_| receive_block(&mut client)).collect();
    answered.sort_unstable();
    assert_eq!(answered, (8..16).collect::<Vec<_>>());
    assert_eq!(figures(&server)["waiting"], 7);
}

#[test]
fn a_limit_that_is_set_holds_at_once_and_disconnects_nobody() {
    let server = start();
    let mut client = connect(&server, "slow");
    let file_id = open(&mut client, Purpose::Open, "file").expect("it is there");
    client.gather_credits(16, BLOCK).expect("there are credits");
    for at in 0..8 {
        push_read(&mut client, file_id, at);
    }
    wait_for_waiting(&server, 7);
    let printed = server.site().run(&["qos", "set", "slow", "max-bandwidth=none"]).succeeds();
    assert_eq!(printed, "slow: bandwidth none*\n");
    let answered: Vec<usize> = (0..8).map(|_| receive_block(&mut client)).collect();
    assert_eq!(answered, (0..8).collect::<Vec<_>>(), "in their order");
    let figures = figures(&server);
    assert_eq!((&figures["waiting"], &figures["throttled"]), (&0.into(), &7.into()));
    assert_eq!(figures["read_bytes"], 8 * BLOCK);
    let printed = server.site().run(&["qos", "clear", "all"]).succeeds();
    assert_eq!(printed, "slow: bandwidth 1/s\n");
}

#[test]
fn a_client_that_leaves_while_it_is_held_leaves_nothing() {
    let server = start();
    let mut client = connect(&server, "slow");
    let file_id = open(&mut client, Purpose::Open, "file").expect("it is there");
    client.gather_credits(16, BLOCK).expect("there are credits");
    for at in 0..8 {
        client.push(Command::WRITE, BLOCK, &WriteRequest::new(file_id, 0, &[b'y'; BLOCK]));
        client.flush(Slot(at)).expect("it is sent");
    }
    wait_for_waiting(&server, 7);
    drop(client);
    wait_for_waiting(&server, 0);
    wait_until(|| server.server().workers().len() == IDLE_WORKERS, || server.log());
}

#[test]
fn a_new_configuration_limits_connected_clients() {
    let server = start();
    let mut client = connect(&server, "data");
    let file_id = open(&mut client, Purpose::Open, "file").expect("it is there");
    client.gather_credits(16, BLOCK).expect("there are credits");
    push_read(&mut client, file_id, 0);
    push_read(&mut client, file_id, 1);
    assert_eq!([receive_block(&mut client), receive_block(&mut client)], [0, 1]);
    let config = &server.site().path("smb.conf");
    let text = fs::read_to_string(config).expect("it has one");
    fs::write(config, text.replace("match = share slow", "match = file F*E")).expect("it is ours");
    server.server().signal(Signal::HUP);
    let start = Instant::now();
    let mut at = 2;
    while figures(&server)["waiting"] == 0 {
        assert!(start.elapsed() < PATIENCE, "{}", server.log());
        push_read(&mut client, file_id, at % 16);
        at += 1;
    }
}

#[test]
fn an_invalid_class_is_refused_with_its_line() {
    let server = Setup::new().share("data", "").start();
    let config = &server.site().path("smb.conf");
    let text = fs::read_to_string(config).expect("it has one");
    fs::write(config, text + "[qos:x]\nmatch = share nowhere\n").expect("it is ours");
    let printed = server.site().run(&["check"]).fails(1);
    assert!(printed.contains("[qos:x]: `match`: there is no share `nowhere`"), "{printed}");
}

#[test]
fn two_clients_have_parts_of_the_storage_by_their_weights_and_one_alone_has_all() {
    let server = start_with_slow_storage(20_000);
    let is_enough = AtomicBool::new(false);
    thread::scope(|scope| {
        for share in ["heavy", "light"] {
            let (server, is_enough) = (&server, &is_enough);
            scope.spawn(move || keep_reading(server, share, is_enough));
        }
        let over = Over(&is_enough);
        // Until it is known what the storage can do.
        wait_until(|| had(&server)[0] > 300, || server.log());
        let before = had(&server);
        wait_until(|| had(&server)[0] > before[0] + 800, || server.log());
        let after = had(&server);
        let [heavy, light] = [0, 1].map(|class| after[class] - before[class]);
        let state = storage(&server);
        drop(over);
        assert!(heavy > 6 * light && heavy < 10 * light, "{heavy} and {light}, {state}");
        assert!(state["limit"].as_u64() >= Some(2), "{state}");
    });
    // Unused room is free for others.
    wait_until(|| storage(&server)["in_flight"] == 0, || storage(&server).to_string());
    let before = had(&server);
    let is_enough = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = Over(&is_enough);
        scope.spawn(|| keep_reading(&server, "light", &is_enough));
        wait_until(|| had(&server)[1] > before[1] + 200, || storage(&server).to_string());
    });
    let text = server.site().run(&["qos", "show"]).succeeds();
    assert!(text.contains("STORAGE") && text.contains("weight 8"), "{text}");
}

/// Ranges of a file that keep the server busy for a fifth of a second.
const RANGES: u64 = 60_000;

/// Makes a file with [`RANGES`] ranges, on the host.
fn make_ranges(server: &TestServer, share: &str) {
    let path = server.share_path(share).join("ranges");
    let file = fs::File::create(&path).expect("the share is there");
    (0..RANGES).for_each(|at| file.write_all_at(b"x", at * 8_192).expect("a block"));
    harness::give_to_server(&path);
}

fn fsctl(file_id: FileId, ctl_code: FsctlCode, input: &[u8], output: u32) -> IoctlRequest<'_> {
    let flags = IoctlFlags::IS_FSCTL;
    let max_output_response = output;
    IoctlRequest { ctl_code, file_id, input, max_output_response, flags, ..IoctlRequest::default() }
}

/// Reads of a share in half a second.
fn count_reads(client: &mut Client, file_id: FileId) -> u32 {
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_millis(500) {
        (0..16).for_each(|at| push_read(client, file_id, at));
        for _ in 0..16 {
            receive_block(client);
        }
        count += 16;
    }
    count
}

#[test]
fn queries_of_ranges_keep_neither_turns_from_others_nor_answers_from_their_own_client() {
    const QUERIES: usize = 30;
    const OUTPUT: u32 = 1 << 20;
    let server = start_with_slow_storage(0);
    make_ranges(&server, "light");
    let mut heavy = connect(&server, "heavy");
    let read_from = open(&mut heavy, Purpose::Open, "file").expect("it is there");
    heavy.gather_credits(32, BLOCK).expect("there are credits");
    let mut light = connect(&server, "light");
    let file_id = open(&mut light, Purpose::Open, "ranges").expect("it is there");
    let sparse = light.call(Command::IOCTL, 0, &fsctl(file_id, FsctlCode::SET_SPARSE, &[], 0));
    sparse.and_then(Reply::succeeded).expect("it is a file");
    light.want_credits(u16::MAX);
    light.gather_credits(QUERIES + 2, 1 << 20).expect("there are credits");
    let before = count_reads(&mut heavy, read_from);
    let input = [0_u64, 1 << 40].map(u64::to_le_bytes).concat();
    for at in 0..QUERIES {
        let request = fsctl(file_id, FsctlCode::QUERY_ALLOCATED_RANGES, &input, OUTPUT);
        light.push(Command::IOCTL, 1 << 20, &request);
        light.flush(Slot(at)).expect("it is sent");
    }
    light.push(Command::ECHO, 0, &EchoRequest);
    light.flush(Slot(QUERIES)).expect("it is sent");
    let name = utf16::to_bytes("file");
    let create = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: AccessMask::FILE_GENERIC_READ,
        share_access: ShareAccess::READ,
        create_disposition: CreateDisposition::OPEN,
        name: &name,
        ..CreateRequest::default()
    };
    light.push(Command::CREATE, 0, &create);
    light.flush(Slot(QUERIES + 1)).expect("it is sent");
    let during = count_reads(&mut heavy, read_from);
    assert!(during * 8 >= before, "{during} reads instead of {before}");
    // The client has its answers before those to most queries.
    let (mut answered, mut others) = (0, 2);
    while others > 0 {
        let reply = light.receive().and_then(Reply::succeeded).expect("it is answered");
        match reply.slot {
            Slot(at) if at < QUERIES => answered += 1,
            _ => others -= 1,
        }
    }
    assert!(answered < 5, "{answered} queries were answered first");
    for _ in answered..QUERIES {
        let reply = light.receive().and_then(Reply::succeeded).expect("it is answered");
        assert!(light.message(&reply).len() > 16 * 50_000, "all ranges");
    }
}

#[test]
fn a_worker_that_is_killed_gives_its_place_at_the_storage_back() {
    let server = start_with_slow_storage(1_000_000);
    let mut client = connect(&server, "heavy");
    let workers = server.server().workers();
    let file_id = open(&mut client, Purpose::Open, "file").expect("it is there");
    client.gather_credits(32, BLOCK).expect("there are credits");
    (0..16).for_each(|at| push_read(&mut client, file_id, at));
    wait_until(
        || storage(&server)["in_flight"] != 0 && storage(&server)["waiting"] != 0,
        || storage(&server).to_string(),
    );
    workers.into_iter().for_each(|pid| harness::choro::signal_process(pid, Signal::KILL));
    wait_until(
        || storage(&server)["in_flight"] == 0 && storage(&server)["waiting"] == 0,
        || storage(&server).to_string(),
    );
}

/// Somebody who reads all the time while others misbehave; how many blocks that one had.
fn beside(server: &TestServer, misbehave: impl FnOnce()) -> usize {
    let is_enough = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut client = connect(server, "data");
            let file_id = open(&mut client, Purpose::Open, "file").expect("it is there");
            client.gather_credits(8, BLOCK).expect("there are credits");
            let mut blocks = 0;
            loop {
                // To its end, whatever the others do.
                let is_last = is_enough.load(Ordering::Relaxed);
                (0..8).for_each(|at| push_read(&mut client, file_id, at));
                for _ in 0..8 {
                    receive_block(&mut client);
                    blocks += 1;
                }
                if is_last {
                    return blocks;
                }
            }
        });
        let over = Over(&is_enough);
        misbehave();
        drop(over);
        reader.join().expect("the reader noticed something")
    })
}

#[test]
fn a_client_that_sends_beyond_its_window_is_gone_and_nobody_else_notices() {
    let server = start();
    let had = beside(&server, || {
        for beyond in [100_000, u64::MAX / 2] {
            let mut client = connect(&server, "data");
            let file_id = open(&mut client, Purpose::Open, "file").expect("it is there");
            client.gather_credits(4, BLOCK).expect("there are credits");
            client.skip_message_ids(beyond);
            push_read(&mut client, file_id, 0);
            assert!(client.receive().is_err(), "an answer to what it had no credits for");
        }
    });
    assert!(had >= 8);
    let ended = || server.log().matches("is outside the sequence window").count();
    wait_until(|| ended() == 2, || server.log());
}

#[test]
fn a_client_that_asks_for_all_credits_each_time_has_its_part_of_them() {
    let setup = Setup::new().share("data", "").global("smb2 total credits = 1024");
    let server = setup.start();
    let path = server.share_path("data").join("file");
    fs::write(&path, vec![b'x'; 16 * BLOCK]).expect("the share is there");
    harness::give_to_server(&path);
    beside(&server, || {
        let mut greedy = connect(&server, "data");
        greedy.want_credits(u16::MAX);
        let echo = |client: &mut Client| {
            let reply = client.call(Command::ECHO, 0, &EchoRequest);
            reply.and_then(Reply::succeeded).expect("it is answered");
        };
        // Two share them, as soon as the supervisor has counted them.
        let start = Instant::now();
        (0..100).for_each(|_| echo(&mut greedy));
        while greedy.credits() > 512 {
            assert!(start.elapsed() < PATIENCE, "{} credits", greedy.credits());
            (0..100).for_each(|_| echo(&mut greedy));
        }
        let used = 300;
        (0..used).for_each(|_| echo(&mut greedy));
        assert!(greedy.credits() <= 512, "{} credits", greedy.credits());
        assert!(greedy.credits() >= 64, "{} credits", greedy.credits());
    });
}

/// Credits of a connection once it has used those of before, and requested all that it may have.
fn settled_credits(connection: &mut Connection) -> u32 {
    connection.smb.credits_wanted = u16::MAX;
    for _ in 0..connection.smb.window.credits() + 10 {
        connection.call(Command::ECHO, &EchoRequest).expect("it is answered");
    }
    connection.smb.window.credits()
}

#[test]
fn channels_share_the_credits_of_their_client_and_a_limit_that_is_set_holds_both_ways() {
    let class = format!("[qos:small]\nmatch = user {USER}\nmax credits = 400\n[global]\n");
    let server = Setup::new().share("data", "").global(&class).start();
    let guid = Guid(random());
    let connect = || {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let to = server.site().address();
        let mut connection = Connection::connect(local, to, PATIENCE).expect("it listens");
        connection.negotiate(guid).expect("it is served");
        connection
    };
    let mut first = connect();
    first.log_on().expect("the password is right");
    assert_eq!(first.tree("data").expect("it is answered"), NtStatus::SUCCESS);
    assert_eq!(settled_credits(&mut first), 400);
    let mut second = connect();
    second.bind(first.session(), first.smb.tree_id).expect("it is the same worker's");
    second.smb.signs = true;
    let mut settles = |each: u32| {
        let mut seen = [0; 2];
        let start = Instant::now();
        while seen != [each; 2] {
            assert!(start.elapsed() < PATIENCE, "{seen:?} instead of {each}");
            seen = [&mut first, &mut second].map(settled_credits);
        }
    };
    settles(200);
    for (limit, each) in [("160", 80), ("600", 300), ("100", 64)] {
        server.site().run(&["qos", "set", "small", &format!("max-credits={limit}")]).succeeds();
        settles(each);
    }
    server.site().run(&["qos", "clear", "small"]).succeeds();
    settles(200);
    let config = &server.site().path("smb.conf");
    let text = fs::read_to_string(config).expect("it has one");
    fs::write(config, text.replace("max credits = 400", "max credits = 300")).expect("it is ours");
    server.server().signal(Signal::HUP);
    settles(150);
    drop(second);
    let start = Instant::now();
    while settled_credits(&mut first) != 300 {
        assert!(start.elapsed() < PATIENCE, "its other channel has gone");
    }
    server.stop();
}

#[test]
fn a_client_that_never_reads_its_answers_is_bounded_and_nobody_else_notices() {
    const READS: usize = 256;
    const READ_LEN: u32 = 1 << 20;
    const MIB: u64 = 1 << 20;
    // Through memory, where they can be seen.
    let server = start_with("use sendfile = no");
    let mut deaf = None;
    let had = beside(&server, || {
        let mut client = connect(&server, "data");
        let file_id = open(&mut client, Purpose::Open, "file").expect("it is there");
        client.want_credits(u16::MAX);
        client.gather_credits(READS, READ_LEN as usize).expect("there are credits");
        // As many as it may, and none of the answers is ever taken.
        for slot in 0..READS {
            let request = ReadRequest { file_id, length: READ_LEN, ..ReadRequest::default() };
            client.push(Command::READ, READ_LEN as usize, &request);
            client.flush(Slot(slot)).expect("it is sent");
        }
        let worker = server.worker_of(&client);
        deaf = Some(client);
        let memory = settled_memory(worker, 12 * MIB);
        assert!(memory < 64 * MIB, "{} MiB of {READS}", memory / MIB);
    });
    assert!(had >= 8);
    drop(deaf);
    wait_until(|| server.server().workers().len() == IDLE_WORKERS, || server.log());
}

/// smbclient has 16 MiB in flight and by default gives each request 20 seconds, whatever the server
/// says meanwhile: it has to be told that a share is slow.
#[test]
fn smbclient_copies_at_a_hundred_kibibytes_a_second_without_an_error() {
    let setup = Setup::new().share("data", "");
    let limit = "[qos:slow]\nmatch = share data\nmax bandwidth = 100K\n[global]\n";
    let server =
        setup.global(limit).global("smb2 max read = 65536\nsmb2 max write = 65536").start();
    let folder = server.client_folder("slow");
    let bytes = (0..512_u32 << 10).map(|at| u8::try_from(at * 7 % 251).expect("below 251"));
    let source: Vec<u8> = bytes.collect();
    fs::write(folder.join("source"), &source).expect("there is space");
    let client = server.client().folder(folder.clone()).argument("--timeout=600");
    client.run("data", &["put source file", "ls", "get file back"]).succeeds();
    assert!(fs::read(folder.join("back")).expect("it was copied") == source);
    assert!(figures(&server)["throttled"].as_u64() > Some(0), "{}", figures(&server));
}
