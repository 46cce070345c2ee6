//! Anything in any order: three connections with several sessions and channels send requests of
//! all commands, alone and compounded, whole and damaged, while the store answers late, requests
//! are cancelled and connections break. The peers check each response; at the end nothing is left.
//!
//! `SEED=n` runs that seed alone. `FROM=n` begins there, `SEEDS=n` runs so many, and `STEPS=n` does
//! so many things in each.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use testkit::entropy::Random;

use crate::clients::Clients;

#[path = "random_requests/clients.rs"]
mod clients;
#[path = "random_requests/controls.rs"]
mod controls;
#[path = "random_requests/creates.rs"]
mod creates;
#[path = "random_requests/information.rs"]
mod information;
#[path = "random_requests/requests.rs"]
mod requests;
#[path = "random_requests/surroundings.rs"]
mod surroundings;

/// Number of seeds in a run of all tests.
const SEEDS: u64 = 80;

/// Number of things that happen in each.
const STEPS: u64 = 300;

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

fn run(seed: u64, steps: u64) {
    // Another sequence than those of the world and of its peers.
    let mut random = Random::new(seed.rotate_left(32));
    let world = surroundings::world(seed, &mut random);
    let mut clients = Clients::connect(world, random);
    for _ in 0..steps {
        clients.step();
    }
    clients.end();
}

/// Runs one seed; on failure, prints the command to repeat it.
#[expect(clippy::print_stderr, reason = "the seed is what somebody needs who repairs it")]
fn run_or_name_the_seed(seed: u64, steps: u64) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed, steps))) {
        let variables = format!("SEED={seed} STEPS={steps}");
        let test = "cargo test -p proto --test random_requests";
        eprintln!("seed {seed} fails; to see it again: {variables} {test}");
        resume_unwind(panic);
    }
}

#[test]
fn any_requests_of_several_clients_leave_nothing_behind_and_end() {
    let steps = number("STEPS").unwrap_or(STEPS);
    if let Some(seed) = number("SEED") {
        return run_or_name_the_seed(seed, steps);
    }
    let from = number("FROM").unwrap_or(1);
    for seed in from..from + number("SEEDS").unwrap_or(SEEDS) {
        run_or_name_the_seed(seed, steps);
    }
}
