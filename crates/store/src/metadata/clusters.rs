//! Allocation units, as clients see them.

/// Bytes of an allocation unit as shown to clients. File systems with smaller blocks are rounded
/// up.
pub(crate) const CLUSTER_BYTES: u64 = 4_096;

/// Rounds up to whole clusters.
pub(crate) fn round_up(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(CLUSTER_BYTES).unwrap_or(bytes)
}
