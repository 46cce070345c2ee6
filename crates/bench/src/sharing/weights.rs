//! Shares of two classes in a busy storage: by weight, with one of them idle, and with a minimum.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use super::{BLOCK_BYTES, OTHER, SLOW_STORAGE, Work, mebibytes};
use crate::load::fixture::STREAM;
use crate::server::Server;
use crate::statistics::Summary;

/// Requests that each client has in flight: more than the storage takes, so that it is always busy.
const DEPTH: usize = 64;

/// Time for the controller to measure the storage.
const SETTLE: Duration = Duration::from_secs(2);

/// Clients beside the one with a guaranteed minimum.
const CROWD: usize = 4;

/// Guaranteed minimum in operations per second: a quarter of the storage's capacity.
const MINIMUM: u32 = 400;

/// Results of all cases of weights.
#[derive(Debug, Serialize)]
pub(super) struct Weights {
    /// Rate of the class of weight 8 relative to that of weight 1, both busy.
    both: Summary,
    /// Rate of the class of weight 1 with the other idle, relative to the rate of both together.
    alone: Summary,
    /// Rate of a class relative to its minimum, beside four busy clients of weight 100.
    minimum: Summary,
    /// Rate of all clients in MiB/s; the storage's capacity is 100.
    all: Summary,
}

pub(super) fn measure(work: &mut Work<'_>) -> Result<Weights> {
    work.say("weights")?;
    let server = work.start(&format!(
        "{SLOW_STORAGE}[qos:heavy]\nmatch = file {OTHER}\nweight = 8\n\
         [qos:light]\nmatch = all\nweight = 1\n"
    ))?;
    let [both, alone, all] = work.repeat(|| {
        let [heavy, light] = rates(work, &server, [(OTHER, 1), (STREAM, 1)])?;
        let [_, alone] = rates(work, &server, [(OTHER, 0), (STREAM, 1)])?;
        Ok([heavy / light, alone / (heavy + light), heavy + light])
    })?;
    drop(server);
    work.say("a minimum")?;
    let server = work.start(&format!(
        "{SLOW_STORAGE}[qos:promised]\nmatch = file {OTHER}\nmin iops = {MINIMUM}\n\
         [qos:crowd]\nmatch = all\nweight = 100\n"
    ))?;
    let [minimum] = work.repeat(|| {
        let [promised, _] = rates(work, &server, [(OTHER, 1), (STREAM, CROWD)])?;
        Ok([promised / (f64::from(MINIMUM) * mebibytes(BLOCK_BYTES as u64))])
    })?;
    Ok(Weights { both, alone, minimum, all })
}

/// Returns the rates of the clients of each of two files in MiB/s, once the storage is measured.
fn rates(work: &Work<'_>, server: &Server, clients: [(&str, usize); 2]) -> Result<[f64; 2]> {
    let (is_over, had) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 2]);
    let mut streams = Vec::new();
    for ((name, count), had) in clients.into_iter().zip(&had) {
        for _ in 0..count {
            streams.push((work.stream(server, name, BLOCK_BYTES, DEPTH)?, had));
        }
    }
    thread::scope(|scope| {
        let is_over = &is_over;
        let threads: Vec<_> = streams
            .into_iter()
            .map(|(mut stream, had)| scope.spawn(move || stream.read_until(is_over, had)))
            .collect();
        let duration = work.options.duration();
        sleep(SETTLE.min(duration * 2));
        let read = || had.each_ref().map(|had| had.load(Ordering::Relaxed));
        let (start, before) = (Instant::now(), read());
        sleep(duration);
        let (seconds, after) = (start.elapsed().as_secs_f64(), read());
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().try_for_each(|it| it.join().expect("a client panicked"))?;
        Ok([0, 1].map(|at| mebibytes(after[at] - before[at]) / seconds))
    })
}

impl Weights {
    pub(super) fn to_markdown(&self) -> String {
        format!(
            "A storage of 100 MiB/s that two classes share, of which clients read all the time \
             ({} MiB/s together):\n\n\
             - weights 8 to 1, both busy: {} to 1\n\
             - the lighter one while the other is idle, of what both have: {}\n\
             - a class with a minimum of {MINIMUM} operations a second, a quarter of what the \
             storage does, beside {CROWD} clients of weight 100, of its minimum: {}\n",
            self.all.spread_of_parts(),
            self.both.spread_of_parts(),
            self.alone.spread_of_parts(),
            self.minimum.spread_of_parts()
        )
    }
}
