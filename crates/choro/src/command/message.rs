//! `choro message`, which sends requests to processes of the server.

pub(super) mod requester;
mod target;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use dtyp::ServerId;
use messaging::{
    Announcement, CloseShare, Content, Done, LATENCY_STEP, LogLevel, Message, MessageKind, Process,
    Statistics,
};
use observe::report::{self, Row};
use serde_json::Value;
use settings::Settings;
use tables::{ClientRecord, Registry};

use requester::{Answers, Requester};
use target::Target;

/// Send a request to the processes of a running server.
///
/// PROCESS is a pid, `supervisor`, `notifyd`, `logond`, `workers` (idle ones included) or `all`.
///
/// Only the user that the server runs as may do this. Every process answers. A process that does
/// not answer within --timeout is named, and the exit code is 1; it is also 1 if no server runs, or
/// there is no such process.
#[derive(Args, Debug)]
pub(super) struct MessageCommand {
    /// Seconds to wait for answers.
    #[arg(long, global = true, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    timeout: Duration,
    #[command(subcommand)]
    request: Request,
}

#[derive(Debug, Subcommand)]
enum Request {
    /// Measure the time until each process answers.
    Ping {
        #[arg(value_name = "PROCESS", default_value = "all")]
        target: Target,
        /// Print a JSON array, one object for each answer.
        #[arg(long)]
        json: bool,
    },
    /// List the processes of the server with their roles and clients.
    List {
        /// Print a JSON array, one object for each process.
        #[arg(long)]
        json: bool,
    },
    /// Have every process write a line to the log, at any log level.
    ///
    /// Marks a moment in all logs, for example before an experiment.
    Broadcast {
        /// Text of the log line.
        #[arg(value_parser = announcement)]
        text: String,
    },
    /// Have the server read its configuration again, as SIGHUP does, and print the result.
    ///
    /// An invalid configuration changes nothing, and the reason is printed. Of warnings, the number
    /// is printed; they are in the log.
    Reload,
    /// Change the log level until the next reload of the configuration.
    ///
    /// Processes that the supervisor starts later use it too.
    LogLevel {
        /// From 0 to 10, as the first number of `log level`.
        #[arg(value_parser = clap::value_parser!(u32).range(0..=10))]
        level: u32,
        #[arg(value_name = "PROCESS", default_value = "all")]
        target: Target,
    },
    /// Disconnect all clients from a share, and close their opens in it.
    ///
    /// Clients may reconnect at once: set `available = no` and reload to keep them out.
    CloseShare {
        /// Name of the share; `*` means all shares.
        share: String,
        /// Workers that disconnect their clients.
        #[arg(value_name = "PROCESS", default_value = "workers")]
        target: Target,
    },
    /// Show message counters of processes, since their start.
    ///
    /// Latency is the time from send to receive: p50, p99 and maximum, with a log2 histogram.
    Stats {
        #[arg(value_name = "PROCESS", default_value = "all")]
        target: Target,
        /// Print a JSON array with an object for each process.
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected a number of seconds from 0.001 to 3600".to_owned()),
    }
}

/// Checks that the text is a single line of printable characters.
fn announcement(text: &str) -> Result<String, String> {
    match text {
        "" => Err("the text is empty".to_owned()),
        _ if text.len() > ANNOUNCEMENT_BYTES_MAX => {
            Err(format!("the text is longer than {ANNOUNCEMENT_BYTES_MAX} bytes"))
        }
        _ if text.chars().any(char::is_control) => {
            Err("the text must not contain control characters or line breaks".to_owned())
        }
        _ => Ok(text.to_owned()),
    }
}

const ANNOUNCEMENT_BYTES_MAX: usize = 1_024;

impl MessageCommand {
    pub(super) fn run(self, config: Option<&Path>) -> anyhow::Result<()> {
        let settings = Settings::find(config)?;
        let mut requester = Requester::join(&settings.directories.lock, self.timeout)?;
        match self.request {
            Request::Ping { target, json } => ping(&mut requester, target, json),
            Request::List { json } => list(&mut requester, &settings, json),
            Request::Broadcast { text } => broadcast(&mut requester, text),
            Request::Reload => reload(&mut requester),
            Request::LogLevel { level, target } => log_level(&mut requester, level, target),
            Request::CloseShare { share, target } => {
                close_share(&mut requester, &settings, share, target)
            }
            Request::Stats { target, json } => stats(&mut requester, target, json),
        }
    }
}

