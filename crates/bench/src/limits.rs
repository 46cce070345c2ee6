//! Classes of service: how exactly a limit holds, and what it costs those whom it is not for.
//!
//! The first part puts the whole server under a limit that is set while it runs, and reads with one
//! and with eight clients. The second has one client read a fast and a slow share, or file, over one
//! connection and one session: what the fast one has beside the slow one, saturated with requests, is
//! compared with what it has alone.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use wire::FileId;

use crate::client::requests::{Purpose, open, push_read, verify_read};
use crate::client::{Client, Destination, Protection, Slot};
use crate::load::fixture::{self, STREAM};
use crate::load::stream::{Direction, Stream};
use crate::load::{Done, Limit, Load as _};
use crate::options::Options;
use crate::run::{Interrupt, fresh_directory};
use crate::server::{Kind, SHARE, Server};
use crate::statistics::Summary;
use crate::table::{Table, figure};

const BLOCK_BYTES: usize = 64 << 10;

/// Requests that each client has in flight, of each share that it reads.
const DEPTH: usize = 8;

/// The slow share and the slow file.
const SLOW: &str = "slow";

/// What the slow ones may have, in bytes a second.
const SLOW_LIMIT: u64 = 4 << 20;

/// All that was measured.
#[derive(Debug, Serialize)]
pub struct Limits {
    /// What one client reads without a limit, in MiB/s.
    pub unlimited: Summary,
    /// How exactly limits hold.
    pub limits: Vec<Held>,
    /// What they cost others.
    pub beside: Vec<Beside>,
}

/// A limit, and what was had.
#[derive(Debug, Serialize)]
pub struct Held {
    /// In MiB/s.
    pub limit: f64,
    /// Clients that read at once.
    pub clients: usize,
    /// What they had together, in parts of the limit.
    pub of_limit: Summary,
}

/// What is fast beside what is slow.
#[derive(Debug, Serialize)]
pub struct Beside {
    /// What is limited.
    pub what: &'static str,
    /// What the fast one has alone, in MiB/s.
    pub alone: Summary,
    /// What it has beside the slow one, in parts of that.
    pub of_alone: Summary,
    /// What the slow one had meanwhile, in parts of its limit.
    pub slow_of_limit: Summary,
}

/// Measures what the module says.
///
/// # Errors
///
/// When the server does not start, or refuses something.
pub fn run(options: &Options, interrupt: &Interrupt, progress: &mut dyn Write) -> Result<Limits> {
    let directory = fresh_directory(options)?;
    let choro = options.choro()?;
    let place = directory.path().join("Choro");
    let slow_share = place.join(SLOW);
    fs::create_dir_all(&slow_share)?;
    // The limits of `slow-…` are set for the part that needs them.
    let global = format!(
        "[qos:all]\nmatch = all\n\
         [qos:slow-share]\nmatch = share {SLOW}\nmax bandwidth = {SLOW_LIMIT}\n\
         [qos:slow-file]\nmatch = share {SHARE}, file {SLOW}\nmax bandwidth = {SLOW_LIMIT}\n\
         [{SLOW}]\npath = {}\nread only = no\n",
        slow_share.display()
    );
    let server = Server::start_with(Kind::Choro, &place, &choro, &global)?;
    for (folder, name) in [(server.share_path(), STREAM), (&*slow_share, STREAM)] {
        fixture::stream(folder, options.scale()).with_context(|| name.to_owned())?;
    }
    fs::copy(server.share_path().join(STREAM), server.share_path().join(SLOW))?;
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
    administrator.set("all", "none")?;
    let slow = Destination { share: SLOW.to_owned(), ..server.destination().clone() };
    let mut beside = Vec::new();
    for (what, share, name) in [
        ("a share, beside another of the same connection", Some(&slow), STREAM),
        ("a file, beside another of the same share and connection", None, SLOW),
    ] {
        writeln!(progress, "{what}")?;
        beside.push(work.beside(what, share, name)?);
    }
    Ok(Limits { unlimited, limits, beside })
}

/// Who changes limits while the server runs.
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
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "choro qos set: {said}");
        Ok(())
    }
}

struct Work<'a> {
    server: &'a Server,
    options: &'a Options,
    interrupt: &'a Interrupt,
}

