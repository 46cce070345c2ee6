//! Limits of classes, with real processes: who is over one waits, and nobody else.

mod harness;

use std::fs;
use std::time::Instant;

use bench::client::requests::{Purpose, open};
use bench::client::{Client, Destination, Protection, Reply, Slot, Terms};
use harness::choro::{PATIENCE, wait_until};
use harness::{PASSWORD, Setup, TestServer, USER};
use rustix::process::Signal;
use wire::read::{ReadRequest, ReadResponse};
use wire::write::WriteRequest;
use wire::{Command, Decode, Dialect, FileId};

const BLOCK: usize = 64 * 1024;

/// Workers that a server keeps ready, beside those that have a client.
const IDLE_WORKERS: usize = 3;

/// A server with a share that is so slow that nothing but the first block ever moves there, and one
/// that is not.
fn start() -> TestServer {
    let setup = Setup::new().share("data", "").share("slow", "");
    let setup = setup.global("[qos:slow]\nmatch = share slow\nmax bandwidth = 1\n[global]\n");
    let server = setup.start();
    for share in ["data", "slow"] {
        let path = server.share_path(share).join("file");
        fs::write(&path, vec![b'x'; 16 * BLOCK]).expect("the share is there");
        harness::give_to_server(&path);
    }
    server
}

fn destination(server: &TestServer, share: &str) -> Destination {
    Destination {
        address: server.site().address(),
        share: share.to_owned(),
        user: USER.to_owned(),
        password: PASSWORD.to_owned(),
    }
}

fn connect(server: &TestServer, share: &str) -> Client {
    let terms = Terms { dialect: Dialect::SMB_3_1_1, protection: Protection::Plain };
    Client::connect(&destination(server, share), terms).expect("it may log in")
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
    client.tree_connect(&destination(&server, "data")).expect("there is another share");
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
    let said = server.site().run(&["qos", "set", "slow", "max-bandwidth=none"]).succeeds();
    assert_eq!(said, "slow: bandwidth none*\n");
    let answered: Vec<usize> = (0..8).map(|_| receive_block(&mut client)).collect();
    assert_eq!(answered, (0..8).collect::<Vec<_>>(), "in their order");
    let figures = figures(&server);
    assert_eq!((&figures["waiting"], &figures["held"]), (&0.into(), &7.into()));
    assert_eq!(figures["read_bytes"], 8 * BLOCK);
    let said = server.site().run(&["qos", "clear", "all"]).succeeds();
    assert_eq!(said, "slow: bandwidth 1/s\n");
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
fn a_new_configuration_limits_those_who_are_connected() {
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
fn a_class_that_is_wrong_is_refused_and_said_where() {
    let server = Setup::new().share("data", "").start();
    let config = &server.site().path("smb.conf");
    let text = fs::read_to_string(config).expect("it has one");
    fs::write(config, text + "[qos:x]\nmatch = share nowhere\n").expect("it is ours");
    let said = server.site().run(&["check"]).fails(1);
    assert!(said.contains("[qos:x]: `match`: there is no share `nowhere`"), "{said}");
}
