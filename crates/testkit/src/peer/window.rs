//! Message ids available to a client.

use std::collections::BTreeSet;

/// `Connection.CommandSequenceWindow`, as the client tracks it.
///
/// Independent of the server's window, to compare the two: it depends only on granted credits and
/// sent requests.
#[derive(Debug)]
pub(super) struct Window {
    /// End of the granted ids (exclusive).
    end: u64,
    /// Lowest id that is unused.
    lowest: u64,
    /// Ids above `lowest` that are used.
    used: BTreeSet<u64>,
    /// Largest span that the server has promised.
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

    /// Consumes the ids of a request, even beyond the granted ones if the test wants that.
    pub(super) fn take(&mut self, charge: u16) -> u64 {
        let id = self.next_id();
        self.end = self.end.max(id + u64::from(charge.max(1)));
        self.take_at(id, charge);
        id
    }

    /// Consumes the ids of a request with an id from the test; those that were not granted do not
    /// count.
    pub(super) fn take_at(&mut self, id: u64, charge: u16) {
        let wanted = id..id.saturating_add(u64::from(charge.max(1)));
        self.used.extend(wanted.filter(|id| (self.lowest..self.end).contains(id)));
        while self.used.remove(&self.lowest) {
            self.lowest += 1;
        }
    }

    /// # Panics
    /// If the window exceeds the server's maximum.
    pub(super) fn grant(&mut self, credits: u16) {
        self.end += u64::from(credits);
        let span = self.end - self.lowest;
        assert!(span <= u64::from(self.max), "{span} credits are above {}", self.max);
    }

    /// # Panics
    /// If no request is outstanding and no id is left: the client could never send again.
    pub(super) fn assert_not_stranded(&self, outstanding: usize) {
        assert!(self.credits() > 0 || outstanding > 0, "no credit is left");
    }
}
