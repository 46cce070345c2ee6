//! Metrics in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Display;

use trace::{Kind, Operation, Phase, SeriesValue, StoreOperation, bucket_range};

use crate::observation::Snapshot;

/// Bucket bounds of times, as powers of two of nanoseconds: 1 µs to 69 s.
const POWERS: std::ops::RangeInclusive<u32> = 10..=36;

/// Returns all metrics. `channels` counts connections of sessions, if workers reported them.
pub(super) fn text(snapshot: &Snapshot, channels: Option<usize>) -> String {
    let mut text = Text::default();
    let events = &snapshot.total.events;
    requests(&mut text, snapshot);
    storage(&mut text, snapshot);
    text.counter("choro_received_bytes_total", "Bytes of frames received from clients.");
    text.value(&[], events.frame_received.first().map_or(0, |it| it.total));
    text.counter("choro_sent_bytes_total", "Bytes of frames sent to clients.");
    text.value(&[], events.frame_sent.first().map_or(0, |it| it.total));
    text.counter("choro_logons_total", "Logons by outcome.");
    for (outcome, count) in &snapshot.logons {
        text.value(&[("outcome", outcome.name())], count);
    }
    text.counter(
        "choro_confinement_violations_total",
        "Processes that were ended for a system call that they may not make.",
    );
    for (kind, count) in &snapshot.violations {
        text.value(&[("process", kind.name())], count);
    }
    shares(&mut text, snapshot);
    phases(&mut text, snapshot);
    // Unknown values are left out.
    for (name, help, count) in [
        ("choro_clients", "Connected clients.", snapshot.clients),
        ("choro_sessions", "Sessions.", snapshot.sessions),
        ("choro_channels", "Connections of sessions.", channels),
    ] {
        if let Some(count) = count {
            text.gauge(name, help);
            text.value(&[], count);
        }
    }
    text.gauge("choro_workers", "Worker processes, idle ones included.");
    text.value(&[], snapshot.workers.len());
    text.gauge("choro_worker_memory_bytes", "Resident memory of a worker.");
    for worker in &snapshot.workers {
        let pid = worker.pid.to_string();
        text.value(&[("pid", &pid), ("client", &worker.client)], worker.memory);
    }
    classes(&mut text, snapshot);
    for (name, series) in [("sent", &events.message_sent), ("received", &events.message_received)] {
        let of = |value: fn(&SeriesValue) -> u64| series.first().map_or(0, value);
        text.counter(
            &format!("choro_messages_{name}_total"),
            "Messages of workers to and from other processes of the server.",
        );
        text.value(&[], of(|it| it.count));
        text.counter(&format!("choro_messages_{name}_bytes_total"), "Bytes of these messages.");
        text.value(&[], of(|it| it.total));
    }
    text.histogram(
        "choro_table_visit_duration_seconds",
        "Accesses to the tables shared by all processes.",
        &[(Vec::new(), &trace::all(&events.table_end))],
    );
    text.counter(
        "choro_untraced_requests_total",
        "Requests served but missing in the other metrics.",
    );
    text.value(&[], snapshot.total.untraced);
    text.text
}

fn requests(text: &mut Text, snapshot: &Snapshot) {
    let events = &snapshot.total.events;
    text.histogram(
        "choro_request_duration_seconds",
        "Time from the first byte of a request until the socket accepted its response.",
        &named::<Operation>("operation", &events.request_end),
    );
    text.counter("choro_request_failures_total", "Requests answered with an error.");
    for (label, value) in named::<Operation>("operation", &events.request_failed) {
        text.value(&label, value.count);
    }
    refusals(text, snapshot);
}

/// One value for each reason. With one for each command of it, clients could make some thousand
/// series by breaking rules; `choro trace` has the commands.
fn refusals(text: &mut Text, snapshot: &Snapshot) {
    text.counter("choro_request_refusals_total", "Requests refused, by reason (docs/refusals.md).");
    let mut by_reason: BTreeMap<u64, (&str, u64)> = BTreeMap::new();
    for refused in &snapshot.total.refusals {
        let named =
            by_reason.entry(refused.reason.number()).or_insert_with(|| (refused.reason.name(), 0));
        named.1 += refused.count;
    }
    for (name, count) in by_reason.values() {
        text.value(&[("reason", name)], count);
    }
    // A worker had no room for their reasons.
    if snapshot.total.other_refusals > 0 {
        text.value(&[("reason", "others")], snapshot.total.other_refusals);
    }
}

fn storage(text: &mut Text, snapshot: &Snapshot) {
    let events = &snapshot.total.events;
    text.histogram(
        "choro_storage_duration_seconds",
        "Time of file system operations.",
        &named::<StoreOperation>("operation", &events.store_end),
    );
    text.counter("choro_storage_bytes_total", "Bytes read from, written to or copied in files.");
    for (label, value) in named::<StoreOperation>("operation", &events.store_data) {
        text.value(&label, value.total);
    }
}

