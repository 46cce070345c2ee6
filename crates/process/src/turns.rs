//! Turns of parties that share one thread, by the cost of their work.
//!
//! This is start-time fair queuing: each party has a time, in units of cost, at which its next turn
//! begins. The party with the earliest time is next, and its time advances by the cost of its turn.
//! A party that enters does so at the time of the present turn, so it gains nothing by a pause and
//! waits for one turn of each other party at most.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Parties with work, in the order of their turns.
///
/// A party without work is kept until the others have used as much: otherwise one that has a single
/// expensive job at a time would pay for none.
#[derive(Debug)]
pub struct Turns<K> {
    /// By the time of the next turn; of equal times the one that was set first.
    order: BTreeMap<(u64, u64), K>,
    parties: HashMap<K, Party>,
    /// Time at which the present turn began.
    now: u64,
    /// Number of the latest place in the order.
    last: u64,
    /// Number of parties with work.
    ready: usize,
}

#[derive(Clone, Copy, Debug)]
struct Party {
    place: (u64, u64),
    has_work: bool,
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        let (order, parties) = (BTreeMap::new(), HashMap::new());
        Self { order, parties, now: 0, last: 0, ready: 0 }
    }
}

impl<K: Copy + Eq + Hash> Turns<K> {
    /// Notes that a party has work.
    pub fn enter(&mut self, key: K) {
        self.advance(key, 0);
        if let Some(party) = self.parties.get_mut(&key)
            && !std::mem::replace(&mut party.has_work, true)
        {
            self.ready += 1;
        }
    }

    /// Notes that a party has no work any more.
    pub fn leave(&mut self, key: K) {
        if let Some(party) = self.parties.get_mut(&key)
            && std::mem::take(&mut party.has_work)
        {
            self.ready -= 1;
        }
    }

    /// True if no party has work.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.ready == 0
    }

    /// Begins the next turn; `None` if no party has work. The party stays the first one until it is
    /// charged.
    pub fn next_party(&mut self) -> Option<K> {
        while let Some((place, key)) = self.order.first_key_value() {
            let (place, key) = (*place, *key);
            self.now = self.now.max(place.0);
            if self.parties.get(&key).is_some_and(|party| party.has_work) {
                return Some(key);
            }
            self.order.remove(&place);
            self.parties.remove(&key);
        }
        None
    }

    /// Charges a party for work, also for some that it had no turn for.
    pub fn charge(&mut self, key: K, cost: u64) {
        self.advance(key, cost);
    }

    /// Sets the next turn of a party later by `cost`.
    fn advance(&mut self, key: K, cost: u64) {
        let before = self.parties.get(&key).copied();
        if before.is_some() && cost == 0 {
            return;
        }
        let has_work = before.is_some_and(|party| party.has_work);
        if let Some(party) = before {
            self.order.remove(&party.place);
        }
        let begins = before.map_or(self.now, |party| party.place.0.max(self.now));
        self.last += 1;
        let place = (begins.saturating_add(cost), self.last);
        self.order.insert(place, key);
        self.parties.insert(key, Party { place, has_work });
    }
}

#[cfg(test)]
mod tests {
    use super::Turns;

    /// Takes turns of equal or different costs, by the party.
    fn order(turns: &mut Turns<char>, costs: impl Fn(char) -> u64, count: usize) -> String {
        let mut take = || {
            let key = turns.next_party()?;
            turns.charge(key, costs(key));
            Some(key)
        };
        (0..count).map_while(|_| take()).collect()
    }

    #[test]
    fn parties_have_turns_by_the_cost_of_their_work() {
        let mut turns = Turns::default();
        "ab".chars().for_each(|key| turns.enter(key));
        assert_eq!(order(&mut turns, |key| if key == 'a' { 3 } else { 1 }, 8), "abbbabbb");
    }

    #[test]
    fn a_party_that_enters_waits_for_one_turn_of_each_other_one_and_gains_nothing_by_its_pause() {
        let mut turns = Turns::default();
        "ab".chars().for_each(|key| turns.enter(key));
        order(&mut turns, |_| 1, 100);
        turns.enter('c');
        assert_eq!(order(&mut turns, |_| 1, 6), "cabcab");
    }

    #[test]
    fn a_party_pays_for_its_last_turn_although_it_had_no_work_then() {
        let mut turns = Turns::default();
        "ab".chars().for_each(|key| turns.enter(key));
        assert_eq!(turns.next_party(), Some('a'));
        turns.charge('a', 3);
        turns.leave('a');
        turns.enter('a');
        assert_eq!(order(&mut turns, |_| 1, 5), "bbbab");
    }

    #[test]
    fn work_outside_of_a_turn_counts_as_well() {
        let mut turns = Turns::default();
        "ab".chars().for_each(|key| turns.enter(key));
        turns.charge('a', 2);
        assert_eq!(order(&mut turns, |_| 1, 4), "bbab");
    }

    #[test]
    fn parties_without_work_are_forgotten() {
        let mut turns = Turns::default();
        for key in "abc".chars() {
            turns.enter(key);
            turns.charge(key, 5);
            turns.leave(key);
        }
        assert!(turns.is_idle());
        assert_eq!(turns.next_party(), None);
        assert!(turns.order.is_empty() && turns.parties.is_empty());
    }
}
