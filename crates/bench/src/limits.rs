//! Classes of service: how exactly a limit holds.
//!
//! The whole server gets a limit at run time, and one and eight clients read. [`crate::sharing`]
//! measures the cost of limits to requests outside of them.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::client::Protection;
use crate::load::fixture;
use crate::load::stream::{Direction, Stream};
use crate::load::{Done, Limit, Load as _};
use crate::options::Options;
use crate::run::{Interrupt, fresh_directory};
use crate::server::{Kind, Server};
use crate::statistics::Summary;
use crate::table::{Table, figure};

const BLOCK_BYTES: usize = 64 << 10;

/// Requests that each client has in flight.
const DEPTH: usize = 8;

/// Results of all limits that were measured.
#[derive(Debug, Serialize)]
pub struct Limits {
    /// Rate of one client without a limit, in MiB/s.
    pub unlimited: Summary,
    /// Rates under each of the limits.
    pub limits: Vec<Held>,
}

/// A limit, and the measured rate.
#[derive(Debug, Serialize)]
pub struct Held {
    /// Configured limit, in MiB/s.
    pub limit: f64,
    /// Clients that read at once.
    pub clients: usize,
    /// Rate of all clients together, relative to the limit.
    pub of_limit: Summary,
}

/// Measures one and eight clients under each limit.
///
/// # Errors
///
/// The server does not start, or refuses a request.
pub fn run(options: &Options, interrupt: &Interrupt, progress: &mut dyn Write) -> Result<Limits> {
    let directory = fresh_directory(options)?;
    let choro = options.choro()?;
    let place = directory.path().join("Choro");
    let server = Server::start_with(Kind::Choro, &place, &choro, "[qos:all]\nmatch = all\n")?;
    // Before several clients want it at once.
    fixture::stream(server.share_path(), options.scale())?;
    let administrator = Administrator { choro: &choro, config: &place.join("smb.conf") };
    let work = Work { server: &server, options, interrupt };
    let unlimited = work.repeat(|| work.read(1))?;
    let half = unlimited.median / 2.0;
    let mut limits = Vec::new();
    for limit in [1.0, 10.0, 100.0, half.floor()] {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few GiB/s")]
        let bytes = (limit * f64::from(1 << 20)) as u64;
        administrator.set("all", &bytes.to_string())?;
        for clients in [1, 8] {
            writeln!(progress, "{limit} MiB/s, {clients} clients")?;
            let of_limit = work.repeat(|| Ok(work.read(clients)? / limit))?;
            limits.push(Held { limit, clients, of_limit });
        }
    }
    Ok(Limits { unlimited, limits })
}

/// Changes limits while the server runs.
struct Administrator<'a> {
    choro: &'a Path,
    config: &'a Path,
}

impl Administrator<'_> {
    fn set(&self, class: &str, limit: &str) -> Result<()> {
        let output = Command::new(self.choro)
            .arg("--config")
            .arg(self.config)
            .args(["qos", "set", class, &format!("max-bandwidth={limit}")])
            .output()?;
        let printed = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "choro qos set: {printed}");
        Ok(())
    }
}

struct Work<'a> {
    server: &'a Server,
    options: &'a Options,
    interrupt: &'a Interrupt,
}

impl Work<'_> {
    fn repeat(&self, measure: impl Fn() -> Result<f64>) -> Result<Summary> {
        let figures = (0..self.options.repetitions()).map(|_| {
            self.interrupt.check()?;
            measure()
        });
        let figures = figures.collect::<Result<Vec<f64>>>()?;
        Summary::of(figures).context("nothing was measured")
    }

    /// Returns the rate of `clients` together, in MiB/s.
    fn read(&self, clients: usize) -> Result<f64> {
        let what = (Direction::Read, BLOCK_BYTES, DEPTH);
        let scale = self.options.scale();
        let mut streams = (0..clients)
            .map(|_| Stream::prepare(self.server, scale, Protection::Plain, what))
            .collect::<Result<Vec<Stream>>>()?;
        let (limit, start) = (Limit::after(self.options.duration()), Instant::now());
        let bytes = thread::scope(|scope| {
            let run = |stream: &mut Stream| stream.run(limit).map(|Done { bytes, .. }| bytes);
            let threads: Vec<_> =
                streams.iter_mut().map(|stream| scope.spawn(move || run(stream))).collect();
            let bytes = threads.into_iter().map(|it| it.join().expect("a client panicked"));
            bytes.sum::<Result<u64>>()
        })?;
        Ok(mebibytes(bytes) / start.elapsed().as_secs_f64())
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures are for people")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

impl Limits {
    /// Renders the tables as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut held = Table::new(["limit, MiB/s", "clients", "had, of the limit"]);
        for Held { limit, clients, of_limit } in &self.limits {
            held.push(vec![figure(*limit), clients.to_string(), of_limit.spread_of_parts()]);
        }
        format!(
            "One client without a limit: {} MiB/s.\n\n{}",
            self.unlimited.spread(),
            held.to_text()
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
