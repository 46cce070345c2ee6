//! Ids of the owners of tickets, which winbindd knows: their threads and their time.
//!
//! A ticket is verified without any other machine, and the ids of its owner may need one. So other
//! threads ask for them. The own realm has threads for itself, and each other realm may take a part
//! of the rest: neither a winbindd that hangs nor a domain that does not answer holds up tickets of
//! others. Ids are asked for while controllers are out, too: winbindd may still know them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use dtyp::{NtStatus, ServerId};
use messaging::LogonVerdict;

use crate::domain_pools::DomainPools;
use crate::domains::QueueFull;
use crate::jobs::{Answer, Begin};

/// Time for the ids of a ticket's owner, its wait for a thread included.
pub(crate) const IDS_TIMEOUT: Duration = Duration::from_secs(10);

/// Questions for ids. `J` is a job.
#[derive(Debug)]
pub(crate) struct Ids<J> {
    pools: DomainPools<J>,
    /// Questions without an answer, by job.
    waiting: HashMap<u64, Waiting>,
    next_job: u64,
}

/// A question without an answer.
#[derive(Debug)]
struct Waiting {
    until: Instant,
    begin: Begin,
    asker: ServerId,
    question: u64,
}

impl<J: Send + 'static> Ids<J> {
    pub(crate) fn new(pools: DomainPools<J>) -> Self {
        Self { pools, waiting: HashMap::new(), next_job: 0 }
    }

    /// Gives a ticket to the threads of its realm; `None` is the own one. `job` makes the job of a
    /// number and a start, and `number_of` reads the number. Returns the refusal of a ticket that
    /// had to make room.
    ///
    /// # Errors
    /// There are too many tickets.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        (asker, question): (ServerId, u64),
        realm: Option<&str>,
        job: impl FnOnce(u64, Begin) -> J,
        number_of: impl FnOnce(&J) -> Option<u64>,
    ) -> Result<Option<Answer>, NtStatus> {
        self.next_job += 1;
        let (number, begin) = (self.next_job, Begin::default());
        let added = self.pools.add(asker, realm, job(number, begin.clone()));
        let displaced = added.map_err(|QueueFull| NtStatus::INSUFF_SERVER_RESOURCES)?;
        self.waiting.insert(number, Waiting { until: now + IDS_TIMEOUT, begin, asker, question });
        // A late ticket has no entry: its refusal was sent earlier.
        let displaced = displaced.as_ref().and_then(number_of);
        let displaced = displaced.and_then(|number| self.waiting.remove(&number));
        Ok(displaced.map(|Waiting { asker, question, .. }| {
            Answer::refused(asker, question, NtStatus::INSUFF_SERVER_RESOURCES)
        }))
    }

    /// Handles a result. One that comes late has been answered for.
    pub(crate) fn finish(
        &mut self,
        number: u64,
        realm: Option<&str>,
        verdict: Option<LogonVerdict>,
    ) -> Option<Answer> {
        self.pools.finish(realm);
        let verdict = verdict?;
        let Waiting { asker, question, .. } = self.waiting.remove(&number)?;
        Some(Answer { asker, question, verdict })
    }

    /// Refuses tickets that are late.
    pub(crate) fn refuse_late(&mut self, now: Instant) -> Vec<Answer> {
        let late = self.waiting.extract_if(|_, it| it.until <= now);
        late.map(|(_, Waiting { asker, question, begin, .. })| {
            begin.prevent();
            Answer::refused(asker, question, NtStatus::NO_LOGON_SERVERS)
        })
        .collect()
    }

    /// Returns the time of the next [`Self::refuse_late`].
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.waiting.values().map(|it| it.until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::tests::{handing, hanging};

    type Given = (u64, Begin);

    fn begin(
        ids: &mut Ids<Given>,
        now: Instant,
        question: (ServerId, u64),
        realm: Option<&str>,
    ) -> Result<Option<Answer>, NtStatus> {
        ids.begin(now, question, realm, |number, begin| (number, begin), |it| Some(it.0))
    }

    /// The attack: a client presents tickets without a pause, while winbindd hangs.
    #[test]
    fn a_ticket_that_makes_room_for_another_workers_is_refused() {
        let ((own, has_begun), (others, _)) = (hanging(4), hanging(4));
        let (mut ids, now) = (Ids::new(DomainPools::new(own, others)), Instant::now());
        let [mallory, alice] = [1, 2].map(|pid| ServerId { pid, unique_id: 1 });
        begin(&mut ids, now, (mallory, 0), None).expect("there is room");
        assert_eq!(has_begun.recv(), Ok(()));
        let taken = (1..).take_while(|it| begin(&mut ids, now, (mallory, *it), None).is_ok());
        let last = taken.last().expect("there is room");
        let refused = begin(&mut ids, now, (alice, 9), None).expect("a flood makes room");
        let refused = refused.map(|it| (it.asker, it.question, it.verdict));
        let verdict = LogonVerdict::Refused(NtStatus::INSUFF_SERVER_RESOURCES);
        assert_eq!(refused, Some((mallory, last, verdict)));
    }

    #[test]
    fn a_realm_without_answers_holds_up_no_other() {
        let ((own, own_jobs), (others, jobs)) = (handing(), handing());
        let (mut ids, now) = (Ids::new(DomainPools::new(own, others)), Instant::now());
        let asker = ServerId { pid: 1, unique_id: 1 };
        for (question, realm) in [(1, "HANGS"), (2, "HANGS"), (3, "HANGS"), (4, "OTHER")] {
            begin(&mut ids, now, (asker, question), Some(realm)).expect("there is room");
        }
        begin(&mut ids, now, (asker, 5), None).expect("there is room");
        let (own, begin) = own_jobs.recv().expect("the own realm has its threads");
        assert!(begin.begin(now));
        let begun = [1, 2, 4].map(|want| {
            let (number, begin) = jobs.recv().expect("a thread has it");
            assert!(number == want && begin.begin(now));
            number
        });
        let found = || Some(LogonVerdict::NotInDomain);
        assert_eq!(ids.finish(own, None, found()).map(|it| it.question), Some(5));
        let answer = ids.finish(begun[2], Some("OTHER"), found()).expect("it is in time");
        assert_eq!(answer.question, 4);
        assert_eq!(ids.next_timeout(), Some(now + IDS_TIMEOUT));
        let refused = ids.refuse_late(now + IDS_TIMEOUT);
        let status = LogonVerdict::Refused(NtStatus::NO_LOGON_SERVERS);
        assert!(refused.len() == 3 && refused.iter().all(|it| it.verdict == status));
        assert_eq!(ids.finish(begun[0], Some("HANGS"), found()), None, "it is too late");
        let (number, begin) = jobs.recv().expect("it is the next");
        assert!(number == 3 && !begin.begin(now), "it is refused already");
    }
}
