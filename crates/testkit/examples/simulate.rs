//! Simulated servers, one seed after the other, until something breaks or somebody stops it.
//!
//! `SEED=n` lives through that one seed; `FROM=n` begins there instead of at a random one.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Seeds between two lines of progress.
const REPORT_EVERY: u64 = 500;

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

fn is_good(seed: u64) -> bool {
    catch_unwind(AssertUnwindSafe(|| testkit::simulation::run(seed))).is_ok()
}

fn main() -> ExitCode {
    let mut out = std::io::stdout().lock();
    // What cannot be printed is not missed.
    let mut say = |line: String| drop(writeln!(out, "{line}"));
    if let Some(seed) = number("SEED") {
        let good = is_good(seed);
        say(format!("seed {seed}: {}", if good { "nothing breaks" } else { "fails" }));
        return if good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let today = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let first = number("FROM").unwrap_or(today << 20);
    let began = Instant::now();
    for count in 0.. {
        let seed = first.wrapping_add(count);
        if !is_good(seed) {
            say(format!("seed {seed} fails; to see it again: make simulate SEED={seed}"));
            return ExitCode::FAILURE;
        }
        if count % REPORT_EVERY == REPORT_EVERY - 1 {
            let seconds = began.elapsed().as_secs();
            say(format!("{} seeds in {seconds} s, the last was {seed}", count + 1));
        }
    }
    ExitCode::SUCCESS
}
