//! Tests with simulated servers: see `testkit::simulation`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use testkit::simulation::cuts::{self, Manner};

/// Number of simulations in a run of all tests.
const SEEDS: u64 = 200;

/// Simulates one seed; on failure, prints the command to repeat it.
#[expect(clippy::print_stderr, reason = "the seed is what somebody needs who repairs it")]
fn run(seed: u64) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| testkit::simulation::run(seed))) {
        eprintln!("seed {seed} fails; to see it again: make simulate SEED={seed}");
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn under_all_faults_clients_are_kept_apart_and_nothing_is_lost() {
    let seed = std::env::var("SEED").ok().map(|seed| seed.parse().expect("SEED is a number"));
    match seed {
        Some(seed) => run(seed),
        None => (0..SEEDS).for_each(run),
    }
}

#[test]
fn a_channel_may_be_cut_after_every_byte_and_everything_is_done_once() {
    let cuts = cuts::run(Manner { is_noticed: true, is_busy: false }, true);
    assert!(cuts > 2_000, "that was no conversation: {cuts}");
}

#[test]
fn a_channel_may_be_cut_while_the_store_works_and_without_a_word() {
    for (is_noticed, is_busy) in [(true, true), (false, false), (false, true)] {
        let cuts = cuts::run(Manner { is_noticed, is_busy }, false);
        assert!(cuts > 50, "that was no conversation: {cuts}");
    }
}
