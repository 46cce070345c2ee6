//! Effect of a stopped process on one that goes on sending to it, and on its other receivers.
//!
//! One process pings [`LIVING`] others as fast as they answer, as in the other measurements, first
//! with none stopped and then for the same time with one more that was stopped (SIGSTOP), to which
//! it sends as much as there is room for. Each living process measures the gaps between its
//! messages. A machine with fewer processors than processes causes its own pauses; therefore the
//! table has both halves, and the processor time of the sender's longest turn, which other
//! processes cannot increase. In the end the stopped process goes on and must receive all messages
//! that were accepted and not dropped.

pub(super) mod roles;

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use messaging::TransportKind;
use rustix::process::Signal;
use serde::Serialize;

use self::roles::{Half, Loaded, Witnessed};
use super::histogram::Histogram;
use super::measurement::Peer;
use super::options::MessagingOptions;
use super::{Carrier, PeerProgram};
use crate::Interrupt;
use crate::machine::Machine;
use crate::table::{Table, figure};

/// Processes that are asked and are not stopped.
const LIVING: u64 = 3;

/// One half of a measurement.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    workload: &'static str,
    transport: &'static str,
    /// Whether there was a process that was stopped.
    stopped: bool,
    seconds: f64,
    living: u64,
    messages_per_second: f64,
    /// Between one message and the next, of all that live.
    gap_p50_us: Option<f64>,
    gap_p999_us: Option<f64>,
    gap_max_us: Option<f64>,
    /// The longest of each that lives.
    gap_max_us_each: Vec<Option<f64>>,
    /// Processor time of the sender's longest turn.
    turn_max_us: f64,
    /// The most memory that the sender has had.
    memory_peak_kib: u64,
    queued_max: u64,
    queued_bytes_max: u64,
    refused: u64,
    dropped: u64,
    /// Messages that the stopped process got when it went on.
    delivered_afterwards: Option<u64>,
}

/// Measures every transport in turn.
pub(super) fn run(
    options: &MessagingOptions,
    program: &PeerProgram,
    directory: &Path,
    interrupt: &Interrupt,
) -> Result<Report> {
    let mut rows = Vec::new();
    for kind in options.carriers()? {
        writeln!(io::stderr(), "a stopped peer, {}", kind.name())?;
        let place = directory.join(kind.name());
        std::fs::create_dir(&place)?;
        let measured = measure(options, program, &place, kind);
        interrupt.check()?;
        rows.extend(measured.with_context(|| format!("a stopped peer, {}", kind.name()))?);
    }
    let Machine { cpu, processors, kernel, load_average, .. } = Machine::this();
    let conditions = format!(
        "{cpu}, {processors} processors, Linux {kernel}, load average {load_average}. A process \
         that sends, {LIVING} that answer, and one that is stopped for {} s.",
        figure(options.stopped_peer.unwrap_or_default())
    );
    Ok(Report { rows, conditions })
}

fn measure(
    options: &MessagingOptions,
    program: &PeerProgram,
    directory: &Path,
    kind: TransportKind,
) -> Result<[Row; 2]> {
    let start = |role: &str, unique_id: u64, more: &[String]| {
        Peer::start(program, role, Carrier::Ours(kind), directory, unique_id, more)
    };
    let witnesses = (1..=LIVING + 1).map(|unique_id| start("witness", unique_id, &[]));
    let mut witnesses: Vec<Peer> = witnesses.collect::<Result<_>>()?;
    witnesses.iter_mut().try_for_each(Peer::wait_until_ready)?;
    let milliseconds = options.stopped_peer.unwrap_or_default() * 1000.0;
    let mut arguments = vec![format!("--milliseconds={milliseconds:.0}")];
    for (unique_id, witness) in (1..).zip(&witnesses) {
        let unique_id: u64 = unique_id;
        arguments.extend(["--to".to_owned(), witness.pid().to_string(), unique_id.to_string()]);
    }
    let mut sender = start("load", LIVING + 2, &arguments)?;
    sender.wait_until_ready()?;
    let mut stopped = witnesses.pop().context("one more than live")?;

    let mut half = |half: Half| -> Result<(Loaded, Vec<Witnessed>)> {
        writeln!(sender.stdin(), "{}", half.word())?;
        let loaded = serde_json::from_str(&sender.line()?).context("what the sender has seen")?;
        let witnessed = witnesses.iter_mut().map(|witness| {
            serde_json::from_str(&witness.line()?).context("what one that lives has seen")
        });
        Ok((loaded, witnessed.collect::<Result<_>>()?))
    };
    let (without, by_all) = half(Half::Without)?;
    stopped.signal(Signal::STOP)?;
    let (with, by_living) = half(Half::With)?;
    stopped.signal(Signal::CONT)?;
    writeln!(sender.stdin(), "{}", Half::Afterwards.word())?;
    let afterwards: Loaded = serde_json::from_str(&sender.line()?)?;
    let late: Witnessed = serde_json::from_str(&stopped.line()?)?;
    let delivered = with.accepted - afterwards.dropped;
    ensure!(late.loads == delivered, "{} of {delivered} messages came afterwards", late.loads);
    let mut with = row(kind, true, &with, &by_living);
    with.delivered_afterwards = Some(delivered);
    with.dropped = afterwards.dropped;
    Ok([row(kind, false, &without, &by_all), with])
}

