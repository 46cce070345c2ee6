//! What time it is, for the price of one instruction where the processor tells it.
//!
//! A request looks at the clock a dozen times, so a look has to be cheap. On x86-64 the time stamp
//! counter is read where the kernel itself trusts it. What is counted in a page is counted in its
//! ticks; only what is told at once (a probe, the bucket of a histogram) is turned into nanoseconds
//! by the worker, everything else by whoever reads. Everywhere else a tick is a nanosecond of the
//! kernel's clock.

use std::cell::Cell;
use std::time::Duration;

/// How far two looks at both clocks are apart until it is known well enough how long a tick is: each
/// is right to a fraction of a microsecond.
const CALIBRATION_NS: u64 = 100_000_000;

/// The same for a first guess, right to a few thousandths, which is good for what is counted before
/// the worker has waited for the first time.
const GUESS_NS: u64 = 20_000;

/// A tick that is a nanosecond, as a factor.
const ONE: u64 = 1 << 32;

/// The clock of a worker.
#[derive(Debug)]
pub(crate) struct Clock {
    source: Source,
    factor: Cell<u64>,
    /// Until the factor is known.
    first: Cell<Option<Look>>,
}

/// What counts the ticks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Source {
    /// The kernel's clock, in nanoseconds.
    #[default]
    Kernel,
    /// The processor's counter.
    Processor,
}

/// A look at both clocks at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Look {
    pub(crate) ticks: u64,
    pub(crate) ns: u64,
}

impl Clock {
    /// The clock of this machine.
    pub(crate) fn new() -> Self {
        if !is_trusted() {
            return Self::of_kernel();
        }
        let first = look();
        let mut second = look();
        while second.ns.saturating_sub(first.ns) < GUESS_NS {
            second = look();
        }
        let factor = Cell::new(first.factor(second));
        Self { source: Source::Processor, factor, first: Cell::new(Some(first)) }
    }

    /// The kernel's clock, whatever else there is.
    pub(crate) fn of_kernel() -> Self {
        Self { source: Source::Kernel, factor: Cell::new(ONE), first: Cell::new(None) }
    }

    #[inline(always)]
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// Finds out how long a tick is, if it is not known and enough time has passed; then it is told,
    /// in nanoseconds times 2^32.
    #[inline]
    pub(crate) fn calibrate(&self) -> Option<u64> {
        self.first.get().and_then(|first| self.calibrate_since(first))
    }

    #[cold]
    #[inline(never)]
    fn calibrate_since(&self, first: Look) -> Option<u64> {
        // By the first guess, to begin with: looking at both clocks takes its time.
        if self.ns(self.source.now().saturating_sub(first.ticks)) < CALIBRATION_NS {
            return None;
        }
        self.factor.set(first.factor(look()));
        self.first.set(None);
        Some(self.factor.get())
    }

    /// Nanoseconds a tick, times 2^32.
    pub(crate) fn factor(&self) -> u64 {
        self.factor.get()
    }

    /// Nanoseconds of so many ticks.
    #[inline]
    pub(crate) fn ns(&self, ticks: u64) -> u64 {
        to_ns(ticks, self.factor.get())
    }
}

impl Source {
    /// What its counter says.
    #[inline(always)]
    pub(crate) fn now(self) -> u64 {
        match self {
            Self::Processor => ticks(),
            Self::Kernel => kernel_ns(),
        }
    }

    /// How long a tick is for whoever reads what a worker has counted since `first`. Whoever keeps
    /// to one factor sees no time run backwards.
    pub(crate) fn factor_since(self, first: Look) -> u64 {
        if self == Self::Kernel {
            return ONE;
        }
        let mut now = look();
        while now.ns.saturating_sub(first.ns) < GUESS_NS {
            std::thread::sleep(Duration::from_nanos(GUESS_NS));
            now = look();
        }
        first.factor(now)
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

/// Nanoseconds of so many ticks.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "2^64 ns are 584 years")]
pub(crate) fn to_ns(ticks: u64, factor: u64) -> u64 {
    ((u128::from(ticks) * u128::from(factor)) >> 32) as u64
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

/// A look at both clocks, for the beginning of a page.
pub(crate) fn look_by(source: Source) -> Look {
    match source {
        Source::Processor => look(),
        Source::Kernel => {
            let ns = kernel_ns();
            Look { ticks: ns, ns }
        }
    }
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
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux lets every process use it
    // unless it asked not to.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
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
    use super::{CALIBRATION_NS, Clock, Look, ONE, kernel_ns, look_by, to_ns};

    #[test]
    fn ticks_are_turned_into_the_time_of_the_kernel() {
        let clock = Clock::new();
        let first = look_by(clock.source());
        // A little longer, because a first guess is only nearly right.
        while kernel_ns() < first.ns + CALIBRATION_NS * 5 / 4 {
            std::thread::yield_now();
        }
        assert_eq!(clock.calibrate().is_some(), clock.source() == super::Source::Processor);
        for factor in [clock.factor.get(), clock.source().factor_since(first)] {
            let last = look_by(clock.source());
            let (told, passed) = (to_ns(last.ticks - first.ticks, factor), last.ns - first.ns);
            // Two clocks that agree to a thousandth, whatever else the machine has to do.
            assert!(told.abs_diff(passed) < passed / 1_000, "{told} {passed}");
        }
        assert_eq!(clock.first.get(), None, "it is known now");
    }

    #[test]
    fn a_counter_that_stands_still_or_runs_backwards_makes_no_centuries() {
        let now = Look { ticks: 1_000, ns: 1_000 };
        for later in [now, Look { ticks: 10, ns: 2_000 }, Look { ticks: 2_000, ns: 10 }] {
            assert_eq!(now.factor(later), ONE);
        }
    }
}
