//! Price of the time that an operation keeps of a device.
//!
//! Turns are paid for in bytes. An operation that takes far longer than its bytes explain pays for
//! its time, too: with as many bytes as the device moves in one place in that time. Otherwise a
//! client with slow operations of few bytes would have most of the device's time, whatever its
//! weight.
//!
//! The rate of a place follows fast operations quickly and slow ones slowly, so that those who pay
//! cannot lower the price.

use std::sync::atomic::{AtomicU64, Ordering};

/// Time of an operation that is always free, in nanoseconds: a busy worker takes as long to see
/// the end of one.
const FREE_NS: u64 = 1_000_000;

/// Longest free time in nanoseconds. Storage may need longer for each operation; then the time of
/// all is paid for, at one price.
const FREE_NS_MAX: u64 = 20_000_000;

/// Longest time that is paid for, in nanoseconds, so that a client whose storage hung is not in
/// debt for long.
const PAID_NS_MAX: u64 = 1_000_000_000;

/// Longest time that a client owes, in nanoseconds.
const OWED_NS_MAX: u64 = 4 * PAID_NS_MAX;

/// Free time of an operation, as a multiple of the time that its bytes explain.
const EXPLAINED_MAX: u64 = 4;

/// A faster operation raises the rate by this part of the difference: an eighth.
const RISE: u64 = 8;

/// A slower one lowers it by this part of the rate at most: a 32nd. With one operation of ordinary
/// speed in five, the rate stays at about half of theirs.
const FALL: u64 = 32;

/// Nanoseconds of a rate, as a power of two: about a millisecond.
const UNIT: u32 = 20;

/// Highest price, in bytes: virtual times must not overflow.
const PRICE_MAX: u64 = 1 << 36;

/// Rate at which the places of a device move bytes.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Pace {
    /// Bytes in 2^[`UNIT`] nanoseconds; zero if unknown.
    rate: AtomicU64,
}

impl Pace {
    /// Adds an operation that moved data, with its work in bytes and the time of its place.
    pub(crate) fn measure(&self, work: u64, held_ns: u64) {
        if held_ns == 0 {
            return;
        }
        let seen = (work << UNIT).div_ceil(held_ns).max(1);
        // A measurement that another worker loses is one of many.
        let rate = self.rate.load(Ordering::Relaxed);
        let next = match rate {
            0 => seen,
            _ if seen > rate => rate + (seen - rate).div_ceil(RISE),
            _ => seen.max(rate - rate / FALL),
        };
        self.rate.store(next, Ordering::Relaxed);
    }

    /// Returns the price of a time, in bytes, beyond that of the operation's work.
    pub(crate) fn price(&self, work: u64, held_ns: u64) -> u64 {
        let rate = self.rate.load(Ordering::Relaxed);
        if held_ns <= FREE_NS || rate == 0 {
            return 0;
        }
        let explained = (work << UNIT) / rate;
        let free = explained.saturating_mul(EXPLAINED_MAX).clamp(FREE_NS, FREE_NS_MAX);
        let paid = held_ns.min(PAID_NS_MAX).saturating_sub(free);
        let bytes = (u128::from(paid) * u128::from(rate)) >> UNIT;
        u64::try_from(bytes).unwrap_or(u64::MAX).min(PRICE_MAX)
    }

    /// Returns what a client owes at most, in bytes at the present rate.
    pub(crate) fn longest_debt(&self) -> u64 {
        let bytes =
            (u128::from(OWED_NS_MAX) * u128::from(self.rate.load(Ordering::Relaxed))) >> UNIT;
        u64::try_from(bytes).unwrap_or(u64::MAX).min(PRICE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The pace of a device that needs a tenth of a millisecond for 8 KiB.
    fn pace() -> Pace {
        let pace = Pace::default();
        (0..100).for_each(|_| pace.measure(8 << 10, MS / 10));
        pace
    }

    #[test]
    fn time_that_the_bytes_explain_is_free() {
        let pace = pace();
        assert_eq!(pace.price(8 << 10, MS), 0, "workers are busy");
        assert_eq!(pace.price(64 << 10, 3 * MS), 0, "0.8 ms are explained");
        assert_ne!(pace.price(64 << 10, 4 * MS), 0, "and no more than four times that");
        assert_eq!(pace.price(1 << 20, 20 * MS), 0, "12.8 ms are explained");
        assert_ne!(pace.price(1 << 20, 21 * MS), 0, "and no more than 20 ms are free");
    }

    #[test]
    fn other_time_costs_the_bytes_that_the_device_moves_meanwhile() {
        let price = pace().price(4 << 10, 201 * MS);
        assert!(price.abs_diff(2_000 * (8 << 10)) < 100 << 10, "{price}");
    }

    #[test]
    fn before_anything_was_measured_time_is_free() {
        assert_eq!(Pace::default().price(4 << 10, 201 * MS), 0);
    }

    #[test]
    fn slow_operations_do_not_lower_the_price_of_their_time() {
        let pace = pace();
        let before = pace.price(4 << 10, 201 * MS);
        for _ in 0..1_000 {
            (0..4).for_each(|_| pace.measure(8 << 10, 40 * MS));
            pace.measure(8 << 10, MS / 10);
        }
        let after = pace.price(4 << 10, 201 * MS);
        assert!(after * 3 > before, "{after} of {before}");
        // A device that has become slow is noticed all the same.
        (0..200).for_each(|_| pace.measure(8 << 10, 40 * MS));
        let slow = pace.price(4 << 10, 201 * MS);
        assert!(slow * 100 < before, "{slow} of {before}");
    }

    #[test]
    fn any_numbers_have_a_price() {
        let pace = Pace::default();
        pace.measure(u64::from(u32::MAX), 1);
        assert_eq!(pace.price(u64::from(u32::MAX), u64::MAX), PRICE_MAX);
    }
}
