//! Seeing into a worker: one schema of events, and what comes of it.
//!
//! `schema.rs` has a line for each event. From it come a probe for bpftrace, perf and SystemTap,
//! which costs a look at a word while nobody else looks, and counters and histograms in a page of shared
//! memory, which `choro trace` reads without disturbing anyone. [`Tracer`] is what workers write
//! through, [`Reader`] what others read with; `docs/tracing.md` is the manual.
//!
//! Unsafe code is here for three things that cannot be had otherwise: the probes are assembly, the
//! page is mapped memory, and the processor's clock is an instruction.

mod clock;
mod figures;
mod names;
mod page;
mod party;
mod probe;
#[cfg(feature = "recorder")]
mod recorder;
mod schema;
mod series;
mod slow;
mod tracer;

pub use clock::Clock;
pub use figures::{Figures, Reader, all, machine_ns};
pub use names::{Kind, LogonOutcome, Operation, Phase, StoreOperation};
pub use page::{DIRECTORY, PARTIES_MAX, PageError, path, prepare, remove, workers};
pub use party::{PartyId, PartyValue};
#[cfg(feature = "recorder")]
pub use recorder::Recorded;
pub use schema::{AllValues, EVENTS, EventInfo};
pub use series::{BUCKETS, SeriesValue, bucket_range};
pub use slow::{SLOW_MAX, SlowRequest};
pub use tracer::{
    Answered, Came, Moment, REQUESTS_MAX, Request, Spent, StoreWork, TableVisit, Tracer, Watch,
};
