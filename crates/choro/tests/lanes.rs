//! One client that moves much over two channels at once: what is signed or sealed goes over lanes,
//! and nothing is lost, mixed up or changed on the way.

mod harness;

use std::fs;
use std::thread;

use bench::client::requests::{Purpose, open};
use bench::client::{Client, Protection, Slot};
use harness::{TestServer, terms};
use wire::read::{ReadRequest, ReadResponse};
use wire::write::WriteRequest;
use wire::{Command, Decode};

/// Lengths of blocks in bytes: one whose frame a lane receives alone, and one that shares a
/// receive.
const BLOCKS: [usize; 2] = [1 << 20, 64 << 10];

/// Requests that each channel has in flight.
const DEPTH: usize = 4;

/// Number of rounds with that many blocks.
const ROUNDS: usize = 12;

#[test]
fn sealed_data_of_two_channels_arrives_as_it_left() {
    BLOCKS.into_iter().for_each(|bytes| move_much(Protection::Sealed, bytes));
}

#[test]
fn signed_data_of_two_channels_arrives_as_it_left() {
    BLOCKS.into_iter().for_each(|bytes| move_much(Protection::Signed, bytes));
}

#[track_caller]
fn move_much(protection: Protection, bytes: usize) {
    let server = TestServer::start();
    let (destination, terms) = (server.destination("data"), terms(protection));
    let first = Client::connect(&destination, terms).expect("it may log in");
    let second = first.bind(&destination, terms, 1).expect("it may bind");
    let at_once = || {
        thread::scope(|scope| {
            let channels = [(first, "one.bin", 1), (second, "two.bin", 101)];
            let threads = channels.map(|(mut client, name, seed)| {
                scope.spawn(move || {
                    write_and_read(&mut client, name, (seed, bytes));
                    client
                })
            });
            threads.map(|thread| thread.join().expect("it ends well"))
        })
    };
    let _clients = at_once();
    for (name, seed) in [("one.bin", 1), ("two.bin", 101)] {
        let kept = fs::read(server.share_path("data").join(name)).expect("it was written");
        assert!(kept.len() == bytes * DEPTH * ROUNDS, "{name}: {} bytes", kept.len());
        let blocks = kept.chunks(bytes).zip(0..);
        blocks
            .for_each(|(data, at)| assert!(data == block((seed, bytes), at), "{name}, block {at}"));
    }
    let processors = thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(has_lane(&server), processors > 1, "on {processors} processors");
    let arguments = ["trace", "all", "--since-start", "--seconds", "0", "--json"];
    let report = server.site().run(&arguments).succeeds();
    let report: serde_json::Value = serde_json::from_str(&report).expect("an object");
    let phases: Vec<&str> = report["lanes"]
        .as_array()
        .expect("an array")
        .iter()
        .filter_map(|it| it["phase"].as_str())
        .collect();
    let expected: &[&str] = if processors > 1 { &["verifying", "signing"] } else { &[] };
    assert_eq!(phases, expected, "what lanes do is told: {report:#}");
}

/// Writes all blocks of a file, some at once, and reads them back the same way.
fn write_and_read(client: &mut Client, name: &str, (seed, bytes): (u8, usize)) {
    let file_id = open(client, Purpose::NewFile, name).expect("it may be made");
    client.gather_credits(DEPTH, bytes).expect("there are credits");
    let offset = |at: usize| u64::try_from(at * bytes).expect("a small file");
    for round in 0..ROUNDS {
        let blocks = round * DEPTH..(round + 1) * DEPTH;
        for at in blocks.clone() {
            let data = block((seed, bytes), at);
            client.push(Command::WRITE, bytes, &WriteRequest::new(file_id, offset(at), &data));
            client.flush(Slot(at)).expect("it is sent");
        }
        for _ in blocks {
            client.receive().and_then(bench::client::Reply::succeeded).expect("it is written");
        }
    }
    for round in 0..ROUNDS {
        let blocks = round * DEPTH..(round + 1) * DEPTH;
        for at in blocks.clone() {
            let length = u32::try_from(bytes).expect("a megabyte at most");
            let request =
                ReadRequest { file_id, offset: offset(at), length, ..ReadRequest::default() };
            client.push(Command::READ, bytes, &request);
            client.flush(Slot(at)).expect("it is sent");
        }
        for _ in blocks {
            let reply = client.receive().and_then(bench::client::Reply::succeeded);
            let reply = reply.expect("it is read");
            let response = ReadResponse::decode(client.message(&reply)).expect("well-formed");
            assert!(
                response.data == block((seed, bytes), reply.slot.0),
                "{name}, block {}",
                reply.slot.0
            );
        }
    }
}

/// Content of a block: it differs from all others, and within itself at each place.
fn block((seed, bytes): (u8, usize), at: usize) -> Vec<u8> {
    let mut state = u64::from(seed) << 32 | u64::try_from(at).expect("few") << 1 | 1;
    let words = std::iter::repeat_with(|| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_le_bytes()
    });
    words.take(bytes / 8).flatten().collect()
}

fn has_lane(server: &TestServer) -> bool {
    let tasks =
        |pid: u32| fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    let workers = server.server().workers();
    workers.into_iter().flat_map(tasks).filter_map(name).any(|name| name.trim() == "lane")
}
