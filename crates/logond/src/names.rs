//! Names and SIDs of the domain that were looked up. A folder's security tab asks for the same few
//! again and again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use logon::winbind::{DomainName, WinbindError};
use messaging::{FoundName, NameToFind};

/// Names that are known, those that nobody has included.
const NAMES_KNOWN_MAX: usize = 4_096;

/// Time for which a name counts: a renamed user has the former name as long.
const KNOWN_FOR: Duration = Duration::from_secs(300);

/// Time for which nobody has a name. winbindd says the same while no controller answers.
const UNKNOWN_FOR: Duration = Duration::from_secs(20);

/// Results of earlier questions, of all threads.
#[derive(Debug, Default)]
pub(crate) struct KnownNames(Mutex<HashMap<NameToFind, Known>>);

#[derive(Debug)]
struct Known {
    found: Option<FoundName>,
    until: Instant,
}

impl KnownNames {
    /// Looks names up, by `ask` where no earlier result counts. After `until` nobody is asked any
    /// more, and after winbindd has failed.
    pub(crate) fn find_all(
        &self,
        names: &[NameToFind],
        until: Instant,
        now: impl Fn() -> Instant,
        mut ask: impl FnMut(&NameToFind) -> Result<Option<DomainName>, WinbindError>,
    ) -> Vec<Option<FoundName>> {
        let mut may_ask = true;
        let mut find = |name: &NameToFind| {
            if let Some(found) = self.known(name, now()) {
                return found;
            }
            may_ask = may_ask && now() < until;
            if !may_ask {
                return None;
            }
            let Ok(found) = ask(name) else {
                may_ask = false;
                return None;
            };
            let found = found.map(|DomainName { kind, domain, name, sid }| FoundName {
                kind,
                domain,
                name,
                sid,
            });
            self.keep(name, found.clone(), now());
            found
        };
        names.iter().map(&mut find).collect()
    }

    #[expect(clippy::option_option, reason = "a name that nobody has is known, too")]
    fn known(&self, name: &NameToFind, now: Instant) -> Option<Option<FoundName>> {
        let known = self.lock();
        known.get(name).filter(|it| now < it.until).map(|it| it.found.clone())
    }

    fn keep(&self, name: &NameToFind, found: Option<FoundName>, now: Instant) {
        let mut known = self.lock();
        if known.len() >= NAMES_KNOWN_MAX {
            known.retain(|_, it| now < it.until);
        }
        // Clients choose the names: a flood of them costs everybody's results, and no memory.
        if known.len() >= NAMES_KNOWN_MAX {
            known.clear();
        }
        let until = now + if found.is_some() { KNOWN_FOR } else { UNKNOWN_FOR };
        known.insert(name.clone(), Known { found, until });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NameToFind, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use dtyp::Sid;

    use super::*;

    fn sid(rid: u32) -> NameToFind {
        NameToFind::Sid(Sid::new(5, &[21, 1, 2, 3, rid]))
    }

    fn alice() -> DomainName {
        let (domain, name) = ("ADLAB".to_owned(), "alice".to_owned());
        DomainName { kind: 1, domain, name, sid: Sid::new(5, &[21, 1, 2, 3, 1_103]) }
    }

    #[test]
    fn results_count_for_a_while_and_longer_if_somebody_has_the_name() {
        let (known, begin, asked) = (KnownNames::default(), Instant::now(), Cell::new(0));
        let find = |rid, now| {
            let found = known.find_all(
                &[sid(rid)],
                now + KNOWN_FOR,
                || now,
                |_| {
                    asked.set(asked.get() + 1);
                    Ok((rid == 1_103).then(alice))
                },
            );
            (found[0].is_some(), asked.get())
        };
        assert_eq!(find(1_103, begin), (true, 1));
        assert_eq!(find(1_104, begin), (false, 2));
        let later = begin + UNKNOWN_FOR;
        assert_eq!(find(1_103, later), (true, 2));
        assert_eq!(find(1_104, later), (false, 3));
        assert_eq!(find(1_103, begin + KNOWN_FOR), (true, 4));
    }

    #[test]
    fn nobody_is_asked_after_the_time_or_a_failure_and_neither_is_remembered() {
        let (known, now) = (KnownNames::default(), Instant::now());
        let never = |_: &NameToFind| -> Result<_, WinbindError> { panic!("it is too late") };
        assert_eq!(known.find_all(&[sid(1_103)], now, || now, never), [None]);
        let asked = Cell::new(0);
        let later = now + Duration::from_secs(5);
        let fails = |_: &NameToFind| {
            asked.set(asked.get() + 1);
            Err(WinbindError::Unavailable("it is gone".to_owned()))
        };
        assert_eq!(known.find_all(&[sid(1), sid(2)], later, || now, fails), [None, None]);
        assert_eq!(asked.get(), 1);
        let found = known.find_all(&[sid(1)], later, || now, |_| Ok(Some(alice())));
        assert!(found[0].is_some());
    }

    #[test]
    fn names_that_clients_choose_cost_bounded_memory() {
        let (known, now) = (KnownNames::default(), Instant::now());
        for rid in 0..10_000 {
            known.find_all(&[sid(rid)], now + KNOWN_FOR, || now, |_| Ok(None));
        }
        assert!(known.lock().len() <= NAMES_KNOWN_MAX);
    }
}