fn row(kind: TransportKind, stopped: bool, loaded: &Loaded, witnessed: &[Witnessed]) -> Row {
    let mut gaps = Histogram::default();
    witnessed.iter().for_each(|one| gaps.merge(&one.gaps));
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^52 in any time")]
    let messages = (2 * loaded.pings) as f64;
    Row {
        workload: "stopped_peer",
        transport: kind.name(),
        stopped,
        seconds: loaded.seconds,
        living: LIVING,
        messages_per_second: messages / loaded.seconds,
        gap_p50_us: gaps.percentile_us(0.5),
        gap_p999_us: gaps.percentile_us(0.999),
        gap_max_us: gaps.percentile_us(1.0),
        gap_max_us_each: witnessed.iter().map(|one| one.gaps.percentile_us(1.0)).collect(),
        turn_max_us: loaded.turn_max_us,
        memory_peak_kib: loaded.memory_peak_kib,
        queued_max: loaded.queued_max,
        queued_bytes_max: loaded.queued_bytes_max,
        refused: loaded.refused,
        dropped: loaded.dropped,
        delivered_afterwards: None,
    }
}

/// Results of all transports, with the machine.
#[derive(Clone, Debug)]
pub(super) struct Report {
    rows: Vec<Row>,
    conditions: String,
}

impl Report {
    pub(super) fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(&self.rows)? + "\n")
    }

    pub(super) fn to_text(&self) -> String {
        format!("{}\n\n{}", self.conditions, self.table().to_text())
    }

    pub(super) fn to_markdown(&self) -> String {
        format!("{}\n\n{}", self.conditions, self.table().to_markdown())
    }

    fn table(&self) -> Table {
        let mut table = Table::new([
            "transport",
            "stopped",
            "messages/s",
            "gap p50 ms",
            "p99.9 ms",
            "max ms",
            "longest turn ms",
            "memory MiB",
            "queued",
            "queued MiB",
            "refused",
            "dropped",
            "delivered afterwards",
        ]);
        let milliseconds = |us: Option<f64>| us.map_or_else(|| "-".into(), |us| figure(us / 1e3));
        #[expect(clippy::cast_precision_loss, reason = "a rounded figure")]
        let mebibytes = |bytes: u64| figure(bytes as f64 / f64::from(1 << 20));
        for row in &self.rows {
            table.push(vec![
                row.transport.to_owned(),
                if row.stopped { "one" } else { "none" }.to_owned(),
                figure(row.messages_per_second),
                milliseconds(row.gap_p50_us),
                milliseconds(row.gap_p999_us),
                milliseconds(row.gap_max_us),
                milliseconds(Some(row.turn_max_us)),
                mebibytes(row.memory_peak_kib << 10),
                row.queued_max.to_string(),
                mebibytes(row.queued_bytes_max),
                row.refused.to_string(),
                row.dropped.to_string(),
                row.delivered_afterwards.map_or_else(|| "-".into(), |count| count.to_string()),
            ]);
        }
        table
    }
}
