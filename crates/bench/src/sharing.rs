//! What classes of service and credits do to a storage that is slow, and what rules cost.
//!
//! The storage is a RAM-backed share with an injected delay (`choro:storage delay`). First, what one
//! client reads by how many credits it may hold; then what two clients have by their weights; then
//! what a client with a latency target finds beside 16 noisy ones; last, what it costs to have rules
//! that are for somebody else.

use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use crate::client::Protection;
use crate::load::fixture::{self, STREAM};
use crate::load::stream::{Direction, Stream};
use crate::load::{Done, Limit, Load as _};
use crate::options::Options;
use crate::run::{Interrupt, fresh_directory};
use crate::server::{Kind, Server};
use crate::statistics::Summary;
use crate::table::{Table, figure};

const CREDITS: [u32; 7] = [64, 96, 128, 256, 512, 1024, 8192];
const DELAYS_US: [u32; 3] = [0, 50, 200];

/// Bytes for which a request takes one credit.
const CREDIT_BYTES: usize = 64 << 10;

/// Credits that are left for what is no READ.
const SPARE_CREDITS: usize = 8;

/// Another name of the file that is read, by which it is in another class.
const HEAVY: &str = "heavy";

/// Clients that saturate the storage.
const NOISY: usize = 16;

/// The storage of the second and the third part: so long for each operation, so many at once.
const SLOW_US: u32 = 5_000;
const SLOW_PARALLEL: u32 = 8;

/// All that was measured.
#[derive(Debug, Serialize)]
pub struct Sharing {
    /// By delay and credits.
    pub credits: Vec<ByCredits>,
    /// What a class of weight 8 has for each that one of weight 1 has, both busy.
    pub weights: Summary,
    /// The 99th percentile of a READ in milliseconds: alone, beside 16 noisy clients without a
    /// controller, and with one.
    pub p99_ms: [Summary; 3],
    /// What all had together with the controller, in parts of what they had without.
    pub throughput: Summary,
    /// What is read with 100 rules, in parts of what is read with none.
    pub rules: Summary,
}

/// What one client reads.
#[derive(Debug, Serialize)]
pub struct ByCredits {
    /// The delay in microseconds.
    pub delay_us: u32,
    /// `smb2 max credits`.
    pub credits: u32,
    /// Bytes of a READ: the largest of which a few fit into the credits.
    pub block_bytes: usize,
    /// READs in flight.
    pub depth: usize,
    /// In MiB/s.
    pub rate: Summary,
}

/// Measures what the module says.
///
/// # Errors
///
/// When a server does not start, or refuses something.
pub fn run(options: &Options, interrupt: &Interrupt, progress: &mut dyn Write) -> Result<Sharing> {
    let directory = fresh_directory(options)?;
    let choro = options.choro()?;
    let mut count = 0;
    let mut start = |global: &str| {
        count += 1;
        let place = directory.path().join(count.to_string());
        let server = Server::start_with(Kind::Choro, &place, &choro, global)?;
        // Before several clients want it at once.
        fixture::stream(server.share_path(), options.scale())?;
        fs::hard_link(server.share_path().join(STREAM), server.share_path().join(HEAVY))?;
        anyhow::Ok(server)
    };
    let work = Work { options, interrupt };
    let mut credits = Vec::new();
    for delay_us in DELAYS_US {
        for max in CREDITS {
            writeln!(progress, "{delay_us} us, {max} credits")?;
            let server =
                start(&format!("choro:storage delay = {delay_us}\nsmb2 max credits = {max}\n"))?;
            let (block_bytes, depth) = shape(max);
            let rate = work.repeat(|| work.read(&server, block_bytes, depth))?;
            credits.push(ByCredits { delay_us, credits: max, block_bytes, depth, rate });
        }
    }
    let slow =
        format!("choro:storage delay = {SLOW_US}\nchoro:storage parallel = {SLOW_PARALLEL}\n");
    writeln!(progress, "weights")?;
    let server = start(&format!(
        "{slow}[qos:heavy]\nmatch = file {HEAVY}\nweight = 8\n[qos:light]\nmatch = all\nweight = 1\n"
    ))?;
    let weights = work.repeat(|| work.weights(&server))?;
    drop(server);
    writeln!(progress, "a latency target")?;
    let target = format!("{slow}[qos:quick]\nmatch = file {HEAVY}\nlatency target = 10ms\n");
    let (free, kept) = (start(&slow)?, start(&target)?);
    let mut figures: [Vec<f64>; 4] = Default::default();
    for _ in 0..options.repetitions() {
        interrupt.check()?;
        let (alone, _) = work.beside(&kept, 0)?;
        let (without, free_rate) = work.beside(&free, NOISY)?;
        let (with, rate) = work.beside(&kept, NOISY)?;
        for (figures, figure) in figures.iter_mut().zip([alone, without, with, rate / free_rate]) {
            figures.push(figure);
        }
    }
    drop((free, kept));
    let summary =
        |figures: &Vec<f64>| Summary::of(figures.clone()).expect("one repetition at least");
    writeln!(progress, "rules")?;
    let mut rules = String::new();
    for at in 0..100 {
        writeln!(rules, "[qos:r{at}]\nmatch = user nobody{at}\nmax bandwidth = 1M")?;
    }
    let (none, hundred) = (start("")?, start(&rules)?);
    let rules = work.repeat(|| {
        let without = work.read(&none, CREDIT_BYTES, 16)?;
        Ok(work.read(&hundred, CREDIT_BYTES, 16)? / without)
    })?;
    Ok(Sharing {
        credits,
        weights,
        p99_ms: [summary(&figures[0]), summary(&figures[1]), summary(&figures[2])],
        throughput: summary(&figures[3]),
        rules,
    })
}

