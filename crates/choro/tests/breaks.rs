//! Breaks of oplocks between clients of different workers.

mod harness;

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};

use dtyp::{AccessMask, Guid, NtStatus, utf16};
use harness::choro::PATIENCE;
use harness::connection::Connection;
use harness::{Setup, TestServer};
use wire::close::CloseRequest;
use wire::create::{
    CreateDisposition, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use wire::echo::EchoRequest;
use wire::header::HeaderFlags;
use wire::oplock_break::OplockBreak;
use wire::{Command, Decode, Encode, FileId, Header, OplockLevel};

/// Opens that wait for an acknowledgment.
const ROUNDS: usize = 20;

/// Requests that are received together with an acknowledgment. Their responses leave together, so
/// the other client would long have its own before.
const ECHOS: usize = 200;

fn connect(server: &TestServer, guid: u8) -> Connection {
    let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let connection = Connection::connect(from, server.site().address(), PATIENCE);
    let mut connection = connection.expect("the server listens");
    connection.negotiate(Guid([guid; 16])).expect("the server speaks 3.0");
    connection.log_on().expect("the password is right");
    assert_eq!(connection.tree("data").expect("an answer"), NtStatus::SUCCESS);
    connection
}

fn begin_open(connection: &mut Connection) {
    let name = utf16::to_bytes("file");
    let request = CreateRequest {
        requested_oplock_level: OplockLevel::BATCH,
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: AccessMask::FILE_ALL,
        share_access: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
        create_disposition: CreateDisposition::OPEN_IF,
        name: &name,
        ..CreateRequest::default()
    };
    connection.send(Command::CREATE, HeaderFlags::empty(), &request).expect("it is connected");
}

fn frame(connection: &mut Connection, command: Command, body: &impl Encode) -> Vec<u8> {
    connection.smb.push(command, 0, HeaderFlags::empty(), body);
    connection.smb.finish().expect("it is signed").to_vec()
}

/// Returns the next message that is no interim response.
fn next(connection: &mut Connection) -> (Header, Vec<u8>) {
    loop {
        let (header, message) = connection.receive().expect("the server answers");
        if header.status != NtStatus::PENDING {
            return (header, message);
        }
    }
}

/// True if a message has arrived that nobody has taken.
fn has_message(connection: &Connection) -> bool {
    connection.socket.set_nonblocking(true).expect("it is a socket");
    let peeked = connection.socket.peek(&mut [0]);
    connection.socket.set_nonblocking(false).expect("it is a socket");
    peeked.is_ok_and(|bytes| bytes > 0)
}

fn opened(connection: &mut Connection) -> FileId {
    let (header, message) = next(connection);
    assert_eq!((header.command, header.status), (Command::CREATE, NtStatus::SUCCESS));
    CreateResponse::decode(&message).expect("well-formed").file_id
}

fn close(connection: &mut Connection, file_id: FileId) {
    let request = CloseRequest { file_id, ..CloseRequest::default() };
    let closed = connection.call(Command::CLOSE, &request).expect("it is connected");
    assert_eq!(closed.0.status, NtStatus::SUCCESS);
}

/// A client that sees both connections, as a test of the protocol does, may rely on the order.
#[test]
fn an_acknowledgment_is_answered_before_the_open_that_has_waited_for_it() {
    let server = Setup::new().share("data", "").start();
    let (mut holder, mut other) = (connect(&server, 1), connect(&server, 2));
    for round in 0..ROUNDS {
        begin_open(&mut holder);
        let file_id = opened(&mut holder);
        begin_open(&mut other);
        assert_eq!(next(&mut holder).0.command, Command::OPLOCK_BREAK);
        let body = OplockBreak { oplock_level: OplockLevel::NONE, file_id };
        let mut frames = frame(&mut holder, Command::OPLOCK_BREAK, &body);
        let echos = (0..ECHOS).flat_map(|_| frame(&mut holder, Command::ECHO, &EchoRequest));
        frames.extend(echos.collect::<Vec<u8>>());
        holder.socket.write_all(&frames).expect("it is connected");
        let opened = opened(&mut other);
        assert!(has_message(&holder), "round {round}");
        for _ in 0..=ECHOS {
            assert_eq!(next(&mut holder).0.status, NtStatus::SUCCESS);
        }
        close(&mut holder, file_id);
        close(&mut other, opened);
    }
    drop((holder, other));
    server.stop();
}
