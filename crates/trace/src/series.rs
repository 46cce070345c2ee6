//! Series of events of one kind: words in shared memory, each written by one thread.
//!
//! The writer loads, adds and stores: with only one writer nothing is lost, and readers see each
//! word whole.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Clock;

/// Number of buckets of a histogram.
///
/// Each power of two has four, so a value is exact to a quarter; the last bucket has all values
/// from 120 s on, in nanoseconds.
pub const BUCKETS: usize = 148;

/// A counter that events are added to.
///
/// Times are added in ticks of the clock.
pub(crate) trait Series {
    /// Name in the documentation and reports.
    const NAME: &'static str;

    fn add(&self, value: u64, clock: &Clock);

    fn read(&self, clock: &Clock) -> SeriesValue;
}

/// Number of events, without values.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Count(AtomicU64);

/// Number of events, and the sum of their values.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Sum {
    count: AtomicU64,
    total: AtomicU64,
}

/// Sum of the events' values.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Total(AtomicU64);

/// Sum of times, in ticks.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Time(AtomicU64);

/// Sum of times that is stored elsewhere: see `Phases`.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct TimeAside;

/// Histogram that is stored elsewhere: see `Histograms`.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct HistogramAside;

/// Histogram of times with their sum, minimum and maximum. The sum of the buckets is the number of
/// events.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Histogram {
    /// Sum in ticks; so are the minimum and the maximum.
    total: AtomicU64,
    min: AtomicU64,
    /// Number of values from the minimum to the maximum, so that one comparison tells whether a
    /// value is between them; zero without events.
    width: AtomicU64,
    max: AtomicU64,
    /// Number of events by nanoseconds.
    buckets: [AtomicU64; BUCKETS],
}

/// Values of a series at one moment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SeriesValue {
    /// Number of events so far.
    pub count: u64,
    /// Sum of all of their values.
    pub total: u64,
    /// Minimum of their values; of a difference, exact to a quarter.
    pub min: u64,
    /// Maximum of their values; of a difference, exact to a quarter.
    pub max: u64,
    /// Events by value: see [`bucket_range`]. Empty unless the series is a histogram.
    pub buckets: Vec<u64>,
}

#[inline]
pub(crate) fn add(to: &AtomicU64, value: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(value), Ordering::Relaxed);
}

impl Series for Count {
    const NAME: &'static str = "count";

    #[inline(always)]
    fn add(&self, _: u64, _: &Clock) {
        add(&self.0, 1);
    }

    fn read(&self, _: &Clock) -> SeriesValue {
        SeriesValue { count: self.0.load(Ordering::Relaxed), ..SeriesValue::default() }
    }
}

impl Series for Total {
    const NAME: &'static str = "total";

    #[inline(always)]
    fn add(&self, value: u64, _: &Clock) {
        add(&self.0, value);
    }

    fn read(&self, _: &Clock) -> SeriesValue {
        SeriesValue { total: self.0.load(Ordering::Relaxed), ..SeriesValue::default() }
    }
}

impl Series for Time {
    const NAME: &'static str = Total::NAME;

    #[inline(always)]
    fn add(&self, ticks: u64, _: &Clock) {
        add(&self.0, ticks);
    }

    fn read(&self, clock: &Clock) -> SeriesValue {
        let total = clock.ns(self.0.load(Ordering::Relaxed));
        SeriesValue { total, ..SeriesValue::default() }
    }
}

impl Series for Sum {
    const NAME: &'static str = "sum";

    #[inline(always)]
    fn add(&self, value: u64, _: &Clock) {
        add(&self.count, 1);
        add(&self.total, value);
    }

    fn read(&self, _: &Clock) -> SeriesValue {
        SeriesValue {
            count: self.count.load(Ordering::Relaxed),
            total: self.total.load(Ordering::Relaxed),
            ..SeriesValue::default()
        }
    }
}

impl Series for TimeAside {
    const NAME: &'static str = Total::NAME;

