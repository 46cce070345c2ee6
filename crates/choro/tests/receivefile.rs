//! Plain writes that do not pass through the server's memory (`min receivefile size`), beside those
//! that do.

mod harness;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread;

use bench::client::requests::{Purpose, open};
use bench::client::{Client, Protection, Reply, Slot};
use dtyp::NtStatus;
use harness::choro::wait_until;
use harness::{Setup, TestServer, content};
use wire::close::CloseRequest;
use wire::echo::EchoRequest;
use wire::write::{WriteRequest, WriteResponse};
use wire::{Command, Decode, FileId};

const MEGABYTE: usize = 1 << 20;

/// More than the pipes of users may have (`fs.pipe-max-size`).
const LONGEST: usize = 3 << 20;

/// Requests that wait for their answers at a time.
const DEPTH: usize = 8;

/// Slot of requests without data; others have the length of theirs.
const NO_WRITE: Slot = Slot(usize::MAX);

/// Setting that sends all writes through pipes.
const ALWAYS: &str = "min receivefile size = 1";
const AS_MEASURED: &str = "min receivefile size = 0";
const NEVER: &str = "min receivefile size = 1G";

/// Bytes of a WRITE's frame before its data, with the transport's length.
const FRONT_BYTES: usize = 4 + WriteRequest::DATA_OFFSET as usize;

/// A server with an empty file for each of these names.
fn serve(line: &str, names: &[&str]) -> TestServer {
    let server = Setup::new().global(line).share("data", "").start();
    for name in names {
        let path = path(&server, name);
        fs::write(&path, "").expect("there is space");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("it is ours");
    }
    server
}

fn path(server: &TestServer, name: &str) -> PathBuf {
    server.share_path("data").join(name)
}

fn push(client: &mut Client, file_id: FileId, offset: usize, data: &[u8]) {
    let place = u64::try_from(offset).expect("a small file");
    client.push(Command::WRITE, data.len(), &WriteRequest::new(file_id, place, data));
}

fn ask(client: &mut Client, file_id: FileId, offset: usize, data: &[u8]) {
    push(client, file_id, offset, data);
    client.flush(Slot(data.len())).expect("it is sent");
}

/// The next answer is right: if it is one to a WRITE, all of it was written.
#[track_caller]
fn expect(client: &mut Client) {
    let reply = client.receive().and_then(Reply::succeeded).expect("it is written");
    if reply.slot != NO_WRITE {
        let response = WriteResponse::decode(client.message(&reply)).expect("well-formed");
        assert_eq!(usize::try_from(response.count), Ok(reply.slot.0));
    }
}

/// Writes a file in pieces of many lengths, with other requests between them.
fn write_all(client: &mut Client, name: &str, content: &[u8]) {
    let file_id = open(client, Purpose::Open, name).expect("it is there");
    client.gather_credits(DEPTH, LONGEST).expect("there are credits");
    let mut offset = 0;
    let mut lengths =
        [MEGABYTE, 65_536, MEGABYTE, 300_001, 70_000, LONGEST, 4_096, MEGABYTE].iter().cycle();
    let mut waiting = 0;
    while offset < content.len() {
        let length = *lengths.next().expect("for ever");
        let data = &content[offset..content.len().min(offset + length)];
        ask(client, file_id, offset, data);
        offset += data.len();
        waiting += 1;
        if length == 70_000 {
            client.push(Command::ECHO, 0, &EchoRequest);
            client.flush(NO_WRITE).expect("it is sent");
            waiting += 1;
        }
        while waiting > DEPTH - 2 {
            expect(client);
            waiting -= 1;
        }
    }
    (0..waiting).for_each(|_| expect(client));
}

/// A client that has written a megabyte, so that the next one is expected to be like it.
fn writer(server: &TestServer, name: &str, first: &[u8]) -> (Client, FileId) {
    let mut client = server.connect("data", Protection::Plain);
    let file_id = open(&mut client, Purpose::Open, name).expect("it is there");
    client.gather_credits(DEPTH, MEGABYTE).expect("there are credits");
    ask(&mut client, file_id, 0, first);
    expect(&mut client);
    (client, file_id)
}

/// Sends a part of a WRITE, and returns the rest when a pipe has that part.
fn send_part(
    server: &TestServer,
    client: &mut Client,
    file_id: FileId,
    (offset, data): (usize, &[u8]),
    part: usize,
) -> Vec<u8> {
    push(client, file_id, offset, data);
    let rest = client.flush_part(Slot(data.len()), FRONT_BYTES + part).expect("it is sent");
    wait_until(|| server.pipes() > 0, || "no pipe has it".to_owned());
    rest
}

/// A client that has written one of two megabytes, and so much of the next; with the rest of that.
fn half_written(part: usize) -> (TestServer, Client, Vec<u8>) {
    let server = serve(ALWAYS, &["file"]);
    let content = content::bytes(1, 2 * MEGABYTE);
    let (first, second) = content.split_at(MEGABYTE);
    let (mut client, file_id) = writer(&server, "file", first);
    let rest = send_part(&server, &mut client, file_id, (MEGABYTE, second), part);
    (server, client, rest)
}

/// Now both of them are written.
#[track_caller]
fn expect_both(server: &TestServer, client: &mut Client) {
    expect(client);
    let written = fs::read(path(server, "file")).expect("it is there");
    assert!(written == content::bytes(1, 2 * MEGABYTE));
}

