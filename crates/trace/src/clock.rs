//! Clock for tracing, read by a single instruction where possible.
//!
//! A request reads the clock a dozen times, so reading has to be cheap. On x86-64 the time stamp
//! counter is used if the kernel itself trusts it. Pages count in its ticks; the worker converts to
//! nanoseconds only for immediate use (a probe, the bucket of a histogram), readers convert the
//! rest. Elsewhere a tick is a nanosecond of the kernel's clock.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Time between the two readings of both clocks that determine the length of a tick: each is exact
/// to a fraction of a microsecond.
const MEASURED: Duration = Duration::from_millis(10);

/// Factor of a tick of one nanosecond.
const ONE: u64 = 1 << 32;

/// Word that stands for the kernel's clock: no processor counts so fast.
const KERNEL: u64 = 1;

/// Clock of a server's traces. All workers share it, so that repeated readings of one worker never
/// decrease.
///
/// As text: nanoseconds per tick of the processor's counter times 2^32, or 1 for the kernel's
/// clock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Clock {
    is_processor: bool,
    /// Nanoseconds per tick, times 2^32.
    factor: u64,
    /// Nanoseconds per tick, as the bits of a floating point number, to find a bucket with one
    /// multiplication.
    scale: u64,
}

/// Both clocks, read at the same time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct ClockReading {
    ticks: u64,
    ns: u64,
}

impl Clock {
    /// Measures the clock of this machine, which takes ten milliseconds.
    #[must_use]
    pub fn measure() -> Self {
        if !is_trusted() {
            return Self::of_kernel();
        }
        let first = read_both();
        std::thread::sleep(MEASURED);
        Self::of_factor(true, first.factor(read_both()))
    }

    /// Returns the kernel's clock, even if a faster one exists.
    #[must_use]
    pub const fn of_kernel() -> Self {
        Self::of_factor(false, ONE)
    }

    const fn of_factor(is_processor: bool, factor: u64) -> Self {
        Self { is_processor, factor, scale: (factor as f64 / ONE as f64).to_bits() }
    }

    /// Reads the word of a page; zero is `None`.
    pub(crate) fn from_word(word: u64) -> Option<Self> {
        match word {
            0 => None,
            KERNEL => Some(Self::of_kernel()),
            factor => Some(Self::of_factor(true, factor)),
        }
    }

    /// Returns the clock as a word.
    pub(crate) fn word(self) -> u64 {
        if self.is_processor { self.factor } else { KERNEL }
    }

    /// True for the processor's counter, which takes one instruction to read.
    #[inline(always)]
    pub(crate) fn is_processor(self) -> bool {
        self.is_processor
    }

    /// Returns the time in ticks.
    #[inline(always)]
    pub(crate) fn now(self) -> u64 {
        if self.is_processor { ticks() } else { kernel_ns() }
    }

    /// Converts a time to ticks, roughly.
    #[must_use]
    pub fn ticks_of(self, time: Duration) -> u64 {
        let ns = time.as_nanos() << 32;
        u64::try_from(ns / u128::from(self.factor)).unwrap_or(u64::MAX)
    }

    /// Converts ticks to nanoseconds, exact to some parts in 2^50.
    #[inline(always)]
    pub(crate) fn ns_roughly(self, ticks: i64) -> f64 {
        ticks as f64 * f64::from_bits(self.scale)
    }

    /// Converts ticks to nanoseconds, rounded down.
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
        text.parse().ok().and_then(Self::from_word).ok_or("not a clock")
    }
}

impl ClockReading {
    /// Nanoseconds per tick since this reading, times 2^32.
    fn factor(self, later: Self) -> u64 {
        let passed = later.ns.saturating_sub(self.ns);
        let ticks = later.ticks.saturating_sub(self.ticks);
        let factor = (u128::from(passed) << 32).checked_div(ticks.into());
        factor.and_then(|it| u64::try_from(it).ok()).filter(|it| *it != 0).unwrap_or(ONE)
    }
}

/// Reads both clocks.
///
/// Takes the best of a few attempts: the one with the least time between the two.
fn read_both() -> ClockReading {
    let readings = (0..5).map(|_| {
        let (before, ns, after) = (ticks(), kernel_ns(), ticks());
        let width = after.saturating_sub(before);
        (width, ClockReading { ticks: before + width / 2, ns })
    });
    readings
        .min_by_key(|(width, _)| *width)
        .map(|(_, reading)| reading)
        .expect("five attempts were made")
}

/// True if all processors' counters agree, which the kernel then uses for its own time.
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
    // SAFETY: every x86-64 processor has the instruction, and Linux allows it unless a process has
    // forbidden it to itself.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn ticks() -> u64 {
    kernel_ns()
}

/// Reads the kernel's clock by the C library, which works under valgrind.
#[cold]
#[inline(never)]
pub(crate) fn kernel_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec`, and every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Clock, ClockReading, MEASURED, ONE, kernel_ns, read_both};

    #[test]
    fn ticks_are_turned_into_the_time_of_the_kernel() {
        let clock = Clock::measure();
        if clock == Clock::of_kernel() {
            return;
        }
        let first = read_both();
        std::thread::sleep(10 * MEASURED);
        let last = read_both();
        let (reported, passed) = (clock.ns(last.ticks - first.ticks), last.ns - first.ns);
        // The two clocks agree to a thousandth on any load.
        assert!(reported.abs_diff(passed) < passed / 1_000, "{reported} {passed}");
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
        let now = ClockReading { ticks: 1_000, ns: 1_000 };
        for later in
            [now, ClockReading { ticks: 10, ns: 2_000 }, ClockReading { ticks: 2_000, ns: 10 }]
        {
            assert_eq!(now.factor(later), ONE);
        }
    }
}
