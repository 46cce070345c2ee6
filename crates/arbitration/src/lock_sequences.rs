//! Lock sequences: how a LOCK that is sent twice is known for one. [MS-SMB2] 3.3.1.10.

/// Entries of `Open.LockSequenceArray`.
pub const LOCK_SEQUENCES_MAX: u8 = 64;

/// Where a LOCK stands in the array, and its number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LockSequence {
    /// Which entry: less than [`LOCK_SEQUENCES_MAX`].
    pub index: u8,
    /// LockSequenceNumber, of four bits.
    pub number: u8,
}

/// `Open.LockSequenceArray`: the LOCKs that succeeded last, one of each index.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LockSequences(Vec<LockSequence>);

impl LockSequences {
    /// An array with these entries; what is beyond its end is left out.
    #[must_use]
    pub fn from_entries(entries: impl IntoIterator<Item = LockSequence>) -> Self {
        let mut sequences = Self::default();
        entries.into_iter().for_each(|entry| sequences.remember(entry));
        sequences
    }

    /// The entries that are valid.
    #[must_use]
    pub fn as_slice(&self) -> &[LockSequence] {
        &self.0
    }

    /// Whether this very request has succeeded before.
    #[must_use]
    pub fn is_repetition(&self, sequence: LockSequence) -> bool {
        self.0.contains(&sequence)
    }

    /// Makes the entry of that index invalid. Whether it was valid.
    pub fn forget(&mut self, index: u8) -> bool {
        let before = self.0.len();
        self.0.retain(|it| it.index != index);
        self.0.len() != before
    }

    /// Remembers a request that succeeded.
    pub fn remember(&mut self, sequence: LockSequence) {
        self.forget(sequence.index);
        if sequence.index < LOCK_SEQUENCES_MAX {
            self.0.push(sequence);
        }
    }
}
