//! The schema: every event, one line each.
//!
//! Each line becomes the probe (`bpftrace -l 'usdt:PATH:*'`), the series in the page of a worker,
//! the field of a [`Figures`](crate::Figures), the entry in [`EVENTS`], and with it the row in
//! `docs/tracing.md`.
//!
//! An argument after a semicolon is a time: callers give ticks, and probes receive nanoseconds.

use crate::names::Kind;
#[allow(unused_imports, reason = "each is the kind of some event")]
use crate::names::{LogonOutcome, Operation, Phase, StoreOperation};
use crate::reason::Reason;
use crate::series::Series as _;
use crate::series::{Count, Histogram, HistogramAside, SeriesValue, Sum, Time, TimeAside, Total};

/// Description of an event for reports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EventInfo {
    /// Provider of the probe: `smb2` for effects of clients, `choro` for the server's own.
    pub provider: &'static str,
    /// Name of the event and its probe.
    pub name: &'static str,
    /// Arguments of the probe, in their order. All are integers of 64 bits.
    pub arguments: &'static [&'static str],
    /// Kind of series: `count`, `sum` (with the count), `total` or `histogram`.
    pub series: &'static str,
    /// Name of the argument that is added up.
    pub value: &'static str,
    /// Name of the argument that selects the series, if any.
    pub per: Option<&'static str>,
    /// Meaning of the event, in words.
    pub meaning: &'static str,
}

macro_rules! events {
    ($(
        $provider:ident $name:ident($($argument:ident),* $(; $time:ident)?):
            $series:ident of $value:ident $(per $per:ident in $kind:ident)?, $meaning:literal;
    )*) => {
        /// All events, in the order of the schema.
        pub const EVENTS: &[EventInfo] = &[$(EventInfo {
            provider: stringify!($provider),
            name: stringify!($name),
            arguments: &[$(stringify!($argument),)* $(stringify!($time))?],
            series: <$series as crate::series::Series>::NAME,
            value: stringify!($value),
            per: { let per: &[&str] = &[$(stringify!($per))?]; per.first().copied() },
            meaning: $meaning,
        }),*];

        /// Series of all events, in the layout of the page.
        #[derive(Debug)]
        #[repr(C)]
        pub(crate) struct AllSeries {
            $($name: [$series; events!(@len $($kind)?)],)*
        }

        /// Values of the series of all events at one moment: indexed by the numbers of their kind,
        /// or a single one.
        #[derive(Clone, Debug, Default, Eq, PartialEq)]
        pub struct AllValues {
            $(#[doc = $meaning] pub $name: Vec<SeriesValue>,)*
        }

        impl AllSeries {
            pub(crate) fn read(&self, clock: &crate::clock::Clock) -> AllValues {
                AllValues { $($name: self.$name.iter().map(|it| it.read(clock)).collect(),)* }
            }
        }

        impl AllValues {
            /// Returns the difference to an earlier moment.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: since(&self.$name, &earlier.$name),)* }
            }

            /// Adds the values of another worker.
            pub fn merge(&mut self, other: &Self) {
                $(merge(&mut self.$name, &other.$name);)*
            }

            /// Returns each event with its values.
            pub fn each(&self) -> impl Iterator<Item = (&'static EventInfo, &[SeriesValue])> {
                EVENTS.iter().zip([$(self.$name.as_slice()),*])
            }
        }

        /// Probes of the events, one module each.
        pub(crate) mod probes {
            $(crate::probe::probe!($provider $name($($argument),* $(; $time)?));)*
        }

        /// Events that are counted, and emitted while a probe is attached.
        impl crate::tracer::Inner {
            $(
                #[inline(always)]
                pub(crate) fn $name(&self, $($argument: u64,)* $($time: u64)?) {
                    counted::$name(self.layout(), self.clock() $(, $argument)* $(, $time)?);
                    if self.emits() {
                        emission::$name(self $(, $argument)* $(, $time)?);
                    }
                }
            )*
        }

        /// Events that are only counted.
        pub(crate) mod counted {
            use super::index;
            use crate::clock::Clock;
            use crate::page::Layout;
            use crate::series::Series as _;

            $(
                #[inline(always)]
                #[allow(unused_variables, reason = "uncounted arguments are for probes alone")]
                #[allow(clippy::too_many_arguments, reason = "they are those of the probe")]
                pub(crate) fn $name(
                    layout: &Layout,
                    clock: &Clock
                    $(, $argument: u64)*
                    $(, $time: u64)?
                ) {
                    let series = &layout.series.$name;
                    let index = events!(@index series $($per)?);
                    if let Some(series) = series.get(index) {
                        series.add($value, clock);
                    }
                }
            )*
        }

        /// Emission of events while a probe is attached.
        mod emission {
            use crate::tracer::Inner;

            $(
                #[cold]
                #[inline(never)]
                pub(super) fn $name(inner: &Inner $(, $argument: u64)* $(, $time: u64)?) {
                    $(let $time = inner.clock().ns($time);)?
                    #[cfg(feature = "recorder")]
                    inner.record(stringify!($name), &[$($argument,)* $($time)?]);
                    super::probes::$name::hit($($argument,)* $($time)?);
                    let _ = inner;
                }
            )*
        }
    };
    (@len) => { 1 };
    (@len $kind:ident) => { <$kind as Kind>::NAMES.len() };
    (@index $series:ident) => { 0 };
    (@index $series:ident $per:ident) => {
        index($per, $series.len())
    };
}

