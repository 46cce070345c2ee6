//! Histograms that get memory when they are first used: a client that comes and goes uses few.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Clock;
use crate::memory::populate;
use crate::series::{Histogram, Series as _, SeriesValue};

/// Histograms of the numbers of a kind.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Histograms<const N: usize> {
    /// Bits of the histograms that have memory. Others are not even read: without memory for them,
    /// the access would kill the process.
    begun: AtomicU64,
    times: [Histogram; N],
}

impl<const N: usize> Histograms<N> {
    /// Bytes at the start to allocate before any use.
    pub(crate) const BYTES_ALLOCATED: usize = size_of::<AtomicU64>();

    /// Counts a time. Without memory for its histogram, it is not counted.
    #[inline(always)]
    pub(crate) fn add(&self, index: usize, ticks: u64, clock: &Clock) {
        const { assert!(N <= 64, "there is a bit for each") };
        if self.begun.load(Ordering::Relaxed) >> index & 1 == 0 && !self.begin(index) {
            return;
        }
        if !self.times[index].add_among(ticks, clock) {
            self.times[index].add_beyond(ticks, clock);
        }
    }

    /// Allocates memory for a histogram. Returns false if there is none.
    #[cold]
    #[inline(never)]
    fn begin(&self, index: usize) -> bool {
        let has_memory = populate(&self.times[index], size_of::<Histogram>());
        if has_memory {
            self.begun.fetch_or(1 << index, Ordering::Release);
        }
        has_memory
    }

    /// Returns the values of each.
    pub(crate) fn read(&self, clock: &Clock) -> Vec<SeriesValue> {
        let begun = self.begun.load(Ordering::Acquire);
        let read = |(index, times): (usize, &Histogram)| match begun >> index & 1 {
            0 => SeriesValue::default(),
            _ => times.read(clock),
        };
        self.times.iter().enumerate().map(read).collect()
    }
}
