//! Numbers of the entries that workers have sent, to notice lost ones.

use std::collections::{HashMap, HashSet};

use dtyp::ServerId;

/// Highest number of workers whose numbers are kept: more than a server ever has. Half of them make
/// room for another: ended ones first, and of those the ones that were silent longest.
const SENDERS_MAX: usize = 65_536;

/// Numbers of the entries of each worker.
#[derive(Debug, Default)]
pub(super) struct Senders {
    of_workers: HashMap<ServerId, Sent>,
    /// Number of the latest message.
    latest: u64,
}

/// Entries that one worker has sent so far.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    /// Number of its next entry.
    next: u64,
    /// Number of the latest message: later messages of other workers have higher numbers.
    message: u64,
}

impl Senders {
    /// Takes so many entries of a worker, the first of which has this number. Returns the number of
    /// entries that are missing before them. `living` lists the living processes of the server, if
    /// it can.
    pub(super) fn take(
        &mut self,
        sender: ServerId,
        (first, count): (u64, usize),
        living: impl FnOnce() -> Option<Vec<ServerId>>,
    ) -> u64 {
        if self.of_workers.len() >= SENDERS_MAX && !self.of_workers.contains_key(&sender) {
            self.make_room(living());
        }
        self.latest += 1;
        let sent = self.of_workers.entry(sender).or_default();
        let lost = first.saturating_sub(sent.next);
        sent.next = first.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        sent.message = self.latest;
        lost
    }

    /// Forgets half of the workers. A living one whose numbers are forgotten would seem to have
    /// lost all of its entries, and so would a dead one with messages on their way.
    fn make_room(&mut self, living: Option<Vec<ServerId>>) {
        let living: Option<HashSet<ServerId>> = living.map(HashSet::from_iter);
        let is_living = |worker| living.as_ref().is_none_or(|living| living.contains(worker));
        let mut order: Vec<_> =
            self.of_workers.iter().map(|(it, sent)| (is_living(it), sent.message, *it)).collect();
        order.sort_unstable();
        for (.., worker) in order.iter().take(SENDERS_MAX / 2) {
            self.of_workers.remove(worker);
        }
    }
}

#[cfg(test)]
mod tests {
    use dtyp::ServerId;

    use super::{SENDERS_MAX, Senders};

    fn worker(pid: u32) -> ServerId {
        ServerId { pid, unique_id: 7 }
    }

    fn unasked() -> Option<Vec<ServerId>> {
        panic!("there is room")
    }

    #[test]
    fn entries_that_are_missing_are_counted_for_each_worker() {
        let mut senders = Senders::default();
        let [one, two] = [1, 2].map(worker);
        assert_eq!(senders.take(one, (0, 3), unasked), 0);
        assert_eq!(senders.take(two, (2, 1), unasked), 2, "its first two never left");
        assert_eq!(senders.take(one, (10, 1), unasked), 7);
        assert_eq!(senders.take(one, (11, 0), unasked), 0);
    }

    /// The attack: a stranger comes again and again, each time with a refused logon that is
    /// audited, and each time to another worker.
    #[test]
    fn any_number_of_ended_workers_lets_no_entries_of_a_living_one_seem_lost() {
        let mut senders = Senders::default();
        let (alice, ended_late) = (worker(1), worker(2));
        assert_eq!(senders.take(alice, (0, 3), unasked), 0);
        let mut last = 0;
        for pid in (100..).take(3 * SENDERS_MAX) {
            assert_eq!(senders.take(worker(pid), (0, 1), || Some(vec![alice])), 0);
            if pid % 1_000 == 0 {
                assert_eq!(senders.take(ended_late, (last, 1), || Some(vec![alice])), 0);
                last += 1;
            }
        }
        assert!(senders.of_workers.len() <= SENDERS_MAX);
        assert_eq!(senders.take(alice, (3, 1), unasked), 0);
        assert_eq!(senders.take(ended_late, (last, 1), unasked), 0, "its message was on its way");
    }

    #[test]
    fn of_workers_that_all_seem_to_live_those_that_were_silent_longest_are_forgotten() {
        let mut senders = Senders::default();
        for pid in (1..).take(SENDERS_MAX) {
            senders.take(worker(pid), (0, 1), unasked);
        }
        senders.take(worker(1), (1, 1), unasked);
        senders.take(worker(999_999), (0, 1), || None);
        assert_eq!(senders.take(worker(1), (2, 1), unasked), 0, "it has just spoken");
        assert_eq!(senders.of_workers.len(), SENDERS_MAX / 2 + 1);
    }
}
