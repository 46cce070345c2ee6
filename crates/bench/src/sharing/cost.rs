//! Cost of rules to requests outside of them: processor time of the serving process, with rules and
//! without in turn. `scripts/instructions.sh --rules` counts the instructions.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use wire::Command;

use super::Work;
use crate::client::{Client, Protection};
use crate::load::creates::{Creates, Crowd};
use crate::load::small_files::SmallFiles;
use crate::load::stream::{Direction, Stream};
use crate::load::{Done, Limit, Load};
use crate::server::Server;
use crate::statistics::Summary;
use crate::table::{Table, figure};

/// Rules: half of them for other users, half for files of other names.
const RULES: usize = 100;

/// Measurements of each case in a repetition.
const TURNS: usize = 5;

/// Results of all cases of rules.
#[derive(Debug, Serialize)]
pub(super) struct Costs {
    rows: Vec<Cost>,
}

/// Processor time of an operation.
#[derive(Debug, Serialize)]
struct Cost {
    what: &'static str,
    /// Without a rule, in microseconds.
    none: Summary,
    /// With rules for others, in parts of that.
    of_none: Summary,
}

/// Each with a number of operations.
const LOADS: [(&str, u64); 4] =
    [("read 4 KiB", 5_000), ("create + close", 2_000), ("echo", 5_000), ("small file", 500)];

pub(super) fn measure(work: &mut Work<'_>) -> Result<Costs> {
    work.say("what rules cost")?;
    let mut rules = String::new();
    for at in 0..RULES / 2 {
        writeln!(rules, "[qos:u{at}]\nmatch = user nobody{at}\nmax bandwidth = 1M")?;
        writeln!(rules, "[qos:f{at}]\nmatch = file *.no{at}\nmax bandwidth = 1M")?;
    }
    let (none, hundred) = (work.start("")?, work.start(&rules)?);
    let mut rows = Vec::new();
    for (what, count) in LOADS {
        work.say(what)?;
        let count = if work.options.quick { count / 50 } else { count };
        let mut of_none = Vec::new();
        let mut times = Vec::new();
        work.repeat(|| {
            let (mut without, mut with) = (load(work, &none, what)?, load(work, &hundred, what)?);
            for _ in 0..TURNS {
                let time = time_each(&mut *without, &none, count)?;
                of_none.push(time_each(&mut *with, &hundred, count)? / time);
                times.push(time);
            }
            Ok([])
        })?;
        let summary = |figures| Summary::of(figures).context("nothing was measured");
        rows.push(Cost { what, none: summary(times)?, of_none: summary(of_none)? });
    }
    Ok(Costs { rows })
}

/// Processor time of the server for one operation, in microseconds.
#[expect(clippy::cast_precision_loss, reason = "figures are for people")]
fn time_each(load: &mut dyn Load, server: &Server, count: u64) -> Result<f64> {
    let port = load.client().context("the load has no connection of its own")?.local_port()?;
    let pid = server.processes()?.serving(server.destination().address, port);
    let pid = pid.context("no process of the server has the connection")?;
    let before = time_on_processor(pid)?;
    let done = load.run(Limit::Operations(count))?;
    let time = time_on_processor(pid)? - before;
    ensure!(done.operations > 0, "nothing was done");
    Ok(time as f64 / 1_000.0 / done.operations as f64)
}

/// Of all threads of a process, in nanoseconds: the first figure of schedstat, see
/// Documentation/scheduler/sched-stats.rst of the kernel.
fn time_on_processor(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(task?.path().join("schedstat"))?;
        let first = text.split_whitespace().next().context("an empty schedstat")?;
        sum += first.parse::<u64>()?;
    }
    Ok(sum)
}

fn load(work: &Work<'_>, server: &Server, what: &str) -> Result<Box<dyn Load>> {
    let (scale, plain) = (work.options.scale(), Protection::Plain);
    Ok(match what {
        "read 4 KiB" => {
            Box::new(Stream::prepare(server, scale, plain, (Direction::Read, 4 << 10, 1))?)
        }
        "create + close" => Box::new(Creates::prepare(server, scale, plain, Crowd::Nobody)?),
        "small file" => Box::new(SmallFiles::prepare(server, scale, plain, 1)?),
        _ => Box::new(Echo { client: server.connect(plain)? }),
    })
}

/// ECHO, again and again: a request that asks nothing of the store.
struct Echo {
    client: Client,
}

impl Load for Echo {
    fn run(&mut self, mut limit: Limit) -> Result<Done> {
        let mut operations = 0;
        while limit.take() {
            self.client.call(Command::ECHO, 0, &wire::echo::EchoRequest)?.succeeded()?;
            operations += 1;
        }
        Ok(Done { operations, bytes: 0 })
    }

    fn client(&self) -> Option<&Client> {
        Some(&self.client)
    }
}

impl Costs {
    pub(super) fn to_markdown(&self) -> String {
        let rules = format!("with {RULES} rules, of that");
        let titles = ["operation", "µs without a rule", &rules];
        let mut table = Table::new(titles);
        for Cost { what, none, of_none } in &self.rows {
            table.push(vec![(*what).to_owned(), figure(none.median), of_none.spread_of_parts()]);
        }
        format!(
            "Processor time of the serving process for one operation:\n\n{}",
            table.to_markdown()
        )
    }
}
