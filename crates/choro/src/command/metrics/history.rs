//! What the page shows: what was done in each of the last seconds.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::observation::{Interval, Look};

/// Five minutes of seconds.
const POINTS_MAX: usize = 300;

/// Seconds that tables are about: long enough to be read, short enough to be about now.
const RECENT: usize = 5;

#[derive(Debug, Default)]
pub(super) struct History {
    points: VecDeque<Value>,
    /// The last looks; there is one more of them than there are seconds between them.
    looks: VecDeque<Look>,
}

impl History {
    /// What was done between two looks; the oldest point is forgotten if there are too many.
    pub(super) fn add(&mut self, before: &Look, now: &Look) {
        let mut point = Interval::between(before, now).json();
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        point["unix_s"] = time.as_secs_f64().into();
        point["sessions"] = now.sessions.into();
        point["memory_bytes"] = now.workers.iter().map(|it| it.memory).sum::<u64>().into();
        if self.points.len() >= POINTS_MAX {
            self.points.pop_front();
        }
        self.points.push_back(point);
        if self.looks.is_empty() {
            self.looks.push_back(before.clone());
        }
        self.looks.push_back(now.clone());
        if self.looks.len() > RECENT + 1 {
            self.looks.pop_front();
        }
    }

    /// All of it, and why there is nothing at the moment, if that is so.
    pub(super) fn json(&self, why_not: Option<&String>) -> Value {
        let ends = self.looks.front().zip(self.looks.back());
        let recent = ends.map(|(first, last)| Interval::between(first, last).json());
        json!({"points": self.points, "recent": recent, "error": why_not})
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{History, POINTS_MAX, RECENT};
    use crate::observation::Look;

    #[test]
    fn the_oldest_points_make_room() {
        let look = Look {
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
        (0..POINTS_MAX + 5).for_each(|_| history.add(&look, &look));
        let json = history.json(None);
        assert_eq!(json["points"].as_array().map(Vec::len), Some(POINTS_MAX));
        assert_eq!(json["points"][0]["sessions"], 3);
        assert!(json["error"].is_null());
        assert_eq!(history.looks.len(), RECENT + 1);
        assert_eq!(json["recent"]["total"]["requests"], 0);
    }
}
