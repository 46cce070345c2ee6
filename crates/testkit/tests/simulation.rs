//! Simulated servers: see `testkit::simulation`.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Simulations in a run of all tests.
const SEEDS: u64 = 200;

/// Lives through one seed; if that fails, says how to see it again.
#[expect(clippy::print_stderr, reason = "the seed is what somebody needs who repairs it")]
fn run(seed: u64) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| testkit::simulation::run(seed))) {
        eprintln!("seed {seed} fails; to see it again: make simulate SEED={seed}");
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn whatever_happens_clients_are_kept_apart_and_nothing_is_lost() {
    let seed = std::env::var("SEED").ok().map(|seed| seed.parse().expect("SEED is a number"));
    match seed {
        Some(seed) => run(seed),
        None => (0..SEEDS).for_each(run),
    }
}
