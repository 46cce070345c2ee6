//! Medians and spread of samples.

use serde::Serialize;

use crate::table::figure;

/// Summary of a list of samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Median: the sample in the middle.
    pub median: f64,
    /// Minimum: the smallest of the samples.
    pub min: f64,
    /// Maximum: the largest of the samples.
    pub max: f64,
}

impl Summary {
    /// The summary of `samples`; nothing when there are none.
    #[must_use]
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut samples: Vec<f64> = samples.into_iter().collect();
        samples.sort_by(f64::total_cmp);
        let middle = samples.len() / 2;
        let upper = *samples.get(middle)?;
        let median = if samples.len().is_multiple_of(2) {
            f64::midpoint(samples[middle - 1], upper)
        } else {
            upper
        };
        Some(Self { median, min: samples[0], max: *samples.last()? })
    }

    /// The median and the spread, as figures in tables are.
    #[must_use]
    pub fn spread(&self) -> String {
        format!("{} ({}–{})", figure(self.median), figure(self.min), figure(self.max))
    }

    /// The same with three digits after the point, for parts of something.
    #[must_use]
    pub fn spread_of_parts(&self) -> String {
        format!("{:.3} ({:.3}–{:.3})", self.median, self.min, self.max)
    }

    /// Summary of `ours / theirs`, sample by sample; above 1, ours is better.
    ///
    /// The samples of one repetition were taken right after each other, so their ratio is
    /// independent of changes of the machine between repetitions.
    #[must_use]
    pub fn of_ratios(ours: &[f64], theirs: &[f64], more_is_better: bool) -> Option<Self> {
        Self::of(
            ours.iter().zip(theirs).map(
                |(ours, theirs)| {
                    if more_is_better { ours / theirs } else { theirs / ours }
                },
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Summary;

    #[test]
    fn the_median_of_an_odd_number_is_the_middle_one() {
        let summary = Summary::of([5.0, 1.0, 9.0]).expect("there are samples");
        assert_eq!(summary, Summary { median: 5.0, min: 1.0, max: 9.0 });
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        let summary = Summary::of([4.0, 1.0, 9.0, 2.0]).expect("there are samples");
        assert_eq!(summary, Summary { median: 3.0, min: 1.0, max: 9.0 });
    }

    #[test]
    fn nothing_has_no_median() {
        assert_eq!(Summary::of([]), None);
    }

    #[test]
    fn a_ratio_above_one_is_in_our_favor() {
        let rates = Summary::of_ratios(&[20.0, 60.0, 30.0], &[10.0, 20.0, 10.0], true);
        assert_eq!(rates, Some(Summary { median: 3.0, min: 2.0, max: 3.0 }));
        let costs = Summary::of_ratios(&[10.0], &[40.0], false);
        assert_eq!(costs, Some(Summary { median: 4.0, min: 4.0, max: 4.0 }));
    }
}
