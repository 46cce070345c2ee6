//! The way of a request: from its frame through a command to its response.
//!
//! Commands use the services of this module. Only `dispatch` and those that stand on it (`receive`,
//! `pending`, `events`) know commands.

pub(crate) mod break_notification;
pub(crate) mod cancel;
pub mod change;
pub(crate) mod changed_file;
pub(crate) mod channel_list;
pub(crate) mod dfs;
pub mod effect;
pub(crate) mod events;
pub mod files;
pub mod globals;
pub mod in_flight;
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
pub(crate) mod teardown;
pub(crate) mod throttle;
pub mod unconfirmed_breaks;
pub(crate) mod watches;