fn shares(text: &mut Text, snapshot: &Snapshot) {
    let shares = &snapshot.total.shares;
    let labelled = |name: &str| if name.is_empty() { "(others)" } else { name }.to_owned();
    let labels: Vec<(String, Vec<(&str, &SeriesValue)>)> = shares
        .iter()
        .map(|(name, it)| {
            let named = Operation::NAMES.iter().copied().zip(&it.operations);
            (labelled(name), named.filter(|(_, it)| it.count != 0).collect())
        })
        .collect();
    let series: Vec<(Labels<'_>, &SeriesValue)> = labels
        .iter()
        .flat_map(|(share, operations)| {
            let labelled = |(operation, values)| {
                (vec![("share", share.as_str()), ("operation", operation)], values)
            };
            operations.iter().copied().map(labelled)
        })
        .collect();
    text.histogram(
        "choro_share_request_duration_seconds",
        "Request time by share; (others): before a tree connect, or beyond the table's size.",
        &series,
    );
    text.counter("choro_share_read_bytes_total", "Bytes read, by share.");
    for (name, it) in shares {
        text.value(&[("share", &labelled(name))], it.read_bytes);
    }
    text.counter("choro_share_written_bytes_total", "Bytes written, by share.");
    for (name, it) in shares {
        text.value(&[("share", &labelled(name))], it.written_bytes);
    }
}

fn phases(text: &mut Text, snapshot: &Snapshot) {
    let events = &snapshot.total.events;
    for (name, help, series) in [
        ("choro_request_phase_seconds_total", "Time of requests by phase.", &events.request_phase),
        ("choro_worker_phase_seconds_total", "Time of workers by phase.", &events.phase),
    ] {
        text.counter(name, help);
        for (phase, value) in Phase::NAMES.iter().zip(series).filter(|(_, it)| it.total != 0) {
            text.value(&[("phase", phase)], seconds(value.total));
        }
    }
}

fn classes(text: &mut Text, snapshot: &Snapshot) {
    text.counter("choro_class_bytes_total", "Bytes transferred by a class of service.");
    for (name, it) in &snapshot.classes {
        text.value(&[("class", name), ("direction", "read")], it.read_bytes);
        text.value(&[("class", name), ("direction", "written")], it.written_bytes);
    }
    text.counter("choro_class_requests_total", "Requests of a class that were started.");
    for (name, it) in &snapshot.classes {
        text.value(&[("class", name)], it.operations);
    }
    text.counter("choro_class_held_total", "Requests of a class that a limit delayed.");
    for (name, it) in &snapshot.classes {
        text.value(&[("class", name)], it.throttled);
    }
    text.counter("choro_class_held_seconds_total", "Time for which a limit delayed them.");
    for (name, it) in &snapshot.classes {
        text.value(&[("class", name)], seconds(it.throttled_ns));
    }
    text.gauge("choro_class_waiting", "Requests of a class that wait for a limit now.");
    for (name, it) in &snapshot.classes {
        text.value(&[("class", name)], it.waiting);
    }
}

type Labels<'a> = Vec<(&'static str, &'a str)>;

/// Returns the non-empty series, each with its label.
fn named<'a, K: Kind>(
    label: &'static str,
    series: &'a [SeriesValue],
) -> Vec<(Labels<'static>, &'a SeriesValue)> {
    let named = K::NAMES.iter().zip(series).filter(|(_, it)| it.count != 0 || it.total != 0);
    named.map(|(name, value)| (vec![(label, *name)], value)).collect()
}

/// The text so far, and the name of the current metric.
#[derive(Debug, Default)]
struct Text {
    text: String,
    name: String,
}

impl Text {
    fn counter(&mut self, name: &str, help: &str) {
        self.begin(name, help, "counter");
    }

    fn gauge(&mut self, name: &str, help: &str) {
        self.begin(name, help, "gauge");
    }

    fn begin(&mut self, name: &str, help: &str, kind: &str) {
        self.text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        self.name = name.to_owned();
    }

    fn value(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, value);
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(&self.name);
        self.text.push_str(suffix);
        for (index, (name, value)) in labels.iter().enumerate() {
            let mark = if index == 0 { '{' } else { ',' };
            self.text.push_str(&format!("{mark}{name}=\"{}\"", escaped(value)));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        self.text.push_str(&format!("{end} {value}\n"));
    }

