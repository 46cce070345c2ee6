//! Speed of messages between processes: the transports of this program, Samba's, and bare sockets,
//! in turn in one run.
//!
//! The first workload is that of Samba's `local.messaging.ping_speed`: one process sends another
//! pairs of pings, of 11 bytes and of none, with at most 20 of them unanswered; pings and pongs are
//! counted. Ours is between two real processes and takes the whole path of the server's messages;
//! Samba's test has both ends in one process. The bare sockets are two connected `AF_UNIX` datagram
//! sockets and `poll`, without any other code: the limit of this machine with a datagram for each
//! message. A transport that packs several messages into one can be faster.
//!
//! [`run()`] implements `choro bench messaging`; [`peer`] is each of the processes.

#![forbid(unsafe_code)]

mod bare;
pub mod chart;
mod directories;
pub mod histogram;
mod interrupt;
pub mod machine;
mod measurement;
pub mod options;
pub mod peer;
mod report;
mod samba;
pub mod statistics;
mod stopped_peer;
pub mod table;
mod workload;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use messaging::TransportKind;

pub use directories::own_directories;
pub use interrupt::Interrupt;
use measurement::{Measurement, measure};
use options::MessagingOptions;
use report::{Report, Row};
use workload::Workload;

/// Carrier of the messages of a measurement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Carrier {
    /// A transport of crate `messaging`.
    Ours(TransportKind),
    /// Transport `tdb` with the setting `use mmap = no`.
    TdbWithoutMmap,
    /// Two connected sockets and nothing else.
    Bare,
    /// Samba, by its own test.
    Samba,
}

impl Carrier {
    /// The name in tables and in JSON.
    fn name(self) -> &'static str {
        match self {
            Self::Ours(kind) => kind.name(),
            Self::TdbWithoutMmap => TDB_WITHOUT_MMAP,
            Self::Bare => "bare",
            Self::Samba => "samba",
        }
    }
}

/// The name of `tdb` with `use mmap = no`.
const TDB_WITHOUT_MMAP: &str = "tdb-no-mmap";

/// Start of this program as one of the processes: [`peer::PeerOptions`] follow.
#[derive(Clone, Debug)]
pub struct PeerProgram {
    /// Path of the executable to start.
    pub program: PathBuf,
    /// The arguments before the peer's own.
    pub arguments: Vec<OsString>,
}

/// Measures what the options name and prints it.
///
/// # Errors
///
/// When a transport cannot be opened, loses a message, or the run is interrupted.
pub fn run(options: &MessagingOptions, program: &PeerProgram) -> Result<()> {
    let interrupt = Interrupt::of_signals()?;
    let mut progress = io::stderr().lock();
    let directory = fresh_directory(options.directory.as_deref())?;
    if options.stopped_peer.is_some() {
        drop(progress);
        let report = stopped_peer::run(options, program, directory.path(), &interrupt)?;
        let json = options.json.then(|| report.to_json()).transpose()?;
        return show(options, json, &report.to_text(), &report.to_markdown());
    }
    let carriers = options.carriers()?;
    let workloads = options.workloads();
    let samba = samba::PingSpeed::find(directory.path(), options.without_samba)?;
    if let Err(reason) = &samba {
        writeln!(progress, "without Samba's own test: {reason}")?;
    }
    let mut rows: Vec<Row> = Vec::new();
    for workload in &workloads {
        let ours = carriers.iter().copied().map(Carrier::Ours);
        let tdb = workload.is_sambas() && carriers.contains(&TransportKind::Tdb);
        let ours = ours.chain(tdb.then_some(Carrier::TdbWithoutMmap));
        let samba = (workload.is_sambas() && samba.is_ok()).then_some(Carrier::Samba);
        let all = ours.chain([Carrier::Bare]).chain(samba);
        rows.extend(all.map(|carrier| Row::new(*workload, carrier)));
    }
    // Round by round, so that whatever else the machine does meets all of them.
    for round in 0..options.rounds {
        for workload in &workloads {
            writeln!(progress, "[round {}/{}] {workload}", round + 1, options.rounds)?;
            let mut order: Vec<usize> = (0..rows.len()).collect();
            order.retain(|at| rows[*at].workload == *workload);
            let first = usize::try_from(round).unwrap_or(0) % order.len();
            order.rotate_left(first);
            for at in order {
                interrupt.check()?;
                let Row { workload, carrier, .. } = rows[at];
                let what = format!("{workload}, {}", carrier.name());
                let place = directory.path().join(format!("{round}-{at}"));
                let measured =
                    measure_one(workload, carrier, options, program, &place, samba.as_ref().ok());
                interrupt.check()?;
                rows[at].add(measured.context(what)?);
            }
        }
    }
    let report = Report::new(rows, options);
    if let Some(path) = &options.svg {
        fs::write(path, chart::draw(&report))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let json = options.json.then(|| report.to_json()).transpose()?;
    show(options, json, &report.to_text(), &report.to_markdown())
}

/// Writes the results as the options say.
fn show(
    options: &MessagingOptions,
    json: Option<String>,
    text: &str,
    markdown: &str,
) -> Result<()> {
    if let Some(path) = &options.markdown {
        fs::write(path, markdown).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut out = io::stdout().lock();
    out.write_all(json.as_deref().unwrap_or(text).as_bytes())?;
    Ok(out.flush()?)
}

fn measure_one(
    workload: Workload,
    carrier: Carrier,
    options: &MessagingOptions,
    program: &PeerProgram,
    place: &Path,
    samba: Option<&samba::PingSpeed>,
) -> Result<Measurement> {
    if let (Carrier::Samba, Some(samba)) = (carrier, samba) {
        return samba.measure(options.slice());
    }
    fs::create_dir(place)?;
    let measured = measure(workload, carrier, options.slice(), program, place);
    fs::remove_dir_all(place)?;
    measured
}

/// A directory for the sockets of the processes, removed when it is dropped. In memory if there is
/// such a file system, as lock directories are.
fn fresh_directory(wanted: Option<&Path>) -> Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let parent = match wanted {
        Some(directory) => directory.to_owned(),
        None if memory.is_dir() => memory.to_owned(),
        None => std::env::temp_dir(),
    };
    ensure!(parent.is_dir(), "there is no directory {}", parent.display());
    let made = tempfile::Builder::new().prefix("choro-bench-").tempdir_in(&parent);
    made.with_context(|| format!("cannot make a directory in {}", parent.display()))
}
