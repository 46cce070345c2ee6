//! The control protocol over real socket pairs.

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

use super::{ControlError, Priority, Received, SupervisorEnd, ToSupervisor, ToWorker, pair};

/// Sends raw bytes and descriptors as a supervisor of another making would.
fn send_raw(end: &SupervisorEnd, bytes: &[u8], descriptors: usize) {
    let sockets: Vec<UnixStream> =
        (0..descriptors).map(|_| UnixStream::pair().expect("descriptors are left").0).collect();
    let borrowed: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if descriptors > 0 {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)));
    }
    rustix::net::sendmsg(end, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::empty())
        .expect("the other end is open");
}

fn message(version: u8, kind: u16, reserved: u8) -> [u8; 24] {
    let [low, high] = kind.to_le_bytes();
    let head = [version, 0, low, high, reserved, 0, 0, 0, 7];
    std::array::from_fn(|index| head.get(index).copied().unwrap_or_default())
}

#[track_caller]
fn check_malformed(bytes: &[u8], descriptors: usize, want: &str) {
    let (supervisor, worker) = pair().expect("descriptors are left");
    send_raw(&supervisor, bytes, descriptors);
    match worker.receive() {
        Err(ControlError::Malformed(reason)) => assert_eq!(reason, want),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connection_arrives_with_its_socket() {
    let (supervisor, worker) = pair().expect("descriptors are left");
    let (mut near, far) = UnixStream::pair().expect("descriptors are left");
    supervisor.send(&ToWorker::Connection(far.into())).expect("there is room");
    let Ok(Received::Message(ToWorker::Connection(socket))) = worker.receive() else {
        panic!("not a connection");
    };
    UnixStream::from(socket).write_all(b"x").expect("the socket is open");
    let mut byte = [0];
    near.read_exact(&mut byte).expect("the socket is the one that was sent");
    assert_eq!(byte, *b"x");
}

#[test]
fn messages_keep_their_order_and_values() {
    let (supervisor, worker) = pair().expect("descriptors are left");
    supervisor.send(&ToWorker::Reload { generation: u64::MAX - 1 }).expect("there is room");
    supervisor.send(&ToWorker::WatchAgain).expect("there is room");
    supervisor.send(&ToWorker::LogonsFailed).expect("there is room");
    supervisor.send(&ToWorker::LogonsAgain).expect("there is room");
    for priority in [Priority::Idle, Priority::Normal] {
        supervisor.send(&ToWorker::Priority(priority)).expect("there is room");
    }
    supervisor.send(&ToWorker::Shutdown).expect("there is room");
    assert!(matches!(
        worker.receive(),
        Ok(Received::Message(ToWorker::Reload { generation })) if generation == u64::MAX - 1
    ));
    assert!(matches!(worker.receive(), Ok(Received::Message(ToWorker::WatchAgain))));
    assert!(matches!(worker.receive(), Ok(Received::Message(ToWorker::LogonsFailed))));
    assert!(matches!(worker.receive(), Ok(Received::Message(ToWorker::LogonsAgain))));
    for priority in [Priority::Idle, Priority::Normal] {
        assert!(matches!(
            worker.receive(),
            Ok(Received::Message(ToWorker::Priority(it))) if it == priority
        ));
    }
    assert!(matches!(worker.receive(), Ok(Received::Message(ToWorker::Shutdown))));
    assert!(matches!(worker.receive(), Ok(Received::Nothing)));
    worker.send(ToSupervisor::Ready { unique_id: 5 }).expect("there is room");
    assert!(matches!(
        supervisor.receive(),
        Ok(Received::Message(ToSupervisor::Ready { unique_id: 5 }))
    ));
    for address in ["192.0.2.1", "2001:db8::1"] {
        let address: IpAddr = address.parse().expect("it is one");
        worker.send(ToSupervisor::FurtherUser { address }).expect("there is room");
        assert!(matches!(
            supervisor.receive(),
            Ok(Received::Message(ToSupervisor::FurtherUser { address: it })) if it == address
        ));
    }
}

#[test]
fn the_end_of_the_other_process_is_seen_after_its_last_message() {
    let (supervisor, worker) = pair().expect("descriptors are left");
    worker.send(ToSupervisor::Ready { unique_id: 9 }).expect("there is room");
    drop(worker);
    assert!(matches!(supervisor.receive(), Ok(Received::Message(_))));
    assert!(matches!(supervisor.receive(), Ok(Received::Closed)));
}

/// The supervisor must never wait for a worker that hangs.
#[test]
fn a_worker_that_does_not_read_is_full_and_does_not_block() {
    let (supervisor, _worker) = pair().expect("descriptors are left");
    for _ in 0..100_000 {
        match supervisor.send(&ToWorker::Shutdown) {
            Ok(()) => {}
            Err(ControlError::Full) => return,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the queue has no bound");
}

#[test]
fn another_version_is_refused() {
    check_malformed(&message(1, 3, 0), 0, "its version is not ours");
}

#[test]
fn reserved_bytes_must_be_zero() {
    check_malformed(&message(2, 3, 1), 0, "reserved bytes are set");
}

#[test]
fn a_short_and_a_long_message_are_refused() {
    check_malformed(&message(2, 3, 0)[..23], 0, "it does not have 24 bytes");
    let mut long = message(2, 3, 0).to_vec();
    long.push(0);
    check_malformed(&long, 0, "it does not have 24 bytes");
}

#[test]
fn a_worker_does_not_take_its_own_kind() {
    check_malformed(&message(2, 0x101, 0), 0, "a kind that no supervisor sends");
}

#[test]
fn descriptors_come_with_connections_only_and_one_at_a_time() {
    check_malformed(&message(2, 1, 0), 0, "a connection without its socket");
    check_malformed(&message(2, 3, 0), 1, "a descriptor that nobody asked for");
    check_malformed(&message(2, 1, 0), 2, "more than one descriptor");
    check_malformed(&message(2, 1, 0), 5, "more descriptors than there is room for");
}
