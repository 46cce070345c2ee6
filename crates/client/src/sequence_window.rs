//! Message ids and credits of a client: [MS-SMB2] 3.2.4.1.6, 3.2.5.1.4.

use std::collections::BTreeSet;

/// Bytes that one credit covers: [MS-SMB2] 3.1.5.2.
const BYTES_PER_CREDIT: usize = 64 * 1024;

/// CreditCharge of a request, by the larger size of its request and response data: [MS-SMB2]
/// 3.2.4.1.5.
#[must_use]
#[inline]
pub fn credit_charge(payload_bytes: usize) -> u16 {
    u16::try_from(payload_bytes.div_ceil(BYTES_PER_CREDIT).max(1)).unwrap_or(u16::MAX)
}

/// `Connection.CommandSequenceWindow`, as the client tracks it.
///
/// Independent of the server's window, to compare the two: it depends only on granted credits and
/// sent requests. Breaking the rules is possible: a request may take more credits than there are,
/// and may have any message id.
///
/// Invariant: `used` contains the consumed ids above `lowest`, which itself is unused, and all of
/// them were granted: the window has `used.len() + credits` ids.
#[derive(Debug)]
pub struct SequenceWindow {
    lowest: u64,
    credits: u32,
    used: BTreeSet<u64>,
}

impl SequenceWindow {
    /// Creates the window of a new connection: one credit, for NEGOTIATE.
    #[must_use]
    pub const fn new() -> Self {
        Self { lowest: 0, credits: 1, used: BTreeSet::new() }
    }

    /// Number of message ids that may be used.
    #[must_use]
    pub const fn credits(&self) -> u32 {
        self.credits
    }

    /// Distance between the lowest unused id and the end of the granted ones.
    ///
    /// # Panics
    ///
    /// Never: a length fits 64 bits.
    #[must_use]
    pub fn span(&self) -> u64 {
        u64::from(self.credits) + u64::try_from(self.used.len()).expect("a length fits 64 bits")
    }

    /// Message id of the next request.
    #[must_use]
    pub const fn next_id(&self) -> u64 {
        // The lowest is never used.
        self.lowest
    }

    /// Consumes the ids of a request, even beyond the granted ones. Returns the first of them.
    #[inline]
    pub fn take(&mut self, charge: u16) -> u64 {
        let id = self.lowest;
        let charge = charge.max(1);
        let behind = id + u64::from(charge);
        if self.used.is_empty() {
            self.lowest = behind;
            self.credits = self.credits.saturating_sub(charge.into());
        } else if behind < id + self.span() {
            self.take_at(id, charge);
        } else {
            (self.lowest, self.credits) = (behind, 0);
            self.used.clear();
        }
        id
    }

    /// Consumes the ids of a request with an id of the caller's choice; those that were not granted
    /// do not count.
    pub fn take_at(&mut self, id: u64, charge: u16) {
        let end = self.lowest + self.span();
        let wanted = id..id.saturating_add(charge.max(1).into());
        for id in wanted.start.max(self.lowest)..wanted.end.min(end) {
            self.credits -= u32::from(self.used.insert(id));
        }
        while self.used.remove(&self.lowest) {
            self.lowest += 1;
        }
    }

    /// Breaks the rules: leaves out so many ids, as if the server had granted as many further ones.
    /// Only for a client that uses its ids in their order.
    pub const fn skip(&mut self, count: u64) {
        self.lowest += count;
    }

    /// Adds the credits of a response.
    #[inline]
    pub fn grant(&mut self, credits: u16) {
        self.credits += u32::from(credits);
    }
}

impl Default for SequenceWindow {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
