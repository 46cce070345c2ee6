//! [MS-SMB2] 3.3 without sockets, files, clocks or threads.
//!
//! [`Server`] is all the protocol state of one worker. Events go in through `handle_*`; actions for
//! the worker come out through `poll_*`:
//!
//! 1. [`Server::poll_effect`]: request something of the store, the user database or another
//!    process, and pass the reply to [`Server::handle_reply`];
//! 2. [`Server::poll_transmit`]: send a frame;
//! 3. [`Server::poll_notice`]: report a change to the tables;
//! 4. [`Server::poll_close`]: end a connection;
//! 5. [`Server::poll_timeout`]: call [`Server::handle_timeout`] at that time.
//!
//! While [`Server::has_postponed`] is true, call [`Server::serve_postponed`] once in each turn of
//! the loop that takes frames.
//!
//! Operations that a [`Storage`] answers within [`Server::handle_frame_with`] become no effect.
//!
//! Poll until each has nothing more, in this order, after every `handle_*`. Time and randomness are
//! arguments, so a test runs hours in microseconds, and repeats exactly.

#![forbid(unsafe_code)]

pub mod command;
mod dfs;
mod dispatch;
pub mod fsctl;

#[cfg(test)]
mod scene;

/// The commands of SMB2, for [`Server::new`].
pub const COMMANDS: &dyn server::Commands = &dispatch::Table;

pub use engine::{effect, files, notice, protection, server};
pub use model::{
    account, audit, connection, entropy, logon_throttle, sequence_window, session, settings, share,
    traversals,
};

pub use engine::channel_list::ChannelInfo;
pub use engine::effect::{Effect, Reply, ShareRefusal};
pub use engine::notice::Notice;
pub use engine::protection::{CheckedFrame, FrameCheck, FrameKeys, Protection};
pub use engine::request::ReceivedFrame;
pub use engine::response::{Step, Transmit};
pub use engine::server::Server;
pub use engine::storage::{EffectsOnly, Requester, Storage};
pub use engine::unconfirmed_breaks::ConfirmationId;
pub use model::account::{Account, ProvenUsers};
pub use model::connection::ConnectionId;
pub use model::logon::Logon;
pub use model::memory_account::{Charge, MemoryAccount};
pub use model::now::Now;
pub use model::reject::{Disconnect, Reject};
pub use model::request_id::RequestId;
pub use model::settings::ServerSettings;
pub use model::share::Share;
pub use model::storage_load::StorageLoad;
