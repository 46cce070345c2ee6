//! Death of a process, and its successor with the same pid.

use std::collections::HashMap;
use std::time::Duration;

use dtyp::ServerId;
use messaging::{Content, MessageKind, SendError};

use crate::bench::{Bench, PATIENCE, frame};
use crate::each_transport;
use crate::part::Role;
use crate::stage::Stage;

#[test]
fn a_peer_that_dies_is_noticed_and_its_successor_is_another() {
    each_transport(|stage| {
        let mut bench = Bench::new(stage);
        let peer = bench.echo();
        bench.check_echo(peer, b"hello");
        bench.stage.kill(peer);
        // Later than it would be held back for others to leave with it.
        let later = bench.now() + Duration::from_millis(10);
        let sent = bench.transport.send(later, peer, b"anyone?", &[]);
        assert_eq!(sent, Err(SendError::NoSuchProcess));
        let successor = bench.echo();
        bench.check_echo(successor, b"hello again");
        assert_eq!(bench.send(peer, b"anyone?"), Err(SendError::NoSuchProcess));
    });
}

#[test]
fn messages_for_a_peer_that_dies_are_lost_and_counted() {
    each_transport(|stage| {
        let mut bench = Bench::new(stage);
        let peer = bench.idle();
        while bench.counters().queued < 5 {
            assert_eq!(bench.send(peer, &frame(100_000, 1)), Ok(()));
        }
        bench.stage.kill(peer);
        // The wake source says so; nobody has to send again.
        let start = bench.now();
        while bench.counters().lost < 5 && bench.now() < start + PATIENCE {
            bench.wait();
            bench.transport.poll_send(bench.stage.now());
        }
        let counters = bench.counters();
        assert_eq!((counters.lost, counters.queued, counters.queued_bytes), (5, 0, 0));
        assert_eq!(bench.send(peer, b"anyone?"), Err(SendError::NoSuchProcess));
    });
}

/// The pid is right and the process lives, but it is not the one that is meant.
#[test]
fn a_frame_for_an_earlier_process_with_this_pid_is_not_delivered() {
    each_transport(|stage| {
        let mut bench = Bench::new(stage);
        let peer = bench.echo();
        let earlier = ServerId { unique_id: !peer.unique_id, ..peer };
        // Whether the sender can know it depends on the transport.
        let sent = bench.send(earlier, b"for the dead");
        assert!(matches!(sent, Ok(()) | Err(SendError::NoSuchProcess)), "{sent:?}");
        bench.check_echo(peer, b"for the living");
    });
}

#[test]
fn a_broadcast_reaches_each_that_lives_once_and_the_dead_are_buried() {
    each_transport(|mut stage| {
        let mut messaging = stage.messaging();
        let mut ids: Vec<ServerId> = (0..5).map(|_| stage.start()).collect();
        ids.iter().for_each(|peer| stage.start_role(*peer, Role::Echo));
        let dead = ids.pop().expect("five");
        stage.kill(dead);
        ids.sort();
        let has_socket = |stage: &dyn Stage, of: ServerId| {
            let msg = stage.lock_dir()?.join("msg");
            Some(msg.join(format!("{}-{:016x}", of.pid, of.unique_id)).exists())
        };
        assert_ne!(has_socket(&*stage, dead), Some(false));
        let content = Content::new(MessageKind::PING, b"to all");
        let sent = messaging.broadcast(stage.now(), &content).expect("readable");
        assert_eq!((&sent.receivers, sent.failed.len()), (&ids, 0));
        assert_ne!(has_socket(&*stage, dead), Some(true));
        assert!(ids.iter().all(|id| has_socket(&*stage, *id) != Some(false)));
        // To each a second message, so that a first that came twice would be seen.
        let content = Content::new(MessageKind::PONG, b"after");
        assert_eq!(messaging.send_all(stage.now(), &ids, &content), []);
        let mut echoes: HashMap<ServerId, Vec<MessageKind>> = HashMap::new();
        let end = stage.now() + PATIENCE;
        while echoes.values().map(Vec::len).sum::<usize>() < 8 && stage.now() < end {
            match messaging.poll(stage.now()) {
                Some(message) => echoes.entry(message.sender).or_default().push(message.kind),
                None => stage.wait(messaging.wake_source(), end),
            }
        }
        assert_eq!(echoes.len(), 4);
        assert!(echoes.values().all(|kinds| *kinds == [MessageKind::PING, MessageKind::PONG]));
        // One that lives is not to be had out of the way.
        messaging.remove_dead(ids[0]);
        assert_eq!(messaging.members().expect("readable").len(), 5);
    });
}
