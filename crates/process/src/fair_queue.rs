//! A bounded queue in which workers take turns.
//!
//! A client has one worker. One that sends many jobs delays its own, and another's next job waits
//! for one of each worker at most.

use std::collections::{HashMap, VecDeque};

use dtyp::ServerId;

use crate::turns::Turns;

/// Jobs of workers, in the order of their turns.
#[derive(Debug)]
pub struct FairQueue<J> {
    turns: Turns<ServerId>,
    /// Jobs of each worker that has some.
    jobs: HashMap<ServerId, VecDeque<J>>,
    len: usize,
    jobs_max: usize,
}

impl<J> FairQueue<J> {
    /// Begins without jobs. No more than `jobs_max` wait at a time.
    #[must_use]
    pub fn new(jobs_max: usize) -> Self {
        Self { turns: Turns::default(), jobs: HashMap::new(), len: 0, jobs_max }
    }

    /// Adds a job. A full queue makes room for a worker that has fewer jobs than another: returns
    /// the last job of the one that has most.
    ///
    /// # Errors
    /// The job itself, if there is no room.
    pub fn push(&mut self, requester: ServerId, job: J) -> Result<Option<J>, J> {
        let mut displaced = None;
        if self.len >= self.jobs_max {
            let own = self.jobs.get(&requester).map_or(0, VecDeque::len);
            let most = self.jobs.values_mut().max_by_key(|jobs| jobs.len());
            let Some(most) = most.filter(|jobs| jobs.len() > own + 1) else {
                return Err(job);
            };
            displaced = most.pop_back();
            self.len -= 1;
        }
        self.jobs.entry(requester).or_default().push_back(job);
        self.turns.enter(requester);
        self.len += 1;
        Ok(displaced)
    }

    /// True if no job waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes the job of the worker in turn. All jobs cost the same.
    pub fn pop(&mut self) -> Option<J> {
        let requester = self.turns.next_party()?;
        let jobs = self.jobs.get_mut(&requester)?;
        let job = jobs.pop_front();
        if jobs.is_empty() {
            self.jobs.remove(&requester);
            self.turns.leave(requester);
        }
        self.turns.charge(requester, 1);
        self.len -= 1;
        job
    }
}

#[cfg(test)]
mod tests {
    use dtyp::ServerId;

    use super::FairQueue;

    fn worker(pid: u32) -> ServerId {
        ServerId { pid, unique_id: 0 }
    }

    /// All jobs of a queue in their order.
    fn order(mut queue: FairQueue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn a_flood_of_one_worker_delays_the_next_job_of_another_by_one() {
        let mut queue = FairQueue::new(100);
        for job in 0..50 {
            assert_eq!(queue.push(worker(1), job), Ok(None));
        }
        assert_eq!(queue.push(worker(2), 100), Ok(None));
        assert_eq!(queue.push(worker(2), 101), Ok(None));
        assert_eq!(order(queue)[..6], [0, 100, 1, 101, 2, 3]);
    }

    #[test]
    fn a_full_queue_has_room_for_a_worker_with_fewer_jobs_and_refuses_the_others() {
        let mut queue = FairQueue::new(6);
        for job in 0..4 {
            assert_eq!(queue.push(worker(1), job), Ok(None));
        }
        assert_eq!(queue.push(worker(2), 10), Ok(None));
        assert_eq!(queue.push(worker(2), 11), Ok(None));
        assert_eq!(queue.push(worker(1), 4), Err(4), "it has most");
        assert_eq!(queue.push(worker(3), 20), Ok(Some(3)), "the last of the first");
        assert_eq!(queue.push(worker(2), 12), Err(12), "none has many more");
        assert_eq!(queue.push(worker(3), 21), Ok(Some(2)));
        assert_eq!(order(queue), [0, 10, 20, 1, 11, 21]);
    }

    #[test]
    fn jobs_of_one_worker_keep_their_order() {
        let mut queue = FairQueue::new(3);
        (0..3).for_each(|job| assert_eq!(queue.push(worker(1), job), Ok(None)));
        assert_eq!(queue.pop(), Some(0));
        assert_eq!(queue.push(worker(1), 3), Ok(None));
        assert_eq!(order(queue), [1, 2, 3]);
    }
}
