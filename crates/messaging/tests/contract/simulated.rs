//! Failures that only a simulated world can cause.

use messaging::SendError;
use rustix::io::Errno;

use crate::SEEDS;
use crate::bench::frame;
use crate::part::{self, Role};
use crate::stage::{Stage, test_id};
use crate::world::World;

/// Whichever of its packets fails: sent parts are dropped, and later frames arrive.
#[test]
fn a_frame_that_fails_in_the_middle_is_not_delivered() {
    for (seed, packets) in SEEDS.flat_map(|seed| (0..8).map(move |packets| (seed, packets))) {
        let mut world = World::new(seed);
        let mut transport = world.open();
        let peer = world.start();
        world.start_role(peer, Role::Echo);
        let large = frame(30_000, 1);
        world.network().fail_after(test_id(), packets, Errno::PERM.raw_os_error());
        let mut sent = transport.send(world.now(), peer, &large, &[]);
        // At random there may have been no room; then it waits until it fails.
        while sent == Ok(()) && transport.counters().lost == 0 {
            world.wait(None, world.now());
            transport.poll_send(world.now());
        }
        let failed = Err(SendError::System(Errno::PERM.raw_os_error()));
        assert!(sent == Ok(()) || sent == failed, "{sent:?}");
        sent = transport.send(world.now(), peer, b"after", &[]);
        assert_eq!(sent, Ok(()));
        let echo = loop {
            if let Some(echo) = part::receive(world.now(), &mut *transport) {
                break echo;
            }
            world.wait(None, world.now());
        };
        assert_eq!(echo.bytes, b"after");
        let counters = world.counters(peer);
        assert_eq!((counters.received, counters.incomplete), (1, u64::from(packets > 0)));
        assert_eq!(transport.counters().queued, 0);
    }
}
