//! The report: in the form of Samba's former tool `tsmbd`, and as JSON.

use serde_json::{Value, json};
use trace::{Figures, Kind, Operation, PartyValue, Phase, SeriesValue, StoreOperation, all};

use super::distribution;
use super::interval::percent;
use super::system_calls;
use super::watched::{Processor, Watched};
use crate::report::table;

/// Phases of a worker, with their names in the report.
const WORKER_PHASES: &[(Phase, &str)] = &[
    (Phase::Waiting, "waiting for events"),
    (Phase::Receiving, "receiving SMB2 packets"),
    (Phase::Verifying, "verifying and decrypting"),
    (Phase::Parsing, "parsing SMB2 packets"),
    (Phase::Running, "running SMB2 requests"),
    (Phase::Storage, "in the file system"),
    (Phase::Table, "in shared tables"),
    (Phase::Signing, "signing and encrypting"),
    (Phase::Sending, "sending SMB2 packets"),
    (Phase::Messages, "in messages"),
    (Phase::Other, "in other work"),
];

/// Work of lanes for a worker, with its names in the report.
const LANE_PHASES: &[(Phase, &str)] = &[(Phase::Verifying, "opening"), (Phase::Signing, "sealing")];

/// Counts of the traced workers.
#[derive(Debug)]
pub(super) struct Report {
    pids: Vec<u32>,
    ended: Vec<u32>,
    figures: Figures,
    processor: Processor,
    /// Of those who want them: system calls, or the reason why there are none.
    system_calls: Option<Result<system_calls::Counts, String>>,
}

impl Report {
    pub(super) fn of(watched: &mut Watched) -> Self {
        Self {
            pids: watched.pids(),
            ended: watched.ended(),
            figures: watched.figures(),
            processor: watched.processor(),
            system_calls: watched.system_calls(),
        }
    }

    /// Returns the report as text; `distributions` adds the histograms.
    pub(super) fn text(&self, distributions: bool) -> String {
        let mut text = self.summary();
        let events = &self.figures.events;
        let operations = named::<Operation>(&events.request_end);
        if !operations.is_empty() {
            text.push_str(&format!("\n{}", self.operations(&operations)));
            text.push_str(&format!("\n{}", self.request_phases()));
        }
        if !self.figures.refusals.is_empty() {
            text.push_str(&format!("\n{}", self.refusals()));
        }
        let stores = named::<StoreOperation>(&events.store_end);
        if let Some(calls) = &self.system_calls {
            text.push_str(&format!("\n{}", self.stores(&stores)));
            match calls {
                Ok(calls) => text.push_str(&format!("\n{}", calls.text())),
                Err(reason) => text.push_str(&format!("\nSystem calls are not shown: {reason}.\n")),
            }
        }
        for (title, parties) in [("Share", &self.figures.shares), ("User", &self.figures.users)] {
            if !parties.is_empty() {
                text.push_str(&format!("\n{}", party_table(title, parties)));
            }
        }
        if distributions {
            for (name, values) in &operations {
                text.push_str(&format!(
                    "\n{}",
                    distribution::text(&format!("SMB2_{name}"), values)
                ));
            }
            for (name, values) in &stores {
                let name = format!("Storage {name}");
                text.push_str(&format!("\n{}", distribution::text(&name, values)));
            }
        }
        text
    }

    fn summary(&self) -> String {
        let figures = &self.figures;
        let events = &figures.events;
        let io = |operation: StoreOperation| ms(total(&events.store_end, operation as usize));
        let data = |operation: StoreOperation| total(&events.store_data, operation as usize);
        let count = |series: &[SeriesValue]| all(series).count;
        let mut text: String =
            self.ended.iter().map(|pid| format!("Worker {pid} has ended.\n")).collect();
        if self.pids.len() != 1 {
            text.push_str(&line("Workers, whose times are added up:", self.workers(), ""));
        }
        text.push_str(&line("Ran for:", ms(figures.ns), "ms"));
        text.push('\n');
        for (phase, name) in WORKER_PHASES {
            text.push_str(&line(&format!("Time {name}:"), ms(figures.phase_ns(*phase)), "ms"));
        }
        text.push_str("=====\n");
        text.push_str(&line("Time sum:", ms(figures.phases_sum_ns()), "ms"));
        text.push('\n');
        // Lanes of a client with several channels work at the same time.
        for (phase, name) in LANE_PHASES {
            let ns = total(&events.lane_end, *phase as usize);
            if ns != 0 {
                text.push_str(&line(&format!("Time of other threads {name}:"), ms(ns), "ms"));
            }
        }
        if let Some(Ok(calls)) = &self.system_calls {
            text.push_str(&line("Time in system calls:", ms(calls.total_ns()), "ms"));
        }
        text.push_str(&line("Processor time in the kernel:", self.processor.system_ms, "ms"));
        text.push_str(&line("Processor time outside of it:", self.processor.user_ms, "ms"));
        text.push_str(&line("Time in READ disk IO:", io(StoreOperation::Read), "ms"));
        text.push_str(&line("Time in WRITE disk IO:", io(StoreOperation::Write), "ms"));
        text.push('\n');
        for (name, value) in [
            ("Number of events:", total(&events.woke, 0)),
            ("Number of SMB2 requests:", count(&events.request_end)),
            ("Number of table requests:", count(&events.table_end)),
            ("Number of messages sent:", count(&events.message_sent)),
            ("Number of messages received:", count(&events.message_received)),
            ("Bytes read from files:", data(StoreOperation::Read)),
            ("Bytes written to files:", data(StoreOperation::Write)),
            ("Bytes received:", total(&events.frame_received, 0)),
            ("Bytes sent:", total(&events.frame_sent, 0)),
        ] {
            text.push_str(&line(name, value, ""));
        }
        if figures.untraced != 0 {
            text.push_str(&line("Requests not traced:", figures.untraced, ""));
        }
        text
    }

