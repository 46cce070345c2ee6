//! A small blocking SMB2 client.
//!
//! One connection, one session, one tree connect, many requests in flight. It exists to load a
//! server, so it does as little as a client can: requests are laid out in one buffer that is kept,
//! answers are looked at where they were received, and nothing is remembered about files.
//!
//! [`Client::connect`] does everything up to TREE_CONNECT; [`pipeline::run`] keeps several jobs in
//! flight over it.

mod connection;
mod inbox;
mod login;
mod outstanding;
mod protection;

pub mod pipeline;
pub mod requests;
pub mod write_frame;

pub use connection::{Client, Reply};
pub(crate) use login::random;
pub use outstanding::Slot;
pub use protection::Protection;

use std::net::SocketAddr;

use wire::Dialect;

/// A share, with the user and server to reach it.
#[derive(Clone, Debug)]
pub struct Destination {
    /// Address on which the server listens.
    pub address: SocketAddr,
    /// Name of the share to use.
    pub share: String,
    /// Name of the user to log on as.
    pub user: String,
    /// Password of the user, in plain text.
    pub password: String,
}

/// Properties of a connection, fixed before it is made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Terms {
    /// The one dialect that is offered.
    pub dialect: Dialect,
    /// Protection of messages once there is a session.
    pub protection: Protection,
}
