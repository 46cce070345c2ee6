//! The client's side of SMB2, sans-io: [MS-SMB2] 3.2. Bytes go in, bytes come out.
//!
//! Nothing here has a socket, a clock or a source of randomness: time and random bytes are
//! arguments. The load generator, the scripted peer of the tests and the clients of the tests with
//! real processes are built on it. No server contains it.
//!
//! A [`Connection`] is a whole client with one session at a time. Requests are made by
//! [`Connection::push`] and [`Connection::finish`], and the owner sends the frame; of a received
//! frame [`Connection::open`] removes the encryption, and [`Connection::receive`] verifies its
//! messages one by one. Its owner remembers the requests that have no response yet.
//!
//! A test that breaks the rules uses the parts: [`SequenceWindow`] gives any message id,
//! [`RequestFrame`] takes any header and any bytes, [`Channel`] signs and seals what it is given.

#![forbid(unsafe_code)]

pub mod error;

pub mod negotiated;
pub mod offer;

pub mod channel;
pub mod logon;
pub mod session;

pub mod request_frame;
pub mod sequence_window;

pub mod connection;

pub use channel::Channel;
pub use connection::{Connection, Kind, Received};
pub use error::ProtocolError;
pub use logon::{Logon, LogonState};
pub use negotiated::Negotiated;
pub use offer::Offer;
pub use request_frame::{RawBody, RequestFrame};
pub use sequence_window::{SequenceWindow, credit_charge};
pub use session::Session;
