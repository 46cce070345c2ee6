//! Names and SIDs of a domain, which another process knows: it is asked before a lookup runs.

use std::sync::Mutex;

use dtyp::{FileTime, Sid};

use crate::{Caller, Catalogue, NameQuestion, Principal, ServerEntry, ShareEntry};

/// Questions of one request, at most. A request of one fragment has hardly more.
pub(crate) const QUESTIONS_MAX: usize = 256;

/// Answers of the domain, with their questions.
pub(crate) type Found = Vec<(NameQuestion, Principal)>;

/// A catalogue with the answers of the domain. It writes down the questions without one.
pub(crate) struct WithDomain<'a> {
    pub(crate) catalogue: &'a dyn Catalogue,
    pub(crate) found: &'a [(NameQuestion, Principal)],
    pub(crate) missing: Mutex<Vec<NameQuestion>>,
}

impl Catalogue for WithDomain<'_> {
    fn shares(&self, caller: &Caller) -> Vec<ShareEntry> {
        self.catalogue.shares(caller)
    }

    fn admits(&self, caller: &Caller) -> bool {
        self.catalogue.admits(caller)
    }

    fn share(&self, caller: &Caller, name: &str) -> Option<ShareEntry> {
        self.catalogue.share(caller, name)
    }

    fn server(&self) -> ServerEntry {
        self.catalogue.server()
    }

    fn domain_sid(&self) -> Sid {
        self.catalogue.domain_sid()
    }

    fn is_member(&self) -> bool {
        self.catalogue.is_member()
    }

    fn find_user(&self, name: &str) -> Option<Principal> {
        self.catalogue.find_user(name)
    }

    fn find_group(&self, name: &str) -> Option<Principal> {
        self.catalogue.find_group(name)
    }

    fn find_sid(&self, sid: &Sid) -> Option<Principal> {
        self.catalogue.find_sid(sid)
    }

    fn find_in_domain(&self, question: NameQuestion) -> Option<Principal> {
        if let Some((_, found)) = self.found.iter().find(|(known, _)| *known == question) {
            return Some(found.clone());
        }
        let mut missing = self.missing.lock().expect("nothing panics while it is held");
        if missing.len() < QUESTIONS_MAX && !missing.contains(&question) {
            missing.push(question);
        }
        None
    }

    fn now(&self) -> FileTime {
        self.catalogue.now()
    }
}
