//! Work in one share while the storage of another one hangs, over the same connection.
//!
//! The other share is a FUSE file system of the benchmark, which holds one kind of operation shut.
//! For each kind the client makes small files in a share on tmpfs and sends ECHOs, with one request
//! hanging. Another client, for which nothing hangs, does the same at the same time: so it does not
//! matter what else the machine does.

mod cases;
mod work;

use std::fs;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

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
use work::{Measured, Work};

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
    /// Files a second of the client whose request hangs, in slices of a second.
    pub beside: Summary,
    /// Rate of that client relative to that of the other one, slice by slice.
    pub ratio: Summary,
    /// Response times of ECHO of the client whose request hangs.
    pub echo_beside: Echoes,
    /// Response times of ECHO of the other client.
    pub echo_other: Echoes,
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
    let mut other = server.connect(Protection::Plain)?;
    let mut works = [("beside", &mut client), ("other", &mut other)]
        .into_iter()
        .map(|(name, client)| Work::prepare(client, name))
        .collect::<Result<Vec<Work>>>()?;
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
        let (client, other) = (&mut client, &mut other);
        let mut beside = Beside { client, other, slow_fs: &slow_fs, fast, slow };
        kinds.push(beside.measure(case, &mut works, duration)?);
    }
    // Before the server, which would wait for it.
    slow_fs.gate().open();
    Ok(HangingStorage { seconds: duration.as_secs_f64(), kinds })
}

/// A client of both shares, and one of the share that does not hang.
struct Beside<'a> {
    client: &'a mut Client,
    other: &'a mut Client,
    slow_fs: &'a SlowFs,
    fast: u32,
    slow: u32,
}

impl Beside<'_> {
    /// Works beside a request that hangs.
    fn measure(&mut self, case: &Case, works: &mut [Work], duration: Duration) -> Result<Kept> {
        self.client.use_tree_connect(self.slow);
        let file = case.open(self.client)?;
        self.slow_fs.gate().set(case.operation, Behavior::Hang);
        (case.push)(self.client, file.unwrap_or_default());
        self.client.flush(HANGING)?;
        self.client.use_tree_connect(self.fast);
        let hangs = self.slow_fs.gate().wait_until_hanging(case.operation, PATIENCE);
        ensure!(hangs, "{}: the request does not hang", case.name());
        let (clients, start) = ([&mut *self.client, &mut *self.other], Instant::now());
        let measured = thread::scope(|scope| {
            let threads: Vec<_> = works
                .iter_mut()
                .zip(clients)
                .map(|(work, client)| scope.spawn(move || work.run(client, start, duration)))
                .collect();
            let measured = threads.into_iter().map(|it| it.join().expect("a client panicked"));
            measured.collect::<Result<Vec<Measured>>>()
        })?;
        self.slow_fs.gate().open();
        let reply = self.client.receive()?;
        ensure!(reply.slot == HANGING, "{}: something else was answered", case.name());
        self.client.use_tree_connect(self.slow);
        case.clean_up(self.client, &reply, file)?;
        self.client.use_tree_connect(self.fast);
        let [mut beside, mut other] = <[Measured; 2]>::try_from(measured).expect("two worked");
        let ratio = Summary::of_ratios(&beside.rates, &other.rates, true);
        let Some((rate, ratio)) = Summary::of(beside.rates).zip(ratio) else {
            bail!("nothing was measured")
        };
        Ok(Kept {
            operation: case.name(),
            beside: rate,
            ratio,
            echo_beside: Echoes::of(&mut beside.echoes)?,
            echo_other: Echoes::of(&mut other.echoes)?,
        })
    }
}

impl HangingStorage {
    /// Renders the table in Markdown.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut table = Table::new([
            "operation",
            "files/s",
            "of the other client's",
            "ECHO p50",
            "p99",
            "max",
            "other: p50",
            "p99",
            "max",
        ]);
        for kept in &self.kinds {
            let mut row = vec![
                kept.operation.clone(),
                format!("{:.0}", kept.beside.median),
                kept.ratio.spread_of_parts(),
            ];
            for Echoes { median, p99, max } in [&kept.echo_beside, &kept.echo_other] {
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
