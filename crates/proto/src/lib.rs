//! [MS-SMB2] 3.3 without sockets, files, clocks or threads.
//!
//! [`Server`] is all the protocol state of one worker. What happens in the world goes in through
//! `handle_*`; what is to be done in the world comes out through `poll_*`:
//!
//! 1. [`Server::poll_effect`]: ask a store, the user database or another process something, and
//!    bring the answer back through [`Server::handle_reply`];
//! 2. [`Server::poll_transmit`]: send a frame;
//! 3. [`Server::poll_notice`]: tell the tables what changed;
//! 4. [`Server::poll_close`]: end a connection;
//! 5. [`Server::poll_timeout`]: call [`Server::handle_timeout`] then.
//!
//! Poll until each has nothing more, in this order, after every `handle_*`. Time and randomness are
//! arguments, so a test runs hours in microseconds and the same twice.

#![forbid(unsafe_code)]

pub mod globals;
pub mod server;
pub mod settings;

pub mod effect;
pub mod entropy;
pub mod notice;

pub mod buffer_pool;
mod channel_list;
mod dfs;
pub mod dispatch;
mod ending;
mod holding;
mod joining;
pub mod logon;
pub mod logon_throttle;
pub mod memory_account;
pub mod protection;
mod receive;
pub mod reject;
pub mod request;
mod respond;
pub mod response;
pub mod scope;
mod waiting;

pub mod command;
pub mod fsctl;

pub mod account;
pub mod break_notification;
pub mod channel_sequence;
pub mod connection;
pub mod enumeration;
pub mod file_key;
pub mod now;
pub mod open;
pub mod pipe;
pub mod request_id;
pub mod sequence_window;
pub mod session;
pub mod share;
pub mod tree_connect;
pub mod watch;

pub mod change;
pub mod files;
pub mod passages;
pub(crate) mod posix;

#[cfg(test)]
mod scene;

pub use account::{Account, Credential};
pub use break_notification::ConfirmationId;
pub use channel_list::ChannelInfo;
pub use connection::ConnectionId;
pub use effect::{Effect, Reply, ShareRefusal};
pub use logon::Logon;
pub use memory_account::{Charge, MemoryAccount};
pub use notice::Notice;
pub use now::Now;
pub use protection::{Opened, Opener, Opening, Protection};
pub use reject::{Disconnect, Reject};
pub use request_id::RequestId;
pub use response::{Step, Transmit};
pub use server::Server;
pub use settings::ServerSettings;
pub use share::Share;