    #[inline(always)]
    fn add(&self, _: u64, _: &Clock) {}

    fn read(&self, _: &Clock) -> SeriesValue {
        SeriesValue::default()
    }
}

impl Series for HistogramAside {
    const NAME: &'static str = Histogram::NAME;

    #[inline(always)]
    fn add(&self, _: u64, _: &Clock) {}

    fn read(&self, _: &Clock) -> SeriesValue {
        SeriesValue::default()
    }
}

impl Series for Histogram {
    const NAME: &'static str = "histogram";

    #[inline(always)]
    fn add(&self, ticks: u64, clock: &Clock) {
        if !self.add_among(ticks, clock) {
            self.add_beyond(ticks, clock);
        }
    }

    fn read(&self, clock: &Clock) -> SeriesValue {
        let buckets: Vec<u64> = self.buckets.iter().map(|it| it.load(Ordering::Relaxed)).collect();
        let count = buckets.iter().fold(0, |sum: u64, it| sum.wrapping_add(*it));
        let [total, min, max] =
            [&self.total, &self.min, &self.max].map(|it| it.load(Ordering::Relaxed));
        let [total, min, max] = [total, min, max].map(|ticks| clock.ns(ticks));
        SeriesValue { count, total, min, max, buckets }
    }
}

impl Histogram {
    /// Adds a value between the minimum and the maximum so far. Returns false for any other value.
    #[inline(always)]
    pub(crate) fn add_among(&self, ticks: u64, clock: &Clock) -> bool {
        let above_min = ticks.wrapping_sub(self.min.load(Ordering::Relaxed));
        match self.buckets[ROUGH..].get(place_roughly(clock.ns_roughly(ticks.cast_signed()))) {
            Some(bucket) if above_min < self.width.load(Ordering::Relaxed) => {
                add(&self.total, ticks);
                add(bucket, 1);
                true
            }
            _ => false,
        }
    }

    /// Adds any value, such as the first one.
    #[cold]
    #[inline(never)]
    pub(crate) fn add_beyond(&self, ticks: u64, clock: &Clock) {
        // Negative: the counter of another processor was a little behind.
        let ticks = if ticks.cast_signed() < 0 { 0 } else { ticks };
        add(&self.total, ticks);
        add(&self.buckets[place(clock.ns(ticks)).min(BUCKETS - 1)], 1);
        let [min, max] = [&self.min, &self.max].map(|it| it.load(Ordering::Relaxed));
        let is_first = self.width.load(Ordering::Relaxed) == 0;
        let (min, max) = if is_first { (ticks, ticks) } else { (min.min(ticks), max.max(ticks)) };
        self.min.store(min, Ordering::Relaxed);
        self.max.store(max, Ordering::Relaxed);
        self.width.store((max - min).saturating_add(1), Ordering::Relaxed);
    }
}

/// Index of the first bucket found by [`place_roughly`].
const ROUGH: usize = 4;

