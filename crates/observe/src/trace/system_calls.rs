//! System calls of the traced workers: count and time of each, by the kernel's tracepoints.
//!
//! For each thread of a worker, the kernel writes begins and ends of system calls into two rings.
//! A begin is its time alone; an end has time, number and result. Times are the kernel's, so the
//! time of a call includes its waiting. A call that began before tracing, or that has not ended,
//! is not counted.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{self, ErrorKind};
use std::time::Duration;

use perf_event::events::Tracepoint;
use perf_event::{Builder, Clock, SampleFlag, Sampler};
use rustix::io::Errno;
use serde_json::{Value, json};
use syscalls::Sysno;

use crate::report::table;

/// Interval between two readings of the rings.
///
/// [`END_RING`] has room for 20,000 system calls, a multiple of what a worker makes in this time.
pub(super) const DRAIN_INTERVAL: Duration = Duration::from_millis(10);

/// Bytes of a ring of begins, which have 16 bytes each.
const BEGIN_RING: usize = 512 * 1_024;

/// Bytes of a ring of ends, which have 48 bytes each.
const END_RING: usize = 1_024 * 1_024;

/// Threads that are traced at once: each takes 1.5 MB of memory that cannot be swapped.
const THREADS_MAX: usize = 64;

/// Directories where tracefs may be mounted.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Type of the record that holds one event: `PERF_RECORD_SAMPLE`.
const RECORD_SAMPLE: u32 = 9;
/// Type of the record that tells how many events found no room: `PERF_RECORD_LOST`.
const RECORD_LOST: u32 = 2;

/// Results from here to -1 are errors: `MAX_ERRNO`.
const ERROR_MIN: i64 = -4_095;

/// System calls of the traced workers.
#[derive(Debug)]
pub(super) struct SystemCalls {
    begin: u64,
    end: u64,
    threads: BTreeMap<i32, Thread>,
    counts: Counts,
}

/// Two rings of one thread, and the begins without an end.
struct Thread {
    begins: Sampler,
    ends: Sampler,
    calls: Calls,
}

/// Matches begins of system calls with ends.
#[derive(Debug, Default)]
struct Calls {
    /// Times of begins whose end is not known yet, oldest first.
    begun: VecDeque<u64>,
}

/// End of a system call.
#[derive(Clone, Copy, Debug)]
struct End {
    ns: u64,
    number: i64,
    result: i64,
}

/// Count and time of one system call.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Count {
    count: u64,
    failed: u64,
    total_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

/// Counts of all threads, ended ones included.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    by_number: BTreeMap<i64, Count>,
    /// Events that found no room in a ring.
    lost: u64,
    /// Threads that started when [`THREADS_MAX`] were traced, or that the kernel refused.
    missed_threads: u64,
}

impl SystemCalls {
    /// Begins to count the system calls of all threads of `pids`.
    ///
    /// # Errors
    /// The kernel does not permit it, in a sentence.
    pub(super) fn begin(pids: &[u32]) -> Result<Self, String> {
        let mut calls = Self {
            begin: tracepoint("sys_enter")?,
            end: tracepoint("sys_exit")?,
            threads: BTreeMap::new(),
            counts: Counts::default(),
        };
        for thread in pids.iter().flat_map(|pid| threads_of(*pid)) {
            if calls.threads.len() == THREADS_MAX {
                return Err(format!("the workers have more than {THREADS_MAX} threads; name one"));
            }
            calls.open(thread).map_err(|error| why_not(&error))?;
        }
        Ok(calls)
    }

    /// Adds threads that have started meanwhile.
    pub(super) fn follow(&mut self, pids: &[u32]) {
        for thread in pids.iter().flat_map(|pid| threads_of(*pid)) {
            if self.threads.contains_key(&thread) {
                continue;
            }
            if self.threads.len() >= THREADS_MAX || self.open(thread).is_err() {
                self.counts.missed_threads += 1;
            }
        }
    }