/// A file that is read, by its tree connect.
#[derive(Clone, Copy)]
struct Source {
    tree_id: u32,
    file_id: FileId,
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

    /// What so many clients read together, in MiB/s.
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

    /// What one client reads of a fast file, alone and beside a slow one.
    fn beside(
        &self,
        what: &'static str,
        share: Option<&Destination>,
        name: &str,
    ) -> Result<Beside> {
        let (mut alone, mut of_alone, mut slow_of_limit) = (Vec::new(), Vec::new(), Vec::new());
        let mut client = self.server.connect(Protection::Plain)?;
        let fast = source(&mut client, STREAM)?;
        if let Some(share) = share {
            client.tree_connect(share)?;
        }
        let slow = source(&mut client, name)?;
        client.gather_credits(4 * DEPTH, BLOCK_BYTES)?;
        for _ in 0..self.options.repetitions() {
            self.interrupt.check()?;
            let [fast_alone, _] = self.mixed(&mut client, &[fast])?;
            let [beside, of_slow] = self.mixed(&mut client, &[fast, slow])?;
            alone.push(fast_alone);
            of_alone.push(beside / fast_alone);
            slow_of_limit.push(of_slow / mebibytes(SLOW_LIMIT));
        }
        let summary = |figures: Vec<f64>| Summary::of(figures).context("no figures");
        Ok(Beside {
            what,
            alone: summary(alone)?,
            of_alone: summary(of_alone)?,
            slow_of_limit: summary(slow_of_limit)?,
        })
    }

    /// Reads from all sources at once, with as many requests in flight of each, and says what each
    /// had until the time was over, in MiB/s.
    fn mixed(&self, client: &mut Client, sources: &[Source]) -> Result<[f64; 2]> {
        let mut bytes = [0_u64; 2];
        let mut offset = 0;
        let mut ask = |client: &mut Client, at: usize| {
            let Source { tree_id, file_id } = sources[at];
            client.use_tree_connect(tree_id);
            push_read(client, file_id, offset, BLOCK_BYTES);
            offset = (offset + BLOCK_BYTES as u64) % self.options.scale().stream_bytes;
            client.flush(Slot(at))
        };
        for at in 0..sources.len() {
            for _ in 0..DEPTH {
                ask(client, at)?;
            }
        }
        let (start, duration) = (Instant::now(), self.options.duration());
        let mut took = None;
        while client.in_flight() > 0 {
            let reply = client.receive()?;
            verify_read(client, &reply, BLOCK_BYTES)?;
            let elapsed: Duration = start.elapsed();
            if elapsed >= duration {
                took.get_or_insert(elapsed);
                continue;
            }
            bytes[reply.slot.0] += BLOCK_BYTES as u64;
            ask(client, reply.slot.0)?;
        }
        let seconds = took.unwrap_or(duration).as_secs_f64();
        Ok(bytes.map(|bytes| mebibytes(bytes) / seconds))
    }
}

fn source(client: &mut Client, name: &str) -> Result<Source> {
    let file_id = open(client, Purpose::Open, name)?;
    Ok(Source { tree_id: client.tree_connect_id(), file_id })
}

#[expect(clippy::cast_precision_loss, reason = "figures are for people")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

impl Limits {
    /// The tables.
    #[must_use]
    pub fn to_text(&self) -> String {
        let spread =
            |it: &Summary| format!("{} ({}–{})", figure(it.median), figure(it.min), figure(it.max));
        let parts = |it: &Summary| format!("{:.3} ({:.3}–{:.3})", it.median, it.min, it.max);
        let mut held = Table::new(["limit, MiB/s", "clients", "had, of the limit"]);
        for Held { limit, clients, of_limit } in &self.limits {
            held.push(vec![figure(*limit), clients.to_string(), parts(of_limit)]);
        }
        let titles =
            ["what is limited", "fast alone, MiB/s", "beside it, of that", "slow, of its limit"];
        let mut beside = Table::new(titles);
        for Beside { what, alone, of_alone, slow_of_limit } in &self.beside {
            let cells = [spread(alone), parts(of_alone), parts(slow_of_limit)];
            beside.push(std::iter::once((*what).to_owned()).chain(cells).collect());
        }
        format!(
            "One client without a limit: {} MiB/s.\n\n{}\n{}",
            spread(&self.unlimited),
            held.to_text(),
            beside.to_text()
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
