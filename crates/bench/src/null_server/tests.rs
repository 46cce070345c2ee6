//! The whole server, with a client of our own.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::thread;

use dtyp::fscc::FileAllInformation;
use dtyp::{FileTime, NtStatus, utf16};
use wire::create::CreateResponse;
use wire::query_info::QueryInfoResponse;
use wire::read::ReadResponse;
use wire::{Command, Decode, Dialect, FileId};

use super::{Content, DataPath, PASSWORD, PAYLOAD_BYTES_MAX, serve_on};
use crate::client::requests::{
    Purpose, close, created, open, push_create, push_query_info, push_read, push_set_basic,
    push_stat, push_write, verify_read,
};
use crate::client::{Client, Destination, Protection, Reply, Slot, Terms};
use crate::load::fixture;

fn client(content: Content, protection: Protection) -> Client {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || serve_on(&listener, &content).expect("it listens"));
    let (share, user) = ("bench".to_owned(), "bench".to_owned());
    let destination = Destination { address, share, user, password: PASSWORD.to_owned() };
    let terms = Terms { dialect: Dialect::SMB_3_1_1, protection };
    Client::connect(&destination, terms).expect("it lets everybody in")
}

fn client_of(folder: &Path) -> Client {
    client(Content::folder(folder, DataPath::Pread).expect("it is there"), Protection::Plain)
}

fn answer(client: &mut Client) -> Reply {
    client.flush(Slot(0)).expect("it reads");
    client.receive().expect("an answer")
}

fn done(client: &mut Client) -> Reply {
    answer(client).succeeded().expect("it is done")
}

fn all_information(client: &Client, reply: &Reply) -> FileAllInformation {
    let answer = QueryInfoResponse::decode(client.message(reply)).expect("it is one");
    FileAllInformation::decode(answer.output_buffer).expect("whole")
}

#[test]
fn it_answers_all_that_the_loads_ask_and_reads_frames_of_any_length() {
    let mut client = client(Content::memory(), Protection::Plain);
    let file = open(&mut client, Purpose::NewFile, "file").expect("there is any file");
    for bytes in [1, 64 << 10, 1 << 20, PAYLOAD_BYTES_MAX] {
        client.gather_credits(2, bytes).expect("it grants what is asked for");
        // Two at once, of which the second follows in the same segments.
        for _ in 0..2 {
            push_write(&mut client, file, 0, &vec![1; bytes]);
            client.flush(Slot(0)).expect("it reads");
        }
        for _ in 0..2 {
            client.receive().and_then(Reply::succeeded).expect("written");
        }
        push_read(&mut client, file, 0, bytes);
        let reply = answer(&mut client);
        verify_read(&client, &reply, bytes).expect("as much as was asked for");
    }
    push_set_basic(&mut client, file);
    done(&mut client);
    push_stat(&mut client, &utf16::to_bytes("any"));
    client.flush(Slot(0)).expect("it reads");
    for command in [Command::CREATE, Command::QUERY_INFO, Command::CLOSE] {
        let reply = client.receive().and_then(Reply::succeeded).expect("an answer");
        assert_eq!(reply.header.command, command);
    }
    close(&mut client, file).expect("closed");
    client.logoff().expect("it agrees");
}

#[test]
fn large_reads_and_writes_are_of_the_file_in_every_way() {
    let (plain, signed, sealed) = (Protection::Plain, Protection::Signed, Protection::Sealed);
    let ways = [DataPath::Pread, DataPath::Sendfile]
        .map(|way| [plain, signed, sealed].map(|it| (way, it)));
    for (way, protection) in ways.into_iter().flatten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(fixture::STREAM);
        let content: Vec<u8> = (0..=u8::MAX).cycle().take(3 << 20).collect();
        fs::write(&path, &content).expect("there is room");
        let content_of = Content::folder(folder.path(), way).expect("it is there");
        let mut client = client(content_of, protection);
        let file = open(&mut client, Purpose::Open, fixture::STREAM).expect("it is there");
        client.gather_credits(1, 1 << 20).expect("granted");
        for (place, bytes) in [(1 << 20, 1 << 20), (7, 100)] {
            push_read(&mut client, file, place, bytes);
            let reply = answer(&mut client);
            let start = usize::try_from(place).expect("small");
            let read = ReadResponse::decode(client.message(&reply)).expect("it is one").data;
            assert!(read == &content[start..start + bytes], "{way:?}, {protection}");
        }
        push_write(&mut client, file, 1 << 20, &vec![7; 1 << 20]);
        done(&mut client);
        let written = fs::read(&path).expect("there");
        assert!(written[1 << 20..2 << 20].iter().all(|byte| *byte == 7), "{way:?}, {protection}");
        assert!(
            written[..1 << 20] == content[..1 << 20] && written[2 << 20..] == content[2 << 20..]
        );
    }
}

