//! Histogram of times by size.

use serde::{Deserialize, Serialize};

/// Histogram with buckets of a 64th of their values, so that a percentile is exact to 1 % without a
/// list of all values.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Histogram {
    /// Number of times in each bucket.
    counts: Vec<u64>,
}

/// Powers of two of the number of buckets between one power of two and the next.
const STEP_BITS: u32 = 6;

impl Histogram {
    /// Counts a time in nanoseconds.
    pub fn add(&mut self, nanoseconds: u64) {
        let bucket = bucket_of(nanoseconds);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// The time in microseconds that this part of all, from 0 to 1, did not exceed; nothing when
    /// nothing was counted.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a count of what fits into seconds")]
    pub fn percentile_us(&self, part: f64) -> Option<f64> {
        let total: u64 = self.counts.iter().sum();
        let wanted = (total as f64 * part).max(1.0);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen as f64 >= wanted {
                return Some(middle_of(bucket) / 1000.0);
            }
        }
        None
    }
}

fn bucket_of(nanoseconds: u64) -> usize {
    let bits = u64::BITS - nanoseconds.leading_zeros();
    let shift = bits.saturating_sub(STEP_BITS + 1);
    let low = (nanoseconds >> shift) & ((1 << STEP_BITS) - 1);
    let octave = if nanoseconds < 1 << STEP_BITS { 0 } else { u64::from(shift) + 1 };
    usize::try_from((octave << STEP_BITS) | low).expect("at most 59 × 64")
}

#[expect(clippy::cast_precision_loss, reason = "a middle is a fraction anyway")]
fn middle_of(bucket: usize) -> f64 {
    let (octave, low) = (bucket >> STEP_BITS, (bucket & ((1 << STEP_BITS) - 1)) as f64);
    match octave {
        0 => low,
        octave => {
            let width = 2.0_f64.powi(i32::try_from(octave).unwrap_or(i32::MAX) - 1);
            (f64::from(1 << STEP_BITS) + low + 0.5) * width
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Histogram, bucket_of, middle_of};

    #[test]
    fn buckets_are_adjacent_and_hold_values_near_their_middle() {
        let mut last = 0;
        for nanoseconds in (0..200_000).chain((1_000_000..2_000_000_000).step_by(777_777)) {
            let bucket = bucket_of(nanoseconds);
            assert!(bucket == last || bucket == last + 1 || nanoseconds > 200_000, "{nanoseconds}");
            let (middle, value) = (middle_of(bucket), nanoseconds as f64);
            assert!((middle - value).abs() <= value / 64.0 + 1e-9, "{nanoseconds}: {middle}");
            last = bucket;
        }
        bucket_of(u64::MAX);
    }

    #[test]
    fn percentiles_are_of_all_that_was_added_and_merged() {
        let (mut low, mut high) = (Histogram::default(), Histogram::default());
        assert_eq!(low.percentile_us(0.5), None);
        (0..99).for_each(|_| low.add(10_000));
        high.add(5_000_000);
        low.merge(&high);
        let at = |part| low.percentile_us(part).expect("there are some");
        assert!((at(0.5) - 10.0).abs() < 0.2, "{}", at(0.5));
        assert!((at(0.99) - 10.0).abs() < 0.2, "{}", at(0.99));
        assert!((at(1.0) - 5000.0).abs() < 80.0, "{}", at(1.0));
    }
}
