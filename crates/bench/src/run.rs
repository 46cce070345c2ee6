//! A whole run: both servers, all rows, in turn.

use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
pub use bench_messaging::Interrupt;

use crate::load::fixture;
use crate::local_copy::LocalCopy;
use crate::machine::Machine;
use crate::measure::{Conditions, Sample, measure};
use crate::options::Options;
use crate::processor::Processors;
use crate::report::{Report, RowReport};
use crate::row::{Quantity, Row, Work};
use crate::server::{Kind, Server};

/// Starts the servers that the options name, each in a directory of its own below `directory`.
///
/// # Errors
///
/// When one cannot be started.
pub fn start_servers(options: &Options, directory: &Path) -> Result<Vec<Server>> {
    let start = |kind: Kind| {
        let (directory, program) = (directory.join(kind.name()), options.program(kind)?);
        Server::start_with(kind, &directory, &program, options.global(kind))
    };
    options.kinds().into_iter().map(start).collect()
}

/// A fresh directory for the servers, which is removed when it is dropped.
///
/// # Errors
///
/// When it cannot be made.
pub fn fresh_directory(options: &Options) -> Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix("choro-bench-")
        .tempdir_in(&options.directory)
        .with_context(|| format!("making a directory in {}", options.directory.display()))
}

/// Measures the rows that the options name, and reports to `progress`.
///
/// # Errors
///
/// A server does not start, the run is interrupted, or no row could be measured.
pub fn run(options: &Options, interrupt: &Interrupt, progress: &mut dyn Write) -> Result<Report> {
    let rows = options.chosen_rows();
    ensure!(!rows.is_empty(), "no row has such a name; --list shows them");
    let machine = Machine::this();
    if machine.is_disturbed() {
        writeln!(progress, "the load average is {}: something disturbs", machine.load_average)?;
    }
    let directory = fresh_directory(options)?;
    let servers = start_servers(options, directory.path())?;
    let processors = Processors::new(options.cpu)?;
    let duration = options.duration();
    let conditions = Conditions {
        scale: options.scale(),
        duration,
        processors,
        own_network: options.own_network,
    };
    let copies = |row: &Row| {
        matches!(row.work, Work::SmallFiles { .. }) && row.quantity == Quantity::Throughput
    };
    let mut local_copy = if rows.iter().any(copies) {
        Some(LocalCopy::prepare(&directory.path().join("local"), options.scale())?)
    } else {
        None
    };
    if rows.iter().any(Row::moves_bytes) {
        fixture::common_stream(servers.iter().map(Server::share_path), options.scale())?;
    }
    let mut reports = Vec::new();
    let start = Instant::now();
    for (at, row) in rows.iter().enumerate() {
        let seconds = start.elapsed().as_secs();
        writeln!(progress, "[{}/{}, {seconds} s] {row}", at + 1, rows.len())?;
        let local_copy = local_copy.as_mut().filter(|_| copies(row));
        reports.push(measure_row(row, &servers, options, &conditions, interrupt, local_copy)?);
    }
    ensure!(reports.iter().any(|row| row.failure.is_none()), "every row failed");
    let version = |server: &Server| match options.global(server.kind()) {
        "" => server.version().to_owned(),
        lines => format!("{} ({})", server.version(), lines.trim().replace('\n', ", ")),
    };
    let versions = servers.iter().map(version).collect();
    let conditions = format!(
        "{} repetitions, {} s each, shares in {}, pinned to processor {}.",
        options.repetitions(),
        duration.as_secs_f64(),
        options.directory.display(),
        processors.chosen(),
    );
    let local_copy = local_copy.and_then(|it| it.summary());
    Ok(Report { machine, versions, conditions, rows: reports, local_copy })
}

/// Returns the order of `servers` servers in a repetition.
///
/// The first server inherits the state of the machine from earlier work; this must not be the same
/// server each time.
pub(crate) fn turn(servers: usize, repetition: u32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..servers).collect();
    if repetition % 2 == 1 {
        order.reverse();
    }
    order
}

/// Measures a row on all servers in turn, as often as the options say, and the machine alone as
/// well.
///
/// A row that fails on a server has no figures, and the run goes on.
fn measure_row(
    row: &Row,
    servers: &[Server],
    options: &Options,
    conditions: &Conditions,
    interrupt: &Interrupt,
    mut local_copy: Option<&mut LocalCopy>,
) -> Result<RowReport> {
    let mut samples: Vec<(Kind, Vec<Sample>)> =
        servers.iter().map(|server| (server.kind(), Vec::new())).collect();
    for repetition in 0..options.repetitions() {
        if let Some(local_copy) = &mut local_copy {
            local_copy.measure()?;
        }
        for at in turn(servers.len(), repetition) {
            interrupt.check()?;
            let server = &servers[at];
            match measure(row, server, conditions) {
                Ok(sample) => samples[at].1.push(sample),
                Err(error) => {
                    let failure = format!("{}: {error:#}", server.kind().name());
                    samples.retain(|(kind, _)| *kind != server.kind());
                    return Ok(RowReport::new(row, &samples, Some(failure)));
                }
            }
        }
    }
    Ok(RowReport::new(row, &samples, None))
}

/// Prints a report as the options say, and keeps it where they say.
///
/// # Errors
///
/// When it cannot be written.
pub fn publish(report: &Report, options: &Options) -> Result<()> {
    let mut out = io::stdout().lock();
    if options.json {
        out.write_all(report.to_json()?.as_bytes())?;
    } else {
        writeln!(out, "{}\n", report.versions.join(" and "))?;
        writeln!(out, "{}\n{}{}", report.table().to_text(), Report::legend(), report.of_machine())?;
        if let Some(channels) = report.channels() {
            writeln!(out, "{}", channels.to_text())?;
        }
        write!(out, "{}", report.failures())?;
    }
    if let Some(directory) = options.results() {
        let page = report.write(&directory)?;
        writeln!(io::stderr(), "written to {}", page.display())?;
    }
    Ok(())
}
