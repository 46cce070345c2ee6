//! Latency of a client with a latency target beside busy ones.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use super::{BLOCK_BYTES, OTHER, SLOW_STORAGE, Work, mebibytes};
use crate::load::fixture::STREAM;
use crate::load::{Limit, Load as _};
use crate::server::Server;
use crate::statistics::Summary;

/// Clients that saturate the storage.
const NOISY: usize = 16;

/// Requests that each of them has in flight.
const DEPTH: usize = 8;

/// Time for the controller to measure the storage.
const SETTLE: Duration = Duration::from_secs(2);

/// Results. Times are the 99th percentile of a READ in milliseconds.
#[derive(Debug, Serialize)]
pub(super) struct Latency {
    /// Time without any other client.
    alone: Summary,
    /// Time beside the busy clients, without a class.
    without: Summary,
    /// Time beside the busy clients, with a latency target.
    with: Summary,
    /// Time `with`, relative to `alone`.
    of_alone: Summary,
    /// Rate of all clients together, relative to the one without a class.
    throughput: Summary,
}

pub(super) fn measure(work: &mut Work<'_>) -> Result<Latency> {
    work.say("a latency target")?;
    let target =
        format!("{SLOW_STORAGE}[qos:quick]\nmatch = file {OTHER}\nlatency target = 10ms\n");
    let (free, kept) = (work.start(SLOW_STORAGE)?, work.start(&target)?);
    let [alone, without, with, of_alone, throughput] = work.repeat(|| {
        let (alone, _) = beside(work, &kept, 0)?;
        let (without, free_rate) = beside(work, &free, NOISY)?;
        let (with, rate) = beside(work, &kept, NOISY)?;
        Ok([alone, without, with, with / alone, rate / free_rate])
    })?;
    Ok(Latency { alone, without, with, of_alone, throughput })
}

/// Returns the 99th percentile of the READs of one client beside `noisy` busy ones in milliseconds,
/// and the rate of all together in MiB/s.
fn beside(work: &Work<'_>, server: &Server, noisy: usize) -> Result<(f64, f64)> {
    let (is_over, read) = (AtomicBool::new(false), AtomicU64::new(0));
    let streams = (0..noisy).map(|_| work.stream(server, STREAM, BLOCK_BYTES, DEPTH));
    let streams = streams.collect::<Result<Vec<_>>>()?;
    let duration = work.options.duration();
    let quick = || -> Result<(f64, f64)> {
        let mut stream = work.stream(server, OTHER, BLOCK_BYTES, 1)?;
        stream.run(Limit::after(SETTLE.min(duration * 2)))?;
        let (start, before) = (Instant::now(), read.load(Ordering::Relaxed));
        let (mut took, mut own) = (Vec::new(), 0);
        while start.elapsed() < duration {
            let begin = Instant::now();
            own += stream.run(Limit::Operations(1))?.bytes;
            took.push(begin.elapsed());
        }
        let seconds = start.elapsed().as_secs_f64();
        let all = read.load(Ordering::Relaxed) - before + own;
        took.sort_unstable();
        let p99: Duration = took[took.len() * 99 / 100];
        Ok((p99.as_secs_f64() * 1_000.0, mebibytes(all) / seconds))
    };
    thread::scope(|scope| {
        let (is_over, read) = (&is_over, &read);
        let others: Vec<_> = streams
            .into_iter()
            .map(|mut stream| scope.spawn(move || stream.read_until(is_over, read)))
            .collect();
        let measured = quick();
        is_over.store(true, Ordering::Relaxed);
        others.into_iter().try_for_each(|it| it.join().expect("a client panicked"))?;
        measured
    })
}

impl Latency {
    pub(super) fn to_markdown(&self) -> String {
        format!(
            "The 99th percentile of a READ of 64 KiB that a client with a latency target of 10 ms \
             waits for, in milliseconds; the storage takes 5 ms and does eight at once:\n\n\
             - alone: {}\n\
             - beside {NOISY} clients with {DEPTH} READs in flight each, without a class: {}\n\
             - the same with the class: {}, of what it is alone: {}\n\
             - what all read together with the class, of that without: {}\n",
            self.alone.spread_of_parts(),
            self.without.spread_of_parts(),
            self.with.spread_of_parts(),
            self.of_alone.spread_of_parts(),
            self.throughput.spread_of_parts()
        )
    }
}
