//! A file server over each transport of messages: a load like dbench's, with 5 and with 10 clients.
//!
//! dbench's clients are independent, so the workers exchange nearly no messages. Therefore the same
//! is measured with as many further clients that watch the whole share: then each change is a
//! message to `notifyd`, and one from there to each of those.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use messaging::TransportKind;
use serde::Serialize;
use serde_json::Value;

use crate::load::dbench::Dbench;
use crate::load::watcher::Watcher;
use crate::load::{Done, Limit, Load as _};
use crate::options::Options;
use crate::run::{Interrupt, fresh_directory};
use crate::server::{Kind, Server};
use crate::statistics::Summary;
use crate::table::{Table, figure};

/// Number of clients, and true if as many others watch their changes.
const LOADS: [(usize, bool); 4] = [(5, false), (10, false), (5, true), (10, true)];

/// Figures of Samba's developers, with dbench on a laptop of 1.7 GHz: clients, transport and MB/s.
const ONCE: [(usize, &str, f64); 6] = [
    (5, "tdb", 8.3),
    (5, "dgram", 7.8),
    (5, "stream", 7.3),
    (10, "tdb", 7.65),
    (10, "dgram", 7.26),
    (10, "stream", 6.78),
];

/// Results of all transports and loads.
#[derive(Debug)]
pub struct Transports {
    rows: Vec<Row>,
}

/// A number of clients of a server with one `messaging type`.
#[derive(Debug)]
struct Row {
    clients: usize,
    watched: bool,
    transport: &'static str,
    samples: Vec<Sample>,
}

/// Results of one measurement of a transport.
#[derive(Clone, Copy, Debug)]
struct Sample {
    mb_per_second: f64,
    operations_per_second: f64,
    messages_per_operation: f64,
}

/// A row of the table in figures.
#[derive(Clone, Debug, Serialize)]
struct Line {
    clients: usize,
    watched: bool,
    transport: &'static str,
    mb_per_second: f64,
    mb_per_second_min: f64,
    mb_per_second_max: f64,
    operations_per_second: f64,
    /// Messages between the server's processes.
    messages_per_operation: f64,
    /// Of the fastest transport with as many clients.
    ratio_to_best: f64,
    /// The same, as Samba's developers once measured it.
    once_ratio_to_best: Option<f64>,
}

/// Measures a server over each transport, by turns.
///
/// # Errors
///
/// When a server does not start, or refuses something.
pub fn run(
    options: &Options,
    interrupt: &Interrupt,
    progress: &mut dyn Write,
) -> Result<Transports> {
    let directory = fresh_directory(options)?;
    let choro = options.choro()?;
    let mut servers = Vec::new();
    for kind in TransportKind::BUILT {
        let place = directory.path().join(kind.name());
        let global = format!("messaging type = {}\n", kind.name());
        servers.push((
            kind.name(),
            Server::start_with(Kind::Choro, &place, &choro, &global)?,
            place,
        ));
    }
    let mut rows: Vec<Row> = Vec::new();
    for (clients, watched) in LOADS {
        let row = |(transport, _, _): &(&'static str, Server, _)| Row {
            clients,
            watched,
            transport,
            samples: Vec::new(),
        };
        rows.extend(servers.iter().map(row));
    }
    for repetition in 0..options.repetitions() {
        for (at, load) in LOADS.into_iter().enumerate() {
            // Each is the first at times, and finds the machine as the last one left it.
            let mut order: Vec<usize> = (0..servers.len()).collect();
            order.rotate_left(usize::try_from(repetition)? % servers.len());
            for server in order {
                interrupt.check()?;
                let row = &mut rows[at * servers.len() + server];
                let (transport, server, place) = &servers[server];
                let name = name(load);
                writeln!(
                    progress,
                    "[{}/{}] {name}, {transport}",
                    repetition + 1,
                    options.repetitions()
                )?;
                let count = || messages_sent(&choro, place);
                row.samples.push(measure(server, load, options.duration(), &count)?);
            }
        }
    }
    Ok(Transports { rows })
}

fn name((clients, watched): (usize, bool)) -> String {
    format!("{clients} clients{}", if watched { ", watched" } else { "" })
}

/// Puts the load of all clients on a server at once.
fn measure(
    server: &Server,
    (clients, watched): (usize, bool),
    duration: Duration,
    count: &dyn Fn() -> Result<u64>,
) -> Result<Sample> {
    let mut loads =
        (0..clients).map(|_| Dbench::prepare(server)).collect::<Result<Vec<Dbench>>>()?;
    let before = count()?;
    let watchers = if watched { clients } else { 0 };
    let watchers =
        (0..watchers).map(|_| Watcher::begin(server)).collect::<Result<Vec<Watcher>>>()?;
    let (barrier, is_over) = (Barrier::new(clients), AtomicBool::new(false));
    let begin = Instant::now();
    let (done, seconds) = thread::scope(|scope| {
        let watching: Vec<_> =
            watchers.into_iter().map(|watcher| scope.spawn(|| watcher.run(&is_over))).collect();
        let work = |load: &mut Dbench| {
            barrier.wait();
            load.run(Limit::after(duration))
        };
        let done: Vec<Result<Done>> = thread::scope(|scope| {
            let working = loads.iter_mut().map(|load| scope.spawn(|| work(load)));
            let working: Vec<_> = working.collect();
            working.into_iter().map(join).collect()
        });
        let seconds = begin.elapsed().as_secs_f64();
        is_over.store(true, Ordering::Relaxed);
        // One last change wakes the watchers, so that they end.
        let change = loads.first_mut().map_or(Ok(()), Dbench::change);
        let watched: Result<()> = watching.into_iter().try_for_each(join);
        (change.and(watched).map(|()| done), seconds)
    });
    let messages = count()?.saturating_sub(before);
    let mut all = Done::default();
    for done in done? {
        let Done { operations, bytes } = done?;
        all.operations += operations;
        all.bytes += bytes;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts of what fits into minutes")]
    let (operations, bytes, messages) = (all.operations as f64, all.bytes as f64, messages as f64);
    ensure!(operations > 0.0, "nothing was done in {seconds} s");
    Ok(Sample {
        mb_per_second: bytes / 1e6 / seconds,
        operations_per_second: operations / seconds,
        messages_per_operation: messages / operations,
    })
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|_| Err(anyhow!("a client panicked")))
}

