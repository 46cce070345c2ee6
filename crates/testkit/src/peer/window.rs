//! The message ids that a client may use, as the client counts them.

/// `Connection.CommandSequenceWindow`, seen from the client.
///
/// Independent of the server's, so that the two can be compared: it knows only what was granted and
/// what was sent.
#[derive(Debug)]
pub(super) struct Window {
    /// One past the last id that was granted.
    end: u64,
    /// The lowest id that was not used.
    next: u64,
    /// Span that the server promised never to exceed.
    max: u32,
}

impl Window {
    pub(super) fn new(max: u32) -> Self {
        Self { end: 1, next: 0, max }
    }

    pub(super) fn credits(&self) -> u32 {
        u32::try_from(self.end - self.next).expect("at most the window")
    }

    pub(super) fn next_id(&self) -> u64 {
        self.next
    }

    /// Takes the ids of a request. More than were granted is the test's own affair.
    pub(super) fn take(&mut self, charge: u16) -> u64 {
        let id = self.next;
        self.next += u64::from(charge.max(1));
        self.end = self.end.max(self.next);
        id
    }

    /// # Panics
    /// If the window gets wider than the server may make it.
    pub(super) fn grant(&mut self, credits: u16) {
        self.end += u64::from(credits);
        let span = self.end - self.next;
        assert!(span <= u64::from(self.max), "{span} credits are above {}", self.max);
    }

    /// # Panics
    /// If nothing is on its way and no id is left: the client could never say anything again.
    pub(super) fn assert_not_stranded(&self, outstanding: usize) {
        assert!(self.end > self.next || outstanding > 0, "no credit is left");
    }
}
