//! Numbers for names that nobody can foresee, and so take before.

use rustix::rand::{GetRandomFlags, getrandom};

/// Digits of such a number.
pub(crate) const DIGITS: usize = 16;

/// A number for one name.
pub(crate) fn number() -> String {
    in_digits(draw())
}

/// A number as names have it.
pub(crate) fn in_digits(number: u64) -> String {
    format!("{number:0DIGITS$x}")
}

/// Draws a number in the process that uses it: not the same in all forks.
pub(crate) fn draw() -> u64 {
    let mut bytes = [0; size_of::<u64>()];
    let count = getrandom(&mut bytes, GetRandomFlags::empty())
        .expect("getrandom fails only before the system has booted");
    assert_eq!(count, bytes.len(), "so few bytes come at once");
    u64::from_ne_bytes(bytes)
}
