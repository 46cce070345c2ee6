//! The way of a request, without sockets, files, clocks or threads: from its frame to its command,
//! and back to a frame.
//!
//! [`Server`] is all the protocol state of one worker. Commands stand above this
//! crate, and it calls them through [`Commands`](server::Commands): a command gets a
//! [scope], the objects that its request names, and returns a [`Step`](response::Step).

#![forbid(unsafe_code)]

pub(crate) mod administration;
pub mod audit;
pub(crate) mod break_notification;
pub(crate) mod cancel;
pub mod change;
pub(crate) mod changed_file;
pub mod channel_list;
pub mod effect;
pub(crate) mod events;
pub mod files;
pub mod globals;
pub mod in_flight;
#[cfg(feature = "inspection")]
pub mod inspection;
pub(crate) mod joining;
pub mod notice;
pub(crate) mod outgoing;
pub(crate) mod pending;
pub mod pending_command;
pub(crate) mod piped_write;
pub mod protection;
pub(crate) mod receive;
pub mod request;
pub(crate) mod respond;
pub mod response;
pub mod scope;
pub mod server;
pub mod storage;
pub mod teardown;
pub mod throttle;
pub(crate) mod throttled;
pub mod unconfirmed_breaks;
pub mod watches;

pub use server::Server;
