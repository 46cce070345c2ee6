//! Threads that take jobs from a bounded queue.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use dtyp::ServerId;
use process::FairQueue;

/// A bounded queue, and the threads that empty it.
pub(crate) struct Pool<J> {
    shared: Arc<Shared<J>>,
}

struct Shared<J> {
    jobs: Mutex<FairQueue<J>>,
    has_jobs: Condvar,
}

impl<J> fmt::Debug for Pool<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
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
        let jobs = Mutex::new(FairQueue::new(jobs_max));
        let shared = Arc::new(Shared { jobs, has_jobs: Condvar::new() });
        for _ in 0..threads {
            let (shared, begin, work) = (Arc::clone(&shared), begin.clone(), work.clone());
            thread::Builder::new().name(name.to_owned()).spawn(move || {
                let mut state = begin();
                loop {
                    work(&mut state, shared.take());
                }
            })?;
        }
        Ok(Self { shared })
    }

    /// Adds a job of a worker, which waits for its turn. Returns the job that had to make room.
    ///
    /// # Errors
    /// The job itself, if there is no room.
    pub(crate) fn add_of(&self, asker: ServerId, job: J) -> Result<Option<J>, J> {
        let displaced = self.shared.lock().push(asker, job)?;
        self.shared.has_jobs.notify_one();
        Ok(displaced)
    }
}

impl<J> Shared<J> {
    fn take(&self) -> J {
        let mut jobs = self.lock();
        loop {
            if let Some(job) = jobs.pop() {
                return job;
            }
            jobs = self.has_jobs.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, FairQueue<J>> {
        // Nothing panics with the lock held.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::mpsc::{self, Receiver};

    use dtyp::ServerId;

    use super::Pool;
    use crate::WAITING_MAX;

    /// Starts a thread that hands each job to the test.
    pub(crate) fn handing<J: Send + 'static>() -> (Pool<J>, Receiver<J>) {
        let (given, jobs) = mpsc::channel();
        let give = move |(): &mut (), job| {
            // The test may have ended.
            let _ = given.send(job);
        };
        (Pool::start("test", 1, WAITING_MAX, || (), give).expect("there are threads"), jobs)
    }

    /// Starts a thread that tells the test of its first job, and hangs until the end of the test.
    pub(crate) fn hanging<J: Send + 'static>(jobs_max: usize) -> (Pool<J>, Receiver<()>) {
        let (begun, has_begun) = mpsc::sync_channel(0);
        let hang = move |(): &mut (), _| {
            // The test takes the first one only.
            let _ = begun.send(()).and_then(|()| begun.send(()));
        };
        (Pool::start("test", 1, jobs_max, || (), hang).expect("there are threads"), has_begun)
    }

    fn worker(pid: u32) -> ServerId {
        ServerId { pid, unique_id: 0 }
    }

    #[test]
    fn a_full_queue_gives_the_job_back_and_other_pools_go_on() {
        let (begun, has_begun) = mpsc::channel();
        let (resume, may_resume) = mpsc::channel::<()>();
        let may_resume = std::sync::Arc::new(std::sync::Mutex::new(may_resume));
        let slow = Pool::start(
            "slow",
            1,
            2,
            || (),
            move |(), job: u32| {
                begun.send(job).expect("the test waits");
                let _ = may_resume.lock().expect("one thread").recv();
            },
        )
        .expect("there are threads");
        slow.add_of(worker(1), 1).expect("there is room");
        assert_eq!(has_begun.recv(), Ok(1));
        slow.add_of(worker(1), 2).expect("there is room");
        slow.add_of(worker(1), 3).expect("there is room");
        assert_eq!(slow.add_of(worker(1), 4), Err(4));
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
        quick.add_of(worker(1), 7).expect("there is room");
        assert_eq!(is_done.recv(), Ok(7), "the slow pool holds nothing up");
        resume.send(()).expect("the thread waits");
    }

    #[test]
    fn jobs_of_workers_take_turns() {
        let (begun, has_begun) = mpsc::channel();
        let (resume, may_resume) = mpsc::channel::<()>();
        let may_resume = std::sync::Arc::new(std::sync::Mutex::new(may_resume));
        let work = move |(): &mut (), job: u32| {
            begun.send(job).expect("the test waits");
            let _ = may_resume.lock().expect("one thread").recv();
        };
        let pool = Pool::start("turns", 1, 4, || (), work).expect("there are threads");
        pool.add_of(worker(1), 1).expect("there is room");
        assert_eq!(has_begun.recv(), Ok(1));
        for job in 2..=5 {
            assert_eq!(pool.add_of(worker(1), job), Ok(None));
        }
        assert_eq!(pool.add_of(worker(2), 100), Ok(Some(5)), "a flood makes room");
        let mut order = Vec::new();
        for _ in 0..4 {
            resume.send(()).expect("the thread waits");
            order.extend(has_begun.recv());
        }
        assert_eq!(order, [100, 2, 3, 4], "the first one has had a turn");
        resume.send(()).expect("the thread waits");
    }
}
