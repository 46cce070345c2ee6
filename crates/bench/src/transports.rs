//! A file server over each of its transports of messages: a load like dbench's, with 5 and with 10
//! clients.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use messaging::TransportKind;
use serde::Serialize;
use serde_json::Value;

use crate::load::dbench::Dbench;
use crate::load::{Done, Limit, Load as _};
use crate::options::Options;
use crate::run::{Interrupt, fresh_directory};
use crate::server::{Kind, Server};
use crate::statistics::Summary;
use crate::table::{Table, figure};

/// How many clients there are at once.
const CLIENTS: [usize; 2] = [5, 10];

/// What the developers of Samba once measured on a laptop of 1.7 GHz with dbench: clients, transport
/// and MB/s.
const ONCE: [(usize, &str, f64); 6] = [
    (5, "tdb", 8.3),
    (5, "dgram", 7.8),
    (5, "stream", 7.3),
    (10, "tdb", 7.65),
    (10, "dgram", 7.26),
    (10, "stream", 6.78),
];

/// All that was measured.
#[derive(Debug)]
pub struct Transports {
    rows: Vec<Row>,
}

/// A number of clients of a server with one `messaging type`.
#[derive(Debug)]
struct Row {
    clients: usize,
    transport: &'static str,
    samples: Vec<Sample>,
}

/// One measurement.
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
    transport: &'static str,
    mb_per_second: f64,
    mb_per_second_min: f64,
    mb_per_second_max: f64,
    operations_per_second: f64,
    /// Between the server's processes.
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
    for clients in CLIENTS {
        let row = |(transport, _, _): &(&'static str, Server, _)| Row {
            clients,
            transport,
            samples: Vec::new(),
        };
        rows.extend(servers.iter().map(row));
    }
    for repetition in 0..options.repetitions() {
        for (at, clients) in CLIENTS.into_iter().enumerate() {
            // Each is the first at times, and finds the machine as the last one left it.
            let mut order: Vec<usize> = (0..servers.len()).collect();
            order.rotate_left(usize::try_from(repetition)? % servers.len());
            for server in order {
                interrupt.check()?;
                let row = &mut rows[at * servers.len() + server];
                let (transport, server, place) = &servers[server];
                writeln!(
                    progress,
                    "[{}/{}] {clients} clients, {transport}",
                    repetition + 1,
                    options.repetitions()
                )?;
                let count = || messages_sent(&choro, place);
                row.samples.push(measure(
                    server,
                    clients,
                    Limit::after(options.duration()),
                    &count,
                )?);
            }
        }
    }
    Ok(Transports { rows })
}

/// Puts the load of all clients on a server at once.
fn measure(
    server: &Server,
    clients: usize,
    limit: Limit,
    count: &dyn Fn() -> Result<u64>,
) -> Result<Sample> {
    let duration = match limit {
        Limit::Until(end) => end.saturating_duration_since(Instant::now()),
        Limit::Operations(_) => return Err(anyhow!("a load of several clients takes a time")),
    };
    let mut loads =
        (0..clients).map(|_| Dbench::prepare(server)).collect::<Result<Vec<Dbench>>>()?;
    let before = count()?;
    let barrier = Barrier::new(clients);
    let begin = Instant::now();
    let done: Vec<Result<Done>> = thread::scope(|scope| {
        let threads: Vec<_> = loads
            .iter_mut()
            .map(|load| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    load.run(Limit::after(duration))
                })
            })
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(anyhow!("a client panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    let seconds = begin.elapsed().as_secs_f64();
    let messages = count()?.saturating_sub(before);
    let mut all = Done::default();
    for done in done {
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

/// Messages that the processes of a server have sent so far. The question is some of them.
fn messages_sent(choro: &Path, place: &Path) -> Result<u64> {
    let output = Command::new(choro)
        .args(["message", "stats", "all", "--json", "--config"])
        .arg(place.join("smb.conf"))
        .output()
        .context("asking for the messages")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "asking for the messages: {said}");
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
        let alike = self.rows.iter().filter(|other| other.clients == row.clients);
        let best = alike.filter_map(rate).map(|summary| summary.median).fold(0.0, f64::max);
        let once = ONCE.iter().filter(|(clients, _, _)| *clients == row.clients);
        let once_best = once.clone().map(|(_, _, rate)| *rate).fold(0.0, f64::max);
        let once = once.clone().find(|(_, transport, _)| *transport == row.transport);
        let Summary { median, min, max } = rate(row)?;
        Some(Line {
            clients: row.clients,
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

    /// The table, and what was once measured beside it.
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
                format!("{} clients", line.clients),
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
            + "\nmessages/op: between the server's processes, the question for the figure included.\n\
               once: what Samba's developers measured with dbench on a laptop of 1.7 GHz, when Samba \
               had the three:\n\
               5 clients 8.3, 7.8 and 7.3 MB/s over tdb, dgram and stream, 10 clients 7.65, 7.26 and \
               6.78.\n"
    }
}

#[cfg(test)]
mod tests {
    use super::{Row, Sample, Transports};

    #[test]
    fn each_is_compared_with_the_best_of_as_many_clients() {
        let row = |clients, transport, mb_per_second| Row {
            clients,
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
