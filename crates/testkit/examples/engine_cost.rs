//! The engine at work, for callgrind: what an operation takes, with tracing and without.
//!
//! `engine_cost read|open COUNT`: the difference of two counts is that of so many operations, with
//! those of the client that asks for them. `tools/engine_cost.sh` counts, and prints a table.

use testkit::{Create, Peer, World};
use wire::Dialect;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [operation, count] = &arguments[..] else {
        panic!("engine_cost read|open COUNT");
    };
    let count: usize = count.parse().expect("a number");
    let world = World::new();
    world.add_file("data", "file", &[7; 4_096]);
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    let file_id = peer.create(&Create::open("file")).file_id;
    let tracer = trace::Tracer::private().expect("there is memory");
    world.set_tracer(tracer);
    // Until it is known how fast the processor's clock is, as it is in a worker that waits.
    std::thread::sleep(std::time::Duration::from_millis(150));
    tracer.woke(0);
    for _ in 0..count {
        if operation == "read" {
            assert_eq!(peer.read(file_id, 0, 4_096).len(), 4_096);
        } else {
            let created = peer.create(&Create::open("file"));
            assert!(peer.close(created.file_id).header.status.is_success());
        }
    }
    if tracer.is_on() {
        let requests = trace::all(&tracer.figures().events.request_end).count;
        assert!(requests >= u64::try_from(count).expect("64 bits"), "{requests} were traced");
    }
}
