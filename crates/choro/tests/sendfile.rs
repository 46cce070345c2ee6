//! Plain reads that do not pass through the server's memory (`use sendfile`), beside those that do.

mod harness;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;

use bench::client::requests::{Purpose, open};
use bench::client::{Client, Protection, Reply, Slot};
use dtyp::NtStatus;
use harness::choro::wait_until;
use harness::{Setup, TestServer, content, terms};
use wire::close::CloseRequest;
use wire::echo::EchoRequest;
use wire::read::{ReadRequest, ReadResponse};
use wire::{Command, Decode, FileId};

/// Bytes of the file: more than sockets hold, less than may wait for a client, and the last READ
/// ends within a page.
const FILE_BYTES: usize = (15 << 20) + 12_345;

const MEGABYTE: usize = 1 << 20;

/// Requests that wait for their answers at a time.
const DEPTH: usize = 8;

/// Slot of requests without data; others have the offset of theirs.
const NO_READ: Slot = Slot(usize::MAX);

/// Setting that sends all reads through pipes.
const ALWAYS: &str = "use sendfile = yes";
const NEVER: &str = "use sendfile = no";
const AS_MEASURED: &str = "use sendfile = auto";

/// A server with a share of such a file that anybody may change.
fn serve(lines: &str) -> (TestServer, Vec<u8>) {
    let server = Setup::new().share("data", lines).start();
    let (path, content) = (server.share_path("data").join("file"), content::bytes(1, FILE_BYTES));
    fs::write(&path, &content).expect("there is space");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("it is ours");
    (server, content)
}

fn ask(client: &mut Client, file_id: FileId, offset: usize, length: usize) {
    let place = u64::try_from(offset).expect("a small file");
    let bytes = u32::try_from(length).expect("a READ");
    let request = ReadRequest { file_id, offset: place, length: bytes, ..ReadRequest::default() };
    client.push(Command::READ, length, &request);
    client.flush(Slot(offset)).expect("it is sent");
}

/// The next answer is right: if it is one to a READ, it has these data.
#[track_caller]
fn expect(client: &mut Client, length: usize, content: &[u8]) {
    let reply = client.receive().and_then(Reply::succeeded).expect("it is read");
    if reply.slot == NO_READ {
        return;
    }
    let offset = reply.slot.0;
    let response = ReadResponse::decode(client.message(&reply)).expect("well-formed");
    let expected = &content[offset..content.len().min(offset + length)];
    assert!(response.data == expected, "{length} at {offset}");
}

fn read_all(client: &mut Client, content: &[u8]) {
    let file_id = open(client, Purpose::Open, "file").expect("it is there");
    client.gather_credits(DEPTH, MEGABYTE).expect("there are credits");
    for length in [4_096, 65_536, 65_537, 300_001, MEGABYTE] {
        let end = content.len().min(40 * length);
        let offsets: Vec<usize> = (0..end).step_by(length).collect();
        // READs that end beyond the end of file, begin within a page, or have another length.
        let odd = [content.len() - 70_000, 4_097, content.len() - 1];
        for some in offsets.chunks(DEPTH - 1).chain(odd.chunks(1)) {
            some.iter().for_each(|offset| ask(client, file_id, *offset, length));
            client.push(Command::ECHO, 0, &EchoRequest);
            client.flush(NO_READ).expect("it is sent");
            (0..=some.len()).for_each(|_| expect(client, length, content));
        }
    }
}

#[test]
fn clients_get_the_contents_of_the_file_by_each_data_path() {
    for lines in [ALWAYS, NEVER, AS_MEASURED] {
        let (server, content) = serve(lines);
        thread::scope(|scope| {
            for protection in [Protection::Plain, Protection::Signed, Protection::Sealed] {
                let (server, content) = (&server, &content);
                scope.spawn(move || read_all(&mut server.connect("data", protection), content));
            }
        });
        server.stop();
    }
}

#[test]
fn channels_with_and_without_signatures_get_the_contents_of_the_file() {
    let (server, content) = serve(ALWAYS);
    let destination = server.destination("data");
    let plain = Client::connect(&destination, terms(Protection::Plain)).expect("it may log in");
    let second = plain.bind(&destination, terms(Protection::Plain), 1).expect("it may bind");
    let signed = plain.bind(&destination, terms(Protection::Signed), 2).expect("it may bind");
    thread::scope(|scope| {
        for mut client in [plain, second, signed] {
            let content = &content;
            scope.spawn(move || read_all(&mut client, content));
        }
    });
}

