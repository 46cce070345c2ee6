use std::os::unix::net::UnixDatagram;
use std::time::Instant;

use dtyp::ServerId;
use tempfile::TempDir;

use super::{DATA_BYTES_MAX, Messaging};
use crate::kind::MessageKind;
use crate::message::{Content, MESSAGE_VERSION};
use crate::transport::{self, SendError, TransportKind, UnknownTransport};

fn messaging() -> (TempDir, Messaging) {
    let dir = tempfile::tempdir().expect("a folder");
    let me = ServerId { pid: std::process::id(), unique_id: 77 };
    let messaging = Messaging::init(dir.path(), me, TransportKind::Dgram).expect("open");
    (dir, messaging)
}

#[test]
fn a_message_arrives_with_all_its_parts() {
    let (_dir, mut messaging) = messaging();
    let (me, now) = (messaging.server_id(), Instant::now());
    messaging.send(now, me, &Content::new(MessageKind::PING, b"hello")).expect("room");
    let message = messaging.poll(now).expect("a message");
    assert_eq!((message.version, message.kind), (MESSAGE_VERSION, MessageKind::PING));
    assert_eq!((message.sender, message.receiver), (me, me));
    assert_eq!(message.data, b"hello");
    assert!(message.descriptors.is_empty());
    assert!(messaging.poll(now).is_none());
    let counters = messaging.counters();
    assert_eq!((counters.sent, counters.received), (1, 1));
}

#[test]
fn frames_that_are_no_messages_are_counted_and_passed_over() {
    let (_dir, mut messaging) = messaging();
    let (me, now) = (messaging.server_id(), Instant::now());
    for frame in [&b"short"[..], &[2, 0, 1, 0, 9, 0, 0, 0], &[1, 0, 1, 0, 0, 0, 0, 0]] {
        messaging.transport.send(now, me, frame, &[]).expect("room");
    }
    messaging.send(now, me, &Content::new(MessageKind::PONG, b"")).expect("room");
    assert_eq!(messaging.poll(now).expect("a message").kind, MessageKind::PONG);
    let counters = messaging.counters();
    assert_eq!((counters.malformed, counters.version_unknown), (2, 1));
}

#[test]
fn send_all_returns_the_unreachable_processes() {
    let (dir, mut messaging) = messaging();
    let (me, now) = (messaging.server_id(), Instant::now());
    let gone = ServerId { pid: 999_999, unique_id: 1 };
    let name = "msg/999999-0000000000000001";
    drop(UnixDatagram::bind(dir.path().join(name)).expect("the name is free"));
    let content = Content::new(MessageKind::RELOAD_CONFIG, b"");
    let failed = messaging.send_all(now, &[me, gone, me], &content);
    assert_eq!(failed, [(gone, SendError::NoSuchProcess)]);
    assert!(messaging.poll(now).is_some() && messaging.poll(now).is_some());
    assert!(messaging.poll(now).is_none());
}

#[test]
fn one_byte_too_many_is_refused() {
    let (_dir, mut messaging) = messaging();
    let (me, now) = (messaging.server_id(), Instant::now());
    let data = vec![0; DATA_BYTES_MAX + 1];
    let (len, max) = (data.len(), DATA_BYTES_MAX);
    let sent = messaging.send(now, me, &Content::new(MessageKind::PING, &data));
    assert_eq!(sent, Err(SendError::TooLarge { len, max }));
    let largest = Content::new(MessageKind::PING, &data[1..]);
    messaging.send(now, me, &largest).expect("at the limit");
    let message = loop {
        if let Some(message) = messaging.poll(now) {
            break message;
        }
    };
    assert_eq!(message.data, data[1..]);
}

#[test]
fn a_transport_is_found_by_name_and_an_unknown_name_gives_the_known_ones() {
    for kind in TransportKind::BUILT {
        assert_eq!(TransportKind::from_name(kind.name()), Ok(*kind));
    }
    let error = TransportKind::from_name("pigeon").expect_err("not built");
    assert_eq!(error, UnknownTransport("pigeon".to_owned()));
    assert!(error.to_string().contains("dgram"), "{error}");
    let dir = tempfile::tempdir().expect("a folder");
    let me = ServerId { pid: std::process::id(), unique_id: 1 };
    transport::open(TransportKind::Dgram, dir.path(), me).expect("open");
}
