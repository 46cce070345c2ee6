//! SPNEGO, NTLM and the frame of Kerberos as state machines over tokens.
//!
//! Two machines: [`Acceptor`] is the server's side of an SMB2 SESSION_SETUP exchange and
//! [`Initiator`] the client's, for tests and the load generator. Both turn tokens into tokens; time
//! and randomness are arguments, and the accounts stay with the caller: the acceptor stops at
//! [`Step::Account`] until the caller passes the key of the verified response, and at
//! [`Step::Ticket`] until it passes the result of a Kerberos ticket.
//!
//! Every token is hostile: lengths and offsets are bounded, no function recurses, and the state
//! between two tokens has named limits.

#![forbid(unsafe_code)]

pub mod acceptor;
pub mod error;
pub mod initiator;
pub mod nt_hash;
pub mod session_key;
pub mod ticket;

mod der;
mod ntlm;
mod spnego;

pub use acceptor::{Acceptor, AcceptorSettings, Identity, IdentityKind, Mechanisms, Outcome, Step};
pub use error::AuthError;
pub use initiator::{Credentials, Framing, Initiator, Randomness, Reply};
pub use nt_hash::NtHash;
pub use ntlm::acceptor::NtlmResponse;
pub use session_key::{SessionBaseKey, SessionKey};
pub use ticket::{LateMic, Ticket, TicketAccepted, TicketRefused};

#[cfg(test)]
mod hex;