#[test]
fn written_files_are_on_the_disk_with_their_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut client = client_of(folder.path());
    let directory = open(&mut client, Purpose::NewDirectory, "folder").expect("it is new");
    push_set_basic(&mut client, directory);
    done(&mut client);
    close(&mut client, directory).expect("open");
    let file = open(&mut client, Purpose::NewFile, r"folder\file").expect("it is new");
    push_write(&mut client, file, 3, b"written");
    done(&mut client);
    push_read(&mut client, file, 5, 100);
    let reply = answer(&mut client);
    verify_read(&client, &reply, 5).expect("what there is");
    push_read(&mut client, file, 10, 1);
    assert_eq!(answer(&mut client).header.status, NtStatus::END_OF_FILE);
    close(&mut client, file).expect("open");
    let path = folder.path().join("folder/file");
    assert_eq!(fs::read(&path).expect("there"), b"\0\0\0written");
    let file = open(&mut client, Purpose::NewFile, r"folder\file").expect("it is overwritten");
    close(&mut client, file).expect("open");
    assert_eq!(fs::read(&path).expect("there"), b"");
}

#[test]
fn sizes_and_times_are_those_of_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("file"), [7; 10_000]).expect("there is room");
    let seen = fs::metadata(folder.path().join("file")).expect("there");
    let since = seen.modified().expect("kept").duration_since(std::time::UNIX_EPOCH);
    let since = since.expect("after 1970");
    let seconds = i64::try_from(since.as_secs()).expect("64 bits are enough");
    let modified = FileTime::from_unix(seconds, since.subsec_nanos());
    let mut client = client_of(folder.path());
    push_create(&mut client, Purpose::Open, &utf16::to_bytes("file"));
    let reply = done(&mut client);
    let opened = CreateResponse::decode(client.message(&reply)).expect("it is one");
    assert_eq!((opened.end_of_file, opened.last_write_time), (10_000, modified));
    let file = opened.file_id;
    push_query_info(&mut client, file);
    let reply = done(&mut client);
    let known = all_information(&client, &reply);
    assert_eq!((known.standard.end_of_file, known.basic.last_write_time), (10_000, modified));
    assert!(!known.standard.directory);
    push_write(&mut client, file, 10_000, &[7; 1]);
    done(&mut client);
    push_query_info(&mut client, file);
    let reply = done(&mut client);
    assert_eq!(all_information(&client, &reply).standard.end_of_file, 10_001);
}

#[test]
fn a_failed_operation_is_refused_and_the_connection_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut client = client_of(folder.path());
    for (purpose, name, status) in [
        (Purpose::Open, "nothing", NtStatus::OBJECT_NAME_NOT_FOUND),
        (Purpose::NewFile, r"nothing\file", NtStatus::OBJECT_NAME_NOT_FOUND),
        (Purpose::NewFile, r"..\file", NtStatus::OBJECT_NAME_INVALID),
        (Purpose::NewDirectory, "folder", NtStatus::SUCCESS),
        (Purpose::NewDirectory, "folder", NtStatus::OBJECT_NAME_COLLISION),
        (Purpose::Open, "folder", NtStatus::UNSUCCESSFUL),
    ] {
        push_create(&mut client, purpose, &utf16::to_bytes(name));
        assert_eq!(answer(&mut client).header.status, status, "{name}");
    }
    push_write(&mut client, FileId { persistent: 1, volatile: 7 }, 0, b"x");
    assert_eq!(answer(&mut client).header.status, NtStatus::FILE_CLOSED);
}

#[test]
fn a_stat_in_a_compound_is_of_the_file_opened_there() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("file"), b"12345").expect("there is room");
    let mut client = client_of(folder.path());
    // A related query must not use this open.
    let other = open(&mut client, Purpose::NewFile, "other").expect("it is new");
    for name in ["file", "nothing", "file"] {
        push_stat(&mut client, &utf16::to_bytes(name));
        client.flush(Slot(0)).expect("it reads");
        let is_there = name == "file";
        for command in [Command::CREATE, Command::QUERY_INFO, Command::CLOSE] {
            let reply = client.receive().expect("an answer");
            let missing = NtStatus::OBJECT_NAME_NOT_FOUND;
            let expected = if is_there { NtStatus::SUCCESS } else { missing };
            assert_eq!((reply.header.command, reply.header.status), (command, expected));
            if is_there && command == Command::CREATE {
                let file_id = created(&client, &reply).expect("it is there");
                assert_ne!(file_id, other);
            } else if is_there && command == Command::QUERY_INFO {
                assert_eq!(all_information(&client, &reply).standard.end_of_file, 5);
            }
        }
    }
    close(&mut client, other).expect("still open");
}
