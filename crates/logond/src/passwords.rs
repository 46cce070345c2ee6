//! Passwords that domains check: their threads, and the time that each may take.
//!
//! The own domain has threads of its own, and each other domain a part of the rest. A domain whose
//! controllers do not answer holds up no password of another.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use dtyp::{NtStatus, ServerId};
use messaging::LogonProof;
use tracing::{info, warn};

use crate::checks::Checked;
use crate::domain_pools::DomainPools;
use crate::domains::QueueFull;
use crate::jobs::{Answer, Begin, Job, PasswordJob};
use crate::line_limit::LineLimit;

/// Time after which a domain without an answer counts as out, before winbindd gives up; also the
/// longest time until a check begins.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Passwords that are checked or wait for that, in a pool for the own domain and one for others.
#[derive(Debug)]
pub(crate) struct Passwords {
    pools: DomainPools<Job>,
    /// Checks without an answer, by job.
    waiting: HashMap<u64, Waiting>,
    next_job: u64,
    complaints: LineLimit,
}

/// A check without an answer.
#[derive(Debug)]
struct Waiting {
    since: Instant,
    begin: Begin,
    asker: ServerId,
    question: u64,
    domain: Option<String>,
}

impl Waiting {
    fn late_at(&self) -> Instant {
        self.begin.begun().unwrap_or(self.since) + ANSWER_TIMEOUT
    }
}

impl Passwords {
    pub(crate) fn new(pools: DomainPools<Job>) -> Self {
        Self { pools, waiting: HashMap::new(), next_job: 0, complaints: LineLimit::default() }
    }

    /// Gives a check to the threads of its domain. Returns the refusal of one that had to make
    /// room.
    ///
    /// # Errors
    /// The domain does not answer, or there are too many checks.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        (asker, question): (ServerId, u64),
        proof: LogonProof,
        domain: Option<String>,
    ) -> Result<Option<Answer>, NtStatus> {
        if !self.pools.domains.may_ask(now, domain.as_deref()) {
            return Err(NtStatus::NO_LOGON_SERVERS);
        }
        self.next_job += 1;
        let (number, begin) = (self.next_job, Begin::default());
        let waiting = Waiting { since: now, begin, asker, question, domain };
        let (begin, domain) = (waiting.begin.clone(), waiting.domain.clone());
        let job = Job::Password(PasswordJob { number, proof, domain, begin });
        match self.pools.add(asker, waiting.domain.as_deref(), job) {
            Ok(displaced) => {
                self.waiting.insert(number, waiting);
                Ok(displaced.and_then(|job| self.refuse_displaced(&job)))
            }
            Err(QueueFull) => {
                self.pools.domains.not_asked(waiting.domain.as_deref());
                Err(NtStatus::INSUFF_SERVER_RESOURCES)
            }
        }
    }

    /// Refuses a check whose place another worker's has, unless it was late and refused already.
    fn refuse_displaced(&mut self, job: &Job) -> Option<Answer> {
        let waiting = self.waiting.remove(&job.number()?)?;
        self.pools.domains.not_asked(waiting.domain.as_deref());
        Some(waiting.refused(NtStatus::INSUFF_SERVER_RESOURCES))
    }

    /// Handles the result of a check. Only one in time says something about its domain.
    pub(crate) fn finish(
        &mut self,
        now: Instant,
        number: u64,
        domain: Option<&str>,
        checked: Option<Checked>,
    ) -> Vec<Answer> {
        self.pools.finish(domain);
        let (Some(Checked { verdict, is_outage }), Some(waiting)) =
            (checked, self.waiting.remove(&number))
        else {
            return Vec::new();
        };
        let Waiting { asker, question, .. } = waiting;
        let mut answers = vec![Answer { asker, question, verdict }];
        if is_outage {
            answers.extend(self.begin_outage(now, domain));
        } else {
            self.end_outage(domain);
        }
        answers
    }

    /// Handles the result of a question for a sign of life. A late one says nothing after the
    /// domain has answered.
    pub(crate) fn finish_ping(&mut self, now: Instant, is_alive: bool) {
        match is_alive {
            true => self.end_outage(None),
            false => self.pools.domains.own.probe_failed(now),
        }
    }

    /// Refuses checks that are late, declares outages, and asks for a sign of life in one.
    pub(crate) fn serve_timeouts(&mut self, now: Instant) -> Vec<Answer> {
        let late = self.waiting.iter().filter(|(_, it)| it.late_at() <= now);
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        let mut answers = Vec::new();
        for number in late {
            // An outage of its domain may have ended it already.
            let Some(waiting) = self.waiting.remove(&number) else { continue };
            let begun = waiting.begin.prevent();
            // A thread may have begun it at this moment.
            if begun.is_some_and(|begun| begun + ANSWER_TIMEOUT > now) {
                self.waiting.insert(number, waiting);
                continue;
            }
            let domain = waiting.domain.clone();
            answers.push(waiting.refused(NtStatus::NO_LOGON_SERVERS));
            match begun {
                Some(_) => answers.extend(self.begin_outage(now, domain.as_deref())),
                None => self.pools.domains.not_asked(domain.as_deref()),
            }
        }
        if self.pools.domains.own.take_probe(now) {
            // Among workers, this process has turns of its own.
            match self.pools.add(ServerId::default(), None, Job::Ping) {
                Ok(displaced) => {
                    answers.extend(displaced.and_then(|job| self.refuse_displaced(&job)));
                }
                Err(QueueFull) => self.pools.domains.own.probe_failed(now),
            }
        }
        answers
    }

    /// Returns the time of the next [`Self::serve_timeouts`].
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let late = self.waiting.values().map(Waiting::late_at).min();
        [late, self.pools.domains.own.next_probe()].into_iter().flatten().min()
    }

    /// Refuses all passwords of a domain that wait, also those whose check has begun: it may take a
    /// minute.
    fn begin_outage(&mut self, now: Instant, domain: Option<&str>) -> Vec<Answer> {
        if self.pools.domains.begin_outage(now, domain) && self.may_log(now, domain) {
            match domain {
                None => warn!("no controller of the domain answers: its passwords are refused"),
                Some(name) => {
                    warn!("the domain {name:?} does not answer: its passwords are refused")
                }
            }
        }
        let is_of_domain = |it: &Waiting| it.domain.as_deref() == domain;
        let waiting = self.waiting.extract_if(|_, it| is_of_domain(it));
        waiting.map(|(_, it)| it.refused(NtStatus::NO_LOGON_SERVERS)).collect()
    }

    fn end_outage(&mut self, domain: Option<&str>) {
        if self.pools.domains.end_outage(domain) {
            match domain {
                None => info!("the domain answers again"),
                Some(name) => info!("the domain {name:?} answers again"),
            }
        }
    }

    /// True if a line may be logged: clients choose the names of other domains.
    fn may_log(&self, now: Instant, domain: Option<&str>) -> bool {
        domain.is_none() || self.complaints.permit(now).is_some()
    }
}