/// Returns the index of a value's bucket, counted from [`ROUGH`]; values below 4 have no such
/// index.
///
/// The exponent of a floating point number and the two highest bits of its fraction identify the
/// bucket.
#[inline(always)]
fn place_roughly(value: f64) -> usize {
    const FIRST: u64 = 4.0_f64.to_bits() >> 50;
    let place = (value.to_bits() >> 50).wrapping_sub(FIRST);
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// Index of a value's bucket, possibly beyond the last one.
#[inline(always)]
fn place(value: u64) -> usize {
    // The two bits behind the highest one; below four, the value itself.
    let shift = (value | 4).ilog2() - 2;
    let index = (value >> shift) + u64::from(4 * shift);
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// Range of a bucket: its least value, and that of the next bucket.
#[must_use]
pub fn bucket_range(index: usize) -> (u64, u64) {
    let least = |index: usize| -> u64 {
        let index = u64::try_from(index).unwrap_or(u64::MAX);
        if index < 4 { index } else { (4 + index % 4) << (index / 4 - 1) }
    };
    (least(index), if index + 1 >= BUCKETS { u64::MAX } else { least(index + 1) })
}

impl SeriesValue {
    /// Returns the difference to an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let buckets: Vec<u64> = self
            .buckets
            .iter()
            .enumerate()
            .map(|(index, now)| now.wrapping_sub(earlier.buckets.get(index).copied().unwrap_or(0)))
            .collect();
        let count = self.count.wrapping_sub(earlier.count);
        // An unchanged minimum or maximum may be from before the earlier moment.
        let first = buckets.iter().position(|it| *it != 0).map_or(0, |it| bucket_range(it).0);
        let last = buckets.iter().rposition(|it| *it != 0).map_or(0, |it| bucket_range(it).1 - 1);
        let is_new = earlier.count == 0;
        Self {
            count,
            // The earlier read may have counted a moment too much for a phase that was just over.
            total: self.total.saturating_sub(earlier.total),
            min: if is_new || self.min != earlier.min { self.min } else { first.max(self.min) },
            max: if is_new || self.max != earlier.max { self.max } else { last.min(self.max) },
            buckets,
        }
    }

    /// Adds the values of another worker.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.wrapping_add(other.count);
        self.total = self.total.wrapping_add(other.total);
        if other.count == 0 {
            return;
        }
        self.min = if self.count == other.count { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.buckets.resize(self.buckets.len().max(other.buckets.len()), 0);
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine = mine.wrapping_add(*theirs);
        }
    }

    /// Mean of the values; zero without events.
    #[must_use]
    pub fn average(&self) -> u64 {
        self.total.checked_div(self.count).unwrap_or(0)
    }

    /// Value that `percent` of the events do not exceed, exact to a quarter.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> u64 {
        // In 128 bits nothing overflows, even for a corrupt page.
        let counted: u128 = self.buckets.iter().copied().map(u128::from).sum();
        if counted == 0 {
            return 0;
        }
        let rank = (counted * u128::from(percent)).div_ceil(100).max(1);
        let mut seen: u128 = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            if seen + u128::from(*count) >= rank {
                let (least, next) = bucket_range(index);
                // Interpolated, as if a bucket's events were evenly spread over it.
                let width = next.saturating_sub(least);
                let share = u128::from(width) * (rank - seen) / u128::from(*count);
                let value = least.saturating_add(u64::try_from(share).unwrap_or(width));
                // A concurrent write may leave a minimum above the maximum.
                return value.max(self.min).min(self.max);
            }
            seen += u128::from(*count);
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        BUCKETS, Histogram, ROUGH, Series, SeriesValue, bucket_range, place, place_roughly,
    };
    use std::sync::atomic::AtomicU64;

    fn bucket(value: u64) -> usize {
        place(value).min(BUCKETS - 1)
    }

    /// Histogram with ticks of one nanosecond.
    struct Values(Histogram);

    impl Values {
        fn add(&self, value: u64) {
            self.0.add(value, &crate::clock::Clock::of_kernel());
        }

        fn read(&self) -> SeriesValue {
            self.0.read(&crate::clock::Clock::of_kernel())
        }
    }

    fn histogram() -> Values {
        Values(Histogram {
            total: AtomicU64::new(0),
            min: AtomicU64::new(0),
            width: AtomicU64::new(0),
            max: AtomicU64::new(0),
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
        })
    }

    proptest! {
        #[test]
        fn every_value_is_in_the_range_of_its_bucket(value: u64) {
            let (least, next) = bucket_range(bucket(value));
            prop_assert!(least <= value && (value < next || next == u64::MAX));
        }

        #[test]
        fn the_quick_way_to_a_bucket_leads_to_the_same_one(exponent in 0..53_u32, value: u64) {
            // Each magnitude equally often.
            let value = value >> (11 + exponent);
            let quick = place_roughly(value as f64);
            let expected = (value >= 4).then(|| place(value));
            prop_assert_eq!((quick < usize::MAX / 2).then(|| quick + ROUGH), expected);
        }

        #[test]
        fn a_bucket_is_no_wider_than_a_quarter_of_its_values(value in 4_u64..1 << 37) {
            let (least, next) = bucket_range(bucket(value));
            prop_assert!(next - least <= least / 4);
        }

        #[test]
        fn a_percentile_is_as_right_as_the_buckets_are(
            mut values in proptest::collection::vec(1_u64..1 << 36, 1..200),
            percent in 1_u64..=100,
        ) {
            let histogram = histogram();
            values.iter().for_each(|value| histogram.add(*value));
            values.sort_unstable();
            let rank = (values.len() * usize::try_from(percent).unwrap()).div_ceil(100).max(1);
            let (least, next) = bucket_range(bucket(values[rank - 1]));
            let value = histogram.read().percentile(percent);
            prop_assert!(least <= value && value <= next, "{value} is not in {least}..{next}");
        }
    }

    #[test]
    fn ranges_of_buckets_follow_each_other() {
        for index in 1..BUCKETS {
            assert_eq!(bucket_range(index - 1).1, bucket_range(index).0);
        }
    }

    #[test]
    fn a_difference_knows_least_and_greatest_as_well_as_it_can() {
        let histogram = histogram();
        [10, 1_000_000].into_iter().for_each(|value| histogram.add(value));
        let before = histogram.read();
        assert_eq!((before.min, before.max), (10, 1_000_000));
        [500, 600].into_iter().for_each(|value| histogram.add(value));
        let later = histogram.read().since(&before);
        assert_eq!((later.count, later.total), (2, 1_100));
        assert!(later.min <= 500 && later.min > 400, "{}", later.min);
        assert!(later.max >= 600 && later.max < 750, "{}", later.max);
        histogram.add(2_000_000);
        assert_eq!(histogram.read().since(&before).max, 2_000_000);
    }

    #[test]
    fn a_series_that_was_read_while_it_was_written_or_is_a_lie_is_shown_all_the_same() {
        let torn = SeriesValue { count: 1, total: 7, min: u64::MAX, max: 0, buckets: vec![0, 1] };
        assert_eq!(torn.percentile(50), torn.max);
        let lie = SeriesValue {
            count: u64::MAX,
            total: u64::MAX,
            min: u64::MAX,
            max: 0,
            buckets: vec![u64::MAX; BUCKETS],
        };
        assert_eq!(lie.percentile(99), lie.max);
        let mut sum = lie.clone();
        sum.merge(&lie);
    }

    #[test]
    fn a_time_of_less_than_nothing_is_nothing_and_one_beyond_all_buckets_is_in_the_last() {
        let histogram = histogram();
        [500, 3_u64.wrapping_neg(), 1 << 40].into_iter().for_each(|value| histogram.add(value));
        let value = histogram.read();
        assert_eq!(
            (value.count, value.total, value.min, value.max),
            (3, 500 + (1 << 40), 0, 1 << 40)
        );
        assert_eq!((value.buckets[0], value.buckets[BUCKETS - 1]), (1, 1));
    }

    #[test]
    fn several_workers_are_added_up() {
        let [one, two] = [&[3_u64, 9][..], &[5, 700]].map(|values| {
            let histogram = histogram();
            values.iter().for_each(|value| histogram.add(*value));
            histogram.read()
        });
        let mut sum = SeriesValue::default();
        sum.merge(&SeriesValue { total: 11, ..SeriesValue::default() });
        assert_eq!(sum.total, 11, "time of a phase that is not over yet");
        [one, two].iter().for_each(|it| sum.merge(it));
        assert_eq!((sum.count, sum.total, sum.min, sum.max), (4, 728, 3, 700));
        assert_eq!(sum.buckets.iter().sum::<u64>(), 4);
    }

    #[test]
    fn nothing_has_no_figures() {
        let nothing = histogram().read();
        assert_eq!((nothing.min, nothing.max, nothing.average()), (0, 0, 0));
        assert_eq!(nothing.percentile(99), 0);
    }
}
