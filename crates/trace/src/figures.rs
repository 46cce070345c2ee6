//! Figures from a page at one moment, and differences to an earlier one.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::clock::{self, Clock};
use crate::names::{Kind as _, Phase};
use crate::page::{self, Layout, Page, PageError, PhaseTicks};
use crate::party::PartyValue;
use crate::refusals::{self, Refused};
use crate::schema::AllValues;
use crate::series::SeriesValue;

/// Number of reads of a page that changes meanwhile, before the reader pauses between them.
const QUICK_READS: usize = 50;

/// Pause between further reads, and their number: the worker is between two phases and has lost its
/// processor. If it stays there, it was killed; its last phase is missed.
const PAUSE: Duration = Duration::from_micros(100);
const SLOW_READS: usize = 200;

/// Figures of one worker, or of several together.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Figures {
    /// Nanoseconds of observation; added up for several workers.
    pub ns: u64,
    /// Values of all events. The time of the worker's current phase is included up to this moment.
    pub events: AllValues,
    /// Counters by share; an empty name stands for requests without a share or beyond the places.
    pub shares: Vec<(String, PartyValue)>,
    /// Counters by user, in the same form.
    pub users: Vec<(String, PartyValue)>,
    /// Refused requests by reason and command, in the order of their numbers.
    pub refusals: Vec<Refused>,
    /// Refused requests beyond [`REFUSALS_MAX`](crate::REFUSALS_MAX) pairs of reason and command.
    pub other_refusals: u64,
    /// Number of requests that were not traced.
    pub untraced: u64,
}

/// Page of a worker, open for reading.
#[derive(Debug)]
pub struct Reader {
    page: Page,
    file: File,
}

impl Reader {
    /// Opens the page of a worker.
    ///
    /// # Errors
    /// The page is missing, forbidden, or from another version.
    pub fn open(lock_dir: &Path, pid: u32, unique_id: u64) -> Result<Self, PageError> {
        let (page, file) = Page::open(&page::path(lock_dir, pid, unique_id))?;
        Ok(Self { page, file })
    }

    /// Returns the figures as of now; of a worker that has ended, as of its last event.
    #[must_use]
    pub fn read(&self) -> Figures {
        let layout = self.page.layout();
        if self.has_ended() {
            Figures::of(layout, || 0)
        } else {
            Figures::of(layout, || layout.clock().map_or(0, Clock::now))
        }
    }

    /// True once the worker has ended and its page was removed.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.file.metadata().is_ok_and(|it| it.nlink() == 0)
    }
}

impl Figures {
    /// `now` returns the time of the worker's clock; zero stands for a worker that has ended.
    pub(crate) fn of(layout: &Layout, now: impl Fn() -> u64) -> Self {
        let Some(clock) = layout.clock() else { return Self::default() };
        let mut events = layout.series.read(&clock);
        events.store_end = layout.stores.read(&clock);
        let (mut shares, mut users) = (Vec::new(), Vec::new());
        for place in layout.parties.read(&clock) {
            crate::schema::merge(&mut events.request_end, &place.value.operations);
            merge_one(&mut users, &place.user, &place.value);
            merge_one(&mut shares, &place.share, &place.value);
        }
        let times = Times::of(layout, now);
        for (index, (worker, requests)) in
            events.phase.iter_mut().zip(&mut events.request_phase).enumerate()
        {
            let waited = layout.waited[index].load(Ordering::Relaxed);
            worker.total = clock.ns(times.of_worker[index]);
            requests.total = clock.ns(times.served[index].wrapping_add(waited));
        }
        Self {
            ns: clock.ns(times.observed),
            events,
            shares,
            users,
            refusals: layout.refusals.read(),
            other_refusals: layout.refusals.others(),
            untraced: layout.untraced.load(Ordering::Relaxed),
        }
    }

