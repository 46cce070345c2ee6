//! `discoveryd`: the process by which other machines find the server.
//!
//! Three protocols announce it: multicast DNS with DNS-SD for macOS and Linux (RFC 6762, RFC 6763),
//! WS-Discovery for the list of computers in Windows' Explorer ([`wsd`]), and LLMNR, by which
//! Windows resolves a name from that list ([`llmnr`], RFC 4795).
//!
//! All they say is in [`Announcement`]. The process learns it from the configuration, gives up all
//! rights before it reads the first packet, and ends when the configuration changes: the
//! supervisor then starts its successor. Each interface gets its own addresses only.

#![forbid(unsafe_code)]

mod announcement;
mod budget;
mod daemon;
pub mod llmnr;
mod mdns;
mod network;
mod rights;
mod service_file;
mod sockets;
mod uuid;
pub mod wsd;

pub use announcement::{Announcement, Protocols};
pub use daemon::Discoveryd;
pub use service_file::{
    PORT as MDNS_PORT, is_written as has_service_file, remove as remove_service_files,
};
