//! Limit on the answers of one protocol.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Answers at once: more than all machines of an office ask for when they are switched on.
const ANSWERS_MAX: u32 = 100;

/// Interval between further answers. A request with a forged address makes the server send to a
/// victim; so little is of no use for that.
const INTERVAL: Duration = Duration::from_millis(50);

/// Answers that may still be sent.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Answers, and the time up to which they were counted.
    state: Cell<(u32, Instant)>,
}

impl Budget {
    pub(crate) fn new(now: Instant) -> Self {
        Self { state: Cell::new((ANSWERS_MAX, now)) }
    }

    /// Takes an answer. False if none is left.
    pub(crate) fn take(&self, now: Instant) -> bool {
        let (answers, counted) = self.state.get();
        let passed = now.saturating_duration_since(counted).as_nanos();
        let more = u32::try_from(passed / INTERVAL.as_nanos()).unwrap_or(ANSWERS_MAX);
        let counted = if more >= ANSWERS_MAX { now } else { counted + INTERVAL * more };
        let left = answers.saturating_add(more).min(ANSWERS_MAX).checked_sub(1);
        self.state.set((left.unwrap_or(0), counted));
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Budget;

    #[test]
    fn a_flood_gets_few_answers_and_a_single_question_one() {
        let start = Instant::now();
        let budget = Budget::new(start);
        let flood = (0..10_000).map(|at| start + Duration::from_millis(at));
        let answers = flood.filter(|at| budget.take(*at)).count();
        assert_eq!(answers, 100 + 199);
        assert!(budget.take(start + Duration::from_secs(3_600)));
    }
}