    /// Returns the difference to an earlier moment of the same worker.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            ns: self.ns.saturating_sub(earlier.ns),
            events: self.events.since(&earlier.events),
            shares: since(&self.shares, &earlier.shares),
            users: since(&self.users, &earlier.users),
            refusals: refusals::since(&self.refusals, &earlier.refusals),
            other_refusals: self.other_refusals.wrapping_sub(earlier.other_refusals),
            untraced: self.untraced.wrapping_sub(earlier.untraced),
        }
    }

    /// Adds the figures of another worker.
    pub fn merge(&mut self, other: &Self) {
        self.ns += other.ns;
        self.events.merge(&other.events);
        merge(&mut self.shares, &other.shares);
        merge(&mut self.users, &other.users);
        refusals::merge(&mut self.refusals, &other.refusals);
        self.other_refusals += other.other_refusals;
        self.untraced += other.untraced;
    }

    /// Nanoseconds of the worker in a phase, one of the worker's own in [`Phase::ALL`].
    #[must_use]
    pub fn phase_ns(&self, phase: Phase) -> u64 {
        self.events.phase.get(phase as usize).map_or(0, |it| it.total)
    }

    /// Nanoseconds in all phases of the worker.
    #[must_use]
    pub fn phases_sum_ns(&self) -> u64 {
        (0..Phase::NAMES.len()).filter_map(|it| self.events.phase.get(it)).map(|it| it.total).sum()
    }
}

/// Adds up the values of a series with several keys.
#[must_use]
pub fn all(series: &[SeriesValue]) -> SeriesValue {
    let mut sum = SeriesValue::default();
    series.iter().for_each(|it| sum.merge(it));
    sum
}

type Named = (String, PartyValue);

fn since(now: &[Named], earlier: &[Named]) -> Vec<Named> {
    let nothing = PartyValue::default();
    now.iter()
        .map(|(name, value)| {
            let before = earlier.iter().find(|(other, _)| other == name);
            (name.clone(), value.since(before.map_or(&nothing, |(_, value)| value)))
        })
        .filter(|(_, value)| !value.is_nothing())
        .collect()
}

fn merge(mine: &mut Vec<Named>, theirs: &[Named]) {
    theirs.iter().for_each(|(name, value)| merge_one(mine, name, value));
}

fn merge_one(mine: &mut Vec<Named>, name: &str, value: &PartyValue) {
    match mine.iter_mut().find(|(other, _)| other == name) {
        Some((_, sum)) => sum.merge(value),
        None => mine.push((name.to_owned(), value.clone())),
    }
}

/// Ticks of a worker at one moment.
struct Times {
    /// Ticks since the start of counting.
    observed: u64,
    /// Ticks by phase; the current phase is included up to now.
    of_worker: [u64; Phase::NAMES.len()],
    /// Ticks by phase, of phases that ended while a request was served.
    served: [u64; Phase::NAMES.len()],
}

impl Times {
    fn of(layout: &Layout, now: impl Fn() -> u64) -> Self {
        for reads in 0..QUICK_READS + SLOW_READS {
            let (times, is_whole) = Self::read_once(layout, &now);
            if is_whole {
                return times;
            }
            if reads >= QUICK_READS {
                thread::sleep(PAUSE);
            }
        }
        Self::read_once(layout, now).0
    }

    /// Reads the page once. Returns true if the result is consistent: all that was subtracted from
    /// and added to phases sums up to the start of counting, to the tick.
    fn read_once(layout: &Layout, now: impl Fn() -> u64) -> (Self, bool) {
        let get = |ticks: &PhaseTicks| ticks.each_ref().map(|it| it.load(Ordering::Acquire));
        let since = layout.since.load(Ordering::Acquire);
        let (mut served, mut idle) = (get(&layout.served), get(&layout.idle));
        // If the phase has ended meanwhile, this read does not count.
        let now = now().max(since);
        let is_same = since == layout.since.load(Ordering::Acquire);
        let began = layout.began();
        let all = served.iter().chain(&idle).fold(began, |sum: u64, it| sum.wrapping_add(*it));
        // The current phase is negative by its start. Small differences between processors'
        // counters may make others slightly negative.
        let is_open = |ticks: u64| ticks.wrapping_neg().cast_signed() > (began / 2).cast_signed();
        let mut of_worker = [0; Phase::NAMES.len()];
        for (phase, sum) in of_worker.iter_mut().enumerate() {
            for ticks in [&mut served[phase], &mut idle[phase]] {
                if is_open(*ticks) {
                    *ticks = ticks.wrapping_add(since);
                    *sum = now - since;
                }
            }
            *sum = served[phase].wrapping_add(idle[phase]).wrapping_add(*sum);
        }
        (Self { observed: now.wrapping_sub(began), of_worker, served }, is_same && all == 0)
    }
}

/// Nanoseconds of the machine's clock, to compare with other programs.
#[must_use]
pub fn machine_ns() -> u64 {
    clock::kernel_ns()
}
