//! Breaks of oplocks between clients of different workers.

mod harness;

use std::fs;
use std::io::Write;

use dtyp::{AccessMask, NtStatus};
use harness::connection::Connection;
use harness::file_client::{ALL, Client};
use harness::{Setup, give_to_server};
use wire::echo::EchoRequest;
use wire::header::HeaderFlags;
use wire::oplock_break::OplockBreak;
use wire::{Command, Encode, OplockLevel};

/// Opens that wait for an acknowledgment.
const ROUNDS: usize = 20;

/// Requests that are received together with an acknowledgment. Their responses leave together, so
/// the other client would long have its own before.
const ECHOS: usize = 200;

fn frame(connection: &mut Connection, command: Command, body: &impl Encode) -> Vec<u8> {
    connection.smb.push(command, 0, HeaderFlags::empty(), body);
    connection.smb.finish().expect("it is signed").to_vec()
}

/// True if a message has arrived that nobody has taken.
fn has_message(connection: &Connection) -> bool {
    connection.socket.set_nonblocking(true).expect("it is a socket");
    let peeked = connection.socket.peek(&mut [0]);
    connection.socket.set_nonblocking(false).expect("it is a socket");
    peeked.is_ok_and(|bytes| bytes > 0)
}

/// A client that sees both connections, as a test of the protocol does, may rely on the order.
#[test]
fn an_acknowledgment_is_answered_before_the_open_that_has_waited_for_it() {
    let server = Setup::new().share("data", "").start();
    let file = server.share_path("data").join("file");
    fs::write(&file, "content").expect("there is space");
    give_to_server(&file);
    let (mut holder, mut other) =
        (Client::new(&server, "data", 1), Client::new(&server, "data", 2));
    for round in 0..ROUNDS {
        let held = holder.open_with(OplockLevel::BATCH);
        let opening = other.begin_open(AccessMask::FILE_ALL, ALL, OplockLevel::BATCH);
        assert_eq!(holder.next().0.command, Command::OPLOCK_BREAK);
        let body = OplockBreak { oplock_level: OplockLevel::NONE, file_id: held };
        let mut frames = frame(&mut holder.0, Command::OPLOCK_BREAK, &body);
        let echos = (0..ECHOS).flat_map(|_| frame(&mut holder.0, Command::ECHO, &EchoRequest));
        frames.extend(echos.collect::<Vec<u8>>());
        holder.0.socket.write_all(&frames).expect("it is connected");
        let (opened, _) = other.opened(opening).expect("it may");
        assert!(has_message(&holder.0), "round {round}");
        for _ in 0..=ECHOS {
            assert_eq!(holder.next().0.status, NtStatus::SUCCESS);
        }
        holder.close(held);
        other.close(opened);
    }
    drop((holder, other));
    server.stop();
}
