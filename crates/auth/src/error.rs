//! Reasons for a failed authentication.

use std::fmt;

use dtyp::NtStatus;

/// Reason for a failed authentication. A machine that has returned one is finished.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AuthError {
    /// The mechListMIC does not match the mechanism list, which was changed in transit.
    BadMechListMic,
    /// The MIC over the three NTLM messages is wrong: one of them was changed in transit.
    BadMic,
    /// The Kerberos ticket is not valid here.
    InvalidTicket,
    /// The client sent only an LM or LMv2 response.
    LmResponse,
    /// The token has a syntax error, described here.
    Malformed(&'static str),
    /// The mechanism was not the client's first choice, and the client sent no mechListMIC.
    MechListMicMissing,
    /// The client and this server have no mechanism in common.
    NoCommonMechanism,
    /// The account does not exist.
    NoSuchUser,
    /// The client does not support Unicode.
    NotUnicode,
    /// The client sent an NTLMv1 response.
    NtlmV1,
    /// A token, or an account, at the wrong point of the exchange.
    OutOfSequence,
    /// The peer refused the negotiation.
    Refused,
    /// The token is too long for any valid one.
    TooLong(usize),
    /// The account exists, but the response was made with another password.
    WrongPassword,
}

impl AuthError {
    /// Status for the client, equal for a wrong password and a missing account.
    pub fn status(self) -> NtStatus {
        match self {
            Self::InvalidTicket
            | Self::LmResponse
            | Self::NoSuchUser
            | Self::NtlmV1
            | Self::WrongPassword => NtStatus::LOGON_FAILURE,
            Self::BadMechListMic
            | Self::BadMic
            | Self::Malformed(_)
            | Self::MechListMicMissing
            | Self::NoCommonMechanism
            | Self::NotUnicode
            | Self::OutOfSequence
            | Self::Refused
            | Self::TooLong(_) => NtStatus::INVALID_PARAMETER,
        }
    }
}

impl fmt::Display for AuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadMechListMic => f.write_str("the mechListMIC is wrong"),
            Self::BadMic => f.write_str("the MIC over the NTLM messages is wrong"),
            Self::InvalidTicket => f.write_str("the Kerberos ticket is not valid here"),
            Self::LmResponse => f.write_str("only an LM response"),
            Self::Malformed(what) => write!(f, "malformed token: {what}"),
            Self::MechListMicMissing => f.write_str("the mechListMIC is missing"),
            Self::NoCommonMechanism => f.write_str("client and server have no mechanism in common"),
            Self::NoSuchUser => f.write_str("no such user"),
            Self::NotUnicode => f.write_str("the client does not support Unicode"),
            Self::NtlmV1 => f.write_str("an NTLMv1 response"),
            Self::OutOfSequence => f.write_str("the token is out of sequence"),
            Self::Refused => f.write_str("the peer refused the negotiation"),
            Self::TooLong(len) => write!(f, "a token of {len} bytes is too long"),
            Self::WrongPassword => f.write_str("wrong password"),
        }
    }
}

impl std::error::Error for AuthError {}
