//! Message ids and credits of a client: [MS-SMB2] 3.2.4.1.6, 3.2.5.1.4.

use std::collections::BTreeSet;

/// Bytes that one credit covers: [MS-SMB2] 3.1.5.2.
const BYTES_PER_CREDIT: usize = 64 * 1024;

/// CreditCharge of a request, by the larger size of its request and response data: [MS-SMB2]
/// 3.2.4.1.5.
#[must_use]
pub fn credit_charge(payload_bytes: usize) -> u16 {
    u16::try_from(payload_bytes.div_ceil(BYTES_PER_CREDIT).max(1)).unwrap_or(u16::MAX)
}

/// `Connection.CommandSequenceWindow`, as the client tracks it.
///
/// Independent of the server's window, to compare the two: it depends only on granted credits and
/// sent requests. Breaking the rules is possible: a request may take more credits than there are,
/// and may have any message id.
///
/// Invariant: `lowest..end` contains every id that was granted and not yet consumed, and `used` the
/// consumed ones among them, never the lowest.
#[derive(Debug)]
pub struct SequenceWindow {
    lowest: u64,
    end: u64,
    used: BTreeSet<u64>,
}

impl SequenceWindow {
    /// Creates the window of a new connection: one credit, for NEGOTIATE.
    #[must_use]
    pub const fn new() -> Self {
        Self { lowest: 0, end: 1, used: BTreeSet::new() }
    }

    /// Number of message ids that may be used.
    ///
    /// # Panics
    ///
    /// The server has granted more than 32 bits can count.
    #[must_use]
    pub fn credits(&self) -> u32 {
        let used = u64::try_from(self.used.len()).expect("a length fits 64 bits");
        u32::try_from(self.end - self.lowest - used).expect("a server grants less than 2^32")
    }

    /// Distance between the lowest unused id and the end of the granted ones.
    #[must_use]
    pub const fn span(&self) -> u64 {
        self.end - self.lowest
    }

    /// Message id of the next request.
    #[must_use]
    pub const fn next_id(&self) -> u64 {
        // The lowest is never used.
        self.lowest
    }

    /// Consumes the ids of a request, even beyond the granted ones. Returns the first of them.
    pub fn take(&mut self, charge: u16) -> u64 {
        let id = self.lowest;
        let behind = id + u64::from(charge.max(1));
        self.end = self.end.max(behind);
        if self.used.is_empty() {
            self.lowest = behind;
        } else {
            self.take_at(id, charge);
        }
        id
    }

    /// Consumes the ids of a request with an id of the caller's choice; those that were not granted
    /// do not count.
    pub fn take_at(&mut self, id: u64, charge: u16) {
        let wanted = id..id.saturating_add(charge.max(1).into());
        self.used.extend(wanted.start.max(self.lowest)..wanted.end.min(self.end));
        while self.used.remove(&self.lowest) {
            self.lowest += 1;
        }
    }

    /// Breaks the rules: leaves out so many ids, as if the server had granted as many further ones.
    pub const fn skip(&mut self, count: u64) {
        self.lowest += count;
        self.end += count;
    }

    /// Adds the credits of a response.
    pub fn grant(&mut self, credits: u16) {
        self.end += u64::from(credits);
    }
}

impl Default for SequenceWindow {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
