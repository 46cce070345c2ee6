//! A question for names and SIDs of the domain, which a thread answers in parts.

use std::time::{Duration, Instant};

use dtyp::ServerId;
use logon::winbind::{DomainName, WinbindError};
use messaging::{FoundName, NameToFind, NamesAnswer, NamesQuestion};

use crate::names::{GUESTS, KnownNames};

/// Time for all names of a question; the worker waits no longer.
pub(crate) const NAMES_TIMEOUT: Duration = Duration::from_secs(5);

/// Names that winbindd is asked for before another worker's turn.
pub(crate) const NAMES_PER_TURN_MAX: usize = 16;

/// A question, and what was found so far.
#[derive(Debug)]
pub(crate) struct Lookup {
    pub(crate) asker: ServerId,
    number: u64,
    pub(crate) is_guest: bool,
    names: Vec<NameToFind>,
    /// Results for the first names.
    pub(crate) found: Vec<Option<FoundName>>,
    pub(crate) until: Instant,
}

impl Lookup {
    pub(crate) fn new(now: Instant, asker: ServerId, question: NamesQuestion) -> Self {
        let NamesQuestion { number, is_guest, names } = question;
        let until = now + NAMES_TIMEOUT;
        Self { asker, number, is_guest, names, found: Vec::new(), until }
    }

    /// Looks up the next names, by `ask` where no earlier result counts: as many as one turn has.
    /// After the question's time or a failure of winbindd, the rest is unknown.
    pub(crate) fn go_on(
        &mut self,
        known: &KnownNames,
        now: impl Fn() -> Instant,
        mut ask: impl FnMut(&NameToFind) -> Result<Option<DomainName>, WinbindError>,
    ) {
        let party = self.party();
        let (mut may_ask, mut asked) = (true, 0);
        for name in &self.names[self.found.len()..] {
            if let Some(found) = known.known(party, name, now()) {
                self.found.push(found);
                continue;
            }
            may_ask = may_ask && now() < self.until;
            if may_ask && asked == NAMES_PER_TURN_MAX {
                return;
            }
            asked += 1;
            let answer = if may_ask { ask(name).ok() } else { None };
            may_ask = answer.is_some();
            let found = answer.flatten().map(|DomainName { kind, domain, name, sid }| FoundName {
                kind,
                domain,
                name,
                sid,
            });
            if may_ask {
                known.keep(party, name, found.clone(), now());
            }
            self.found.push(found);
        }
    }

    /// Returns the answer: what was not looked up is unknown.
    pub(crate) fn into_answer(mut self) -> NamesAnswer {
        self.found.resize(self.names.len(), None);
        NamesAnswer { number: self.number, found: self.found }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.found.len() == self.names.len()
    }

    /// Party of the worker among those that take turns.
    pub(crate) fn party(&self) -> ServerId {
        if self.is_guest { GUESTS } else { self.asker }
    }
}
