//! The engine at work, traced or not: for callgrind, to count what tracing costs it.
//!
//! `valgrind --tool=callgrind trace_cost read|open on|off COUNT`: the difference of two counts is that
//! of so many operations. Time is virtual, so looks at the clock are not in it.

use testkit::{Create, Peer, World};
use wire::Dialect;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [operation, traced, count] = &arguments[..] else {
        panic!("trace_cost read|open on|off COUNT");
    };
    let count: usize = count.parse().expect("a number");
    let world = World::new();
    world.add_file("data", "file", &[7; 4_096]);
    let mut peer = Peer::ready(&world, Dialect::SMB_3_1_1);
    let file_id = peer.create(&Create::open("file")).file_id;
    let tracer = (traced == "on").then(|| world.trace_with(false));
    for _ in 0..count {
        if operation == "read" {
            assert_eq!(peer.read(file_id, 0, 4_096).len(), 4_096);
        } else {
            let created = peer.create(&Create::open("file"));
            assert!(peer.close(created.file_id).header.status.is_success());
        }
    }
    if let Some(tracer) = tracer {
        let requests = trace::all(&tracer.figures().events.request_end).count;
        assert!(requests >= u64::try_from(count).expect("64 bits"), "{requests} were traced");
    }
}
