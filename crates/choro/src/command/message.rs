//! `choro message`.

mod target;
pub(super) mod visitor;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use dtyp::ServerId;
use messaging::{
    Announcement, CloseShare, Content, Done, LATENCY_STEP, LogLevel, Message, MessageKind, Process,
    Statistics,
};
use serde_json::Value;
use tables::{ClientRecord, Registry};

use crate::report::{self, Row};
use crate::settings::Settings;
use target::Target;
use visitor::{Answers, Visitor};

/// Ask something of the processes of a running server.
///
/// PROCESS is a pid, `supervisor`, `notifyd`, `workers` (those that have a client and those that
/// wait for one) or `all`.
///
/// Only the user that the server runs as may do this. Every process answers; one that has not done
/// so within the time that --timeout gives is named, and the exit code is 1. So it is if no server
/// runs, or there is no such process.
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
    /// See who answers, and how long that takes.
    Ping {
        #[arg(value_name = "PROCESS", default_value = "all")]
        target: Target,
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// List the processes of the server: what each is for, and whom it serves.
    List {
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Have every process write a line into the log, in whatever detail it logs.
    ///
    /// It marks the moment in all logs, for example before something is tried out.
    Broadcast {
        /// The line.
        #[arg(value_parser = announcement)]
        text: String,
    },
    /// Have the server read its configuration again, as SIGHUP does, and hear what came of it.
    ///
    /// A configuration that cannot be served changes nothing, and the reason is printed.
    Reload,
    /// Change the detail of the log until the configuration is read again.
    ///
    /// Processes that the supervisor starts later log as it does.
    LogLevel {
        /// From 0 to 10, as the first number of `log level`.
        #[arg(value_parser = clap::value_parser!(u32).range(0..=10))]
        level: u32,
        #[arg(value_name = "PROCESS", default_value = "all")]
        target: Target,
    },
    /// Disconnect all clients from a share, and close what they have open in it.
    ///
    /// Clients may connect it again at once: give it `available = no` and reload to keep them out.
    CloseShare {
        /// Its name; `*` is all shares.
        share: String,
        /// The workers whose clients are meant.
        #[arg(value_name = "PROCESS", default_value = "workers")]
        target: Target,
    },
    /// Show what the messages of processes have come to: counts since they started.
    ///
    /// The latency is that of messages that were received, from when they were told to be sent: bounds
    /// that 50, 99 and 100 of 100 were faster than, and how many were in each step of powers of two.
    Stats {
        #[arg(value_name = "PROCESS", default_value = "all")]
        target: Target,
        /// Print a JSON array with an object for each process.
        #[arg(long)]
        json: bool,
    },
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("a number of seconds from 0.001 to 3600 is wanted".to_owned()),
    }
}

/// A line of a log has an end, and there should be one only.
fn announcement(text: &str) -> Result<String, String> {
    match text {
        "" => Err("there is nothing to write".to_owned()),
        _ if text.len() > ANNOUNCEMENT_BYTES_MAX => {
            Err(format!("it is longer than {ANNOUNCEMENT_BYTES_MAX} bytes"))
        }
        _ if text.chars().any(char::is_control) => {
            Err("control characters and line breaks are not for a log".to_owned())
        }
        _ => Ok(text.to_owned()),
    }
}

const ANNOUNCEMENT_BYTES_MAX: usize = 1_024;

impl MessageCommand {
    pub(super) fn run(self, config: Option<&Path>) -> anyhow::Result<()> {
        let settings = Settings::find(config)?;
        let mut visitor = Visitor::join(&settings.directories.lock, self.timeout)?;
        match self.request {
            Request::Ping { target, json } => ping(&mut visitor, target, json),
            Request::List { json } => list(&mut visitor, &settings, json),
            Request::Broadcast { text } => broadcast(&mut visitor, text),
            Request::Reload => reload(&mut visitor),
            Request::LogLevel { level, target } => log_level(&mut visitor, level, target),
            Request::CloseShare { share, target } => {
                close_share(&mut visitor, &settings, share, target)
            }
            Request::Stats { target, json } => stats(&mut visitor, target, json),
        }
    }
}