/// The largest READ, up to 1 MiB, of which four fit into the credits, and how many fit.
fn shape(credits: u32) -> (usize, usize) {
    let credits = usize::try_from(credits).expect("a few thousand") - SPARE_CREDITS;
    let charge = [16, 8, 4, 2, 1].into_iter().find(|charge| credits / charge >= 4).unwrap_or(1);
    (charge * CREDIT_BYTES, (credits / charge).min(16))
}

struct Work<'a> {
    options: &'a Options,
    interrupt: &'a Interrupt,
}

impl Work<'_> {
    fn repeat(&self, mut measure: impl FnMut() -> Result<f64>) -> Result<Summary> {
        let mut figures = Vec::new();
        for _ in 0..self.options.repetitions() {
            self.interrupt.check()?;
            figures.push(measure()?);
        }
        Ok(Summary::of(figures).expect("one repetition at least"))
    }

    fn stream(&self, server: &Server, name: &str, block: usize, depth: usize) -> Result<Stream> {
        let what = (Direction::Read, block, depth);
        Stream::prepare_file(server, name, self.options.scale(), Protection::Plain, what)
    }

    /// In MiB/s.
    fn read(&self, server: &Server, block: usize, depth: usize) -> Result<f64> {
        let mut stream = self.stream(server, STREAM, block, depth)?;
        let start = Instant::now();
        let Done { bytes, .. } = stream.run(Limit::after(self.options.duration()))?;
        Ok(mebibytes(bytes) / start.elapsed().as_secs_f64())
    }

    /// What the one of weight 8 has for each of the other, once the storage is known.
    fn weights(&self, server: &Server) -> Result<f64> {
        let run = |name: &str| -> Result<u64> {
            let mut stream = self.stream(server, name, CREDIT_BYTES, 32)?;
            stream.run(Limit::after(self.options.duration()))?;
            let Done { bytes, .. } = stream.run(Limit::after(self.options.duration()))?;
            // The other one measures to the end beside somebody.
            stream.run(Limit::after(self.options.duration() / 4))?;
            Ok(bytes)
        };
        thread::scope(|scope| {
            let heavy = scope.spawn(|| run(HEAVY));
            let light = run(STREAM)?;
            let heavy = heavy.join().expect("a client panicked")?;
            Ok(mebibytes(heavy) / mebibytes(light))
        })
    }

    /// The 99th percentile of the READs of one client beside so many noisy ones in milliseconds, and
    /// what all read together in MiB/s.
    fn beside(&self, server: &Server, noisy: usize) -> Result<(f64, f64)> {
        let (is_over, read) = (AtomicBool::new(false), AtomicU64::new(0));
        let duration = self.options.duration();
        let noise = || -> Result<()> {
            let mut stream = self.stream(server, STREAM, CREDIT_BYTES, 8)?;
            while !is_over.load(Ordering::Relaxed) {
                let Done { bytes, .. } = stream.run(Limit::Operations(64))?;
                read.fetch_add(bytes, Ordering::Relaxed);
            }
            Ok(())
        };
        let quick = || -> Result<(f64, f64)> {
            let mut stream = self.stream(server, HEAVY, CREDIT_BYTES, 1)?;
            // Until the storage is known.
            stream.run(Limit::after(duration))?;
            let (start, before) = (Instant::now(), read.load(Ordering::Relaxed));
            let (mut took, mut own) = (Vec::new(), 0);
            while start.elapsed() < duration {
                let begin = Instant::now();
                own += stream.run(Limit::Operations(1))?.bytes;
                took.push(begin.elapsed());
            }
            let all = read.load(Ordering::Relaxed) - before + own;
            took.sort_unstable();
            let p99: Duration = took[took.len() * 99 / 100];
            let rate = mebibytes(all) / start.elapsed().as_secs_f64();
            Ok((p99.as_secs_f64() * 1_000.0, rate))
        };
        thread::scope(|scope| {
            let others: Vec<_> = (0..noisy).map(|_| scope.spawn(noise)).collect();
            let measured = quick();
            is_over.store(true, Ordering::Relaxed);
            for other in others {
                other.join().expect("a client panicked")?;
            }
            measured
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures are for people")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

impl Sharing {
    /// In Markdown.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut table = Table::new(["max credits", "READ", "in flight", "0 µs", "50 µs", "200 µs"]);
        for credits in CREDITS {
            let of = |delay_us: &u32| {
                self.credits.iter().find(|it| (it.credits, it.delay_us) == (credits, *delay_us))
            };
            let Some(first) = of(&DELAYS_US[0]) else { continue };
            let mut row = vec![
                credits.to_string(),
                format!("{} KiB", first.block_bytes >> 10),
                first.depth.to_string(),
            ];
            row.extend(DELAYS_US.iter().filter_map(of).map(|it| figure(it.rate.median)));
            table.push(row);
        }
        let parts = |it: &Summary| format!("{:.3} ({:.3}–{:.3})", it.median, it.min, it.max);
        let [alone, without, with] = &self.p99_ms;
        format!(
            "What one client reads by its credits and the delay of the storage, in MiB/s:\n\n{}\n\
             Weights 8 to 1, both busy: {} to 1.\n\n\
             The 99th percentile of a READ: {} ms alone, beside {NOISY} noisy clients {} ms without \
             a controller and {} ms with one, which has {} of the throughput.\n\n\
             Read with 100 rules for others, of what is read with none: {}.\n",
            table.to_markdown(),
            parts(&self.weights),
            parts(alone),
            parts(without),
            parts(with),
            parts(&self.throughput),
            parts(&self.rules),
        )
    }

    /// The first table as a chart: throughput over credits, a line for each delay, in SVG.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let top = self.credits.iter().map(|it| it.rate.median).fold(1.0, f64::max);
        let mut body = String::new();
        for (delay, colour) in DELAYS_US.into_iter().zip(["#2a6fbb", "#3a9a5b", "#d08a2e"]) {
            let points: Vec<String> = self
                .credits
                .iter()
                .filter(|it| it.delay_us == delay)
                .map(|it| {
                    let x = 60.0 + 100.0 * (f64::from(it.credits) / 64.0).log2();
                    format!("{x:.1},{:.1}", 330.0 - 280.0 * it.rate.median / top)
                })
                .collect();
            let Some((_, y)) = points.last().and_then(|point| point.split_once(',')) else {
                continue;
            };
            let points = points.join(" ");
            let _ = writeln!(
                body,
                "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
                 <text x=\"768\" y=\"{y}\">{delay} µs</text>"
            );
        }
        for credits in CREDITS {
            let x = 60.0 + 100.0 * (f64::from(credits) / 64.0).log2();
            let _ = writeln!(
                body,
                "<text x=\"{x:.0}\" y=\"350\" text-anchor=\"middle\">{credits}</text>"
            );
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"840\" height=\"370\">\
             <style>text {{ font: 13px sans-serif }}</style>\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\
             <text x=\"10\" y=\"24\">MiB/s by smb2 max credits and delay of the storage; the top is \
             {top:.0}</text>\n{body}</svg>\n"
        )
    }

    /// As JSON.
    ///
    /// # Errors
    ///
    /// Never in fact: everything in it can be said in JSON.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::{CREDIT_BYTES, CREDITS, SPARE_CREDITS, shape};

    #[test]
    fn reads_fit_into_the_credits() {
        assert_eq!(shape(64), (8 * CREDIT_BYTES, 7));
        assert_eq!(shape(8192), (16 * CREDIT_BYTES, 16));
        for credits in CREDITS {
            let (block, depth) = shape(credits);
            let used = block / CREDIT_BYTES * depth + SPARE_CREDITS;
            assert!(depth >= 4 && used <= usize::try_from(credits).expect("few"), "{credits}");
        }
    }
}
