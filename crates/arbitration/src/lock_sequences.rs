//! Lock sequences, to recognize a LOCK that is sent twice. [MS-SMB2] 3.3.1.10.

/// Number of entries of `Open.LockSequenceArray`.
pub const LOCK_SEQUENCES_MAX: u8 = 64;

/// Index and number of a LOCK in the array.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LockSequence {
    /// Index of the entry, below [`LOCK_SEQUENCES_MAX`].
    pub index: u8,
    /// LockSequenceNumber, a value of four bits.
    pub number: u8,
}

/// `Open.LockSequenceArray`: the last successful LOCK of each index.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LockSequences(Vec<LockSequence>);

impl LockSequences {
    /// Creates an array with these entries; indexes beyond its end are dropped.
    #[must_use]
    pub fn from_entries(entries: impl IntoIterator<Item = LockSequence>) -> Self {
        let mut sequences = Self::default();
        entries.into_iter().for_each(|entry| sequences.keep(entry));
        sequences
    }

    /// Returns the valid entries of the array.
    #[must_use]
    pub fn as_slice(&self) -> &[LockSequence] {
        &self.0
    }

    /// True if this very request has succeeded before.
    #[must_use]
    pub fn is_repetition(&self, sequence: LockSequence) -> bool {
        self.0.contains(&sequence)
    }

    /// Invalidates the entry of an index. Returns true if it was valid.
    pub fn forget(&mut self, index: u8) -> bool {
        let before = self.0.len();
        self.0.retain(|it| it.index != index);
        self.0.len() != before
    }

    /// Stores a request that has succeeded.
    pub fn keep(&mut self, sequence: LockSequence) {
        self.forget(sequence.index);
        if sequence.index < LOCK_SEQUENCES_MAX {
            self.0.push(sequence);
        }
    }
}