fn ping(visitor: &mut Visitor, target: Target, json: bool) -> anyhow::Result<()> {
    let processes = target.find(visitor)?;
    let data = tables::random_unique_id().context("no randomness")?.to_le_bytes();
    let content = Content::new(MessageKind::PING, &data);
    let answers = visitor.ask(&ids(&processes), &content, |answer| {
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

fn list(visitor: &mut Visitor, settings: &Settings, json: bool) -> anyhow::Result<()> {
    let processes = visitor.processes()?;
    let clients = Registry::observe(&settings.directories.lock)?.list_clients()?.records;
    // One that has not negotiated yet is claimed, and has nothing to show.
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

fn broadcast(visitor: &mut Visitor, text: String) -> anyhow::Result<()> {
    let data = Announcement { text }.encode();
    let (processes, _) =
        have_done(visitor, Target::All, &Content::new(MessageKind::ANNOUNCE, &data))?;
    report::print(&format!("{processes} processes have written it into the log.\n"))
}

fn reload(visitor: &mut Visitor) -> anyhow::Result<()> {
    have_done(visitor, Target::Supervisor, &Content::new(MessageKind::RELOAD_CONFIG, &[]))?;
    report::print("The configuration was read again and is in effect.\n")
}

fn log_level(visitor: &mut Visitor, level: u32, target: Target) -> anyhow::Result<()> {
    let data = LogLevel { filter: level.to_string() }.encode();
    let (processes, _) = have_done(visitor, target, &Content::new(MessageKind::LOG_LEVEL, &data))?;
    report::print(&format!("Log level {level} is in effect in {processes} of the processes.\n"))
}

fn close_share(
    visitor: &mut Visitor,
    settings: &Settings,
    share: String,
    target: Target,
) -> anyhow::Result<()> {
    let data = CloseShare { share: share.clone() }.encode();
    let (_, closed) = have_done(visitor, target, &Content::new(MessageKind::CLOSE_SHARE, &data))?;
    let config = &settings.config;
    // A home has the name of its user, who may be anybody.
    let is_known = share == "*" || config.homes.is_some() || config.share(&share).is_some();
    if closed == 0 && !is_known {
        bail!("nobody is connected to a share {share:?}, and the configuration has none");
    }
    report::print(&format!("{closed} tree connects were closed.\n"))
}

fn stats(visitor: &mut Visitor, target: Target, json: bool) -> anyhow::Result<()> {
    let processes = target.find(visitor)?;
    let content = Content::new(MessageKind::COUNT_MESSAGES, &[]);
    let answers =
        visitor.ask(&ids(&processes), &content, |answer| answer.kind == MessageKind::STATISTICS)?;
    let mut found = Vec::new();
    for process in &processes {
        if let Some(answer) = answers.by_process.get(&process.server_id) {
            let statistics = Statistics::decode(&answer.message.data);
            let statistics =
                statistics.with_context(|| format!("{} is of another version", Named(process)))?;
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
            // Most steps of the latency are empty.
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

/// Has processes do something; how many there were, and how much they have done together.
///
/// # Errors
/// One of them did not answer, or could not do it.
fn have_done(
    visitor: &mut Visitor,
    target: Target,
    content: &Content<'_>,
) -> anyhow::Result<(usize, u64)> {
    let processes = target.find(visitor)?;
    let done_of = |answer: &Message| {
        let done = Done::decode(&answer.data).filter(|_| answer.kind == MessageKind::DONE);
        done.filter(|done| done.request == content.kind)
    };
    let answers = visitor.ask(&ids(&processes), content, |answer| done_of(answer).is_some())?;
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
/// Names those that did not answer. Clients leave at any time, and their workers with them; so one
/// of several that has ended meanwhile is not missed.
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
    // The same words as for people, in the form that names have in JSON.
    let role = process.role.name().replace(' ', "_");
    [("pid", process.server_id.pid.into()), ("process", role.into())]
}

/// A process as people are told of it.
struct Named<'a>(&'a Process);

impl std::fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Process { server_id, role } = self.0;
        write!(f, "{} {}", role.name(), server_id.pid)
    }
}
