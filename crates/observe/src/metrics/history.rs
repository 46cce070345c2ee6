//! Data of the web page: activity in each of the last seconds.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::observation::{Interval, Row, Snapshot};

/// Points of one second each: a quarter of an hour.
const POINTS_MAX: usize = 900;

/// Bytes of all points, as JSON. A page gets them all when it is opened. A point of a small server
/// has 2 KiB, so the limit is reached only with many clients, whose history is then shorter.
const HISTORY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Points that a page gets which has the earlier ones. A browser may be late by some seconds.
const LATEST_POINTS: usize = 10;

/// Seconds that the tables of the page cover: long enough to be read, short enough to be current.
const RECENT: usize = 5;

/// Clients, shares and users with rows in a point: those with most requests. There may be thousands
/// of workers with a client each.
const ROWS_MAX: usize = 32;

#[derive(Debug)]
pub(super) struct History {
    /// Time of the start, in milliseconds: tells a page that its points are from an earlier run.
    server: u128,
    /// Points as JSON, oldest first.
    points: VecDeque<String>,
    points_bytes: usize,
    /// Number of the next point.
    next: u64,
    /// The last samples: one more than there are intervals.
    snapshots: VecDeque<Snapshot>,
}

impl Default for History {
    fn default() -> Self {
        let server = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let (points, snapshots) = (VecDeque::new(), VecDeque::new());
        Self { server, points, points_bytes: 0, next: 0, snapshots }
    }
}

impl History {
    /// Adds the activity between two samples. The oldest points are dropped at the limits.
    pub(super) fn add(&mut self, before: &Snapshot, now: &Snapshot) {
        let mut point = point(Interval::between(before, now));
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        point["number"] = self.next.into();
        point["unix_s"] = time.as_secs_f64().into();
        point["sessions"] = now.sessions.into();
        point["memory_bytes"] = now.workers.iter().map(|it| it.memory).sum::<u64>().into();
        self.next += 1;
        self.push(point.to_string());
        if self.snapshots.is_empty() {
            self.snapshots.push_back(before.clone());
        }
        self.snapshots.push_back(now.clone());
        if self.snapshots.len() > RECENT + 1 {
            self.snapshots.pop_front();
        }
    }

    fn push(&mut self, point: String) {
        self.points_bytes += point.len();
        self.points.push_back(point);
        while self.points.len() > POINTS_MAX || self.points_bytes > HISTORY_BYTES_MAX {
            let Some(oldest) = self.points.pop_front() else { break };
            self.points_bytes -= oldest.len();
        }
    }

    /// Returns all points, and the reason for a missing sample if there is one.
    pub(super) fn all(&self, why_not: Option<&String>) -> String {
        self.json(self.points.len(), why_not)
    }

    /// Likewise, the latest points only.
    pub(super) fn latest(&self, why_not: Option<&String>) -> String {
        self.json(LATEST_POINTS.min(self.points.len()), why_not)
    }

