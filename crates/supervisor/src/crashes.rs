//! Crashes of workers, by the addresses of their clients.
//!
//! The supervisor mends all tables after a crash, which takes the longer the more files are open.
//! So a client that can crash its worker has to wait before it does it again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::admission::Source;
use super::backoff::Backoff;

/// Crashes without a pause. The system or an administrator may have killed the worker, and its
/// client should come back at once.
const CRASHES_FREE: u32 = 8;

/// Time without a crash after which an address starts anew.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// Addresses that are kept. The one with the oldest crash gives way to a further one.
const SOURCES_MAX: usize = 1_024;

/// The crashes of one address.
#[derive(Debug)]
struct Crashes {
    count: u32,
    last: Instant,
    backoff: Backoff,
}

/// The crashes of all addresses. Time is an argument.
#[derive(Debug, Default)]
pub(super) struct CrashesBySource(HashMap<Source, Crashes>);

impl CrashesBySource {
    /// Notes a crash of a worker that served a client of this address.
    pub(super) fn record(&mut self, source: Source, now: Instant) {
        self.0.retain(|_, crashes| now.duration_since(crashes.last) < FORGOTTEN_AFTER);
        if self.0.len() >= SOURCES_MAX && !self.0.contains_key(&source) {
            let oldest = self.0.iter().min_by_key(|(_, crashes)| crashes.last);
            let oldest = oldest.map(|(source, _)| *source).expect("there are many");
            self.0.remove(&oldest);
        }
        let none = Crashes { count: 0, last: now, backoff: Backoff::default() };
        let crashes = self.0.entry(source).or_insert(none);
        crashes.last = now;
        crashes.count = crashes.count.saturating_add(1);
        if crashes.count > CRASHES_FREE {
            let pause = crashes.backoff.record_failure(now);
            tracing::warn!(
                "{source}: {} crashes; no client is served for {pause:?}",
                crashes.count
            );
        }
    }

    /// True while clients of this address have to wait.
    pub(super) fn is_blocked(&self, source: Source, now: Instant) -> bool {
        let crashes = self.0.get(&source);
        crashes.is_some_and(|crashes| crashes.backoff.blocked_until(now).is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::{Duration, Instant};

    use super::{CRASHES_FREE, CrashesBySource, SOURCES_MAX, Source};

    fn source(number: u32) -> Source {
        IpAddr::from(number.to_be_bytes()).into()
    }

    #[test]
    fn an_address_waits_ever_longer_after_many_crashes_and_others_do_not() {
        let mut crashes = CrashesBySource::default();
        let start = Instant::now();
        let ms = |ms| start + Duration::from_millis(ms);
        for _ in 0..CRASHES_FREE {
            crashes.record(source(1), start);
        }
        assert!(!crashes.is_blocked(source(1), start));
        crashes.record(source(1), start);
        assert!(crashes.is_blocked(source(1), ms(99)) && !crashes.is_blocked(source(1), ms(100)));
        assert!(!crashes.is_blocked(source(2), start));
        crashes.record(source(1), ms(100));
        assert!(crashes.is_blocked(source(1), ms(299)) && !crashes.is_blocked(source(1), ms(300)));
        let later = start + Duration::from_secs(100);
        crashes.record(source(1), later);
        assert!(!crashes.is_blocked(source(1), later), "that was long ago");
    }

    #[test]
    fn a_bounded_number_of_addresses_is_remembered() {
        let mut crashes = CrashesBySource::default();
        let start = Instant::now();
        let max = u32::try_from(SOURCES_MAX).expect("it is small");
        for number in 0..max + 10 {
            let at = start + Duration::from_millis(u64::from(number));
            (0..=CRASHES_FREE).for_each(|_| crashes.record(source(number), at));
        }
        assert_eq!(crashes.0.len(), SOURCES_MAX);
        let last = start + Duration::from_millis(u64::from(max + 9));
        assert!(crashes.is_blocked(source(max + 9), last));
    }
}
