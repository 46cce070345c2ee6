//! Artificial delay of the storage, for tests and benchmarks.
//!
//! `choro:storage delay` in `[global]` is the time that each operation waits, in microseconds, and
//! `choro:storage parallel` the number of those of all workers that wait at once; further ones
//! queue. A worker's operations begin in the order of their arrival.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use config::Global;
use process::clocks::machine_clock;
use proto::{Effect, RequestId};
use qos::model::SERVERS_MAX;
use tables::QosPage;

/// Delayed operations, in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct SlowStorage {
    delay: Duration,
    parallel: usize,
    waiting: VecDeque<(Instant, Option<RequestId>, Effect)>,
}

impl SlowStorage {
    /// As the configuration has it: as a rule there is no delay.
    pub(super) fn configure(&mut self, global: &Global) {
        let number = |name| global.option("choro", name).and_then(|text| text.trim().parse().ok());
        self.delay = Duration::from_micros(number("storage delay").unwrap_or(0));
        let parallel = number("storage parallel").and_then(|it| usize::try_from(it).ok());
        self.parallel = parallel.unwrap_or(SERVERS_MAX);
    }

    /// Returns true if operations are delayed.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        !self.delay.is_zero()
    }

    /// Keeps an operation that has to wait; gives back any other.
    #[inline]
    pub(super) fn delay(
        &mut self,
        page: &QosPage,
        request: Option<RequestId>,
        effect: Effect,
    ) -> Option<Effect> {
        if self.delay.is_zero() { Some(effect) } else { self.keep(page, request, effect) }
    }

    #[cold]
    #[inline(never)]
    fn keep(
        &mut self,
        page: &QosPage,
        request: Option<RequestId>,
        effect: Effect,
    ) -> Option<Effect> {
        if !is_of_storage(&effect) {
            return Some(effect);
        }
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (clock, now) = (machine_clock(), Instant::now());
        let storage = page.slow_storage();
        let done = storage.serve(self.parallel, nanoseconds(self.delay), nanoseconds(clock));
        let at = now + Duration::from_nanos(done).saturating_sub(clock);
        self.waiting.push_back((at, request, effect));
        None
    }

    /// Something that has waited long enough.
    pub(super) fn take_done(&mut self, now: Instant) -> Option<(Option<RequestId>, Effect)> {
        let (at, _, _) = self.waiting.front()?;
        if *at > now {
            return None;
        }
        self.waiting.pop_front().map(|(_, request, effect)| (request, effect))
    }

    /// Time of the next result of [`Self::take_done`].
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.waiting.front().map(|(at, _, _)| *at)
    }
}

/// True for operations of the storage, and for what must not overtake them.
fn is_of_storage(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::ConnectShare(_)
            | Effect::DisconnectShare(_)
            | Effect::FileDeleted(_)
            | Effect::FileUnlocked(_)
            | Effect::FindReferral(_)
            | Effect::Object { .. }
            | Effect::Remove(_)
            | Effect::Traverse(_)
    )
}
