//! Answers of others, who are asked before a request runs: names and SIDs of a domain, and the
//! outcome of an administrator's task.

use std::sync::{Arc, Mutex};

use dtyp::{FileTime, Sid};

use crate::{
    AccountEntry, Caller, Catalogue, NameQuestion, Outcome, Principal, ServerEntry, ShareEntry,
    Task,
};

/// Questions of one request, at most. A request of one fragment has hardly more.
pub(crate) const QUESTIONS_MAX: usize = 256;

/// Answers of the domain, with their questions.
pub(crate) type Found = Vec<(NameQuestion, Principal)>;

/// A catalogue with the answers of others. It writes down the questions without one.
pub(crate) struct WithAnswers<'a> {
    pub(crate) catalogue: &'a dyn Catalogue,
    pub(crate) found: &'a [(NameQuestion, Principal)],
    pub(crate) missing: Mutex<Vec<NameQuestion>>,
    /// Outcome of the request's only task.
    pub(crate) outcome: Option<&'a Outcome>,
    /// The task, if it has no outcome yet.
    pub(crate) task: Mutex<Option<Task>>,
}

impl<'a> WithAnswers<'a> {
    /// A catalogue without any answer, which collects questions.
    pub(crate) fn collecting(catalogue: &'a dyn Catalogue) -> Self {
        let (missing, task) = (Mutex::default(), Mutex::default());
        Self { catalogue, found: &[], missing, outcome: None, task }
    }
}

impl Catalogue for WithAnswers<'_> {
    fn shares(&self, caller: &Caller) -> Arc<[ShareEntry]> {
        self.catalogue.shares(caller)
    }

    fn begin_call(&self, caller: &Caller) {
        self.catalogue.begin_call(caller);
    }

    fn end_call(&self) {
        self.catalogue.end_call();
    }

    fn admits(&self, caller: &Caller) -> bool {
        self.catalogue.admits(caller)
    }

    fn share(&self, caller: &Caller, name: &str) -> Option<ShareEntry> {
        self.catalogue.share(caller, name)
    }

    fn is_administrator(&self, caller: &Caller) -> bool {
        self.catalogue.is_administrator(caller)
    }

    fn share_security(&self, name: &str) -> Option<Vec<u8>> {
        self.catalogue.share_security(name)
    }

    fn carry_out(&self, task: Task) -> Option<Outcome> {
        if self.outcome.is_none() {
            *self.task.lock().expect("nothing panics while it is held") = Some(task);
        }
        self.outcome.cloned()
    }

    fn accounts(&self) -> Option<Vec<AccountEntry>> {
        self.catalogue.accounts()
    }

    fn account_by_name(&self, name: &str) -> Option<AccountEntry> {
        self.catalogue.account_by_name(name)
    }

    fn account_by_rid(&self, rid: u32) -> Option<AccountEntry> {
        self.catalogue.account_by_rid(rid)
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