    fn open(&mut self, thread: i32) -> io::Result<()> {
        let ring = |tracepoint: u64, sample: SampleFlag, bytes: usize| -> io::Result<Sampler> {
            let mut builder = Builder::new(Tracepoint::with_id(tracepoint));
            builder.observe_pid(thread).any_cpu().include_kernel().clockid(Clock::MONOTONIC);
            builder.sample_period(1).sample(sample).enabled(true);
            builder.build()?.sampled(bytes)
        };
        // In this order, no end is without its begin.
        let begins = ring(self.begin, SampleFlag::TIME, BEGIN_RING);
        let ends = ring(self.end, SampleFlag::TIME | SampleFlag::RAW, END_RING);
        match (begins, ends) {
            (Ok(begins), Ok(ends)) => {
                self.threads.insert(thread, Thread { begins, ends, calls: Calls::default() });
                Ok(())
            }
            // It has ended meanwhile.
            (Err(error), _) | (_, Err(error)) if error.raw_os_error() == Some(3) => Ok(()),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    /// Takes what the kernel has written since the last time.
    pub(super) fn drain(&mut self) {
        for thread in self.threads.values_mut() {
            let mut ends = Vec::new();
            let mut lost = take(&mut thread.ends, |bytes| ends.extend(End::parse(bytes)));
            // Afterwards, so that the begin of each of these ends is there.
            let begun = &mut thread.calls.begun;
            lost += take(&mut thread.begins, |bytes| begun.extend(word(bytes, 0)));
            for end in ends {
                thread.calls.finish(end, &mut self.counts);
            }
            self.counts.lost += lost;
        }
    }

    /// Returns all counts up to now.
    pub(super) fn counts(&mut self) -> Counts {
        self.drain();
        self.counts.clone()
    }
}

impl std::fmt::Debug for Thread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Thread").field("calls", &self.calls).finish_non_exhaustive()
    }
}

impl Calls {
    /// Counts a call that has ended.
    fn finish(&mut self, end: End, counts: &mut Counts) {
        // A thread makes one call after the other: earlier begins lost their ends.
        let mut begun = None;
        while self.begun.front().is_some_and(|ns| *ns <= end.ns) {
            begun = self.begun.pop_front();
        }
        let Some(begun) = begun else { return };
        let ns = end.ns - begun;
        let count = counts.by_number.entry(end.number).or_default();
        count.min_ns = if count.count == 0 { ns } else { count.min_ns.min(ns) };
        count.max_ns = count.max_ns.max(ns);
        count.count += 1;
        count.total_ns += ns;
        count.failed += u64::from((ERROR_MIN..0).contains(&end.result));
    }
}

impl End {
    /// Parses a sample of `raw_syscalls:sys_exit`: its time, the length of the event, and the event
    /// with its common fields, number and result.
    fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            ns: word(bytes, 0)?,
            number: word(bytes, 20)?.cast_signed(),
            result: word(bytes, 28)?.cast_signed(),
        })
    }
}

impl Counts {
    pub(super) fn total_ns(&self) -> u64 {
        self.by_number.values().map(|it| it.total_ns).sum()
    }

    /// Returns names and counts, longest time first.
    fn rows(&self) -> Vec<(String, Count)> {
        let mut rows: Vec<_> =
            self.by_number.iter().map(|(it, count)| (name(*it), *count)).collect();
        rows.sort_by_key(|(_, it)| std::cmp::Reverse(it.total_ns));
        rows
    }

