//! Threads that take jobs from a bounded queue.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A bounded queue, and the threads that empty it.
pub(crate) struct Pool<J> {
    shared: Arc<Shared<J>>,
    jobs_max: usize,
}

struct Shared<J> {
    jobs: Mutex<VecDeque<J>>,
    has_jobs: Condvar,
}

impl<J> fmt::Debug for Pool<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("jobs_max", &self.jobs_max).finish_non_exhaustive()
    }
}

impl<J: Send + 'static> Pool<J> {
    /// Starts `threads` threads. Each makes its state with `begin`, and does its jobs with it.
    pub(crate) fn start<S: 'static>(
        name: &'static str,
        threads: usize,
        jobs_max: usize,
        begin: impl Fn() -> S + Clone + Send + 'static,
        work: impl Fn(&mut S, J) + Clone + Send + 'static,
    ) -> std::io::Result<Self> {
        let shared =
            Arc::new(Shared { jobs: Mutex::new(VecDeque::new()), has_jobs: Condvar::new() });
        for _ in 0..threads {
            let (shared, begin, work) = (Arc::clone(&shared), begin.clone(), work.clone());
            thread::Builder::new().name(name.to_owned()).spawn(move || {
                let mut state = begin();
                loop {
                    work(&mut state, shared.take());
                }
            })?;
        }
        Ok(Self { shared, jobs_max })
    }

    /// Adds a job, or gives it back if the queue is full.
    pub(crate) fn add(&self, job: J) -> Result<(), J> {
        let mut jobs = self.shared.lock();
        if jobs.len() >= self.jobs_max {
            return Err(job);
        }
        jobs.push_back(job);
        drop(jobs);
        self.shared.has_jobs.notify_one();
        Ok(())
    }
}

impl<J> Shared<J> {
    fn take(&self) -> J {
        let mut jobs = self.lock();
        loop {
            if let Some(job) = jobs.pop_front() {
                return job;
            }
            jobs = self.has_jobs.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<J>> {
        // Nothing panics with the lock held.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::Pool;

    #[test]
    fn a_full_queue_gives_the_job_back_and_other_pools_go_on() {
        let (begun, has_begun) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let may_go_on = std::sync::Arc::new(std::sync::Mutex::new(may_go_on));
        let slow = Pool::start(
            "slow",
            1,
            2,
            || (),
            move |(), job: u32| {
                begun.send(job).expect("the test waits");
                let _ = may_go_on.lock().expect("one thread").recv();
            },
        )
        .expect("there are threads");
        slow.add(1).expect("there is room");
        assert_eq!(has_begun.recv(), Ok(1));
        slow.add(2).expect("there is room");
        slow.add(3).expect("there is room");
        assert_eq!(slow.add(4), Err(4));
        let (done, is_done) = mpsc::channel();
        let quick = Pool::start(
            "quick",
            1,
            2,
            || (),
            move |(), job: u32| {
                done.send(job).expect("the test waits");
            },
        )
        .expect("there are threads");
        quick.add(7).expect("there is room");
        assert_eq!(is_done.recv(), Ok(7), "the slow pool holds nothing up");
        go_on.send(()).expect("the thread waits");
    }
}