#[test]
fn written_data_is_in_the_file_by_each_data_path() {
    for line in [ALWAYS, AS_MEASURED, NEVER] {
        let names = ["plain", "signed", "sealed"];
        let server = serve(line, &names);
        thread::scope(|scope| {
            let protections = [Protection::Plain, Protection::Signed, Protection::Sealed];
            for (seed, (name, protection)) in (1..).zip(names.into_iter().zip(protections)) {
                let server = &server;
                scope.spawn(move || {
                    let content = content::bytes(seed, (40 << 20) + 12_345);
                    write_all(&mut server.connect("data", protection), name, &content);
                    let written = fs::read(path(server, name)).expect("it is there");
                    assert!(written == content, "{line}: {name}");
                });
            }
        });
        server.stop();
    }
}

#[test]
fn data_that_come_in_small_pieces_are_written_when_all_are_here() {
    let (server, mut client, rest) = half_written(100);
    for piece in rest.chunks(1_459) {
        client.stream().write_all(piece).expect("it is sent");
    }
    expect_both(&server, &mut client);
}

#[test]
fn pages_that_are_nearly_empty_are_written_though_they_fill_the_pipe() {
    const BYTES_OF_PAGE: usize = 100;
    let (server, mut client, rest) = half_written(0);
    // The kernel hands on the pages of this file as they are.
    let page = rustix::param::page_size();
    let pages: Vec<u8> = rest
        .chunks(BYTES_OF_PAGE)
        .flat_map(|piece| piece.iter().copied().chain(vec![0; page - piece.len()]))
        .collect();
    let source = path(&server, "source");
    fs::write(&source, &pages).expect("there is space");
    let source = fs::File::open(&source).expect("it is there");
    for (number, piece) in (0_u64..).zip(rest.chunks(BYTES_OF_PAGE)) {
        let mut offset = number * u64::try_from(page).expect("small");
        let mut left = piece.len();
        while left > 0 {
            let sent = rustix::fs::sendfile(client.stream(), &source, Some(&mut offset), left);
            left -= sent.expect("it is sent");
        }
    }
    expect_both(&server, &mut client);
}

#[test]
fn of_a_write_that_breaks_off_nothing_is_written() {
    let server = serve(ALWAYS, &["file"]);
    let content = content::bytes(1, MEGABYTE);
    for is_reset in [true, false] {
        let (mut client, file_id) = writer(&server, "file", &content);
        send_part(&server, &mut client, file_id, (0, &vec![0xEE; MEGABYTE]), 600_000);
        if is_reset {
            client.reset().expect("it was there");
        } else {
            drop(client);
        }
        wait_until(|| server.pipes() == 0, || "a pipe is left".to_owned());
        assert!(fs::read(path(&server, "file")).expect("it is there") == content);
    }
}

#[test]
fn a_server_that_stops_does_not_wait_for_the_rest() {
    let server = serve(ALWAYS, &["file"]);
    let content = content::bytes(1, MEGABYTE);
    let (mut client, file_id) = writer(&server, "file", &content);
    send_part(&server, &mut client, file_id, (0, &vec![0xEE; MEGABYTE]), 600_000);
    let file = path(&server, "file");
    let written = || fs::read(&file).expect("it is there");
    assert!(written() == content);
    server.stop();
}

#[test]
fn a_file_that_is_closed_while_its_data_come_is_not_written_and_the_next_frame_is_whole() {
    let server = serve(ALWAYS, &["file"]);
    let content = content::bytes(1, MEGABYTE);
    let (mut client, file_id) = writer(&server, "file", &content);
    let again = open(&mut client, Purpose::Open, "file").expect("it is there");
    let destination = server.destination("data");
    let second = client.bind(&destination, harness::terms(Protection::Plain), 1);
    let mut second = second.expect("it may bind");
    let other = vec![0xEE; MEGABYTE];
    let rest = send_part(&server, &mut client, file_id, (0, &other), 600_000);
    let close = CloseRequest { file_id, ..CloseRequest::default() };
    second.call(Command::CLOSE, 0, &close).and_then(Reply::succeeded).expect("it was open");
    client.stream().write_all(&rest).expect("it is sent");
    client.push(Command::ECHO, 0, &EchoRequest);
    client.flush(NO_WRITE).expect("it is sent");
    let reply = client.receive().expect("there is an answer");
    assert_eq!(reply.header.status, NtStatus::FILE_CLOSED);
    expect(&mut client);
    assert!(fs::read(path(&server, "file")).expect("it is there") == content);
    ask(&mut client, again, 0, &other);
    expect(&mut client);
    assert!(fs::read(path(&server, "file")).expect("it is there") == other);
}

#[test]
fn an_urgent_byte_is_no_part_of_the_written_data() {
    let (server, mut client, rest) = half_written(1_000);
    let (before, after) = rest.split_at(300_000);
    client.stream().write_all(before).expect("it is sent");
    let urgent = rustix::net::send(client.stream(), b"!", rustix::net::SendFlags::OOB);
    urgent.expect("it is sent");
    client.stream().write_all(after).expect("it is sent");
    expect_both(&server, &mut client);
}

#[test]
fn nothing_is_piped_below_the_length_that_is_wished() {
    let server = serve(NEVER, &["file"]);
    let content = content::bytes(1, MEGABYTE);
    let (mut client, file_id) = writer(&server, "file", &content);
    push(&mut client, file_id, 0, &content);
    let rest = client.flush_part(Slot(MEGABYTE), FRONT_BYTES + 300_000).expect("it is sent");
    // An answer to another connection shows that this one was served: they have one worker.
    let mut other = client.bind(&server.destination("data"), harness::terms(Protection::Plain), 1);
    let other = other.as_mut().expect("it may bind");
    other.call(Command::ECHO, 0, &EchoRequest).and_then(Reply::succeeded).expect("an echo");
    wait_until(|| server.pipes() == 0, || "something is in a pipe".to_owned());
    client.stream().write_all(&rest).expect("it is sent");
    expect(&mut client);
    assert!(fs::read(path(&server, "file")).expect("it is there") == content);
}
