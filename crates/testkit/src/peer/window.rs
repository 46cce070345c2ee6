//! The message ids that a client may use, as the client counts them.

use std::collections::BTreeSet;

/// `Connection.CommandSequenceWindow`, seen from the client.
///
/// Independent of the server's, so that the two can be compared: it knows only what was granted and
/// what was sent.
#[derive(Debug)]
pub(super) struct Window {
    /// One past the last id that was granted.
    end: u64,
    /// The lowest id that was not used.
    lowest: u64,
    /// Ids above it that were.
    used: BTreeSet<u64>,
    /// Span that the server promised never to exceed.
    max: u32,
}

impl Window {
    pub(super) fn new(max: u32) -> Self {
        Self { end: 1, lowest: 0, used: BTreeSet::new(), max }
    }

    pub(super) fn credits(&self) -> u32 {
        let used = u64::try_from(self.used.len()).expect("a few ids");
        u32::try_from(self.end - self.lowest - used).expect("at most the window")
    }

    pub(super) fn next_id(&self) -> u64 {
        (self.lowest..).find(|id| !self.used.contains(id)).expect("ids do not end")
    }

    /// The ids of a request. More than were granted is the test's own affair.
    pub(super) fn take(&mut self, charge: u16) -> u64 {
        let id = self.next_id();
        self.end = self.end.max(id + u64::from(charge.max(1)));
        self.take_at(id, charge);
        id
    }

    /// The ids of a request whose id the test has chosen; those that were not granted do not count.
    pub(super) fn take_at(&mut self, id: u64, charge: u16) {
        let wanted = id..id.saturating_add(u64::from(charge.max(1)));
        self.used.extend(wanted.filter(|id| (self.lowest..self.end).contains(id)));
        while self.used.remove(&self.lowest) {
            self.lowest += 1;
        }
    }

    /// # Panics
    /// If the window gets wider than the server may make it.
    pub(super) fn grant(&mut self, credits: u16) {
        self.end += u64::from(credits);
        let span = self.end - self.lowest;
        assert!(span <= u64::from(self.max), "{span} credits are above {}", self.max);
    }

    /// # Panics
    /// If nothing is on its way and no id is left: the client could never say anything again.
    pub(super) fn assert_not_stranded(&self, outstanding: usize) {
        assert!(self.credits() > 0 || outstanding > 0, "no credit is left");
    }
}
