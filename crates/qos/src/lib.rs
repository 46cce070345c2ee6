//! Credits and bandwidth as pure functions; time is an argument.

#![forbid(unsafe_code)]
