//! Work in one share while the storage of another one hangs, over the same connection.
//!
//! The other share is a FUSE file system of the benchmark, which holds one kind of operation shut.
//! For each kind the client first makes small files in a share on tmpfs and sends ECHOs, then does
//! the same with one request hanging, then without it again: so changes of the machine between
//! kinds do not matter.

mod cases;
mod work;

use std::fs;
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{getegid, geteuid};
use serde::Serialize;
use slow_fs::{Behavior, SlowFs};
use wire::Command;
use wire::write::WriteRequest;

use crate::client::requests::{Purpose, close, open};
use crate::client::{Client, Destination, Protection, Slot};
use crate::options::Options;
use crate::run::{Interrupt, fresh_directory};
use crate::server::{Kind, Server};
use crate::statistics::Summary;
use crate::table::Table;
use cases::{CASES, Case, FILE, FOLDER};
use work::Work;

pub use work::Echoes;

/// Share on the file system that hangs.
const SLOW_SHARE: &str = "slow";

/// Wait for the request to hang, and for its response afterwards.
const PATIENCE: Duration = Duration::from_secs(30);

/// Slot of the request that hangs.
const HANGING: Slot = Slot(usize::MAX);

/// Results by kind of operation.
#[derive(Debug, Serialize)]
pub struct HangingStorage {
    /// Duration of each hang, in seconds.
    pub seconds: f64,
    /// A row for each kind of operation.
    pub kinds: Vec<Kept>,
}

/// Work beside a kind of operation that hangs.
#[derive(Debug, Serialize)]
pub struct Kept {
    /// Name of the kind of operation.
    pub operation: String,
    /// Files a second while nothing hangs, in slices of a second.
    pub alone: Summary,
    /// Files a second while an operation hangs, in slices of a second.
    pub beside: Summary,
    /// Rate while an operation hangs, relative to the rate before and after.
    pub ratio: f64,
    /// Response times of ECHO while nothing hangs.
    pub echo_alone: Echoes,
    /// Response times of ECHO while an operation hangs.
    pub echo_beside: Echoes,
}

/// Measures all kinds of operations.
///
/// # Errors
///
/// There is no FUSE, the server refuses a request, or a request does not hang.
pub fn run(
    options: &Options,
    interrupt: &Interrupt,
    progress: &mut dyn Write,
) -> Result<HangingStorage> {
    let directory = fresh_directory(options)?;
    let folder = directory.path().join(SLOW_SHARE);
    fs::create_dir(&folder)?;
    let slow_fs = SlowFs::mount(&folder, geteuid().as_raw(), getegid().as_raw());
    let slow_fs = slow_fs.context("mounting the file system that hangs")?;
    let global = format!(
        "[{SLOW_SHARE}]\npath = {}\nread only = no\nea support = yes\n\
         store dos attributes = yes\n",
        folder.display()
    );
    let place = directory.path().join("Choro");
    let server = Server::start_with(Kind::Choro, &place, &options.choro()?, &global)?;
    let mut client = server.connect(Protection::Plain)?;
    let fast = client.tree_connect_id();
    let slow = Destination { share: SLOW_SHARE.to_owned(), ..server.destination().clone() };
    client.tree_connect(&slow)?;
    let slow = client.tree_connect_id();
    for (purpose, name) in [(Purpose::NewFile, FILE), (Purpose::NewDirectory, FOLDER)] {
        let open = open(&mut client, purpose, name)?;
        if purpose == Purpose::NewFile {
            client.call(Command::WRITE, 9, &WriteRequest::new(open, 0, b"some data"))?;
        }
        close(&mut client, open)?;
    }
    client.use_tree_connect(fast);
    let mut work = Work::prepare(&mut client)?;
    let duration = options.duration();
    let mut kinds = Vec::new();
    for case in CASES {
        interrupt.check()?;
        if !options.rows.is_empty()
            && !options.rows.iter().any(|pattern| case.name().contains(&**pattern))
        {
            continue;
        }
        writeln!(progress, "{}", case.name())?;
        let mut beside = Beside { client: &mut client, slow_fs: &slow_fs, fast, slow };
        kinds.push(beside.measure(case, &mut work, duration)?);
    }
    // Before the server, which would wait for it.
    slow_fs.gate().open();
    Ok(HangingStorage { seconds: duration.as_secs_f64(), kinds })
}

/// A client of both shares.
struct Beside<'a> {
    client: &'a mut Client,
    slow_fs: &'a SlowFs,
    fast: u32,
    slow: u32,
}

impl Beside<'_> {
    /// Works with and without a request that hangs.
    fn measure(&mut self, case: &Case, work: &mut Work, duration: Duration) -> Result<Kept> {
        let mut alone = work.run(self.client, duration / 2)?;
        self.client.use_tree_connect(self.slow);
        let file = case.open(self.client)?;
        self.slow_fs.gate().set(case.operation, Behavior::Hang);
        (case.push)(self.client, file.unwrap_or_default());
        self.client.flush(HANGING)?;
        self.client.use_tree_connect(self.fast);
        let hangs = self.slow_fs.gate().wait_until_hanging(case.operation, PATIENCE);
        ensure!(hangs, "{}: the request does not hang", case.name());
        let mut beside = work.run(self.client, duration)?;
        self.slow_fs.gate().open();
        let reply = self.client.receive()?;
        ensure!(reply.slot == HANGING, "{}: something else was answered", case.name());
        self.client.use_tree_connect(self.slow);
        case.clean_up(self.client, &reply, file)?;
        self.client.use_tree_connect(self.fast);
        alone.add(work.run(self.client, duration / 2)?);
        let rates = Summary::of(alone.rates).zip(Summary::of(beside.rates));
        let Some((rate_alone, rate_beside)) = rates else { bail!("nothing was measured") };
        Ok(Kept {
            operation: case.name(),
            alone: rate_alone,
            beside: rate_beside,
            ratio: rate_beside.median / rate_alone.median,
            echo_alone: Echoes::of(&mut alone.echoes)?,
            echo_beside: Echoes::of(&mut beside.echoes)?,
        })
    }
}

impl HangingStorage {
    /// Renders the table in Markdown.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut table = Table::new([
            "operation",
            "files/s beside",
            "of those alone",
            "ECHO p50",
            "p99",
            "max",
            "alone: p50",
            "p99",
            "max",
        ]);
        for kept in &self.kinds {
            let mut row = vec![
                kept.operation.clone(),
                format!("{:.0}", kept.beside.median),
                format!("{:.3}", kept.ratio),
            ];
            for Echoes { median, p99, max } in [&kept.echo_beside, &kept.echo_alone] {
                row.extend([median, p99, max].map(|ms| format!("{ms:.2}")));
            }
            table.push(row);
        }
        format!(
            "One request hangs for {} s in another share of the connection; ECHO in ms:\n\n{}",
            self.seconds,
            table.to_markdown()
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
