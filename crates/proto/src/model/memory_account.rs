//! One account for the memory that a client makes its worker hold, whatever it is for.
//!
//! Half of the limit is for what stays until the client gives it up: opens, pipes, enumerations,
//! watches, locks, requests that wait without an end. Where that half is taken, a request that
//! wants more is refused. The other half is for what passes through: frames that come in, requests
//! under way, answers that the client has not read. Where that half is taken, less is received. So
//! neither can starve the other: a client that has filled the first half can still send a CLOSE.

use std::cell::Cell;
use std::rc::Rc;

use crate::model::reject::Reject;

/// The account of one client. Clones are the same account.
#[derive(Clone, Debug)]
pub struct MemoryAccount(Rc<Sums>);

#[derive(Debug)]
struct Sums {
    limit: Cell<usize>,
    kept: Cell<usize>,
    received: Cell<usize>,
    passing: Cell<usize>,
}

/// What bytes are taken for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Purpose {
    /// They stay until the client gives them up.
    Kept,
    /// A frame that is not whole yet.
    Received,
    /// A request under way, or its answer.
    Passing,
}

/// Bytes that are taken from an account, and given back when this is dropped.
#[derive(Debug)]
pub struct Charge {
    account: MemoryAccount,
    purpose: Purpose,
    bytes: usize,
}

impl MemoryAccount {
    /// An account of which nothing is taken.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Rc::new(Sums {
            limit: Cell::new(limit),
            kept: Cell::default(),
            received: Cell::default(),
            passing: Cell::default(),
        }))
    }

    /// Changes the limit. What is taken stays taken.
    pub fn set_limit(&self, limit: usize) {
        self.0.limit.set(limit);
    }

    /// Returns the bytes that are taken, for whatever.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.0.kept.get() + self.passing_through()
    }

    /// Takes bytes for something that stays.
    ///
    /// # Errors
    /// There is no room.
    pub fn keep(&self, bytes: usize) -> Result<Charge, Reject> {
        self.verify_room(bytes)?;
        Ok(self.keep_anyway(bytes))
    }

    /// Takes bytes for something that stays and is there already.
    #[must_use]
    pub fn keep_anyway(&self, bytes: usize) -> Charge {
        self.charge(Purpose::Kept, bytes)
    }

    /// Refuses something that stays where there is no room for it.
    ///
    /// # Errors
    /// There is none.
    pub fn verify_room(&self, bytes: usize) -> Result<(), Reject> {
        if self.0.kept.get().saturating_add(bytes) > self.half() {
            return Err(Reject::TooMuchMemory);
        }
        Ok(())
    }

    /// Takes bytes for a frame that comes in. One frame at a time always finds room: the client has
    /// no other way to go on.
    #[must_use]
    pub fn receive(&self, bytes: usize) -> Option<Charge> {
        let fits = self.passing_through().saturating_add(bytes) <= self.half();
        (fits || self.0.received.get() == 0).then(|| self.charge(Purpose::Received, bytes))
    }

    /// Takes bytes for a request under way, or for its answer: it is there already, or will be in
    /// any case.
    #[must_use]
    #[inline]
    pub fn pass(&self, bytes: usize) -> Charge {
        self.charge(Purpose::Passing, bytes)
    }

    /// Whether requests under way and answers have to leave before another request is taken.
    #[must_use]
    #[inline]
    pub fn must_wait(&self) -> bool {
        self.passing_through() >= self.half() && self.0.passing.get() > 0
    }

    fn passing_through(&self) -> usize {
        self.0.received.get() + self.0.passing.get()
    }

    /// Returns the bytes that may pass through at a time.
    #[must_use]
    #[inline]
    pub fn passing_max(&self) -> usize {
        self.half()
    }

    fn half(&self) -> usize {
        self.0.limit.get() / 2
    }

    #[inline]
    fn charge(&self, purpose: Purpose, bytes: usize) -> Charge {
        let mut charge = Charge { account: self.clone(), purpose, bytes: 0 };
        charge.set(bytes);
        charge
    }

    fn sum(&self, purpose: Purpose) -> &Cell<usize> {
        match purpose {
            Purpose::Kept => &self.0.kept,
            Purpose::Received => &self.0.received,
            Purpose::Passing => &self.0.passing,
        }
    }
}

impl Charge {
    /// Returns the bytes that are taken.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the account that they are taken from.
    #[must_use]
    pub fn account(&self) -> &MemoryAccount {
        &self.account
    }

    /// Takes more, or gives some back, for something that stays.
    ///
    /// # Errors
    /// It would be more, and there is no room. The charge stays what it was.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Reject> {
        if let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) {
            self.account.verify_room(more)?;
        }
        self.set(bytes);
        Ok(())
    }

    /// Says how much it is, whether there is room or not.
    #[inline]
    pub fn set(&mut self, bytes: usize) {
        let sum = self.account.sum(self.purpose);
        sum.set(sum.get() - self.bytes + bytes);
        self.bytes = bytes;
    }

    /// Takes more, whether there is room or not.
    #[inline]
    pub fn add(&mut self, bytes: usize) {
        self.set(self.bytes + bytes);
    }

    /// Gives some back.
    #[inline]
    pub fn sub(&mut self, bytes: usize) {
        self.set(self.bytes - bytes);
    }
}

impl Drop for Charge {
    #[inline]
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_is_refused_beyond_half_of_the_limit_and_given_back_when_dropped() {
        let account = MemoryAccount::new(200);
        let first = account.keep(60).expect("there is room");
        let mut second = account.keep(40).expect("there is room");
        assert_eq!(account.keep(1).map(drop), Err(Reject::TooMuchMemory));
        assert_eq!(second.resize(41), Err(Reject::TooMuchMemory));
        assert_eq!((second.bytes(), account.taken()), (40, 100));
        drop(first);
        assert_eq!(second.resize(100), Ok(()));
        assert_eq!(second.resize(usize::MAX), Err(Reject::TooMuchMemory));
        drop(second);
        assert_eq!(account.taken(), 0);
    }

    #[test]
    fn what_passes_through_leaves_room_for_what_stays_and_the_other_way_round() {
        let account = MemoryAccount::new(200);
        let kept = account.keep(100).expect("there is room");
        let frame = account.receive(100).expect("its half is free");
        assert!(!account.must_wait(), "nothing is under way that could leave");
        drop(kept);
        let passing = account.pass(1);
        assert!(account.must_wait());
        let kept = account.keep(100).expect("its half is free again");
        assert_eq!(account.taken(), 201);
        drop((frame, passing, kept));
        assert_eq!(account.taken(), 0);
    }

    #[test]
    fn one_frame_is_always_received_and_a_second_one_only_if_there_is_room() {
        let account = MemoryAccount::new(200);
        let passing = account.pass(1_000);
        let first = account.receive(1_000).expect("it is the only one");
        assert!(account.receive(1).is_none());
        drop(passing);
        assert!(account.receive(1).is_none());
        drop(first);
        let first = account.receive(60).expect("it is the only one");
        assert!(account.receive(41).is_none());
        assert!(account.receive(40).is_some());
        drop(first);
    }

    #[test]
    fn a_lower_limit_takes_nothing_away() {
        let account = MemoryAccount::new(200);
        let kept = account.keep(100).expect("there is room");
        account.set_limit(20);
        assert_eq!((account.taken(), account.keep(1).map(drop)), (100, Err(Reject::TooMuchMemory)));
        drop(kept);
        assert_eq!(account.keep(10).map(drop), Ok(()));
    }
}
