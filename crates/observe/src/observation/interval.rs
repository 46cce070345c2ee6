//! Activity between two samples: rows by client, share, operation and class.

use std::collections::HashMap;
use std::time::Duration;

use qos::slot::Figures as ClassFigures;
use serde_json::{Map, Value, json};
use trace::{Figures, Kind as _, Operation, PartyValue, Phase, SeriesValue, StoreOperation, all};

use super::Snapshot;

/// Activity between two samples of the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interval {
    pub(crate) time: Duration,
    pub(crate) total: Row,
    pub(crate) clients: Vec<Row>,
    pub(crate) shares: Vec<Row>,
    pub(crate) users: Vec<Row>,
    pub(crate) operations: Vec<Row>,
    pub(crate) classes: Vec<Class>,
    /// Parts that are missing, and the reason.
    pub(crate) remark: Option<String>,
}

/// Activity of one subject, or of all together.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Row {
    /// The address of a client, a share, a user, an operation.
    pub(crate) name: String,
    /// Of a client: its worker and user.
    pub(crate) pid: Option<u32>,
    pub(crate) user: String,
    /// Number of requests that ended.
    pub(crate) requests: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    /// Sum of the times of these requests, in nanoseconds.
    pub(crate) ns: u64,
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    /// Time by phase, longest first; unknown for shares, users and operations. Waiting for an event
    /// is left out, since it takes as long as the client likes.
    pub(crate) phases: Vec<(Phase, u64)>,
    /// Of a client: how long its worker was busy, and how long it was looked at.
    pub(crate) busy_ns: u64,
    pub(crate) worker_ns: u64,
}

/// Use of a class of service.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Class {
    pub(crate) name: String,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) operations: u64,
    pub(crate) throttled: u64,
    pub(crate) throttled_ns: u64,
    pub(crate) waiting: u64,
}

impl Interval {
    /// Subtracts the counts of two samples.
    pub(crate) fn between(before: &Snapshot, after: &Snapshot) -> Self {
        let total = after.total.since(&before.total);
        let id = |worker: &super::WorkerSnapshot| (worker.pid, worker.unique_id);
        let earlier: HashMap<_, _> =
            before.workers.iter().map(|it| (id(it), &it.figures)).collect();
        let clients = after.workers.iter().filter(|it| !it.client.is_empty()).map(|worker| {
            let earlier = earlier.get(&id(worker)).copied();
            let nothing = Figures::default();
            let figures = worker.figures.since(earlier.unwrap_or(&nothing));
            let user = worker.user.clone();
            Row { pid: Some(worker.pid), user, ..Row::of(worker.client.clone(), &figures) }
        });
        let classes = after.classes.iter().map(|(name, now)| {
            let earlier = before.classes.iter().find(|(other, _)| other == name);
            Class::between(name, earlier.map(|(_, it)| it), now)
        });
        Self {
            time: after.at.saturating_duration_since(before.at),
            clients: clients.collect(),
            shares: total.shares.iter().map(|(name, it)| Row::of_party(name, it)).collect(),
            users: total.users.iter().map(|(name, it)| Row::of_party(name, it)).collect(),
            operations: operations(&total),
            classes: classes.collect(),
            total: Row::of("all".to_owned(), &total),
            remark: after.remark.clone(),
        }
    }

    /// For programs: amounts of the whole interval, times in nanoseconds.
    pub(crate) fn json(&self) -> Value {
        let rows = |key: &str, rows: &[Row]| -> Vec<Value> {
            rows.iter().map(|row| row.json(key)).collect()
        };
        let classes = self.classes.iter().map(Class::json);
        json!({
            "seconds": self.time.as_secs_f64(),
            "total": self.total.json("name"),
            "clients": rows("client", &self.clients),
            "shares": rows("share", &self.shares),
            "users": rows("user", &self.users),
            "operations": rows("operation", &self.operations),
            "classes": classes.collect::<Vec<_>>(),
            "remark": self.remark,
        })
    }
}

impl Row {
    /// Activity of one worker, or of all together.
    pub(crate) fn of(name: String, figures: &Figures) -> Self {
        let events = &figures.events;
        let requests = all(&events.request_end);
        let bytes = |operation: StoreOperation| {
            events.store_data.get(operation as usize).map_or(0, |it| it.total)
        };
        let mut phases: Vec<(Phase, u64)> = Phase::ALL
            .iter()
            .zip(&events.request_phase)
            .map(|(phase, it)| (*phase, it.total))
            .filter(|(phase, ns)| *ns != 0 && *phase != Phase::Event)
            .collect();
        phases.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        Self {
            requests: requests.count,
            read_bytes: bytes(StoreOperation::Read),
            written_bytes: bytes(StoreOperation::Write),
            ns: requests.total,
            phases,
            busy_ns: figures.ns.saturating_sub(figures.phase_ns(Phase::Waiting)),
            worker_ns: figures.ns,
            ..Self::timed(name, &requests)
        }
    }

