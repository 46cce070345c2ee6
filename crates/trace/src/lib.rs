//! Observation of workers: one schema of events, and its outputs.
//!
//! `schema.rs` has a line for each event. Each becomes a probe for bpftrace, perf and SystemTap,
//! which costs the test of a word while none is attached, and counters and histograms in a page of
//! shared memory, which `choro trace` reads without disturbing the worker. [`Tracer`] is for
//! workers to write, [`Reader`] for others to read; `docs/tracing.md` is the manual.
//!
//! Unsafe code is limited to three things: the probes are assembly, the page is mapped memory, and
//! the processor's clock is an instruction.

mod clock;
mod figures;
mod histograms;
mod memory;
mod names;
mod page;
mod party;
mod probe;
mod reason;
#[cfg(feature = "recorder")]
mod recorder;
mod refusals;
mod schema;
mod series;
mod slow;
mod tracer;

pub use clock::Clock;
pub use figures::{Figures, Reader, all, machine_ns};
pub use names::{Kind, LogonOutcome, Operation, Phase, StoreOperation};
pub use page::{DIRECTORY, PARTIES_MAX, PageError, path, prepare, remove, workers};
pub use party::{PartyId, PartyValue};
pub use reason::Reason;
#[cfg(feature = "recorder")]
pub use recorder::Recorded;
pub use refusals::{REFUSALS_MAX, Refused};
pub use schema::{AllValues, EVENTS, EventInfo};
pub use series::{BUCKETS, SeriesValue, bucket_range};
pub use slow::{SLOW_MAX, SlowRequest};
pub use tracer::{
    Answered, Came, Moment, REQUESTS_MAX, Request, Spent, StoreWork, TableAccess, Tracer, Watch,
};