fn ping(requester: &mut Requester, target: Target, json: bool) -> anyhow::Result<()> {
    let processes = target.find(requester)?;
    let data = tables::random_unique_id().context("cannot read random numbers")?.to_le_bytes();
    let content = Content::new(MessageKind::PING, &data);
    let answers = requester.ask(&ids(&processes), &content, |answer| {
        answer.kind == MessageKind::PONG && answer.data == data
    })?;
    let round_trip =
        |process: &Process| answers.by_process.get(&process.server_id).map(|it| it.after);
    if json {
        let row = |process: &Process| -> Row {
            let after = round_trip(process).map(|after| after.as_secs_f64() * 1e6);
            process_row(process).into_iter().chain([("round_trip_us", after.into())]).collect()
        };
        report::print_json(processes.iter().map(row).collect())?;
    } else {
        let cells = |process: &Process| {
            let after = round_trip(process).map_or_else(
                || "no answer".to_owned(),
                |after| format!("{:.3} ms", after.as_secs_f64() * 1e3),
            );
            process_cells(process).into_iter().chain([after]).collect()
        };
        let rows: Vec<Vec<String>> = processes.iter().map(cells).collect();
        report::print(&report::table(&["PID", "PROCESS", "ROUND TRIP"], &rows))?;
    }
    check_answers(&processes, &answers)
}

fn list(requester: &mut Requester, settings: &Settings, json: bool) -> anyhow::Result<()> {
    let processes = requester.processes()?;
    let clients = Registry::observe(&settings.directories.lock)?.list_clients()?.records;
    // A client that has not negotiated yet has a record without anything to show.
    let client_of = |process: &Process| -> Option<&ClientRecord> {
        let mut clients = clients.iter().filter(|client| client.dialect != 0);
        clients.find(|client| client.server_id == process.server_id)
    };
    if json {
        let row = |process: &Process| -> Row {
            let address = client_of(process).map(|client| client.client_address.clone());
            let id = format!("{:016x}", process.server_id.unique_id);
            let rest = [("unique_id", id.into()), ("client_address", address.into())];
            process_row(process).into_iter().chain(rest).collect()
        };
        return report::print_json(processes.iter().map(row).collect());
    }
    let cells = |process: &Process| {
        let address = client_of(process).map_or("-", |client| client.client_address.as_str());
        process_cells(process).into_iter().chain([address.to_owned()]).collect()
    };
    let rows: Vec<Vec<String>> = processes.iter().map(cells).collect();
    report::print(&report::table(&["PID", "PROCESS", "CLIENT"], &rows))
}

fn broadcast(requester: &mut Requester, text: String) -> anyhow::Result<()> {
    let data = Announcement { text }.encode();
    let (processes, _) =
        have_done(requester, Target::All, &Content::new(MessageKind::ANNOUNCE, &data))?;
    report::print(&format!("{processes} processes wrote it to the log.\n"))
}

pub(super) fn reload(requester: &mut Requester) -> anyhow::Result<()> {
    let content = Content::new(MessageKind::RELOAD_CONFIG, &[]);
    let (_, warnings) = have_done(requester, Target::Supervisor, &content)?;
    let remark = match warnings {
        0 => String::new(),
        1 => " There is a warning: see the log, or `choro check`.".to_owned(),
        _ => format!(" There are {warnings} warnings: see the log, or `choro check`."),
    };
    report::print(&format!("The configuration was reloaded and is in effect.{remark}\n"))
}

fn log_level(requester: &mut Requester, level: u32, target: Target) -> anyhow::Result<()> {
    let data = LogLevel { filter: level.to_string() }.encode();
    let (processes, _) =
        have_done(requester, target, &Content::new(MessageKind::LOG_LEVEL, &data))?;
    report::print(&format!("Log level {level} is in effect in {processes} processes.\n"))
}

fn close_share(
    requester: &mut Requester,
    settings: &Settings,
    share: String,
    target: Target,
) -> anyhow::Result<()> {
    let data = CloseShare { share: share.clone() }.encode();
    let (_, closed) = have_done(requester, target, &Content::new(MessageKind::CLOSE_SHARE, &data))?;
    let config = &settings.config;
    // A home share has the name of its user, and any name may be that of a user.
    let has_any_name = config.homes.is_some() || config.global.usershare_max_shares > 0;
    let is_known = share == "*" || has_any_name || config.share(&share).is_some();
    if closed == 0 && !is_known {
        bail!("nobody is connected to a share {share:?}, and the configuration has none");
    }
    report::print(&format!("{closed} tree connects were closed.\n"))
}

