//! Time that messages take from sender to receiver.

/// Histogram of messages by the time from send to receipt, in steps of powers of two.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Latency {
    counts: [u64; BUCKETS],
}

impl Latency {
    /// Adds a message with its latency in nanoseconds.
    pub(crate) fn add(&mut self, nanoseconds: u64) {
        let steps = 64 - (nanoseconds >> FIRST_STEP).leading_zeros() as usize;
        self.counts[steps.min(BUCKETS - 1)] += 1;
    }

    /// Adds the counts of another histogram.
    #[cfg(feature = "messaging-tdb")]
    pub(crate) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
    }

    /// Returns the steps with their upper bounds in nanoseconds (exclusive) and counts. The last
    /// step has no bound.
    pub fn steps(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let bound = |step: usize| (step + 1 < BUCKETS).then(|| 1 << (step + FIRST_STEP));
        self.counts.iter().enumerate().map(move |(step, count)| (bound(step), *count))
    }

    /// Number of messages in all steps.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the upper bound in nanoseconds of the step that contains the percentile; `None` if
    /// the histogram is empty, or for the last step.
    #[must_use]
    pub fn percentile(&self, percent: u8) -> Option<u64> {
        let wanted = (self.count() * u64::from(percent)).div_ceil(100).max(1);
        let mut count = 0;
        for (bound, more) in self.steps() {
            count += more;
            if count >= wanted {
                return bound;
            }
        }
        None
    }
}

/// Power of two at which the first step ends: 2¹⁰ ns, less than any message takes.
const FIRST_STEP: usize = 10;

/// Number of steps. The last but one ends at 2³⁷ ns, two minutes: longer than a message may wait.
const BUCKETS: usize = 29;

#[cfg(test)]
mod tests {
    use super::Latency;

    #[test]
    fn every_time_is_in_the_step_that_holds_it() {
        for (nanoseconds, want) in [
            (0, Some(1 << 10)),
            (1_023, Some(1 << 10)),
            (1_024, Some(1 << 11)),
            (1_000_000, Some(1 << 20)),
            ((1 << 37) - 1, Some(1 << 37)),
            (1 << 37, None),
            (u64::MAX, None),
        ] {
            let mut latency = Latency::default();
            latency.add(nanoseconds);
            let found: Vec<_> = latency.steps().filter(|(_, count)| *count > 0).collect();
            assert_eq!(found, [(want, 1)], "{nanoseconds}");
        }
    }

    #[test]
    fn percentiles_are_bounds_of_steps() {
        let mut latency = Latency::default();
        assert_eq!(latency.percentile(50), None);
        for _ in 0..99 {
            latency.add(1_500);
        }
        latency.add(1_000_000);
        assert_eq!(latency.percentile(50), Some(2_048));
        assert_eq!(latency.percentile(99), Some(2_048));
        assert_eq!(latency.percentile(100), Some(1 << 20));
        assert_eq!(latency.count(), 100);
    }
}
