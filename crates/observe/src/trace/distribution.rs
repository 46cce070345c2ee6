//! Histograms of times by powers of two, as SystemTap draws them.

use trace::{SeriesValue, bucket_range};

/// Columns of the longest bar.
const BAR: u64 = 60;

/// Returns rows of microseconds, from one before the first that is not empty to one after the last.
/// Empty if no event was counted.
pub(super) fn rows(values: &SeriesValue) -> Vec<(u64, u64)> {
    let mut rows: Vec<u64> = Vec::new();
    for (index, count) in values.buckets.iter().enumerate().filter(|(_, count)| **count != 0) {
        let (least, next) = bucket_range(index);
        let middle_us = (least / 2 + next / 2) / 1_000;
        let row = usize::try_from(middle_us.checked_ilog2().map_or(0, |it| it + 1)).unwrap_or(0);
        if rows.len() <= row {
            rows.resize(row + 1, 0);
        }
        rows[row] += count;
    }
    let Some(first) = rows.iter().position(|count| *count != 0) else { return Vec::new() };
    rows.push(0);
    let least = |row: usize| if row == 0 { 0 } else { 1 << (row - 1) };
    (first.saturating_sub(1)..rows.len()).map(|row| (least(row), rows[row])).collect()
}

/// Draws the rows with their bars.
pub(super) fn text(name: &str, values: &SeriesValue) -> String {
    let rows = rows(values);
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let mut text = format!("{name} distribution (microseconds)\n    value |----- count\n");
    for (least, count) in rows {
        let length = usize::try_from((count * BAR).div_ceil(most)).unwrap_or(0);
        let gap = if length == 0 { "" } else { " " };
        text.push_str(&format!("{least:9} |{}{gap}{count}\n", "@".repeat(length)));
    }
    text
}

#[cfg(test)]
mod tests {
    use trace::{BUCKETS, SeriesValue, bucket_range};

    use super::{rows, text};

    /// A histogram with this many events of each time.
    fn values(ns: &[(u64, u64)]) -> SeriesValue {
        let mut buckets = vec![0; BUCKETS];
        for (ns, count) in ns {
            let index =
                (0..BUCKETS).find(|it| *ns < bucket_range(*it).1).expect("the last is open");
            buckets[index] += count;
        }
        SeriesValue { buckets, ..SeriesValue::default() }
    }

    #[test]
    fn a_row_counts_values_from_its_own_to_the_next() {
        let values = values(&[(500, 3), (70_000, 30), (100_000, 31), (5_000_000, 1)]);
        let rows: Vec<_> = rows(&values).into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(rows, [(0, 3), (64, 61), (4_096, 1)]);
    }

    #[test]
    fn bars_are_in_proportion_and_no_event_is_without_one() {
        let text = text("READ", &values(&[(70_000, 600), (500_000, 1)]));
        let bars: Vec<_> = text.lines().map(|line| line.matches('@').count()).collect();
        assert_eq!(bars, [0, 0, 0, 60, 0, 1, 0]);
        assert!(text.starts_with("READ distribution (microseconds)\n"));
    }

    #[test]
    fn nothing_has_no_rows() {
        assert_eq!(rows(&SeriesValue::default()), []);
    }
}
