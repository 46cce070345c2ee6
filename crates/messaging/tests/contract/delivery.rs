//! Frames arrive whole, once, and in the order of their pair.

use std::collections::HashMap;
use std::time::Duration;

use dtyp::ServerId;
use messaging::SendError;
use messaging::transport::FRAME_BYTES_MAX;

use crate::bench::{Bench, frame};
use crate::each_transport;
use crate::part::{MESH_EACH, Role};

/// Each frame comes once, in order, though most had to wait for room and they differ in size.
#[test]
fn frames_of_a_pair_arrive_in_order_and_once() {
    each_transport(|stage| {
        let mut bench = Bench::new(stage);
        let peer = bench.echo();
        let numbered = |number: u32| {
            let len = if number.is_multiple_of(100) { 100_000 } else { 11 };
            [&number.to_le_bytes()[..], &frame(len, number.to_le_bytes()[0])].concat()
        };
        let (mut sent, mut received) = (0, 0);
        while received < 20_000 {
            while sent < 20_000 && sent < received + 500 {
                let full = bench.send(peer, &numbered(sent)) == Err(SendError::Full);
                if full {
                    break;
                }
                sent += 1;
            }
            let echo = bench.receive();
            assert!(echo.bytes == numbered(received), "frame {received}");
            received += 1;
        }
        let counters = bench.counters();
        assert_eq!((counters.sent, counters.received), (20_000, 20_000));
        assert_eq!((counters.queued, counters.queued_bytes, counters.incomplete), (0, 0, 0));
    });
}

/// All sizes, above all those around the boundaries of packets.
#[test]
fn frames_of_every_size_arrive_whole() {
    each_transport(|stage| {
        let mut bench = Bench::new(stage);
        let peer = bench.echo();
        let around = |size: usize| [size - 1, size, size + 1];
        let sizes = [4 << 10, 32 << 10, 64 << 10, 128 << 10, 1 << 20].into_iter().flat_map(around);
        for (seed, size) in [0, 1, 2].into_iter().chain(sizes).enumerate() {
            bench.check_echo(peer, &frame(size, seed.to_le_bytes()[0]));
        }
        bench.check_echo(peer, &frame(FRAME_BYTES_MAX, 99));
    });
}

/// Uses pauses of every length around the idle time of a connection.
#[test]
fn frames_of_a_pair_keep_their_order_over_pauses() {
    each_transport(|stage| {
        let mut bench = Bench::new(stage);
        let peer = bench.echo();
        let (mut sent, mut received) = (0_u32, 0_u32);
        for round in 0..400_u32 {
            for _ in 0..round % 7 + 1 {
                bench.send_when_there_is_room(peer, &sent.to_le_bytes());
                sent += 1;
            }
            let leave = if round.is_multiple_of(3) { sent } else { sent.saturating_sub(5) };
            while received < leave {
                assert_eq!(bench.receive().bytes, received.to_le_bytes());
                received += 1;
            }
            let pause = Duration::from_micros(u64::from(round * 37 % 2_500));
            bench.transport.poll_send(bench.now());
            let until = bench.now() + pause;
            bench.wait_until(until);
        }
        while received < sent {
            assert_eq!(bench.receive().bytes, received.to_le_bytes());
            received += 1;
        }
        let counters = bench.counters();
        assert_eq!((counters.lost, counters.dropped, counters.malformed), (0, 0, 0));
    });
}

/// Many senders to one receiver; each pair keeps its order.
#[test]
fn many_peers_send_to_one_at_once() {
    each_transport(|stage| {
        let mut bench = Bench::new(stage);
        let peers: Vec<ServerId> = (0..8).map(|_| bench.echo()).collect();
        const EACH: u32 = 500;
        for number in 0..EACH {
            for peer in &peers {
                let large = if number.is_multiple_of(50) { 70_000 } else { 4 };
                let bytes = [&number.to_le_bytes()[..], &frame(large, 1)].concat();
                bench.send_when_there_is_room(*peer, &bytes);
            }
        }
        let mut next = HashMap::new();
        for _ in 0..EACH * 8 {
            let echo = bench.receive();
            let number = u32::from_le_bytes(*echo.bytes.first_chunk().expect("a number"));
            let expected = next.entry(echo.sender).or_insert(0);
            assert_eq!(number, *expected, "{:?}", bench.counters());
            *expected += 1;
        }
        assert!(peers.iter().all(|peer| next[peer] == EACH));
    });
}

/// 64 processes, each of which sends to all others; the test only receives.
#[test]
fn many_peers_send_to_one_and_to_all() {
    const PEERS: usize = 64;
    each_transport(|stage| {
        let mut bench = Bench::new(stage);
        let peers: Vec<ServerId> = (0..PEERS).map(|_| bench.idle()).collect();
        assert_eq!(bench.transport.members().expect("readable").len(), PEERS + 1);
        peers.iter().for_each(|peer| bench.stage.start_role(*peer, Role::Mesh));
        let mut next: HashMap<ServerId, u32> = peers.iter().map(|peer| (*peer, 0)).collect();
        let mut done = 0;
        while done < PEERS {
            let frame = bench.receive();
            if frame.bytes == b"done" {
                done += 1;
                continue;
            }
            let expected = next.get_mut(&frame.sender).expect("a peer");
            assert_eq!(frame.bytes, expected.to_le_bytes(), "from {}", frame.sender);
            *expected += 1;
        }
        assert!(next.values().all(|next| *next == MESH_EACH));
    });
}
