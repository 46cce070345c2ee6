//! The own domain, and those that it trusts: which of them answer, and their parts of the threads.
//!
//! Clients choose the names of other domains. A name has an entry only while jobs of it run or
//! wait, or while its domain does not answer.

use std::collections::HashMap;
use std::time::Instant;

use dtyp::ServerId;
use process::FairQueue;

use crate::WAITING_MAX;
use crate::outage::Outage;

/// Jobs of one other domain that threads have at the same time: one that hangs must leave threads
/// to the rest.
pub(crate) const RUNNING_PER_DOMAIN_MAX: usize = 2;

/// Jobs of one other domain that wait for a thread.
pub(crate) const WAITING_PER_DOMAIN_MAX: usize = 128;

/// Other domains that are known not to answer. One more replaces the one whose next question is
/// due first.
pub(crate) const OUT_MAX: usize = 64;

/// Longest name of a domain, in characters; further ones are cut off. DNS has shorter ones.
const NAME_CHARS_MAX: usize = 256;

/// No more jobs of other domains are taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct QueueFull;

/// Fate of a new job of another domain.
#[derive(Debug, PartialEq)]
pub(crate) enum Started<J> {
    /// It is for the threads.
    Runs(J),
    /// It waits for them. A job of the worker with most may have had to make room.
    Waits { displaced: Option<J> },
}

/// State of all domains. `J` is a job.
#[derive(Debug)]
pub(crate) struct Domains<J> {
    pub(crate) own: Outage,
    others: HashMap<String, Other<J>>,
}

/// Another domain than the own one.
#[derive(Debug)]
struct Other<J> {
    outage: Outage,
    running: usize,
    /// Jobs that wait, for which workers take turns, each with its worker.
    waiting: FairQueue<(ServerId, J)>,
    /// Number of jobs that wait.
    waiting_len: usize,
}

impl<J> Default for Other<J> {
    fn default() -> Self {
        let waiting = FairQueue::new(WAITING_PER_DOMAIN_MAX);
        Self { outage: Outage::default(), running: 0, waiting, waiting_len: 0 }
    }
}

impl<J> Default for Domains<J> {
    fn default() -> Self {
        Self { own: Outage::default(), others: HashMap::new() }
    }
}

/// Returns the name of the domain that a client's names mean; `None` for the own domain.
pub(crate) fn other_domain(user: &str, domain: &str, own: [&str; 2]) -> Option<String> {
    let of_user = || user.rsplit_once('@').map_or("", |(_, domain)| domain);
    let name = if domain.is_empty() { of_user() } else { domain };
    let is_own = name.is_empty() || own.iter().any(|own| own.eq_ignore_ascii_case(name));
    (!is_own).then(|| name.chars().take(NAME_CHARS_MAX).collect::<String>().to_uppercase())
}

impl<J> Domains<J> {
    /// Returns whether a domain may be asked about a password. All questions go through a
    /// controller of the own domain. After a pause, the first question to another domain that does
    /// not answer is its probe.
    pub(crate) fn may_ask(&mut self, now: Instant, domain: Option<&str>) -> bool {
        let other = domain.and_then(|domain| self.others.get_mut(domain));
        self.own.may_ask()
            && other.is_none_or(|it| it.outage.may_ask() || it.outage.take_probe(now))
    }

    /// Starts a job of a worker for another domain. It waits if the threads have enough of that
    /// domain.
    ///
    /// # Errors
    /// There are too many jobs.
    pub(crate) fn start(
        &mut self,
        asker: ServerId,
        domain: &str,
        job: J,
    ) -> Result<Started<J>, QueueFull> {
        let pending: usize = self.others.values().map(|it| it.running + it.waiting_len).sum();
        if pending >= WAITING_MAX {
            return Err(QueueFull);
        }
        let other = self.others.entry(domain.to_owned()).or_default();
        if other.running < RUNNING_PER_DOMAIN_MAX {
            other.running += 1;
            return Ok(Started::Runs(job));
        }
        let displaced = other.waiting.push(asker, (asker, job)).map_err(|_| QueueFull)?;
        if displaced.is_none() {
            other.waiting_len += 1;
        }
        Ok(Started::Waits { displaced: displaced.map(|(_, job)| job) })
    }

    /// Ends a job of another domain. Returns the next one for the threads, with its worker.
    pub(crate) fn finish(&mut self, domain: &str) -> Option<(ServerId, J)> {
        let other = self.others.get_mut(domain)?;
        let next = other.waiting.pop();
        match next {
            Some(_) => other.waiting_len -= 1,
            None => other.running = other.running.saturating_sub(1),
        }
        self.forget(domain);
        next
    }