/// Messages that the processes of a server have sent so far. The question is some of them.
fn messages_sent(choro: &Path, place: &Path) -> Result<u64> {
    let output = Command::new(choro)
        .args(["message", "stats", "all", "--json", "--config"])
        .arg(place.join("smb.conf"))
        .output()
        .context("asking for the messages")?;
    let printed = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "asking for the messages: {printed}");
    let processes: Vec<Value> = serde_json::from_slice(&output.stdout)?;
    Ok(processes.iter().filter_map(|process| process["sent"].as_u64()).sum())
}

impl Transports {
    fn lines(&self) -> Vec<Line> {
        self.rows.iter().filter_map(|row| self.line(row)).collect()
    }

    fn line(&self, row: &Row) -> Option<Line> {
        let of =
            |row: &Row, figure: fn(&Sample) -> f64| Summary::of(row.samples.iter().map(figure));
        let rate = |row: &Row| of(row, |sample| sample.mb_per_second);
        let load = |row: &Row| (row.clients, row.watched);
        let alike = self.rows.iter().filter(|other| load(other) == load(row));
        let best = alike.filter_map(rate).map(|summary| summary.median).fold(0.0, f64::max);
        let once = ONCE.iter().filter(|(clients, _, _)| *clients == row.clients);
        let once_best = once.clone().map(|(_, _, rate)| *rate).fold(0.0, f64::max);
        let once = once.clone().find(|(_, transport, _)| *transport == row.transport);
        let once = once.filter(|_| !row.watched);
        let Summary { median, min, max } = rate(row)?;
        Some(Line {
            clients: row.clients,
            watched: row.watched,
            transport: row.transport,
            mb_per_second: median,
            mb_per_second_min: min,
            mb_per_second_max: max,
            operations_per_second: of(row, |sample| sample.operations_per_second)?.median,
            messages_per_operation: of(row, |sample| sample.messages_per_operation)?.median,
            ratio_to_best: median / best,
            once_ratio_to_best: once.map(|(_, _, rate)| rate / once_best),
        })
    }

    /// An array of flat objects.
    ///
    /// # Errors
    ///
    /// Never, with these types.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(&self.lines())? + "\n")
    }

    /// Renders the table, with the developers' figures.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut table = Table::new([
            "load",
            "messaging type",
            "MB/s",
            "lowest",
            "highest",
            "of the best",
            "once",
            "op/s",
            "messages/op",
        ]);
        let percent = |ratio: f64| format!("{:.0} %", ratio * 100.0);
        for line in self.lines() {
            table.push(vec![
                name((line.clients, line.watched)),
                line.transport.to_owned(),
                figure(line.mb_per_second),
                figure(line.mb_per_second_min),
                figure(line.mb_per_second_max),
                percent(line.ratio_to_best),
                line.once_ratio_to_best.map_or_else(|| "-".to_owned(), percent),
                figure(line.operations_per_second),
                figure(line.messages_per_operation),
            ]);
        }
        table.to_text()
            + "\nwatched: as many other clients have the whole share watched.\n\
               messages/op: between the server's processes, the question for the figure included.\n\
               once: what Samba's developers measured with dbench on a laptop of 1.7 GHz, when \
               Samba had the three:\n\
               5 clients 8.3, 7.8 and 7.3 MB/s over tdb, dgram and stream, 10 clients 7.65, \
               7.26 and 6.78.\n"
    }
}

#[cfg(test)]
mod tests {
    use super::{Row, Sample, Transports};

    #[test]
    fn each_is_compared_with_the_best_of_as_many_clients() {
        let row = |clients, transport, mb_per_second| Row {
            clients,
            watched: false,
            transport,
            samples: vec![Sample {
                mb_per_second,
                operations_per_second: 1.0,
                messages_per_operation: 0.0,
            }],
        };
        let rows = vec![row(5, "tdb", 50.0), row(5, "dgram", 100.0), row(10, "dgram", 20.0)];
        let lines = Transports { rows }.lines();
        let ratios: Vec<f64> = lines.iter().map(|line| line.ratio_to_best).collect();
        assert_eq!(ratios, [0.5, 1.0, 1.0]);
        assert_eq!(lines[0].once_ratio_to_best, Some(1.0));
        assert_eq!(lines[2].once_ratio_to_best, Some(7.26 / 7.65));
    }
}
