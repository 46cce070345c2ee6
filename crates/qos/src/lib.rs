//! Credits and bandwidth as pure functions; time is an argument.
//!
//! Today this crate decides how many credits a response grants. Classes, token buckets and storage
//! feedback join it when bandwidth is limited.

#![forbid(unsafe_code)]

pub mod credits;

pub use credits::{Demand, Window, grant};