    fn histogram(&mut self, name: &str, help: &str, series: &[(Labels<'_>, &SeriesValue)]) {
        self.begin(name, help, "histogram");
        for (labels, values) in series {
            let mut bucket = |limit: &str, count: u64| {
                self.line("_bucket", &[&labels[..], &[("le", limit)]].concat(), count);
            };
            for power in POWERS {
                let limit = 1_u64 << power;
                let below = values.buckets.iter().enumerate();
                let below = below.filter(|(index, _)| bucket_range(*index).1 <= limit);
                bucket(&seconds(limit), below.map(|(_, count)| count).sum());
            }
            let count: u64 = values.buckets.iter().sum();
            bucket("+Inf", count);
            self.line("_sum", labels, seconds(values.total));
            self.line("_count", labels, count);
        }
    }
}

/// Formats seconds exactly: nanoseconds as nine decimal places.
fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use trace::{Answered, Came, Kind, Operation, Phase, Reason, Refused, Tracer};

    use super::{escaped, seconds, text};
    use crate::observation::Snapshot;

    fn snapshot() -> Snapshot {
        let tracer = Tracer::private(trace::Clock::of_kernel()).expect("there is memory");
        for _ in 0..3 {
            let request = tracer.begin(Came::default(), Phase::Parsing);
            request.identify(1, 8);
            request.belongs_to(tracer.party("a \"b\"", "somebody"));
            request.answer(0xC000_0022, None, &mut Answered::default());
        }
        Snapshot {
            at: Instant::now(),
            workers: Vec::new(),
            total: tracer.figures(),
            classes: vec![("gold".to_owned(), qos::slot::Figures::default())],
            logons: vec![(trace::LogonOutcome::User, 1)],
            violations: vec![(confinement::ProcessKind::Worker, 2)],
            sessions: Some(2),
            clients: Some(1),
            remark: None,
        }
    }

    #[test]
    fn every_line_is_one_of_the_format() {
        let text = text(&snapshot(), Some(4));
        assert!(text.contains("choro_confinement_violations_total{process=\"worker\"} 2\n"));
        let mut kinds = std::collections::HashMap::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match &words[..] {
                ["#", "HELP", ..] => {}
                ["#", "TYPE", name, kind] => {
                    assert_eq!(kinds.insert(name.to_string(), kind.to_string()), None, "{line}");
                }
                _ => {
                    let (name, value) = line.rsplit_once(' ').expect("a name and a value");
                    value.parse::<f64>().expect("a number");
                    let name = name.split('{').next().expect("a name");
                    let suffixes = ["_bucket", "_sum", "_count"];
                    let plain = suffixes.iter().find_map(|it| name.strip_suffix(it));
                    let is_known = |name: &str| kinds.contains_key(name);
                    assert!(is_known(name) || plain.is_some_and(is_known), "{line}");
                }
            }
        }
        for line in [
            "choro_request_duration_seconds_count{operation=\"READ\"} 3",
            "choro_request_duration_seconds_bucket{operation=\"READ\",le=\"+Inf\"} 3",
            "choro_request_failures_total{operation=\"READ\"} 3",
            "choro_share_request_duration_seconds_count{share=\"a \\\"b\\\"\",\
             operation=\"READ\"} 3",
            "choro_channels 4",
            "choro_sessions 2",
            "choro_class_held_total{class=\"gold\"} 0",
        ] {
            assert!(text.lines().any(|it| it == line), "no {line} in:\n{text}");
        }
    }

    #[test]
    fn refusals_have_a_line_for_each_reason_however_many_commands_were_refused() {
        let mut snapshot = snapshot();
        let refused = |reason, operation| Refused {
            reason: Reason::from_number(reason),
            operation: Operation::from_number(operation),
            count: 1,
        };
        let operations = 0..u64::try_from(Operation::NAMES.len()).expect("they are few");
        let reasons = 1..u64::try_from(Reason::NAMES.len()).expect("they are few");
        let pairs = reasons.flat_map(|reason| operations.clone().map(move |it| (reason, it)));
        snapshot.total.refusals = pairs.map(|(reason, it)| refused(reason, it)).collect();
        snapshot.total.other_refusals = 7;
        let text = text(&snapshot, None);
        let lines = text.lines().filter(|it| it.starts_with("choro_request_refusals_total{"));
        let lines: Vec<&str> = lines.collect();
        assert_eq!(lines.len(), Reason::NAMES.len(), "all reasons, and others");
        let of_each = format!("\"}} {}", Operation::NAMES.len());
        assert!(lines[0].ends_with(&of_each), "{}", lines[0]);
        assert_eq!(lines.last(), Some(&"choro_request_refusals_total{reason=\"others\"} 7"));
    }

    #[test]
    fn buckets_only_grow() {
        let text = text(&snapshot(), None);
        let buckets = text.lines().filter(|it| it.contains("_bucket{operation=\"READ\""));
        let counts = buckets.map(|it| it.rsplit(' ').next().and_then(|it| it.parse().ok()));
        let counts: Vec<u64> = counts.map(|it| it.expect("a number")).collect();
        assert!(counts.len() > 20 && counts.is_sorted(), "{counts:?}");
        assert!(!text.contains("choro_channels"), "what is not known is left out");
    }

    #[test]
    fn times_and_labels_are_exact() {
        assert_eq!(seconds(1_500_000_001), "1.500000001");
        assert_eq!(escaped("a\\b\"c\nd"), "a\\\\b\\\"c\\nd");
    }
}
