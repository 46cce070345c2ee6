//! Looks at a running server from outside: `choro top`, `metrics`, `trace` and `profile`.
//!
//! The processes of the server write counters into pages of shared memory, and never wait for
//! anybody who reads them. `observation` reads the pages of all workers; the commands show them.
//! [`report`] prints tables, and objects for programs. The libraries for terminals, web pages and
//! flame graphs are dependencies of this crate alone.

#![forbid(unsafe_code)]

mod activity;
mod metrics;
mod observation;
mod profile;
pub mod report;
mod top;
mod trace;

pub use self::trace::Trace;
pub use activity::{Activities, Activity};
pub use metrics::web::WebArguments;
pub use metrics::{CountChannels, Metrics};
pub use profile::Profile;
pub use top::Top;
