//! SPNEGO and NTLM as token machines.
//!
//! Two machines: [`Acceptor`] is the server's side of an SMB2 SESSION_SETUP exchange and
//! [`Initiator`] the client's, for tests and the load generator. Tokens go in, tokens come out;
//! time and randomness are arguments, and the accounts stay with the caller: the acceptor stops
//! at [`Step::Account`] and is told the account's hash.
//!
//! Every token is hostile: lengths and offsets are bounded, nothing recurses, and what is kept
//! between two tokens has a named limit.

#![forbid(unsafe_code)]

pub mod acceptor;
pub mod error;
pub mod initiator;
pub mod nt_hash;
pub mod session_key;

mod der;
mod ntlm;
mod spnego;

pub use acceptor::{Acceptor, AcceptorSettings, Identity, IdentityKind, Outcome, Step};
pub use error::AuthError;
pub use initiator::{Credentials, Framing, Initiator, Randomness, Reply};
pub use nt_hash::NtHash;
pub use session_key::SessionKey;

#[cfg(test)]
mod hex;
