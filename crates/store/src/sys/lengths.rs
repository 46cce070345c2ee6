//! Lengths in memory as those in files.

/// A length, to be added to an offset.
pub(crate) fn as_u64(length: usize) -> u64 {
    u64::try_from(length).expect("a length has 64 bits at most")
}
