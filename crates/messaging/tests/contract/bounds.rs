//! Nothing grows without a limit, and who is at a limit harms nobody else.

use std::time::Duration;

use messaging::SendError;
use messaging::transport::FRAME_BYTES_MAX;

use crate::bench::{Bench, frame};
use crate::each_transport;
use crate::memory;
use crate::part::Role;

#[test]
fn a_frame_that_is_too_large_is_refused() {
    each_transport(|stage| {
        let mut bench = Bench::new(stage);
        let peer = bench.echo();
        let len = FRAME_BYTES_MAX + 1;
        let refused = SendError::TooLarge { len, max: FRAME_BYTES_MAX };
        assert_eq!(bench.send(peer, &vec![0; len]), Err(refused));
        bench.check_echo(peer, b"the next one is not harmed");
    });
}

/// Frames to a peer that takes nothing wait up to a limit, then stay with the caller; no call
/// blocks, other peers notice nothing, and what was accepted arrives when the peer goes on.
#[test]
fn a_full_peer_blocks_nobody_and_loses_nothing() {
    each_transport(|stage| {
        let mut bench = Bench::new(stage);
        let (idle, busy) = (bench.idle(), bench.echo());
        let large = frame(100_000, 7);
        let mut accepted = 0_u64;
        // A call that waited for this peer would never return.
        let refused = loop {
            match bench.send(idle, &large) {
                Ok(()) => accepted += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused, SendError::Full);
        assert_eq!(bench.counters().refused, 1);
        assert!(bench.counters().queued_bytes <= 2 * FRAME_BYTES_MAX as u64);
        for seed in 0..100 {
            bench.check_echo(busy, &frame(1_000, seed));
        }
        bench.stage.start_role(idle, Role::Echo);
        for number in 0..accepted {
            let echo = bench.receive();
            assert!(echo.sender == idle && echo.bytes == large, "frame {number}");
        }
        assert_eq!(bench.counters().queued, 0);
        bench.check_echo(idle, b"and it goes on");
    });
}

/// Under full load: its queue is bounded, other peers are served, and after it resumes it receives
/// all accepted frames.
#[test]
fn a_stopped_peer_harms_nobody() {
    each_transport(|stage| {
        let mut bench = Bench::new(stage);
        let (stopped, busy) = (bench.echo(), bench.echo());
        bench.check_echo(stopped, b"it runs");
        bench.stage.stop(stopped);
        let load = frame(1_000, 1);
        let (mut accepted, mut refused, mut echoes) = (0_u64, 0, 0);
        while refused < 1_000 {
            match bench.send(stopped, &load) {
                Ok(()) => accepted += 1,
                Err(SendError::Full) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            if (accepted + refused) % 50 == 0 {
                bench.check_echo(busy, b"to another");
                echoes += 1;
            }
            assert!(bench.counters().queued_bytes <= 2 * FRAME_BYTES_MAX as u64);
        }
        assert!(echoes > 0 && bench.counters().refused == refused);
        bench.stage.resume(stopped);
        for number in 0..accepted {
            let echo = bench.receive();
            assert!(echo.sender == stopped && echo.bytes == load, "frame {number}");
        }
        let counters = bench.counters();
        assert_eq!((counters.queued, counters.lost, counters.dropped), (0, 0, 0));
        assert_eq!(counters.latency.count(), counters.received);
    });
}

/// Whatever its size: as much as the largest messages that may wait, and a little for each.
#[test]
fn messages_for_a_stopped_peer_stay_within_their_memory_limit() {
    const A_LITTLE: isize = 1 << 20;
    each_transport(|stage| {
        let mut bench = Bench::new(stage);
        let limit = (2 * FRAME_BYTES_MAX).cast_signed() + A_LITTLE;
        for size in [0, 11, 1_000, 10_000, 17_000, 100_000, FRAME_BYTES_MAX] {
            let stopped = bench.echo();
            bench.check_echo(stopped, b"it runs");
            bench.stage.stop(stopped);
            let load = frame(size, 1);
            let (before, refused) = (memory::bytes(), bench.counters().refused);
            while bench.counters().refused < refused + 10 {
                let sent = bench.send(stopped, &load);
                assert!(matches!(sent, Ok(()) | Err(SendError::Full)), "{sent:?}");
                let more = memory::bytes() - before;
                assert!(more <= limit, "{more} bytes for messages of {size}");
            }
            assert!(bench.counters().queued <= 4_096);
            bench.stage.kill(stopped);
            bench.transport.remove_dead(stopped);
            assert_eq!((bench.counters().queued, bench.counters().queued_bytes), (0, 0));
            let more = memory::bytes() - before;
            assert!(more <= A_LITTLE, "{more} bytes are left of messages of {size}");
        }
    });
}

/// Frames that waited too long are dropped and counted. Later ones arrive, and a frame that was
/// sent in part does not arrive.
#[test]
fn frames_to_a_stopped_peer_are_dropped_after_their_time() {
    each_transport(|stage| {
        let mut bench = Bench::new(stage);
        let idle = bench.idle();
        let large = frame(300_000, 7);
        for _ in 0..20 {
            assert_eq!(bench.send(idle, &large), Ok(()));
        }
        let waiting = bench.counters().queued;
        assert!(waiting >= 10, "{waiting}");
        let deadline = bench.transport.next_timeout().expect("something waits");
        assert!(deadline <= bench.now() + Duration::from_secs(60));
        let late = bench.now() + Duration::from_secs(61);
        bench.transport.poll_send(late);
        let counters = bench.counters();
        assert_eq!((counters.dropped, counters.queued, counters.queued_bytes), (waiting, 0, 0));

        bench.stage.start_role(idle, Role::Echo);
        // Refused at first: its queue is still full of what had left.
        assert_eq!(bench.send(idle, b"after"), Ok(()));
        let mut before = 0;
        while bench.receive().bytes != b"after" {
            before += 1;
        }
        assert_eq!(before, 20 - waiting);
    });
}