/// A client that has asked for all of the file and reads none of it, until that waits in pipes.
fn ask_and_do_not_read(server: &TestServer, client: &mut Client) -> FileId {
    let file_id = open(client, Purpose::Open, "file").expect("it is there");
    client.gather_credits(FILE_BYTES.div_ceil(MEGABYTE), MEGABYTE).expect("there are credits");
    (0..FILE_BYTES).step_by(MEGABYTE).for_each(|offset| ask(client, file_id, offset, MEGABYTE));
    wait_until(|| server.pipes() > 0, || "nothing waits in pipes".to_owned());
    file_id
}

#[test]
fn a_file_that_is_truncated_and_closed_while_its_answers_wait_comes_in_whole_frames() {
    let (server, content) = serve(ALWAYS);
    let mut client = server.connect("data", Protection::Plain);
    let file_id = ask_and_do_not_read(&server, &mut client);
    let close = CloseRequest { file_id, ..CloseRequest::default() };
    client.push(Command::CLOSE, 0, &close);
    client.flush(NO_READ).expect("it is sent");
    let file = fs::File::options().write(true).open(server.share_path("data").join("file"));
    file.expect("it is there").set_len(100).expect("it is ours");
    let mut closed = 0;
    for _ in 0..=FILE_BYTES.div_ceil(MEGABYTE) {
        let reply = client.receive().expect("frames stay whole");
        if reply.slot == NO_READ {
            reply.succeeded().expect("it was open");
            closed += 1;
            continue;
        }
        let offset = reply.slot.0;
        // READs served after the truncation end early.
        if reply.header.status == NtStatus::END_OF_FILE {
            continue;
        }
        let response = ReadResponse::decode(client.message(&reply)).expect("well-formed");
        let before = &content[offset..][..response.data.len()];
        let mut both = response.data.iter().zip(before);
        assert!(both.all(|(is, was)| is == was || *is == 0), "at {offset}");
    }
    assert_eq!(closed, 1);
    let file_id = open(&mut client, Purpose::Open, "file").expect("the connection goes on");
    ask(&mut client, file_id, 0, MEGABYTE);
    expect(&mut client, MEGABYTE, &content[..100]);
}

#[test]
fn a_client_that_dies_in_the_middle_leaves_no_descriptor_to_its_other_channel() {
    let (server, content) = serve(ALWAYS);
    let destination = server.destination("data");
    let first = Client::connect(&destination, terms(Protection::Plain)).expect("it may log in");
    let mut second = first.bind(&destination, terms(Protection::Plain), 1).expect("it may bind");
    let mut first = first;
    ask_and_do_not_read(&server, &mut first);
    first.reset().expect("it was there");
    // Those that were empty are kept for a while.
    wait_until(|| server.pipes() == 0, || format!("{} pipes are left", server.pipes()));
    read_all(&mut second, &content);
}

#[test]
fn nothing_is_piped_if_it_is_forbidden() {
    let (server, content) = serve(NEVER);
    let mut client = server.connect("data", Protection::Plain);
    let file_id = open(&mut client, Purpose::Open, "file").expect("it is there");
    client.gather_credits(FILE_BYTES.div_ceil(MEGABYTE), MEGABYTE).expect("there are credits");
    let offsets = (0..FILE_BYTES).step_by(MEGABYTE);
    offsets.clone().for_each(|offset| ask(&mut client, file_id, offset, MEGABYTE));
    // The first is here, so the others have been asked for; those that fit nowhere wait.
    expect(&mut client, MEGABYTE, &content);
    // A worker that is just being started has those of the supervisor for a moment.
    wait_until(|| server.pipes() == 0, || "something waits in pipes".to_owned());
    offsets.skip(1).for_each(|_| expect(&mut client, MEGABYTE, &content));
}

#[test]
fn a_connection_that_the_server_ends_is_closed_when_the_last_of_its_answers_has_left() {
    let (server, content) = serve(ALWAYS);
    let mut client = server.connect("data", Protection::Plain);
    ask_and_do_not_read(&server, &mut client);
    // A second NEGOTIATE ends the connection.
    client.push(Command::NEGOTIATE, 0, &EchoRequest);
    client.flush(NO_READ).expect("it is sent");
    (0..FILE_BYTES).step_by(MEGABYTE).for_each(|_| expect(&mut client, MEGABYTE, &content));
    client.receive().expect_err("there is nothing more");
    let log = server.log();
    assert!(!log.contains("its client does not read"), "it was closed because time was up:\n{log}");
}
