//! In-memory store, virtual clock and scripted peer for tests.

#![forbid(unsafe_code)]