    /// Activity of a share or a user.
    fn of_party(name: &str, it: &PartyValue) -> Self {
        let name = if name.is_empty() { "(others)" } else { name }.to_owned();
        Self {
            read_bytes: it.read_bytes,
            written_bytes: it.written_bytes,
            ..Self::timed(name, &it.times())
        }
    }

    fn timed(name: String, values: &SeriesValue) -> Self {
        Self {
            name,
            requests: values.count,
            ns: values.total,
            p50_ns: values.percentile(50),
            p99_ns: values.percentile(99),
            ..Self::default()
        }
    }

    /// The mean time of a request.
    pub(crate) fn average_ns(&self) -> u64 {
        self.ns.checked_div(self.requests).unwrap_or(0)
    }

    /// Bytes of data, read and written.
    pub(crate) fn bytes(&self) -> u64 {
        self.read_bytes + self.written_bytes
    }

    /// Returns the phase with most of the time.
    pub(crate) fn slowest(&self) -> Option<(Phase, u64)> {
        self.phases.first().copied()
    }

    /// The same in words that need no explanation: what its client waits for.
    pub(crate) fn time_goes_to(&self) -> Option<String> {
        let (phase, ns) = self.slowest()?;
        let (what, name) = (cause(phase), phase.name());
        let what = if what == name { what.to_owned() } else { format!("{what} ({name})") };
        let all: u64 = self.phases.iter().map(|(_, ns)| ns).sum();
        Some(format!("{what} {:.0} %", percent(ns, all)))
    }

    fn json(&self, key: &str) -> Value {
        let phases: Map<String, Value> =
            self.phases.iter().map(|(phase, ns)| (phase.name().to_owned(), (*ns).into())).collect();
        let mut object = json!({
            key: self.name,
            "requests": self.requests,
            "read_bytes": self.read_bytes,
            "written_bytes": self.written_bytes,
            "total_ns": self.ns,
            "average_ns": self.average_ns(),
            "p50_ns": self.p50_ns,
            "p99_ns": self.p99_ns,
        });
        if self.worker_ns != 0 {
            object["slowest_phase"] = self.slowest().map(|(phase, _)| phase.name()).into();
            object["time_goes_to"] = self.time_goes_to().into();
            object["phases_ns"] = phases.into();
            object["busy_ns"] = self.busy_ns.into();
            object["workers_ns"] = self.worker_ns.into();
        }
        if let Some(pid) = self.pid {
            object["pid"] = pid.into();
            object["user"] = self.user.as_str().into();
        }
        object
    }
}

/// Returns the cause of a delay in a phase, for people who do not know the phases.
fn cause(phase: Phase) -> &'static str {
    match phase {
        // The bytes of a request come, or those of its response go, as fast as the other side lets
        // them.
        Phase::Receiving | Phase::Sending => "network or client",
        Phase::Throttled => "QoS limit",
        Phase::Storage => "storage",
        Phase::Break => "another client",
        Phase::Event => "an event",
        Phase::Waiting
        | Phase::Queued
        | Phase::Verifying
        | Phase::Parsing
        | Phase::Running
        | Phase::Peer
        | Phase::Table
        | Phase::Signing
        | Phase::Messages
        | Phase::Other => "server",
    }
}

#[expect(clippy::cast_precision_loss, reason = "it is shown without digits")]
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

fn operations(figures: &Figures) -> Vec<Row> {
    let bytes = |operation: usize, wanted: Operation, of: StoreOperation| {
        let data = figures.events.store_data.get(of as usize).map_or(0, |it| it.total);
        if operation == wanted as usize { data } else { 0 }
    };
    let named = Operation::NAMES.iter().zip(&figures.events.request_end).enumerate();
    let rows = named.filter(|(_, (_, it))| it.count != 0).map(|(operation, (name, it))| Row {
        read_bytes: bytes(operation, Operation::Read, StoreOperation::Read),
        written_bytes: bytes(operation, Operation::Write, StoreOperation::Write),
        ..Row::timed((*name).to_owned(), it)
    });
    rows.collect()
}

impl Class {
    fn between(name: &str, earlier: Option<&ClassFigures>, now: &ClassFigures) -> Self {
        let since =
            |field: fn(&ClassFigures) -> u64| field(now).saturating_sub(earlier.map_or(0, field));
        Self {
            name: name.to_owned(),
            read_bytes: since(|it| it.read_bytes),
            written_bytes: since(|it| it.written_bytes),
            operations: since(|it| it.operations),
            throttled: since(|it| it.throttled),
            throttled_ns: since(|it| it.throttled_ns),
            waiting: now.waiting,
        }
    }

