//! Threads for jobs of the own domain, and threads that all other domains share.

use crate::domains::{Domains, QueueFull};
use crate::pool::Pool;

/// Two pools, and the state of the domains that use them. `J` is a job.
#[derive(Debug)]
pub(crate) struct DomainPools<J> {
    own: Pool<J>,
    others: Pool<J>,
    pub(crate) domains: Domains<J>,
}

impl<J: Send + 'static> DomainPools<J> {
    pub(crate) fn new(own: Pool<J>, others: Pool<J>) -> Self {
        Self { own, others, domains: Domains::default() }
    }

    /// Gives a job to the threads of its domain; `None` is the own one.
    ///
    /// # Errors
    /// There are too many jobs.
    pub(crate) fn add(&mut self, domain: Option<&str>, job: J) -> Result<(), QueueFull> {
        let Some(domain) = domain else { return self.own.add(job).map_err(|_| QueueFull) };
        let next = self.domains.start(domain, job)?;
        self.add_other(next);
        Ok(())
    }

    /// Ends a job. The next one that waits for the threads of its domain begins.
    pub(crate) fn finish(&mut self, domain: Option<&str>) {
        let next = domain.and_then(|domain| self.domains.finish(domain));
        self.add_other(next);
    }

    fn add_other(&self, job: Option<J>) {
        let Some(job) = job else { return };
        assert!(self.others.add(job).is_ok(), "the queue has room for all jobs of other domains");
    }
}
