//! Numbers of the entries that workers have sent, to notice lost ones.

use std::collections::HashMap;

use dtyp::ServerId;

/// Highest number of workers whose numbers are kept: more than a server ever has. Those of ended
/// ones make room.
const SENDERS_MAX: usize = 65_536;

/// Number of the next entry of each worker.
#[derive(Debug, Default)]
pub(super) struct Senders(HashMap<ServerId, u64>);

impl Senders {
    /// Takes so many entries of a worker, the first of which has this number. Returns the number of
    /// entries that are missing before them.
    pub(super) fn take(&mut self, sender: ServerId, first: u64, count: usize) -> u64 {
        if self.0.len() >= SENDERS_MAX && !self.0.contains_key(&sender) {
            self.0.clear();
        }
        let next = self.0.entry(sender).or_default();
        let lost = first.saturating_sub(*next);
        *next = first.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        lost
    }
}

#[cfg(test)]
mod tests {
    use dtyp::ServerId;

    use super::Senders;

    #[test]
    fn entries_that_are_missing_are_counted_for_each_worker() {
        let mut senders = Senders::default();
        let [one, two] = [1, 2].map(|pid| ServerId { pid, unique_id: 7 });
        assert_eq!(senders.take(one, 0, 3), 0);
        assert_eq!(senders.take(two, 2, 1), 2, "its first two never left");
        assert_eq!(senders.take(one, 10, 1), 7);
        assert_eq!(senders.take(one, 11, 0), 0);
    }
}
