//! One account for all memory that a client makes its worker hold.
//!
//! Half of the limit is for memory that stays until the client releases it: opens, pipes,
//! enumerations, watches, locks, requests that wait without an end. Beyond that half, a request for
//! more is refused. The other half is for memory in transit: incoming frames, pending requests,
//! responses that the client has not read. Beyond that half, less is received. So neither half can
//! starve the other: a client that has filled the first half can still send a CLOSE.

use std::cell::Cell;
use std::rc::Rc;

use crate::reject::Reject;

/// The account of one client. Clones share one account.
#[derive(Clone, Debug)]
pub struct MemoryAccount(Rc<Sums>);

#[derive(Debug)]
struct Sums {
    limit: Cell<usize>,
    kept: Cell<usize>,
    received: Cell<usize>,
    passing: Cell<usize>,
}

/// Purpose that memory is charged for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Purpose {
    /// Memory that stays until the client releases it.
    Kept,
    /// A frame that has not arrived completely.
    Received,
    /// A pending request, or its response.
    Passing,
}

/// Bytes charged to an account, and returned to it on drop.
#[derive(Debug)]
pub struct Charge {
    account: MemoryAccount,
    purpose: Purpose,
    bytes: usize,
}

impl MemoryAccount {
    /// Opens an account without charges.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Rc::new(Sums {
            limit: Cell::new(limit),
            kept: Cell::default(),
            received: Cell::default(),
            passing: Cell::default(),
        }))
    }

    /// Changes the limit. Existing charges stay.
    pub fn set_limit(&self, limit: usize) {
        self.0.limit.set(limit);
    }

    /// Returns the bytes charged for all purposes.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.0.kept.get() + self.passing_through()
    }

    /// Charges memory that stays.
    ///
    /// # Errors
    /// If the half for such memory is exhausted.
    pub fn keep(&self, bytes: usize) -> Result<Charge, Reject> {
        self.verify_room(bytes)?;
        Ok(self.keep_beyond_limit(bytes))
    }

    /// Charges memory that stays and is in use already, even beyond the limit.
    #[must_use]
    pub fn keep_beyond_limit(&self, bytes: usize) -> Charge {
        self.charge(Purpose::Kept, bytes)
    }

    /// Refuses memory that stays, if it does not fit. Charges nothing.
    ///
    /// # Errors
    /// If the half for such memory is exhausted.
    pub fn verify_room(&self, bytes: usize) -> Result<(), Reject> {
        if self.0.kept.get().saturating_add(bytes) > self.half() {
            return Err(Reject::TooMuchMemory);
        }
        Ok(())
    }

    /// Charges memory for an incoming frame; none if it does not fit. A single incoming frame
    /// always fits, because the client could not go on without it.
    #[must_use]
    pub fn receive(&self, bytes: usize) -> Option<Charge> {
        let fits = self.passing_through().saturating_add(bytes) <= self.half();
        (fits || self.0.received.get() == 0).then(|| self.charge(Purpose::Received, bytes))
    }

    /// Charges memory for a pending request or its response, even beyond the limit: it is in use
    /// already, or certainly will be.
    #[must_use]
    #[inline]
    pub fn pass(&self, bytes: usize) -> Charge {
        self.charge(Purpose::Passing, bytes)
    }

    /// True if pending requests and responses must finish before another request is taken.
    #[must_use]
    #[inline]
    pub fn must_wait(&self) -> bool {
        self.passing_through() >= self.half() && self.0.passing.get() > 0
    }

    fn passing_through(&self) -> usize {
        self.0.received.get() + self.0.passing.get()
    }

    /// Returns the highest number of bytes in transit.
    #[must_use]
    #[inline]
    pub fn in_transit_max(&self) -> usize {
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
    /// Returns the number of bytes charged.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the account that is charged.
    #[must_use]
    pub fn account(&self) -> &MemoryAccount {
        &self.account
    }

    /// Changes the number of bytes of a charge for memory that stays.
    ///
    /// # Errors
    /// If it grows, and the half for such memory is exhausted. The charge stays as it was.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Reject> {
        if let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) {
            self.account.verify_room(more)?;
        }
        self.set(bytes);
        Ok(())
    }

    /// Sets the number of bytes, even beyond the limit.
    #[inline]
    pub fn set(&mut self, bytes: usize) {
        let sum = self.account.sum(self.purpose);
        sum.set(sum.get() - self.bytes + bytes);
        self.bytes = bytes;
    }

    /// Adds bytes to the charge, even beyond the limit.
    #[inline]
    pub fn add(&mut self, bytes: usize) {
        self.set(self.bytes + bytes);
    }

    /// Returns some bytes to the account.
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
    fn kept_memory_is_refused_beyond_half_of_the_limit_and_returned_on_drop() {
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
    fn passing_and_kept_memory_leave_room_for_each_other() {
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
