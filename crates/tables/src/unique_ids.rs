//! Ids that are unique among the processes of a server.

use std::cell::Cell;

/// Generator of 64-bit ids: unique in a process, and in two processes equal only by a chance that
/// is smaller than that of a memory error.
///
/// A counter from a random start, each value scrambled by a one-to-one function of 64 bits. Unique,
/// not secret: an id alone gives no access.
#[derive(Debug)]
pub(crate) struct UniqueIds {
    counter: Cell<u64>,
}

impl UniqueIds {
    pub(crate) fn new(start: u64) -> Self {
        Self { counter: Cell::new(start) }
    }

    /// Returns the next id; never zero and never all ones, which have special meanings in
    /// [MS-SMB2].
    pub(crate) fn next(&self) -> u64 {
        loop {
            self.counter.set(self.counter.get().wrapping_add(GOLDEN));
            match scramble(self.counter.get()) {
                0 | u64::MAX => {}
                id => return id,
            }
        }
    }
}

/// Draws a number from the kernel's source of randomness: for [`dtyp::ServerId::unique_id`].
///
/// # Errors
/// Those of the kernel, which has a source on every system that the server runs on.
pub fn random_unique_id() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    // SAFETY: the buffer is local, and the length is its own.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    match usize::try_from(count) {
        // Up to 256 bytes are never cut short.
        Ok(8) => Ok(u64::from_le_bytes(bytes)),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// The finalizer of MurmurHash3: every step is reversible, so no two inputs have the same result.
fn scramble(mut value: u64) -> u64 {
    value = (value ^ (value >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    value = (value ^ (value >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    value ^ (value >> 33)
}

/// 2⁶⁴ divided by the golden ratio, odd: a counter with this step reaches every value.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::UniqueIds;

    #[test]
    fn ids_do_not_repeat_and_none_is_reserved() {
        let (first, second) = (UniqueIds::new(1), UniqueIds::new(2));
        let ids: HashSet<u64> = (0..10_000).flat_map(|_| [first.next(), second.next()]).collect();
        assert_eq!(ids.len(), 20_000);
        assert!(!ids.contains(&0) && !ids.contains(&u64::MAX));
    }

    /// The scrambled value of zero is zero, which must be skipped.
    #[test]
    fn zero_is_passed_over() {
        let ids = UniqueIds::new(0_u64.wrapping_sub(super::GOLDEN));
        assert_eq!(ids.next(), super::scramble(super::GOLDEN));
    }
}
