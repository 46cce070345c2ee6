//! Names and SIDs of the domain that were looked up. A folder's security tab asks for the same few
//! again and again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dtyp::ServerId;
use messaging::{FoundName, NameToFind};

/// Names that are known, those that nobody has included.
const NAMES_KNOWN_MAX: usize = 4_096;

/// Time for which a name counts: a renamed user has the former name as long.
pub(crate) const KNOWN_FOR: Duration = Duration::from_secs(300);

/// Time for which nobody has a name. winbindd says the same while no controller answers.
pub(crate) const UNKNOWN_FOR: Duration = Duration::from_secs(20);

/// Party of all guests and anonymous users: anyone can have any number of such clients.
pub(crate) const GUESTS: ServerId = ServerId { pid: 0, unique_id: 0 };

/// Results of earlier questions, of all threads.
#[derive(Debug, Default)]
pub(crate) struct KnownNames(Mutex<HashMap<NameToFind, Known>>);

#[derive(Debug)]
struct Known {
    found: Option<FoundName>,
    until: Instant,
    /// Worker whose client has the name's place, or [`GUESTS`].
    party: ServerId,
}

impl KnownNames {
    /// Returns the result of an earlier question. A user who needs a guest's name takes it over.
    #[expect(clippy::option_option, reason = "a name that nobody has is known, too")]
    pub(crate) fn known(
        &self,
        party: ServerId,
        name: &NameToFind,
        now: Instant,
    ) -> Option<Option<FoundName>> {
        let mut names = self.lock();
        let known = names.get_mut(name).filter(|it| now < it.until)?;
        if known.party == GUESTS {
            known.party = party;
        }
        Some(known.found.clone())
    }

    /// Keeps the result of a question by a party.
    pub(crate) fn keep(
        &self,
        party: ServerId,
        name: &NameToFind,
        found: Option<FoundName>,
        now: Instant,
    ) {
        let mut known = self.lock();
        if known.len() >= NAMES_KNOWN_MAX {
            known.retain(|_, it| now < it.until);
        }
        if known.len() >= NAMES_KNOWN_MAX {
            make_room(&mut known);
        }
        let until = now + if found.is_some() { KNOWN_FOR } else { UNKNOWN_FOR };
        known.insert(name.clone(), Known { found, until, party });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NameToFind, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets half of the names of the party that has most. Clients choose the names: a flood of them
/// costs others none of theirs.
fn make_room(known: &mut HashMap<NameToFind, Known>) {
    let mut counts: HashMap<ServerId, usize> = HashMap::new();
    known.values().for_each(|it| *counts.entry(it.party).or_default() += 1);
    let Some((most, count)) = counts.into_iter().max_by_key(|(_, count)| *count) else { return };
    let mut left = count.div_ceil(2);
    known.retain(|_, it| {
        let goes = it.party == most && left > 0;
        left -= usize::from(goes);
        !goes
    });
}

#[cfg(test)]
mod tests {
    use dtyp::Sid;

    use super::*;

    fn sid(rid: u32) -> NameToFind {
        NameToFind::Sid(Sid::new(5, &[21, 1, 2, 3, rid]))
    }

    fn worker(pid: u32) -> ServerId {
        ServerId { pid, unique_id: 7 }
    }

    #[test]
    fn names_that_clients_choose_cost_bounded_memory() {
        let (known, now) = (KnownNames::default(), Instant::now());
        for rid in 0..10_000 {
            known.keep(worker(rid % 64), &sid(rid), None, now);
        }
        assert!(known.lock().len() <= NAMES_KNOWN_MAX);
    }

    /// The attack: anonymous clients, or one user, ask for random SIDs without a pause.
    #[test]
    fn a_flood_of_names_costs_others_none_of_theirs() {
        let (known, now) = (KnownNames::default(), Instant::now());
        let (alice, own) = (worker(1), 0..100);
        // A stranger has asked for one of them before.
        known.keep(GUESTS, &sid(0), None, now);
        assert_eq!(known.known(alice, &sid(0), now), Some(None));
        own.clone().skip(1).for_each(|rid| known.keep(alice, &sid(rid), None, now));
        for flood in [GUESTS, worker(2)] {
            for rid in 1_000..11_000 {
                known.keep(flood, &sid(rid), None, now);
            }
            let is_known = |rid| known.known(alice, &sid(rid), now).is_some();
            assert!(own.clone().all(is_known), "by {flood:?}");
        }
        assert!(known.lock().len() <= NAMES_KNOWN_MAX);
    }
}
