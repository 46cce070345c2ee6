//! Reasons for a client to give a connection up.

use auth::AuthError;
use crypto::{BadSignature, NoncesExhausted, OpenError};
use dtyp::NtStatus;
use thiserror::Error;
use wire::transform::Protocol;
use wire::{Command, DecodeError, Dialect};

/// Reason why a request cannot be sent, or why a response is not accepted.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum ProtocolError {
    /// The token of the server is malformed, or proves nothing.
    #[error("the server's token is not accepted: {0}")]
    Authentication(#[from] AuthError),
    /// The signature of a response is wrong.
    #[error("a response has a wrong signature: {0}")]
    BadSignature(#[from] BadSignature),
    /// A message is malformed or incomplete.
    #[error("a message is malformed: {0}")]
    Decode(#[from] DecodeError),
    /// The server chose a dialect that was not offered.
    #[error("the server chose {0:?}, which was not offered")]
    Dialect(Dialect),
    /// The authentication takes more exchanges than any that ends.
    #[error("the authentication does not come to an end")]
    EndlessLogon,
    /// A frame has no place for its length in the transport's header.
    #[error("a frame of {0} bytes is too long")]
    FrameTooLong(usize),
    /// There are no keys to encrypt or decrypt with.
    #[error("no cipher was negotiated")]
    NoCipher,
    /// There is no session whose key could sign or verify.
    #[error("there is no session with a key")]
    NoKey,
    /// The keys were used for as many messages as they may be.
    #[error(transparent)]
    Nonces(#[from] NoncesExhausted),
    /// The response is not encrypted, although the session is.
    #[error("a response is not encrypted")]
    NotEncrypted,
    /// The response is not signed, although its request is.
    #[error("{0:?} is answered without a signature")]
    NotSigned(Command),
    /// A received frame cannot be decrypted.
    #[error("a frame cannot be decrypted: {0}")]
    Open(#[from] OpenError),
    /// Requests take more credits than the client has.
    #[error("there are no credits for {0} more requests")]
    Overdrawn(usize),
    /// The server refused a request.
    #[error("{0:?} was answered with {1:?}")]
    Refused(Command, NtStatus),
    /// A frame is of another protocol than SMB2.
    #[error("a frame is {0:?}")]
    UnexpectedProtocol(Protocol),
}
