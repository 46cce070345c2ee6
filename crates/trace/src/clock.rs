//! What time it is, for the price of one instruction where the processor tells it.
//!
//! A request looks at the clock a dozen times, so a look has to be cheap. On x86-64 the time stamp
//! counter is read where the kernel itself trusts it; how fast it runs is found out by two looks at
//! both clocks, some time apart. Until then, and everywhere else, the kernel's clock is read.

use std::sync::atomic::{AtomicU64, Ordering};

/// How far the two looks are apart at least. Each is right to a microsecond, so times are then right
/// to one part in a hundred thousand.
const CALIBRATION_NS: u64 = 100_000_000;

/// From ticks of the processor to nanoseconds of `CLOCK_MONOTONIC`. It lies in the page, so that
/// readers know the same time.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Clock {
    /// Nanoseconds a tick, times 2^32; zero while the kernel's clock is used.
    factor: AtomicU64,
    base_ticks: AtomicU64,
    base_ns: AtomicU64,
}

/// A look at both clocks at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    ticks: u64,
    ns: u64,
}

impl Clock {
    /// Nanoseconds on the clock of the machine.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.quick_now().unwrap_or_else(kernel_ns)
    }

    /// The same, if the processor tells it.
    #[inline]
    pub(crate) fn quick_now(&self) -> Option<u64> {
        match self.factor.load(Ordering::Acquire) {
            0 => None,
            factor => Some(self.of_ticks(ticks(), factor)),
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "2^64 ns are 584 years")]
    fn of_ticks(&self, ticks: u64, factor: u64) -> u64 {
        // A processor that is a little behind is no reason for a time of centuries.
        let passed = ticks.saturating_sub(self.base_ticks.load(Ordering::Relaxed));
        let ns = (u128::from(passed) * u128::from(factor)) >> 32;
        self.base_ns.load(Ordering::Relaxed) + ns as u64
    }

    /// Uses the processor's counter from now on, if enough time has passed since `first`. Whether
    /// there is nothing more to be found out.
    pub(crate) fn calibrate(&self, first: Look) -> bool {
        // To ask whether the counter is to be trusted takes five system calls.
        if kernel_ns().saturating_sub(first.ns) < CALIBRATION_NS {
            return false;
        }
        let Some(second) = look() else { return true };
        let passed = second.ns.saturating_sub(first.ns);
        let ticks = second.ticks.saturating_sub(first.ticks);
        let factor = (u128::from(passed) << 32).checked_div(ticks.into()).unwrap_or(0);
        self.base_ticks.store(second.ticks, Ordering::Relaxed);
        self.base_ns.store(second.ns, Ordering::Relaxed);
        self.factor.store(u64::try_from(factor).unwrap_or(0), Ordering::Release);
        true
    }
}

/// A look at both clocks; nothing where the processor's is not to be used.
///
/// Of a few looks the one is taken in which least time went by between the two.
pub(crate) fn look() -> Option<Look> {
    if !is_trusted() {
        return None;
    }
    let looks = (0..5).map(|_| {
        let (before, ns, after) = (ticks(), kernel_ns(), ticks());
        let width = after.saturating_sub(before);
        (width, Look { ticks: before + width / 2, ns })
    });
    looks.min_by_key(|(width, _)| *width).map(|(_, look)| look)
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
#[inline]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux lets every process use it
    // unless it asked not to.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
}

/// The kernel's clock, by the C library: valgrind knows that one.
pub(crate) fn kernel_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for what it writes, and this clock is on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{CALIBRATION_NS, Clock, Look, kernel_ns, look};

    #[test]
    fn the_processor_tells_the_time_of_the_kernel() {
        let clock = Clock::default();
        let Some(first) = look() else { return };
        while !clock.calibrate(first) {
            std::thread::yield_now();
        }
        for _ in 0..1_000 {
            let (before, now, after) = (kernel_ns(), clock.now(), kernel_ns());
            // Two clocks that agree to some microseconds.
            assert!(before < now + 50_000 && now < after + 50_000, "{before} {now} {after}");
        }
    }

    #[test]
    fn the_kernels_clock_is_used_until_the_processors_is_known() {
        let clock = Clock::default();
        let Some(first) = look() else { return };
        assert!(!clock.calibrate(first));
        let (before, now) = (kernel_ns(), clock.now());
        assert!(before <= now);
    }

    #[test]
    fn a_processor_that_is_behind_does_not_turn_time_around() {
        let clock = Clock::default();
        let Some(now) = look() else { return };
        let earlier = Look { ticks: now.ticks - 1_000_000_000, ns: now.ns - 2 * CALIBRATION_NS };
        assert!(clock.calibrate(earlier));
        let factor = clock.factor.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(clock.of_ticks(0, factor), clock.of_ticks(1, factor));
    }
}