impl Waiting {
    /// Returns the refusal, and prevents a check that has not begun.
    fn refused(self, status: NtStatus) -> Answer {
        self.begin.prevent();
        Answer::refused(self.asker, self.question, status)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;

    use messaging::LogonVerdict;

    use super::*;
    use crate::WAITING_MAX;
    use crate::domains::WAITING_PER_DOMAIN_MAX;
    use crate::pool::tests::{handing, hanging};

    /// Checks whose threads hand each job to the test, which plays the domain.
    struct Scene {
        passwords: Passwords,
        own: Receiver<Job>,
        others: Receiver<Job>,
        now: Instant,
    }

    impl Scene {
        fn new() -> Self {
            let ((own_pool, own), (other_pool, others)) = (handing(), handing());
            let passwords = Passwords::new(DomainPools::new(own_pool, other_pool));
            Self { passwords, own, others, now: Instant::now() }
        }

        fn ask(&mut self, question: u64, domain: Option<&str>) -> Result<(), NtStatus> {
            self.ask_of(1, question, domain).map(|refused| assert_eq!(refused, None))
        }

        /// Asks for the client of a worker.
        fn ask_of(
            &mut self,
            pid: u32,
            question: u64,
            domain: Option<&str>,
        ) -> Result<Option<Answer>, NtStatus> {
            let asker = ServerId { pid, unique_id: 1 };
            let proof = LogonProof::Response {
                user: "alice".to_owned(),
                domain: domain.unwrap_or_default().to_owned(),
                workstation: String::new(),
                challenge: [0; 8],
                nt_response: Vec::new(),
            };
            self.passwords.begin(self.now, (asker, question), proof, domain.map(str::to_owned))
        }

        /// Begins the next job of a thread, and returns its number.
        fn begun(&self, jobs: &Receiver<Job>) -> u64 {
            let Job::Password(job) = jobs.recv().expect("a thread has it") else {
                panic!("a ping")
            };
            assert!(job.begin.begin(self.now));
            job.number
        }

        fn finish(&mut self, number: u64, domain: Option<&str>, is_outage: bool) -> Vec<u64> {
            let checked = Checked { verdict: LogonVerdict::NotInDomain, is_outage };
            questions(self.passwords.finish(self.now, number, domain, Some(checked)))
        }

        /// Lets time pass, and returns the questions that are refused for it.
        fn wait(&mut self, time: Duration) -> Vec<u64> {
            self.now += time;
            questions(self.passwords.serve_timeouts(self.now))
        }
    }

    fn questions(answers: Vec<Answer>) -> Vec<u64> {
        let mut questions: Vec<u64> = answers.iter().map(|it| it.question).collect();
        questions.sort_unstable();
        questions
    }

    const OUT: Result<(), NtStatus> = Err(NtStatus::NO_LOGON_SERVERS);

    #[test]
    fn a_trusted_domain_that_hangs_takes_a_part_of_the_threads_and_is_out_alone() {
        let mut scene = Scene::new();
        for question in 1..=5 {
            scene.ask(question, Some("HANGS")).expect("there is room");
        }
        scene.ask(6, Some("OTHER")).expect("there is room");
        scene.ask(7, None).expect("there is room");
        assert_eq!([1, 2, 6].map(|_| scene.begun(&scene.others)), [1, 2, 6]);
        assert_eq!(scene.begun(&scene.own), 7);
        assert_eq!(scene.finish(6, Some("OTHER"), false), [6]);
        assert_eq!(scene.finish(7, None, false), [7]);
        assert_eq!(scene.wait(ANSWER_TIMEOUT), [1, 2, 3, 4, 5]);
        assert_eq!(scene.ask(8, Some("HANGS")), OUT);
        scene.ask(9, Some("OTHER")).expect("it answers");
        scene.ask(10, None).expect("it answers");
    }

    #[test]
    fn a_check_that_waited_for_a_thread_says_nothing_about_its_domain() {
        let mut scene = Scene::new();
        for domain in [None, Some("OTHER")] {
            scene.ask(1, domain).expect("there is room");
            let jobs = if domain.is_none() { &scene.own } else { &scene.others };
            let Job::Password(job) = jobs.recv().expect("it is given") else { panic!("a ping") };
            assert_eq!(scene.wait(ANSWER_TIMEOUT), [1]);
            assert!(!job.begin.begin(scene.now), "it is refused already");
            scene.ask(2, domain).expect("the domain is not out");
            let jobs = if domain.is_none() { &scene.own } else { &scene.others };
            let number = scene.begun(jobs);
            assert_eq!(scene.wait(ANSWER_TIMEOUT / 2), [0; 0]);
            assert_eq!(scene.finish(number, domain, false), [2]);
        }
    }

    #[test]
    fn a_result_that_comes_late_says_nothing_after_the_domain_has_answered() {
        let mut scene = Scene::new();
        scene.ask(1, None).expect("there is room");
        let late = scene.begun(&scene.own);
        assert_eq!(scene.wait(ANSWER_TIMEOUT), [1]);
        assert_eq!(scene.ask(2, None), OUT);
        assert_eq!(scene.ask(2, Some("OTHER")), OUT, "its way is through the own domain");
        scene.wait(Duration::from_secs(2));
        assert!(matches!(scene.own.recv(), Ok(Job::Ping)));
        scene.passwords.finish_ping(scene.now, true);
        assert_eq!(scene.finish(late, None, true), [0; 0]);
        scene.passwords.finish_ping(scene.now, false);
        scene.ask(3, None).expect("it has answered");
    }

    #[test]
    fn one_domain_does_not_fill_the_room_of_others() {
        let mut scene = Scene::new();
        let taken = (0..WAITING_MAX as u64).filter(|it| scene.ask(*it, Some("HANGS")).is_ok());
        assert_eq!(taken.count(), WAITING_PER_DOMAIN_MAX + 2);
        scene.ask(9_999, Some("OTHER")).expect("there is room");
    }

    /// The attack: a stranger's clients send passwords without a pause.
    #[test]
    fn a_password_that_makes_room_for_another_workers_is_refused() {
        for domain in [None, Some("OTHER")] {
            let ((own, own_begun), (others, other_begun)) = (hanging(8), hanging(8));
            let mut scene = Scene::new();
            scene.passwords = Passwords::new(DomainPools::new(own, others));
            scene.ask_of(1, 0, domain).expect("there is room");
            let has_begun = if domain.is_some() { &other_begun } else { &own_begun };
            assert_eq!(has_begun.recv(), Ok(()));
            let taken = (1..).take_while(|it| scene.ask_of(1, *it, domain).is_ok());
            let last = taken.last().expect("there is room");
            let refused = scene.ask_of(2, 9_999, domain).expect("a flood makes room");
            let verdict = LogonVerdict::Refused(NtStatus::INSUFF_SERVER_RESOURCES);
            let asker = ServerId { pid: 1, unique_id: 1 };
            assert_eq!(refused, Some(Answer { asker, question: last, verdict }));
        }
    }
}
