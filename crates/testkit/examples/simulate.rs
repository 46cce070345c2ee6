//! Simulates servers, one seed after the other, until a promise is broken or the program is
//! stopped.
//!
//! `SEED=n` simulates that one seed and prints its clients' requests; `FROM=n` begins there instead
//! of at a random seed.

use std::io::Write;
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Seeds between two lines of progress.
const REPORT_EVERY: u64 = 500;

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

/// Seed of the current simulation.
static SEED: AtomicU64 = AtomicU64::new(0);

/// Prints the seed on a panic: a release build does not unwind.
#[expect(clippy::print_stderr, reason = "beside the panic itself")]
fn name_the_seed_of_a_panic() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        usual(panic);
        let seed = SEED.load(Ordering::Relaxed);
        eprintln!("seed {seed} fails; to see it again: make simulate SEED={seed}");
    }));
}

fn main() {
    let mut out = std::io::stdout().lock();
    // Progress that cannot be printed is dropped.
    let mut say = |line: String| drop(writeln!(out, "{line}"));
    name_the_seed_of_a_panic();
    if let Some(seed) = number("SEED") {
        SEED.store(seed, Ordering::Relaxed);
        testkit::simulation::run_with_output(seed);
        return say(format!("seed {seed}: nothing breaks"));
    }
    let today = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let first = number("FROM").unwrap_or(today << 20);
    let began = Instant::now();
    for count in 0.. {
        let seed = first.wrapping_add(count);
        SEED.store(seed, Ordering::Relaxed);
        testkit::simulation::run(seed);
        if count % REPORT_EVERY == REPORT_EVERY - 1 {
            let seconds = began.elapsed().as_secs();
            say(format!("{} seeds in {seconds} s, the last was {seed}", count + 1));
        }
    }
}
