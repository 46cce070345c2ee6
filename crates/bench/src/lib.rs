//! The load generator and the side-by-side benchmarks.
//!
//! `choro-bench` starts Choro and Debian's Samba on the same machine, puts the same loads on both
//! in turn, and prints the result of each and the ratio of the two. [`row`] lists the measurements,
//! [`load`] generates each load, [`client`] executes it, and [`server`] starts the servers.
//!
//! Machines are noisy and change from day to day; a figure means something only next to the other
//! server's figure of the same minute. So every repetition of every row measures both servers, the
//! first of them alternating, and the ratio is the median of the ratios of the repetitions. A run
//! has its own [`network`], so that it does not depend on the machine's settings for TCP.

#![forbid(unsafe_code)]

pub mod client;
pub mod compare;
pub mod hanging_storage;
pub mod kernel_client;
pub mod limits;
pub mod load;
pub mod local_copy;
pub mod measure;
pub mod network;
pub mod null_server;
pub mod options;
pub mod processor;
pub mod ratio_chart;
pub mod report;
pub mod row;
pub mod run;
pub mod server;
pub mod sharing;
pub mod system_calls;
pub mod transports;
pub mod truth;

pub use bench_messaging::{machine, statistics, table};
