//! Rate of one client by its highest number of credits, with and without interim responses.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::Result;
use serde::Serialize;

use super::{BLOCK_BYTES, Work, mebibytes};
use crate::load::fixture::STREAM;
use crate::load::{Done, Limit, Load as _};
use crate::server::Server;
use crate::statistics::Summary;
use crate::table::{Table, figure};

const CREDITS: [u32; 7] = [64, 96, 128, 256, 512, 1024, 8192];
const DELAYS_US: [u32; 3] = [0, 50, 200];

/// Credits reserved for requests other than READ.
const SPARE_CREDITS: usize = 8;

/// Rates of one client by its credits.
#[derive(Debug, Serialize)]
pub(super) struct Credits {
    rows: Vec<ByCredits>,
}

#[derive(Debug, Serialize)]
struct ByCredits {
    delay_us: u32,
    /// Value of `smb2 max credits` in the row.
    credits: u32,
    /// Bytes of a READ: the largest of which a few fit into the credits.
    block_bytes: usize,
    /// Number of READs in flight.
    depth: usize,
    /// Rate of the client, in MiB/s.
    rate: Summary,
}

pub(super) fn measure(work: &mut Work<'_>) -> Result<Credits> {
    let mut rows = Vec::new();
    for delay_us in DELAYS_US {
        for credits in CREDITS {
            work.say(&format!("{delay_us} us, {credits} credits"))?;
            let global =
                format!("choro:storage delay = {delay_us}\nsmb2 max credits = {credits}\n");
            let server = work.start(&global)?;
            let (block_bytes, depth) = shape(credits);
            let [rate] = work.repeat(|| Ok([read(work, &server, block_bytes, depth)?]))?;
            rows.push(ByCredits { delay_us, credits, block_bytes, depth, rate });
        }
    }
    Ok(Credits { rows })
}

/// Measures the rate of the client, in MiB/s.
fn read(work: &Work<'_>, server: &Server, block: usize, depth: usize) -> Result<f64> {
    let mut stream = work.stream(server, STREAM, block, depth)?;
    let start = Instant::now();
    let Done { bytes, .. } = stream.run(Limit::after(work.options.duration()))?;
    Ok(mebibytes(bytes) / start.elapsed().as_secs_f64())
}

/// The largest READ, up to 1 MiB, of which four fit into the credits, and how many fit.
fn shape(credits: u32) -> (usize, usize) {
    let credits = usize::try_from(credits).expect("a few thousand") - SPARE_CREDITS;
    let charge = [16, 8, 4, 2, 1].into_iter().find(|charge| credits / charge >= 4).unwrap_or(1);
    (charge * BLOCK_BYTES, (credits / charge).min(16))
}

impl Credits {
    pub(super) fn to_markdown(&self) -> String {
        let mut table = Table::new(["max credits", "READ", "in flight", "0 µs", "50 µs", "200 µs"]);
        for credits in CREDITS {
            let of = |delay_us: &u32| {
                self.rows.iter().find(|it| (it.credits, it.delay_us) == (credits, *delay_us))
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
        format!(
            "What one client reads by its credits and the delay of the storage, in MiB/s:\n\n{}",
            table.to_markdown()
        )
    }

    /// A line for each delay.
    pub(super) fn to_svg(&self) -> String {
        let top = self.rows.iter().map(|it| it.rate.median).fold(1.0, f64::max);
        let mut body = String::new();
        for (delay, colour) in DELAYS_US.into_iter().zip(["#2a6fbb", "#3a9a5b", "#d08a2e"]) {
            let points: Vec<String> = self
                .rows
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
            // Writing to a string cannot fail.
            let _ = writeln!(
                body,
                "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" \
                 stroke-width=\"2\"/>\
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
             <text x=\"10\" y=\"24\">MiB/s by smb2 max credits and delay of the storage; the top \
             is {top:.0}</text>\n{body}</svg>\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, CREDITS, SPARE_CREDITS, shape};

    #[test]
    fn reads_fit_into_the_credits() {
        assert_eq!(shape(64), (8 * BLOCK_BYTES, 7));
        assert_eq!(shape(8192), (16 * BLOCK_BYTES, 16));
        for credits in CREDITS {
            let (block, depth) = shape(credits);
            let used = block / BLOCK_BYTES * depth + SPARE_CREDITS;
            assert!(depth >= 4 && used <= usize::try_from(credits).expect("few"), "{credits}");
        }
    }
}