events! {
    smb2 request_start(mid, opcode, request; before_ns): Count of opcode per opcode in Operation,
        "a request was cut out of its frame, whose first byte came before_ns before the worker's \
         phase began";
    smb2 request_end(mid, opcode, status, request, reason; ns):
        HistogramAside of ns per opcode in Operation,
        "a request's response was taken by the socket, or it came to an end without one";
    smb2 request_failed(opcode, status): Count of status per opcode in Operation,
        "a request was answered with an error";
    smb2 request_refused(opcode, reason, request): Count of reason per opcode in Operation,
        "a request broke a rule, and is going to be answered accordingly";
    smb2 request_phase(request, phase; ns): TimeAside of ns per phase in Phase,
        "a request that ends has spent so much time in a phase, all visits together";
    smb2 logon(outcome): Count of outcome per outcome in LogonOutcome,
        "somebody has logged on, or was refused; steps that follow each other are one logon";
    smb2 frame_received(connection, bytes): Sum of bytes,
        "a whole frame came";
    smb2 frame_sent(connection, bytes): Sum of bytes,
        "a frame is to be sent";
    choro phase(phase, next; ns): TimeAside of ns per phase in Phase,
        "a worker has left a phase for the next one";
    choro woke(completions): Sum of completions,
        "waiting for events has ended";
    choro store_start(operation): Count of operation per operation in StoreOperation,
        "the file system is asked for something";
    choro store_end(operation, bytes, status; ns):
        HistogramAside of ns per operation in StoreOperation,
        "the file system has answered";
    choro store_data(operation, bytes): Total of bytes per operation in StoreOperation,
        "the file system has read, written or copied data";
    choro table_end(; ns): Histogram of ns,
        "a table that all processes share was read or changed";
    choro lane_end(phase; ns): Time of ns per phase in Phase,
        "a lane, which is another thread, has done with a frame what would be this phase of the \
         worker";
    choro message_sent(kind, bytes): Sum of bytes,
        "a message is on its way to another process";
    choro message_received(kind, bytes): Sum of bytes,
        "a message of another process came";
}

/// Index of a number among so many places; numbers beyond them share one.
#[inline(always)]
fn index(number: u64, places: usize) -> usize {
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    if places.is_power_of_two() { number & (places - 1) } else { number.min(places - 1) }
}

pub(crate) fn since(now: &[SeriesValue], earlier: &[SeriesValue]) -> Vec<SeriesValue> {
    let nothing = SeriesValue::default();
    let pairs = now.iter().enumerate().map(|(at, it)| (it, earlier.get(at).unwrap_or(&nothing)));
    pairs.map(|(now, earlier)| now.since(earlier)).collect()
}

pub(crate) fn merge(mine: &mut Vec<SeriesValue>, theirs: &[SeriesValue]) {
    mine.resize_with(mine.len().max(theirs.len()), SeriesValue::default);
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        mine.merge(theirs);
    }
}

/// Identifies pages of programs with another set of events.
pub(crate) const FINGERPRINT: u64 = {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut index = 0;
    while index < EVENTS.len() {
        let event = &EVENTS[index];
        hash = hash_text(hash, event.name);
        hash = hash_text(hash, event.series);
        if let Some(per) = event.per {
            hash = hash_text(hash, per);
        }
        index += 1;
    }
    hash = hash_names(hash, Phase::NAMES);
    hash = hash_names(hash, Operation::NAMES);
    hash = hash_names(hash, StoreOperation::NAMES);
    hash = hash_names(hash, Reason::NAMES);
    hash_names(hash, LogonOutcome::NAMES)
};

const fn hash_names(mut hash: u64, names: &[&str]) -> u64 {
    let mut index = 0;
    while index < names.len() {
        hash = hash_text(hash, names[index]);
        index += 1;
    }
    hash
}

/// Extends an FNV-1a hash by a text with an end mark.
const fn hash_text(mut hash: u64, text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut index = 0;
    while index < bytes.len() {
        hash = (hash ^ bytes[index] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        index += 1;
    }
    (hash ^ 0xff).wrapping_mul(0x0000_0100_0000_01b3)
}
