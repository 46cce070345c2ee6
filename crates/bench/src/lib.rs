//! The load generator and the side-by-side benchmarks.

#![forbid(unsafe_code)]