    fn json(&self) -> Value {
        json!({
            "class": self.name,
            "read_bytes": self.read_bytes,
            "written_bytes": self.written_bytes,
            "operations": self.operations,
            "throttled": self.throttled,
            "throttled_ns": self.throttled_ns,
            "waiting": self.waiting,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use trace::{Came, Phase, StoreOperation, Tracer};

    use super::{Interval, Row};
    use crate::observation::{Snapshot, WorkerSnapshot};

    fn snapshot(at: Instant, tracer: &Tracer) -> Snapshot {
        let figures = tracer.figures();
        let worker = WorkerSnapshot {
            pid: 7,
            unique_id: 9,
            client: "192.0.2.1:50000".to_owned(),
            user: "somebody".to_owned(),
            figures: figures.clone(),
            memory: 0,
        };
        let idle = WorkerSnapshot { pid: 8, ..WorkerSnapshot::default() };
        let workers = vec![worker, idle];
        Snapshot {
            at,
            workers,
            total: figures,
            classes: Vec::new(),
            logons: Vec::new(),
            violations: Vec::new(),
            sessions: Some(1),
            clients: Some(1),
            remark: None,
        }
    }

    fn read(tracer: &Tracer) {
        let request = tracer.begin(Came::default(), Phase::Parsing);
        request.identify(1, 8);
        request.wait(Phase::Storage);
        let work = tracer.store_begins(StoreOperation::Read, true);
        std::thread::sleep(Duration::from_millis(2));
        tracer.store_ends(work, 4_096, 0);
        request.resume();
        request.belongs_to(tracer.party("data", "somebody"));
        request.answer(0, None, &mut trace::Answered::default());
    }

    #[test]
    fn an_interval_has_the_events_between_two_observations_and_nothing_older() {
        let tracer = Tracer::private(trace::Clock::of_kernel()).expect("there is memory");
        read(&tracer);
        let at = Instant::now();
        let first = snapshot(at, &tracer);
        read(&tracer);
        let interval = Interval::between(&first, &snapshot(at + Duration::from_secs(2), &tracer));
        assert_eq!(interval.time, Duration::from_secs(2));
        let [client] = &interval.clients[..] else { panic!("{interval:?}") };
        assert_eq!((client.name.as_str(), client.user.as_str()), ("192.0.2.1:50000", "somebody"));
        assert_eq!((client.requests, client.read_bytes, client.pid), (1, 4_096, Some(7)));
        assert_eq!(client.slowest().map(|(phase, _)| phase), Some(Phase::Storage));
        let in_phases: u64 = client.phases.iter().map(|(_, ns)| ns).sum();
        assert!(in_phases.abs_diff(client.ns) < 32, "{in_phases} {}", client.ns);
        assert_eq!((interval.shares.len(), interval.shares[0].name.as_str()), (1, "data"));
        assert_eq!(interval.shares[0].read_bytes, 4_096);
        let [user] = &interval.users[..] else { panic!("{interval:?}") };
        assert_eq!((user.name.as_str(), user.requests, user.read_bytes), ("somebody", 1, 4_096));
        assert!(interval.shares[0].p99_ns >= 2_000_000, "{interval:?}");
        assert_eq!((interval.operations.len(), interval.operations[0].name.as_str()), (1, "READ"));
        let json = interval.json();
        assert_eq!(json["clients"][0]["slowest_phase"], "storage");
        let words = json["clients"][0]["time_goes_to"].as_str().expect("it did something");
        assert!(words.starts_with("storage ") && words.ends_with(" %"), "{words}");
        assert_eq!(json["operations"][0]["requests"], 1);
    }

    #[test]
    fn the_cause_of_a_slow_client_is_written_in_words() {
        let words = |phases: &[(Phase, u64)]| {
            Row { phases: phases.to_vec(), ..Row::default() }.time_goes_to()
        };
        let of = |phase: Phase| words(&[(phase, 3), (Phase::Parsing, 1)]).expect("it took time");
        assert_eq!(of(Phase::Sending), "network or client (sending) 75 %");
        assert_eq!(of(Phase::Receiving), "network or client (receiving) 75 %");
        assert_eq!(of(Phase::Storage), "storage 75 %");
        assert_eq!(of(Phase::Throttled), "QoS limit (throttled) 75 %");
        assert_eq!(of(Phase::Break), "another client (waiting for a break) 75 %");
        assert_eq!(of(Phase::Signing), "server (signing) 75 %");
        assert_eq!(words(&[]), None);
    }

    #[test]
    fn between_a_look_and_itself_nothing_was_done() {
        let tracer = Tracer::private(trace::Clock::of_kernel()).expect("there is memory");
        read(&tracer);
        let snapshot = snapshot(Instant::now(), &tracer);
        let interval = Interval::between(&snapshot, &snapshot);
        assert_eq!((interval.total.requests, interval.total.bytes()), (0, 0));
        assert_eq!(interval.clients[0].slowest(), None);
        assert!(interval.operations.is_empty() && interval.shares.is_empty());
    }
}