    fn workers(&self) -> u64 {
        u64::try_from(self.pids.len()).unwrap_or(u64::MAX)
    }

    fn operations(&self, operations: &[(&str, &SeriesValue)]) -> String {
        let failed = named::<Operation>(&self.figures.events.request_failed);
        let rows: Vec<Vec<String>> = operations
            .iter()
            .map(|(name, values)| {
                let failed = failed.iter().find(|(other, _)| other == name);
                let mut cells = timing_cells(&format!("SMB2_{name}"), values);
                cells.push(failed.map_or(0, |(_, it)| it.count).to_string());
                cells
            })
            .collect();
        let mut titles = vec!["SMB2 Requests"];
        titles.extend(TIMING_TITLES);
        titles.push("Failed");
        table(&titles, &rows)
    }

    fn request_phases(&self) -> String {
        let phases = summed::<Phase>(&self.figures.events.request_phase);
        let sum: u64 = phases.iter().map(|(_, it)| it.total).sum();
        let rows: Vec<Vec<String>> = phases
            .iter()
            .map(|(name, it)| {
                let share = percent(it.total, sum);
                vec![(*name).to_owned(), us(it.total), format!("{share:.1} %")]
            })
            .collect();
        table(&["Requests were", "Total us", "Of their time"], &rows)
    }

    /// Returns the table of refusals, most frequent first.
    fn refusals(&self) -> String {
        let Figures { refusals, other_refusals, .. } = &self.figures;
        let mut refusals = refusals.clone();
        refusals.sort_by_key(|it| std::cmp::Reverse(it.count));
        let named = refusals.iter().map(|it| (it.reason.name(), it.operation.name(), it.count));
        let others = (*other_refusals != 0).then_some(("others", "", *other_refusals));
        let rows: Vec<Vec<String>> = named
            .chain(others)
            .map(|(reason, command, count)| {
                vec![reason.to_owned(), command.to_owned(), count.to_string()]
            })
            .collect();
        table(&["Refused for", "Command", "Count"], &rows)
    }

    fn stores(&self, stores: &[(&str, &SeriesValue)]) -> String {
        let data = summed::<StoreOperation>(&self.figures.events.store_data);
        let rows: Vec<Vec<String>> = stores
            .iter()
            .map(|(name, values)| {
                let data = data.iter().find(|(other, _)| other == name);
                let mut cells = timing_cells(name, values);
                cells.push(data.map_or(0, |(_, it)| it.total).to_string());
                cells
            })
            .collect();
        let mut titles = vec!["File system"];
        titles.extend(TIMING_TITLES);
        titles.push("Bytes");
        table(&titles, &rows)
    }

