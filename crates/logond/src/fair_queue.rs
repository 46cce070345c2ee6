//! A bounded queue in which workers take turns.
//!
//! A client has one worker. One that sends many jobs delays its own, and another's next job waits
//! for one of each worker at most.

use std::collections::VecDeque;

use dtyp::ServerId;

/// Jobs of workers, in the order of their turns.
#[derive(Debug)]
pub(crate) struct FairQueue<J> {
    /// The first one is next, and goes to the end with the rest of its jobs. None is empty.
    turns: VecDeque<(ServerId, VecDeque<J>)>,
    jobs: usize,
    jobs_max: usize,
}

impl<J> FairQueue<J> {
    pub(crate) fn new(jobs_max: usize) -> Self {
        Self { turns: VecDeque::new(), jobs: 0, jobs_max }
    }

    /// Adds a job. A full queue makes room for a worker that has fewer jobs than another: returns
    /// the last job of the one that has most.
    ///
    /// # Errors
    /// The job itself, if there is no room.
    pub(crate) fn push(&mut self, asker: ServerId, job: J) -> Result<Option<J>, J> {
        let own = self.turns.iter().position(|(of, _)| *of == asker);
        let mut displaced = None;
        if self.jobs >= self.jobs_max {
            let own_jobs = own.map_or(0, |place| self.turns[place].1.len());
            let most = self.turns.iter_mut().max_by_key(|(_, jobs)| jobs.len());
            let Some((_, most)) = most.filter(|(_, jobs)| jobs.len() > own_jobs + 1) else {
                return Err(job);
            };
            displaced = most.pop_back();
            self.jobs -= 1;
        }
        match own {
            Some(place) => self.turns[place].1.push_back(job),
            None => self.turns.push_back((asker, VecDeque::from([job]))),
        }
        self.jobs += 1;
        Ok(displaced)
    }

    /// Takes the job of the worker in turn.
    pub(crate) fn pop(&mut self) -> Option<J> {
        let (asker, mut jobs) = self.turns.pop_front()?;
        let job = jobs.pop_front();
        if !jobs.is_empty() {
            self.turns.push_back((asker, jobs));
        }
        self.jobs -= 1;
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
