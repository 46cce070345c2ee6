//! The I/O loop of a worker: io_uring, or epoll with a few threads where io_uring is forbidden.
//!
//! A worker is one thread with one [`Driver`]. An operation ([`Op`]) owns its buffers while it is
//! in flight, so no code can free or touch memory that the kernel still writes to; its
//! [`Completion`] returns them. There are no callbacks: the worker collects completions, then acts
//! on them.
//!
//! Both back ends keep one contract, and `tests/contract.rs` tests both of them.

mod driver;
mod op;

mod fallback;
mod in_flight;
mod operation;
mod ring;
mod system;

pub mod tcp;

pub use driver::{Backend, Driver, Limits, OPERATIONS_IN_FLIGHT_MAX};
pub use op::{Completion, Op, Reason, Refused, SendBuffer, Token};
pub use ring::Unavailable;