    /// Returns the table, with a line for what it lacks.
    pub(super) fn text(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .rows()
            .into_iter()
            .map(|(name, it)| {
                let times = [it.total_ns, it.total_ns / it.count, it.min_ns, it.max_ns];
                let times = times.map(|ns| (ns / 1_000).to_string());
                [vec![name, it.count.to_string()], times.to_vec(), vec![it.failed.to_string()]]
                    .concat()
            })
            .collect();
        let titles = ["System call", "Count", "Total us", "Avg us", "Min us", "Max us", "Failed"];
        let mut text = table(&titles, &rows);
        if self.lost > 0 {
            text.push_str(&format!("({} events were lost: counts are too low)\n", self.lost));
        }
        if self.missed_threads > 0 {
            text.push_str(&format!(
                "(without {} threads that started later)\n",
                self.missed_threads
            ));
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let rows = self.rows().into_iter().map(|(name, it)| {
            json!({
                "name": name,
                "count": it.count,
                "failed": it.failed,
                "total_ns": it.total_ns,
                "min_ns": it.min_ns,
                "max_ns": it.max_ns,
            })
        });
        json!({
            "calls": rows.collect::<Vec<_>>(),
            "lost_events": self.lost,
            "missed_threads": self.missed_threads,
        })
    }
}

/// Passes the body of each new sample to `each`. Returns the number of lost events.
fn take(ring: &mut Sampler, mut each: impl FnMut(&[u8])) -> u64 {
    let mut lost = 0;
    while let Some(record) = ring.next_record() {
        let bytes = record.to_contiguous();
        match record.ty() {
            RECORD_SAMPLE => each(&bytes),
            // The id of the ring, and the number.
            RECORD_LOST => lost += word(&bytes, 8).unwrap_or(1),
            _ => {}
        }
    }
    lost
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn name(number: i64) -> String {
    let known = usize::try_from(number).ok().and_then(Sysno::new);
    known.map_or_else(|| number.to_string(), |it| it.name().to_owned())
}

/// Returns the ids of a process's threads; none if it has ended.
fn threads_of(pid: u32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the number of a tracepoint of `raw_syscalls`.
fn tracepoint(name: &str) -> Result<u64, String> {
    let mut first = None;
    for directory in TRACEFS {
        match fs::read_to_string(format!("{directory}/events/raw_syscalls/{name}/id")) {
            Ok(id) => return id.trim().parse().map_err(|_| format!("{name} has no number")),
            Err(error) => _ = first.get_or_insert(error),
        }
    }
    Err(why_not(&first.unwrap_or_else(|| ErrorKind::NotFound.into())))
}

/// Explains a refusal of the kernel in a sentence.
fn why_not(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            "the kernel does not permit counting them; run this as root".to_owned()
        }
        ErrorKind::NotFound => "there are no tracepoints of system calls; is tracefs mounted? \
                                (mount -t tracefs none /sys/kernel/tracing)"
            .to_owned(),
        _ if error.raw_os_error() == Some(Errno::NOSYS.raw_os_error()) => {
            "the kernel has no perf events".to_owned()
        }
        _ => format!("the kernel refuses to count them: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{Calls, Count, Counts, End, name, why_not};

    fn end(ns: u64, result: i64) -> End {
        End { ns, number: 0, result }
    }

    #[test]
    fn a_call_takes_from_its_begin_to_its_end() {
        let (mut calls, mut counts) = (Calls::default(), Counts::default());
        calls.begun.extend([10, 30, 100]);
        // One began before tracing did.
        calls.finish(end(5, 0), &mut counts);
        assert!(counts.by_number.is_empty());
        calls.finish(end(15, 7), &mut counts);
        calls.finish(end(50, -11), &mut counts);
        let want = Count { count: 2, failed: 1, total_ns: 25, min_ns: 5, max_ns: 20 };
        assert_eq!(counts.by_number[&0], want);
        assert_eq!(calls.begun, [100], "the last is under way");
    }

    #[test]
    fn a_begin_without_its_end_lengthens_no_other_call() {
        let (mut calls, mut counts) = (Calls::default(), Counts::default());
        calls.begun.extend([10, 30]);
        calls.finish(end(33, 0), &mut counts);
        assert_eq!((counts.by_number[&0].count, counts.by_number[&0].total_ns), (1, 3));
    }

    #[test]
    fn lost_events_are_reported() {
        let counts = Counts { lost: 3, ..Counts::default() };
        assert!(counts.text().contains("(3 events were lost: counts are too low)"));
        assert_eq!(counts.json()["lost_events"], 3);
    }

    #[test]
    fn a_sample_has_time_number_and_result() {
        let mut sample = vec![0; 40];
        sample[..8].copy_from_slice(&77_u64.to_ne_bytes());
        sample[8..12].copy_from_slice(&28_u32.to_ne_bytes());
        sample[20..28].copy_from_slice(&3_u64.to_ne_bytes());
        sample[28..36].copy_from_slice(&(-9_i64).to_ne_bytes());
        let end = End::parse(&sample).expect("it is whole");
        assert_eq!((end.ns, end.number, end.result), (77, 3, -9));
        assert!(End::parse(&sample[..35]).is_none());
    }

    #[test]
    fn calls_have_names_and_unknown_ones_numbers() {
        let number = i64::from(syscalls::Sysno::pwrite64.id());
        assert_eq!(name(number), "pwrite64");
        assert_eq!(name(9_999), "9999");
        assert_eq!(name(-1), "-1");
    }

    #[test]
    fn a_refusal_is_explained() {
        let permission = why_not(&io::Error::from_raw_os_error(13));
        assert!(permission.contains("run this as root"), "{permission}");
        assert!(why_not(&io::ErrorKind::NotFound.into()).contains("is tracefs mounted?"));
        assert_eq!(why_not(&io::Error::from_raw_os_error(38)), "the kernel has no perf events");
    }
}
