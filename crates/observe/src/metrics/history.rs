//! Data of the web page: activity in each of the last seconds.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::observation::{Interval, Snapshot};

/// Points of one second each: five minutes.
const POINTS_MAX: usize = 300;

/// Seconds that the tables of the page cover: long enough to be read, short enough to be current.
const RECENT: usize = 5;

/// Clients and shares with rows in a point: those with most requests. A row takes about a KiB, and
/// there may be thousands of workers with a client each.
const ROWS_MAX: usize = 32;

#[derive(Debug, Default)]
pub(super) struct History {
    points: VecDeque<Value>,
    /// The last samples: one more than there are intervals.
    snapshots: VecDeque<Snapshot>,
}

impl History {
    /// Adds the activity between two samples; the oldest point is dropped at the limit.
    pub(super) fn add(&mut self, before: &Snapshot, now: &Snapshot) {
        let mut point = busiest(Interval::between(before, now));
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        point["unix_s"] = time.as_secs_f64().into();
        point["sessions"] = now.sessions.into();
        point["memory_bytes"] = now.workers.iter().map(|it| it.memory).sum::<u64>().into();
        if self.points.len() >= POINTS_MAX {
            self.points.pop_front();
        }
        self.points.push_back(point);
        if self.snapshots.is_empty() {
            self.snapshots.push_back(before.clone());
        }
        self.snapshots.push_back(now.clone());
        if self.snapshots.len() > RECENT + 1 {
            self.snapshots.pop_front();
        }
    }

    /// Returns all points, and the reason for a missing sample if there is one.
    pub(super) fn json(&self, why_not: Option<&String>) -> Value {
        let ends = self.snapshots.front().zip(self.snapshots.back());
        let recent = ends.map(|(first, last)| busiest(Interval::between(first, last)));
        json!({"points": self.points, "recent": recent, "error": why_not})
    }
}

/// Returns an interval with a bounded number of rows, and the number of clients.
fn busiest(mut interval: Interval) -> Value {
    let clients = interval.clients.len();
    for rows in [&mut interval.clients, &mut interval.shares] {
        rows.sort_by_key(|row| Reverse(row.requests));
        rows.truncate(ROWS_MAX);
    }
    let mut json = interval.json();
    json["clients_count"] = clients.into();
    json
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{History, POINTS_MAX, RECENT, ROWS_MAX, busiest};
    use crate::observation::{Interval, Row, Snapshot};

    #[test]
    fn the_oldest_points_make_room() {
        let snapshot = Snapshot {
            at: Instant::now(),
            workers: Vec::new(),
            total: trace::Figures::default(),
            classes: Vec::new(),
            logons: Vec::new(),
            sessions: Some(3),
            clients: Some(0),
            remark: None,
        };
        let mut history = History::default();
        (0..POINTS_MAX + 5).for_each(|_| history.add(&snapshot, &snapshot));
        let json = history.json(None);
        assert_eq!(json["points"].as_array().map(Vec::len), Some(POINTS_MAX));
        assert_eq!(json["points"][0]["sessions"], 3);
        assert!(json["error"].is_null());
        assert_eq!(history.snapshots.len(), RECENT + 1);
        assert_eq!(json["recent"]["total"]["requests"], 0);
    }

    #[test]
    fn of_thousands_of_clients_the_busiest_have_rows_and_all_are_counted() {
        let row = |requests| Row { requests, ..Row::default() };
        let clients: Vec<Row> = (0..5_000).map(row).collect();
        let shares = clients.clone();
        let json = busiest(Interval { clients, shares, ..Interval::default() });
        for rows in ["clients", "shares"] {
            let rows = json[rows].as_array().expect("rows");
            assert_eq!((rows.len(), rows[0]["requests"].as_u64()), (ROWS_MAX, Some(4_999)));
        }
        assert_eq!(json["clients_count"], 5_000);
    }
}