    /// Records a question without an answer, and drops the waiting jobs of that other domain. True
    /// if that is news.
    pub(crate) fn begin_outage(&mut self, now: Instant, domain: Option<&str>) -> bool {
        let Some(domain) = domain else { return self.own.begin(now) };
        let other = self.others.entry(domain.to_owned()).or_default();
        (other.waiting, other.waiting_len) = (FairQueue::new(WAITING_PER_DOMAIN_MAX), 0);
        let is_news = other.outage.begin(now);
        let out = self.others.iter().filter(|(_, it)| !it.outage.may_ask());
        if out.clone().count() > OUT_MAX {
            let others = out.filter(|(name, _)| *name != domain);
            let first = others.min_by_key(|(_, it)| it.outage.next_probe());
            if let Some(first) = first.map(|(name, _)| name.clone()) {
                self.end_outage(Some(&first));
            }
        }
        is_news
    }

    /// Records an answer. True if that is news.
    pub(crate) fn end_outage(&mut self, domain: Option<&str>) -> bool {
        let Some(domain) = domain else { return self.own.end() };
        let is_news = self.others.get_mut(domain).is_some_and(|it| it.outage.end());
        self.forget(domain);
        is_news
    }

    /// Records that a question did not reach another domain, and so says nothing about it.
    pub(crate) fn not_asked(&mut self, domain: Option<&str>) {
        if let Some(other) = domain.and_then(|domain| self.others.get_mut(domain)) {
            other.outage.not_probed();
        }
    }

    fn forget(&mut self, domain: &str) {
        let is_idle = |it: &Other<J>| it.running == 0 && it.waiting_len == 0 && it.outage.may_ask();
        if self.others.get(domain).is_some_and(is_idle) {
            self.others.remove(domain);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{
        Domains, OUT_MAX, RUNNING_PER_DOMAIN_MAX, Started, WAITING_PER_DOMAIN_MAX, other_domain,
    };
    use dtyp::ServerId;

    fn worker(pid: u32) -> ServerId {
        ServerId { pid, unique_id: 0 }
    }

    #[test]
    fn names_of_the_own_domain_are_no_other_and_case_does_not_count() {
        let of = |user, domain| other_domain(user, domain, ["ADLAB", "ad.lab"]);
        for (user, domain) in [("a", ""), ("a", "adlab"), ("a", "AD.LAB"), ("a@ad.lab", "")] {
            assert_eq!(of(user, domain), None, "{user} {domain}");
        }
        assert_eq!(of("a", "Other").as_deref(), Some("OTHER"));
        assert_eq!(of("a@ad.lab", "other").as_deref(), Some("OTHER"));
        assert_eq!(of("a@x@other.lab", "").as_deref(), Some("OTHER.LAB"));
        assert_eq!(of("a", &"x".repeat(9_999)).map(|it| it.len()), Some(256));
    }

    #[test]
    fn the_first_question_after_a_pause_is_the_probe_of_another_domain() {
        let (mut domains, now) = (Domains::<u32>::default(), Instant::now());
        assert!(domains.begin_outage(now, Some("OTHER")));
        assert!(!domains.may_ask(now, Some("OTHER")));
        assert!(domains.may_ask(now, None) && domains.may_ask(now, Some("THIRD")));
        let later = now + Duration::from_secs(2);
        assert!(domains.may_ask(later, Some("OTHER")), "it is the probe");
        assert!(!domains.may_ask(later, Some("OTHER")), "one is enough");
        domains.not_asked(Some("OTHER"));
        assert!(domains.may_ask(later, Some("OTHER")), "the probe was not asked");
        assert!(domains.end_outage(Some("OTHER")) && domains.may_ask(later, Some("OTHER")));
        assert!(domains.others.is_empty());
    }

    #[test]
    fn names_from_clients_take_bounded_room() {
        let (mut domains, now) = (Domains::<u32>::default(), Instant::now());
        for number in 0..3 * OUT_MAX {
            let name = number.to_string();
            assert_eq!(domains.start(worker(1), &name, 0), Ok(Started::Runs(0)));
            domains.begin_outage(now, Some(&name));
            assert_eq!(domains.finish(&name), None);
            assert!(!domains.may_ask(now, Some(&name)), "the newest is kept");
        }
        assert_eq!(domains.others.len(), OUT_MAX);
    }

    /// The attack: a stranger's clients send passwords for one domain, without a pause.
    #[test]
    fn a_flood_for_one_domain_delays_a_job_of_another_worker_by_one_and_makes_room_for_it() {
        let mut domains = Domains::default();
        for job in 0..RUNNING_PER_DOMAIN_MAX {
            assert_eq!(domains.start(worker(1), "OTHER", job), Ok(Started::Runs(job)));
        }
        for job in 0..WAITING_PER_DOMAIN_MAX {
            let waits = Started::Waits { displaced: None };
            assert_eq!(domains.start(worker(1), "OTHER", job), Ok(waits));
        }
        let displaced = Some(WAITING_PER_DOMAIN_MAX - 1);
        let waits = Started::Waits { displaced };
        assert_eq!(domains.start(worker(2), "OTHER", 9_999), Ok(waits));
        let next = [(); 2].map(|()| domains.finish("OTHER"));
        assert!(next.contains(&Some((worker(2), 9_999))), "{next:?}");
        while domains.finish("OTHER").is_some() {}
        assert_eq!(domains.finish("OTHER"), None);
        assert!(domains.others.is_empty());
    }
}
