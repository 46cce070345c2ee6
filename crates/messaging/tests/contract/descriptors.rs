//! Descriptors go with their frames.

use std::io::Read;
use std::os::fd::AsFd;

use messaging::{Content, MessageKind, SendError};

use crate::bench::{Bench, PATIENCE, frame};
use crate::each_transport;
use crate::part::Role;

/// They are the same open files, not numbers.
#[test]
fn descriptors_arrive_with_their_frame() {
    each_transport(|stage| {
        let mut bench = Bench::new(stage);
        let max = bench.transport.descriptors_max();
        let peer = bench.echo();
        for (count, len) in [(1, 5), (max, 5), (2, 200_000)] {
            let (mut reader, writer) = std::io::pipe().expect("a pipe");
            let descriptors = vec![writer.as_fd(); count.min(max)];
            let sent = frame(len, 3);
            bench.transport.send(bench.stage.now(), peer, &sent, &descriptors).expect("room");
            drop(writer);
            let echo = bench.receive();
            assert!(echo.bytes == sent);
            assert_eq!(echo.descriptors.len(), count.min(max));
            for descriptor in echo.descriptors {
                let written = rustix::io::write(&descriptor, b"x").expect("the pipe");
                assert_eq!(written, 1);
            }
            let mut text = String::new();
            reader.read_to_string(&mut text).expect("all writers are closed");
            assert_eq!(text.len(), count.min(max));
        }
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        let descriptors = vec![writer.as_fd(); max + 1];
        let sent = bench.transport.send(bench.stage.now(), peer, b"hello", &descriptors);
        let refused = match max {
            0 => SendError::NoDescriptors,
            _ => SendError::TooManyDescriptors { count: max + 1, max },
        };
        assert_eq!(sent, Err(refused));
    });
}

/// A frame that waits keeps its descriptors, though the caller has closed its own.
#[test]
fn descriptors_of_a_frame_that_waits_arrive_too() {
    each_transport(|stage| {
        let mut bench = Bench::new(stage);
        let idle = bench.idle();
        let mut before = 0;
        while bench.counters().queued < 1 {
            assert_eq!(bench.send(idle, b"filler"), Ok(()));
            before += 1;
        }
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let descriptors = vec![writer.as_fd(); bench.transport.descriptors_max().min(3)];
        bench.transport.send(bench.stage.now(), idle, b"with", &descriptors).expect("room");
        let want = descriptors.len();
        drop(descriptors);
        drop(writer);
        bench.stage.start_role(idle, Role::Echo);
        for _ in 0..before {
            assert_eq!(bench.receive().bytes, b"filler");
        }
        let echo = bench.receive();
        assert_eq!((&*echo.bytes, echo.descriptors.len()), (&b"with"[..], want));
        drop(echo);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("all writers are closed, also the peer's");
    });
}

#[test]
fn a_thousand_descriptors_arrive() {
    each_transport(|stage| {
        let mut bench = Bench::new(stage);
        if bench.transport.descriptors_max() == 0 {
            return;
        }
        let peer = bench.echo();
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let descriptors = vec![writer.as_fd(); 100];
        for _ in 0..10 {
            bench.transport.send(bench.stage.now(), peer, b"with", &descriptors).expect("room");
            let echo = bench.receive();
            assert_eq!(echo.descriptors.len(), 100);
            for descriptor in echo.descriptors {
                assert_eq!(rustix::io::write(&descriptor, b"x").expect("the pipe"), 1);
            }
        }
        drop(descriptors);
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("all writers are closed, also the peer's");
        assert_eq!(text.len(), 1_000);
    });
}

/// A transport without descriptors uses its side channel for them, and they arrive before later
/// messages.
#[test]
fn messages_carry_descriptors_over_every_transport() {
    each_transport(|mut stage| {
        let mut messaging = stage.messaging();
        let (me, now) = (messaging.server_id(), stage.now());
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let descriptors = [writer.as_fd()];
        let with = Content { kind: MessageKind::PING, data: b"with", descriptors: &descriptors };
        messaging.send(now, me, &with).expect("room");
        messaging.send(now, me, &Content::new(MessageKind::PONG, b"after")).expect("room");
        drop(writer);
        let mut messages = Vec::new();
        while messages.len() < 2 && stage.now() < now + PATIENCE {
            messages.extend(messaging.poll(stage.now()));
            if messages.len() < 2 {
                stage.wait(messaging.wake_source(), now + PATIENCE);
            }
        }
        assert_eq!((&*messages[0].data, &*messages[1].data), (&b"with"[..], &b"after"[..]));
        let descriptors = std::mem::take(&mut messages[0].descriptors);
        rustix::io::write(&descriptors[0], b"x").expect("the pipe");
        drop(descriptors);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("all writers are closed");
        assert_eq!(text, "x");
    });
}
