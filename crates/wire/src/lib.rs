//! Codecs of [MS-SMB2] 2.2: from bytes to values and back, without policy.
//!
//! A *message* is the bytes of one element of a compound, from its 64-byte header to its end. Every
//! body decodes from the whole message, because its offsets are relative to the header, and encodes
//! behind a header that was just appended. Requests and responses have both directions, so that the
//! server, the test client and the load generator share one codec.
//!
//! Decoders check bounds and nothing else: they keep unknown codes and flags, and lengths of zero.
//! `proto` decides on the meaning of a value, in the order of the section that defines it.

#![forbid(unsafe_code)]

pub mod error;
pub mod message;

pub mod codes;
pub mod dialect;
pub mod file_id;
pub mod lease;
pub mod oplock_level;

pub mod frame;
pub mod header;

pub mod compound;
pub mod transform;

pub mod negotiate;
pub mod negotiate_context;
pub mod smb1_negotiate;

pub mod logoff;
pub mod session_setup;
pub mod tree_connect;
pub mod tree_disconnect;

pub mod close;
pub mod create;
pub mod create_context;
pub mod flush;
pub mod read;
pub mod write;

pub mod cancel;
pub mod echo;
pub mod lock;

pub mod change_notify;
pub mod ioctl;
pub mod query_directory;
pub mod query_info;
pub mod query_quota;
pub mod set_info;

pub mod error_response;
pub mod oplock_break;

pub use codes::Codes;
pub use dialect::{Dialect, Dialects};
pub use error::DecodeError;
pub use file_id::FileId;
pub use header::{Command, Header, HeaderFlags};
pub use lease::{LeaseFlags, LeaseKey, LeaseState};
pub use message::{Decode, Encode};
pub use oplock_level::OplockLevel;

#[cfg(test)]
mod check;
