//! WS-Discovery (2005/04) with the Devices Profile, as the list of computers in Windows reads it.
//!
//! A server says [`message::hello`] by multicast, answers a probe and the search for its own
//! address, and hands out its name over HTTP. Its address is a UUID that it keeps.

pub mod http;
pub mod message;
pub mod request;

pub use request::Request;

/// Port of messages by UDP, to the group of WS-Discovery.
pub const PORT: u16 = 3702;

/// Port of the name over HTTP; no other is open in Windows' firewall.
pub const HTTP_PORT: u16 = 5357;

/// Longest message that is read. Those of Windows have one to two KiB.
pub const MESSAGE_BYTES_MAX: usize = 32 << 10;
