//! Tests for every transport: between real processes for those of this build, and in a simulated
//! world for behavior independent of the system.
//!
//! A new transport is tested by its entry in [`TransportKind::BUILT`], and some also by other
//! settings than the usual: [`settings()`].

#![expect(clippy::print_stdout, reason = "a peer talks to its test through standard output")]

mod bench;
mod memory;
mod part;
mod processes;
mod stage;
mod world;

mod bounds;
mod death;
mod delivery;
mod descriptors;
mod lock_directory;
mod simulated;

use std::time::Duration;

use messaging::TransportKind;
use messaging::transport::Settings;

use processes::Processes;
use stage::Stage;
use world::World;

/// Simulated worlds in which each test takes place.
const SEEDS: std::ops::Range<u64> = 0..4;

/// Returns settings for all transports of this build with their defaults; for a stream that closes
/// idle connections at once; and for a file that is not mapped.
fn settings() -> Vec<Settings> {
    let mut all: Vec<Settings> = TransportKind::BUILT.iter().copied().map(Settings::from).collect();
    for kind in TransportKind::BUILT {
        let usual = Settings::new(*kind);
        match kind {
            TransportKind::Stream => all.push(Settings {
                stream_connections: 1,
                stream_idle: Duration::from_millis(1),
                ..usual
            }),
            TransportKind::Tdb => all.push(Settings { use_mmap: false, ..usual }),
            TransportKind::Dgram => {}
        }
    }
    all
}

/// Runs a test for each of [`settings()`], by their place, at once: most of a test is waiting.
fn each_built(test: impl Fn(usize) + Sync) {
    let settings = settings();
    assert!(!settings.is_empty());
    std::thread::scope(|scope| {
        for (place, settings) in settings.iter().enumerate() {
            let test = &test;
            std::thread::Builder::new()
                .name(format!("{settings:?}"))
                .spawn_scoped(scope, move || test(place))
                .expect("a thread");
        }
    });
}

/// Runs a test among real processes over each of [`settings()`], and in simulated worlds.
fn each_transport(test: impl Fn(Box<dyn Stage>) + Sync) {
    each_built(|place| test(Box::new(Processes::new(place))));
    for seed in SEEDS {
        // A test that fails says in which world.
        let name = format!("simulated, seed {seed}");
        std::thread::scope(|scope| {
            let run = || test(Box::new(World::new(seed)));
            std::thread::Builder::new().name(name).spawn_scoped(scope, run).expect("a thread");
        });
    }
}
