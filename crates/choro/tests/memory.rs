//! A client's demand for memory of its worker is bounded.

mod harness;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;
use std::time::Duration;

use bench::client::requests::{Purpose, open, push_write};
use bench::client::{Client, Protection, Reply, Slot};
use harness::choro::{memory_of, wait_until};
use harness::{Setup, TestServer};
use wire::frame::FrameHeader;

const MIB: u64 = 1 << 20;

/// Bytes of the frames that never come to their end.
const FRAME_LEN: usize = 8 << 20;

/// Longest time for a frame.
const FRAME_TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of a WRITE that does.
const WRITE_LEN: usize = 4 << 20;

/// Connections that send incomplete frames.
const ATTACKERS: u8 = 24;

/// Memory that a worker of an unoptimized build may use beside its client's charge: the process, 68
/// KiB a connection, kept buffers, and one frame, which always finds room.
const OVERHEAD: u64 = 64 * MIB;

/// The memory of a process once it is above `least` and has not grown for half a second.
fn memory_at_last(worker: u32, least: u64) -> u64 {
    const CALM: u32 = 50;
    let (mut last, mut calm) = (0, 0);
    let is_calm = || {
        let before = std::mem::replace(&mut last, memory_of(worker));
        calm = if last == before { calm + 1 } else { 0 };
        calm >= CALM && last > least
    };
    wait_until(is_calm, || format!("it goes on growing, or stays below {least} bytes"));
    last
}

#[test]
fn frames_that_never_end_take_no_more_than_the_memory_of_a_client() {
    let server = Setup::new().global("max client memory = 64M").share("data", "").start();
    let mut first = server.connect("data", Protection::Signed);
    let terms = harness::terms(Protection::Signed);
    let further = |number| first.bind(&server.destination("data"), terms, number);
    let attackers: Vec<Client> =
        (1..=ATTACKERS).map(|number| further(number).expect("it may bind")).collect();
    let worker = server.worker_of(&first);
    let before = memory_of(worker);
    let part = vec![0; FRAME_LEN - 1];
    thread::scope(|scope| {
        for attacker in &attackers {
            let (mut stream, part) = (attacker.stream(), &part);
            let head = FrameHeader::message(FRAME_LEN).expect("it is short enough");
            // It is received as far as there is memory, and cut off in the end.
            scope.spawn(move || stream.write_all(&head).and_then(|()| stream.write_all(part)));
        }
        let memory = memory_at_last(worker, before + 20 * MIB);
        assert!(memory < 64 * MIB + OVERHEAD, "{} MiB", memory / MIB);
        // Small requests are served all the while.
        let file_id = open(&mut first, Purpose::NewFile, "file").expect("there is room");
        attackers.iter().for_each(|it| it.stream().shutdown(Shutdown::Both).expect("it is open"));
        // Released memory is free for others: a long WRITE.
        first.gather_credits(1, WRITE_LEN).expect("there are credits");
        push_write(&mut first, file_id, 0, &part[..WRITE_LEN]);
        first.flush(Slot(0)).expect("it is sent");
        first.receive().and_then(Reply::succeeded).expect("it is written");
    });
    server.stop();
}

#[test]
fn a_frame_that_is_not_whole_in_time_ends_its_connection_and_no_other() {
    let server = TestServer::start();
    let mut first = server.connect("data", Protection::Signed);
    let terms = harness::terms(Protection::Signed);
    let second = first.bind(&server.destination("data"), terms, 1).expect("it may bind");
    let mut stream = second.stream();
    let head = FrameHeader::message(FRAME_LEN).expect("it is short enough");
    stream.write_all(&head).and_then(|()| stream.write_all(&[0; 100_000])).expect("it is sent");
    // Longer than a frame has, so that a server that never ends it is not waited for in vain.
    stream.set_read_timeout(Some(2 * FRAME_TIMEOUT)).expect("it is a socket");
    assert_eq!(stream.read(&mut [0]).expect("the server ends it"), 0);
    server.server().wait_for_log("a frame did not arrive in time");
    open(&mut first, Purpose::NewFile, "file").expect("it is served");
    server.stop();
}