fn stats(requester: &mut Requester, target: Target, json: bool) -> anyhow::Result<()> {
    let processes = target.find(requester)?;
    let content = Content::new(MessageKind::COUNT_MESSAGES, &[]);
    let answers = requester
        .ask(&ids(&processes), &content, |answer| answer.kind == MessageKind::STATISTICS)?;
    let mut found = Vec::new();
    for process in &processes {
        if let Some(answer) = answers.by_process.get(&process.server_id) {
            let statistics = Statistics::decode(&answer.message.data);
            let statistics = statistics
                .with_context(|| format!("{} runs another version of choro", Named(process)))?;
            found.push((process, statistics));
        }
    }
    if json {
        let row = |(process, statistics): (&Process, Statistics)| {
            let head = process_row(process).into_iter().map(|(name, it)| (name.to_owned(), it));
            let transport = [("transport".to_owned(), statistics.transport.into())];
            let counters = statistics.counters.into_iter().map(|(name, it)| (name, it.into()));
            head.chain(transport).chain(counters).collect::<Vec<(String, Value)>>()
        };
        report::print_json(found.into_iter().map(row).collect())?;
    } else {
        let mut text = String::new();
        for (process, statistics) in found {
            text.push_str(&format!("{}, transport {}\n", Named(process), statistics.transport));
            let cells =
                |(name, value): &(String, u64)| vec![name.replace('_', " "), value.to_string()];
            // Most steps of the histogram are empty.
            let is_shown =
                |(name, value): &&(String, u64)| *value > 0 || !name.starts_with(LATENCY_STEP);
            let shown = statistics.counters.iter().filter(is_shown);
            let rows: Vec<Vec<String>> = shown.map(cells).collect();
            text.push_str(&report::table(&["COUNTER", "COUNT"], &rows));
            text.push('\n');
        }
        report::print(&text)?;
    }
    check_answers(&processes, &answers)
}

/// Sends a command to processes; returns their number and the sum of the results.
///
/// # Errors
/// A process did not answer, or refused.
fn have_done(
    requester: &mut Requester,
    target: Target,
    content: &Content<'_>,
) -> anyhow::Result<(usize, u64)> {
    let processes = target.find(requester)?;
    let done_of = |answer: &Message| {
        let done = Done::decode(&answer.data).filter(|_| answer.kind == MessageKind::DONE);
        done.filter(|done| done.request == content.kind)
    };
    let answers = requester.ask(&ids(&processes), content, |answer| done_of(answer).is_some())?;
    let mut count = 0;
    for process in &processes {
        let done =
            answers.by_process.get(&process.server_id).and_then(|answer| done_of(&answer.message));
        match done.map(|done| done.outcome) {
            Some(Ok(more)) => count += more,
            Some(Err(reason)) => bail!("{}: {reason}", Named(process)),
            None => {}
        }
    }
    check_answers(&processes, &answers)?;
    Ok((processes.len(), count))
}

/// # Errors
/// Names the processes that did not answer. Workers end with their clients at any time, so one of
/// several that has ended meanwhile is not reported.
fn check_answers(processes: &[Process], answers: &Answers) -> anyhow::Result<()> {
    let is_missing = |it: &&Process| {
        let id = &it.server_id;
        !answers.by_process.contains_key(id) && !answers.gone.contains(id)
    };
    let missing: Vec<String> =
        processes.iter().filter(is_missing).map(|it| Named(it).to_string()).collect();
    match (missing.as_slice(), processes) {
        ([], [only]) if answers.by_process.is_empty() => bail!("{} has ended", Named(only)),
        ([], _) => Ok(()),
        _ => bail!("no answer from {}", missing.join(", ")),
    }
}

fn ids(processes: &[Process]) -> Vec<ServerId> {
    processes.iter().map(|process| process.server_id).collect()
}

fn process_cells(process: &Process) -> [String; 2] {
    [process.server_id.pid.to_string(), process.role.name().to_owned()]
}

fn process_row(process: &Process) -> [(&'static str, Value); 2] {
    // The words of the text output, in the form of JSON names.
    let role = process.role.name().replace(' ', "_");
    [("pid", process.server_id.pid.into()), ("process", role.into())]
}

/// Displays a process with its role and pid.
struct Named<'a>(&'a Process);

impl std::fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Process { server_id, role } = self.0;
        write!(f, "{} {}", role.name(), server_id.pid)
    }
}
