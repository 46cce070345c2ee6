//! What time it is, for the price of one instruction where the processor tells it.
//!
//! A request looks at the clock a dozen times, so a look has to be cheap. On x86-64 the time stamp
//! counter is read where the kernel itself trusts it. What is counted in a page is counted in its
//! ticks; only what is told at once (a probe, the bucket of a histogram) is turned into nanoseconds
//! by the worker, everything else by whoever reads. Everywhere else a tick is a nanosecond of the
//! kernel's clock.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How far two looks at both clocks are apart that say how long a tick is: each is right to a
/// fraction of a microsecond.
const MEASURED: Duration = Duration::from_millis(10);

/// A tick that is a nanosecond, as a factor.
const ONE: u64 = 1 << 32;

/// The kernel's clock as a word: no processor counts so fast.
const KERNEL: u64 = 1;

/// By what a server measures time. All of its workers have the same, so that no time of one that
/// is read twice becomes less.
///
/// As text: nanoseconds a tick of the processor's counter times 2^32, or 1 for the kernel's clock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Clock {
    is_processor: bool,
    /// Nanoseconds a tick, times 2^32.
    factor: u64,
    /// Nanoseconds a tick, as the bits of a floating point number: what is only to be told apart by
    /// magnitude is multiplied by this.
    scale: u64,
}

/// A look at both clocks at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Look {
    ticks: u64,
    ns: u64,
}

impl Clock {
    /// The clock of this machine. To find out how long a tick is takes ten milliseconds.
    #[must_use]
    pub fn measure() -> Self {
        if !is_trusted() {
            return Self::of_kernel();
        }
        let first = look();
        std::thread::sleep(MEASURED);
        Self::of_factor(true, first.factor(look()))
    }

    /// The kernel's clock, whatever else there is.
    #[must_use]
    pub const fn of_kernel() -> Self {
        Self::of_factor(false, ONE)
    }

    const fn of_factor(is_processor: bool, factor: u64) -> Self {
        Self { is_processor, factor, scale: (factor as f64 / ONE as f64).to_bits() }
    }

    /// From a word of a page; zero is none.
    pub(crate) fn from_word(word: u64) -> Option<Self> {
        match word {
            0 => None,
            KERNEL => Some(Self::of_kernel()),
            factor => Some(Self::of_factor(true, factor)),
        }
    }

    /// As a word.
    pub(crate) fn word(self) -> u64 {
        if self.is_processor { self.factor } else { KERNEL }
    }

    /// Whether it is the processor's counter, which takes one instruction to read.
    #[inline(always)]
    pub(crate) fn is_processor(self) -> bool {
        self.is_processor
    }

    /// Now, in ticks.
    #[inline(always)]
    pub(crate) fn now(self) -> u64 {
        if self.is_processor { ticks() } else { kernel_ns() }
    }

    /// Nanoseconds of so many ticks, roughly: to some parts in 2^50.
    #[inline(always)]
    pub(crate) fn ns_roughly(self, ticks: i64) -> f64 {
        ticks as f64 * f64::from_bits(self.scale)
    }

    /// Nanoseconds of so many ticks.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "2^64 ns are 584 years")]
    pub(crate) fn ns(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.factor)) >> 32) as u64
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.word().fmt(formatter)
    }
}

impl FromStr for Clock {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().ok().and_then(Self::from_word).ok_or("this is no clock")
    }
}

impl Look {
    /// Nanoseconds a tick since this look, times 2^32.
    fn factor(self, later: Self) -> u64 {
        let passed = later.ns.saturating_sub(self.ns);
        let ticks = later.ticks.saturating_sub(self.ticks);
        let factor = (u128::from(passed) << 32).checked_div(ticks.into());
        factor.and_then(|it| u64::try_from(it).ok()).filter(|it| *it != 0).unwrap_or(ONE)
    }
}

/// A look at both clocks.
///
/// Of a few looks the one is taken in which least time went by between the two.
fn look() -> Look {
    let looks = (0..5).map(|_| {
        let (before, ns, after) = (ticks(), kernel_ns(), ticks());
        let width = after.saturating_sub(before);
        (width, Look { ticks: before + width / 2, ns })
    });
    looks.min_by_key(|(width, _)| *width).map(|(_, look)| look).expect("there are five")
}

/// Whether all processors count alike: what the kernel keeps time by itself.
#[cfg(target_arch = "x86_64")]
fn is_trusted() -> bool {
    const PATH: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = std::fs::read_to_string(PATH).unwrap_or_default();
    matches!(source.trim(), "tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page")
}

#[cfg(not(target_arch = "x86_64"))]
fn is_trusted() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux lets every process use it
    // unless it asked not to.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn ticks() -> u64 {
    kernel_ns()
}

/// The kernel's clock, by the C library: valgrind knows that one.
#[cold]
#[inline(never)]
pub(crate) fn kernel_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for what it writes, and this clock is on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Clock, Look, MEASURED, ONE, kernel_ns, look};

    #[test]
    fn ticks_are_turned_into_the_time_of_the_kernel() {
        let clock = Clock::measure();
        if clock == Clock::of_kernel() {
            return;
        }
        let first = look();
        std::thread::sleep(10 * MEASURED);
        let last = look();
        let (told, passed) = (clock.ns(last.ticks - first.ticks), last.ns - first.ns);
        // Two clocks that agree to a thousandth, whatever else the machine has to do.
        assert!(told.abs_diff(passed) < passed / 1_000, "{told} {passed}");
    }

    #[test]
    fn the_kernels_clock_counts_nanoseconds() {
        let clock = Clock::of_kernel();
        let (before, now, after) = (kernel_ns(), clock.now(), kernel_ns());
        assert!((before..=after).contains(&clock.ns(now)));
    }

    #[test]
    fn a_clock_goes_to_a_worker_as_text() {
        for clock in [Clock::of_kernel(), Clock::measure()] {
            assert_eq!(clock.to_string().parse(), Ok(clock));
        }
        for other in ["a while", "", "0", "-1"] {
            other.parse::<Clock>().expect_err("no clock");
        }
    }

    #[test]
    fn a_counter_that_stands_still_or_runs_backwards_makes_no_centuries() {
        let now = Look { ticks: 1_000, ns: 1_000 };
        for later in [now, Look { ticks: 10, ns: 2_000 }, Look { ticks: 2_000, ns: 10 }] {
            assert_eq!(now.factor(later), ONE);
        }
    }
}
