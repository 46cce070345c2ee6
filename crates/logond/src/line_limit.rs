//! A limit on log lines that strangers can cause.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time of the last line, and the number of those that were left out since.
#[derive(Debug, Default)]
pub(crate) struct LineLimit(Mutex<(Option<Instant>, u64)>);

impl LineLimit {
    /// Returns the number of lines left out since the last one, or `None` if it is too early for
    /// another.
    pub(crate) fn permit(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, left_out) = &mut *state;
        if last.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) {
            *left_out += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(left_out))
    }
}

/// Shortest time between two lines.
const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{LineLimit, PAUSE};

    #[test]
    fn lines_in_between_are_counted() {
        let (line_limit, now) = (LineLimit::default(), Instant::now());
        assert_eq!(line_limit.permit(now), Some(0));
        assert_eq!(line_limit.permit(now + PAUSE - Duration::from_nanos(1)), None);
        assert_eq!(line_limit.permit(now), None);
        assert_eq!(line_limit.permit(now + PAUSE), Some(2));
    }
}
