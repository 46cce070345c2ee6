//! Effect of credits, classes and the controller on slow storage, and the cost of rules.
//!
//! The storage is a RAM-backed share with an injected delay (`choro:storage delay`). Each part is a
//! separate module, and can be measured alone by its name.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use crate::client::Protection;
use crate::load::fixture::{self, STREAM};
use crate::load::stream::{Direction, Stream};
use crate::options::Options;
use crate::run::{Interrupt, fresh_directory};
use crate::server::{Kind, Server};
use crate::statistics::Summary;

mod beside;
mod cost;
mod credits;
mod latency;
mod weights;

/// Bytes for which a request takes one credit, and of a READ where nothing else is said.
const BLOCK_BYTES: usize = 64 << 10;

/// Second name of the file, in another class.
const OTHER: &str = "other";

/// Settings of the slow storage: delay of each operation, and number of operations at once.
const SLOW_STORAGE: &str = "choro:storage delay = 5000\nchoro:storage parallel = 8\n";

/// All that was measured, by part.
#[derive(Debug, Default, Serialize)]
pub struct Sharing {
    credits: Option<credits::Credits>,
    beside: Option<beside::Besides>,
    weights: Option<weights::Weights>,
    latency: Option<latency::Latency>,
    cost: Option<cost::Costs>,
}

/// Measures the parts that the options name, or all.
///
/// # Errors
///
/// A server does not start, or refuses a request.
pub fn run(options: &Options, interrupt: &Interrupt, progress: &mut dyn Write) -> Result<Sharing> {
    let directory = fresh_directory(options)?;
    let (path, choro) = (directory.path().to_owned(), options.choro()?);
    let mut work = Work { options, interrupt, progress, directory: path, choro, servers: 0 };
    let is_wanted = |part: &str| {
        options.rows.is_empty() || options.rows.iter().any(|pattern| part.contains(&**pattern))
    };
    Ok(Sharing {
        credits: is_wanted("credits").then(|| credits::measure(&mut work)).transpose()?,
        beside: is_wanted("beside").then(|| beside::measure(&mut work)).transpose()?,
        weights: is_wanted("weights").then(|| weights::measure(&mut work)).transpose()?,
        latency: is_wanted("latency").then(|| latency::measure(&mut work)).transpose()?,
        cost: is_wanted("cost").then(|| cost::measure(&mut work)).transpose()?,
    })
}

impl Sharing {
    /// Renders the results in Markdown.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let parts = [
            self.credits.as_ref().map(credits::Credits::to_markdown),
            self.beside.as_ref().map(beside::Besides::to_markdown),
            self.weights.as_ref().map(weights::Weights::to_markdown),
            self.latency.as_ref().map(latency::Latency::to_markdown),
            self.cost.as_ref().map(cost::Costs::to_markdown),
        ];
        parts.into_iter().flatten().collect::<Vec<String>>().join("\n")
    }

    /// Throughput over credits as a chart in SVG, if it was measured.
    #[must_use]
    pub fn to_svg(&self) -> Option<String> {
        self.credits.as_ref().map(credits::Credits::to_svg)
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

/// Context of the measurements of a part.
struct Work<'a> {
    options: &'a Options,
    interrupt: &'a Interrupt,
    progress: &'a mut dyn Write,
    directory: PathBuf,
    choro: PathBuf,
    servers: u32,
}

impl Work<'_> {
    fn say(&mut self, what: &str) -> Result<()> {
        self.interrupt.check()?;
        Ok(writeln!(self.progress, "{what}")?)
    }

    /// Returns the directory of the next server.
    fn place(&self) -> PathBuf {
        self.directory.join((self.servers + 1).to_string())
    }

    /// Starts a server whose share has the file to read, with two names.
    fn start(&mut self, global: &str) -> Result<Server> {
        let place = self.place();
        self.servers += 1;
        let server = Server::start_with(Kind::Choro, &place, &self.choro, global)?;
        // Before several clients want it at once.
        fixture::stream(server.share_path(), self.options.scale())?;
        fs::hard_link(server.share_path().join(STREAM), server.share_path().join(OTHER))?;
        Ok(server)
    }

    /// Opens one of the two names, for reading with `depth` requests in flight.
    fn stream(&self, server: &Server, name: &str, block: usize, depth: usize) -> Result<Stream> {
        let what = (Direction::Read, block, depth);
        Stream::prepare_file(server, name, self.options.scale(), Protection::Plain, what)
    }

    /// Repeats a measurement of `N` figures as often as the options say.
    fn repeat<const N: usize>(
        &self,
        mut measure: impl FnMut() -> Result<[f64; N]>,
    ) -> Result<[Summary; N]> {
        let mut figures = [(); N].map(|()| Vec::new());
        for _ in 0..self.options.repetitions() {
            self.interrupt.check()?;
            for (figures, figure) in figures.iter_mut().zip(measure()?) {
                figures.push(figure);
            }
        }
        Ok(figures.map(|it| Summary::of(it).expect("one repetition at least")))
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures are for people")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