    fn json(&self, count: usize, why_not: Option<&String>) -> String {
        let ends = self.snapshots.front().zip(self.snapshots.back());
        let recent = ends.map(|(first, last)| busiest(Interval::between(first, last)).json());
        let [recent, error] = [json!(recent), json!(why_not)];
        let skipped = self.points.len() - count;
        let points: Vec<&str> = self.points.iter().skip(skipped).map(String::as_str).collect();
        let (server, points) = (self.server, points.join(","));
        format!(r#"{{"server":{server},"recent":{recent},"error":{error},"points":[{points}]}}"#)
    }
}

/// Limits the number of rows.
fn busiest(mut interval: Interval) -> Interval {
    for rows in [&mut interval.clients, &mut interval.shares, &mut interval.users] {
        rows.sort_by_key(|row| Reverse(row.requests));
        rows.truncate(ROWS_MAX);
    }
    interval
}

/// Returns an interval as the charts need it. Rows without requests are left out, since each row
/// is repeated in every point.
fn point(interval: Interval) -> Value {
    let clients = interval.clients.len();
    let interval = busiest(interval);
    let mut json = interval.json();
    for (key, name, rows) in [
        ("operations", "operation", &interval.operations),
        ("clients", "client", &interval.clients),
        ("shares", "share", &interval.shares),
        ("users", "user", &interval.users),
    ] {
        let active = rows.iter().filter(|row| row.requests > 0);
        json[key] = active.map(|row| values(name, row)).collect();
    }
    json["clients_count"] = clients.into();
    json
}

fn values(name: &str, row: &Row) -> Value {
    let mut json = json!({
        name: row.name,
        "requests": row.requests,
        "read_bytes": row.read_bytes,
        "written_bytes": row.written_bytes,
        "average_ns": row.average_ns(),
        "p50_ns": row.p50_ns,
        "p99_ns": row.p99_ns,
    });
    if row.worker_ns != 0 {
        json["busy_ns"] = row.busy_ns.into();
        json["workers_ns"] = row.worker_ns.into();
    }
    json
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use serde_json::Value;

    use super::{HISTORY_BYTES_MAX, History, LATEST_POINTS, POINTS_MAX, RECENT, ROWS_MAX, point};
    use crate::observation::{Interval, Row, Snapshot};

    fn snapshot() -> Snapshot {
        Snapshot {
            at: Instant::now(),
            workers: Vec::new(),
            total: trace::Figures::default(),
            classes: Vec::new(),
            logons: Vec::new(),
            violations: Vec::new(),
            sessions: Some(3),
            clients: Some(0),
            remark: None,
        }
    }

    fn parsed(json: &str) -> Value {
        serde_json::from_str(json).expect("it is JSON")
    }

    fn numbers(json: &Value) -> Vec<u64> {
        let points = json["points"].as_array().expect("an array");
        points.iter().map(|it| it["number"].as_u64().expect("a number")).collect()
    }

    #[test]
    fn the_oldest_points_make_room() {
        let snapshot = snapshot();
        let mut history = History::default();
        (0..POINTS_MAX + 5).for_each(|_| history.add(&snapshot, &snapshot));
        let json = parsed(&history.all(None));
        let last = u64::try_from(POINTS_MAX + 4).expect("it is small");
        assert_eq!(numbers(&json), (5..=last).collect::<Vec<_>>());
        assert_eq!(json["points"][0]["sessions"], 3);
        assert!(json["error"].is_null());
        assert_eq!(history.snapshots.len(), RECENT + 1);
        assert_eq!(json["recent"]["total"]["requests"], 0);
    }

    #[test]
    fn points_of_many_clients_leave_earlier_at_a_limit_of_bytes() {
        let mut history = History::default();
        let large = "7".repeat(HISTORY_BYTES_MAX / 4);
        (0..5).for_each(|_| history.push(large.clone()));
        assert_eq!((history.points.len(), history.points_bytes), (4, HISTORY_BYTES_MAX));
        history.push("8".to_owned());
        assert_eq!(history.points.len(), 4);
        assert_eq!(history.points_bytes, HISTORY_BYTES_MAX / 4 * 3 + 1);
        assert_eq!(history.points.back().map(String::as_str), Some("8"));
    }

    #[test]
    fn a_page_that_has_the_earlier_points_gets_the_latest_ones() {
        let snapshot = snapshot();
        let mut history = History::default();
        history.add(&snapshot, &snapshot);
        let reason = "the reason \"\u{1}\"".to_owned();
        let first = parsed(&history.latest(Some(&reason)));
        assert_eq!((numbers(&first), &first["error"]), (vec![0], &Value::from(reason)));
        (0..LATEST_POINTS).for_each(|_| history.add(&snapshot, &snapshot));
        let json = parsed(&history.latest(None));
        let last = u64::try_from(LATEST_POINTS).expect("it is small");
        assert_eq!(numbers(&json), (1..=last).collect::<Vec<_>>());
        assert_eq!(json["server"], parsed(&history.all(None))["server"]);
    }

    #[test]
    fn of_thousands_of_clients_the_busiest_have_rows_and_all_are_counted() {
        let row = |requests| Row { requests, ..Row::default() };
        let clients: Vec<Row> = (0..5_000).map(row).collect();
        let (shares, users) = (clients.clone(), clients.clone());
        let json = point(Interval { clients, shares, users, ..Interval::default() });
        for rows in ["clients", "shares", "users"] {
            let rows = json[rows].as_array().expect("rows");
            assert_eq!((rows.len(), rows[0]["requests"].as_u64()), (ROWS_MAX, Some(4_999)));
        }
        assert_eq!(json["clients_count"], 5_000);
    }

    #[test]
    fn a_name_without_requests_has_no_row_in_a_point() {
        let row = |name: &str, requests| Row { name: name.to_owned(), requests, ..Row::default() };
        let shares = vec![row("used", 1), row("unused", 0)];
        let json = point(Interval { shares, ..Interval::default() });
        assert_eq!(json["shares"].as_array().map(Vec::len), Some(1));
        assert_eq!(json["shares"][0]["share"], "used");
    }
}
