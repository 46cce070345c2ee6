//! Threads for jobs of the own domain, and threads that all other domains share.

use dtyp::ServerId;

use crate::domains::{Domains, QueueFull, Started};
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

    /// Gives a job of a worker to the threads of its domain; `None` is the own one. Workers take
    /// turns. Returns the job of the same domain that had to make room.
    ///
    /// # Errors
    /// There are too many jobs.
    pub(crate) fn add(
        &mut self,
        asker: ServerId,
        domain: Option<&str>,
        job: J,
    ) -> Result<Option<J>, QueueFull> {
        let Some(domain) = domain else {
            return self.own.add_of(asker, job).map_err(|_| QueueFull);
        };
        match self.domains.start(asker, domain, job)? {
            Started::Runs(job) => {
                self.add_other(Some((asker, job)));
                Ok(None)
            }
            Started::Waits { displaced } => Ok(displaced),
        }
    }

    /// Ends a job. The next one that waits for the threads of its domain begins.
    pub(crate) fn finish(&mut self, domain: Option<&str>) {
        let next = domain.and_then(|domain| self.domains.finish(domain));
        self.add_other(next);
    }

    fn add_other(&self, job: Option<(ServerId, J)>) {
        let Some((asker, job)) = job else { return };
        let added = self.others.add_of(asker, job);
        assert!(matches!(added, Ok(None)), "the queue has room for all jobs of other domains");
    }
}