    /// Returns the report as JSON. Times are in nanoseconds.
    pub(super) fn json(&self) -> Value {
        let Figures { ns, events, shares, users, refusals, other_refusals, untraced } =
            &self.figures;
        let refusals: Vec<Value> = refusals
            .iter()
            .map(|it| {
                let (reason, operation) = (it.reason.name(), it.operation.name());
                json!({"reason": reason, "operation": operation, "count": it.count})
            })
            .collect();
        let phases: Vec<Value> = WORKER_PHASES
            .iter()
            .map(|(phase, _)| json!({"phase": phase.name(), "ns": self.figures.phase_ns(*phase)}))
            .collect();
        let in_phases = |series: &[SeriesValue]| -> Vec<Value> {
            summed::<Phase>(series)
                .iter()
                .map(|(name, it)| json!({"phase": name, "ns": it.total}))
                .collect()
        };
        let count = |series: &[SeriesValue], name: &str| {
            let found = named::<Operation>(series).into_iter().find(|(other, _)| *other == name);
            found.map_or(0, |(_, it)| it.count)
        };
        let operations: Vec<Value> = named::<Operation>(&events.request_end)
            .iter()
            .map(|(name, it)| {
                let mut value = timing_json("operation", name, it);
                value["failed"] = count(&events.request_failed, name).into();
                value
            })
            .collect();
        let data = summed::<StoreOperation>(&events.store_data);
        let stores: Vec<Value> = named::<StoreOperation>(&events.store_end)
            .iter()
            .map(|(name, it)| {
                let mut value = timing_json("operation", name, it);
                let bytes = data.iter().find(|(other, _)| other == name);
                value["bytes"] = bytes.map_or(0, |(_, it)| it.total).into();
                value
            })
            .collect();
        let sum = |series: &[SeriesValue]| {
            let it = all(series);
            json!({"count": it.count, "bytes": it.total})
        };
        let calls = self.system_calls.as_ref();
        json!({
            "pids": self.pids,
            "ended_pids": self.ended,
            "ran_ns": ns,
            "phases": phases,
            "phases_sum_ns": self.figures.phases_sum_ns(),
            "processor_user_ms": self.processor.user_ms,
            "processor_system_ms": self.processor.system_ms,
            "events": total(&events.woke, 0),
            "wakeups": all(&events.woke).count,
            "requests": operations,
            "refusals": refusals,
            "other_refusals": other_refusals,
            "request_phases": in_phases(&events.request_phase),
            "lanes": in_phases(&events.lane_end),
            "storage": stores,
            "system_calls": calls.and_then(|it| it.as_ref().ok()).map(system_calls::Counts::json),
            "system_calls_refused": calls.and_then(|it| it.as_ref().err()),
            "tables": timing_json("operation", "all", &all(&events.table_end)),
            "messages_sent": sum(&events.message_sent),
            "messages_received": sum(&events.message_received),
            "frames_received": sum(&events.frame_received),
            "frames_sent": sum(&events.frame_sent),
            "shares": party_json("share", shares),
            "users": party_json("user", users),
            "untraced_requests": untraced,
        })
    }
}

const TIMING_TITLES: &[&str] =
    &["Count", "Total us", "Avg us", "Min us", "Max us", "p50 us", "p99 us"];

fn timing_cells(name: &str, values: &SeriesValue) -> Vec<String> {
    vec![
        name.to_owned(),
        values.count.to_string(),
        us(values.total),
        us(values.average()),
        us(values.min),
        us(values.max),
        us(values.percentile(50)),
        us(values.percentile(99)),
    ]
}

fn timing_json(kind: &str, name: &str, values: &SeriesValue) -> Value {
    json!({
        kind: name,
        "count": values.count,
        "total_ns": values.total,
        "average_ns": values.average(),
        "min_ns": values.min,
        "max_ns": values.max,
        "p50_ns": values.percentile(50),
        "p99_ns": values.percentile(99),
        "distribution_us": distribution::rows(values)
            .into_iter()
            .map(|(least, count)| json!({"from": least, "count": count}))
            .collect::<Vec<_>>(),
    })
}

/// Returns the series that counted something, by name.
fn named<K: Kind>(series: &[SeriesValue]) -> Vec<(&'static str, &SeriesValue)> {
    K::NAMES.iter().copied().zip(series).filter(|(_, it)| it.count != 0).collect()
}

/// Returns the series with a sum above zero, by name.
fn summed<K: Kind>(series: &[SeriesValue]) -> Vec<(&'static str, &SeriesValue)> {
    K::NAMES.iter().copied().zip(series).filter(|(_, it)| it.total != 0).collect()
}

fn total(series: &[SeriesValue], index: usize) -> u64 {
    series.get(index).map_or(0, |it| it.total)
}

fn party_table(title: &str, parties: &[(String, PartyValue)]) -> String {
    let rows: Vec<Vec<String>> = parties
        .iter()
        .map(|(name, it)| {
            let mut cells = timing_cells(party_name(name), &it.times());
            cells.extend([it.read_bytes.to_string(), it.written_bytes.to_string()]);
            cells
        })
        .collect();
    let mut titles = vec![title];
    titles.extend(TIMING_TITLES);
    titles.extend(["Bytes read", "Bytes written"]);
    table(&titles, &rows)
}

fn party_json(kind: &str, parties: &[(String, PartyValue)]) -> Vec<Value> {
    let value = |(name, it): &(String, PartyValue)| {
        let times = it.times();
        json!({
            kind: if name.is_empty() { Value::Null } else { name.as_str().into() },
            "requests": times.count,
            "ns": times.total,
            "average_ns": times.average(),
            "min_ns": times.min,
            "max_ns": times.max,
            "p50_ns": times.percentile(50),
            "p99_ns": times.percentile(99),
            "read_bytes": it.read_bytes,
            "written_bytes": it.written_bytes,
        })
    };
    parties.iter().map(value).collect()
}

/// A name for requests without a share or client: those before a session or a tree connect, and
/// those beyond the table's size.
fn party_name(name: &str) -> &str {
    if name.is_empty() { "(others)" } else { name }
}

fn line(name: &str, value: u64, unit: &str) -> String {
    let line = format!("{name:36}{value:14} {unit}");
    format!("{}\n", line.trim_end())
}

fn ms(ns: u64) -> u64 {
    ns / 1_000_000
}

fn us(ns: u64) -> String {
    (ns / 1_000).to_string()
}
