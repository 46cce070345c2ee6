//! Why an authentication failed.

use std::fmt;

use dtyp::NtStatus;

/// Why an authentication failed. A machine that has returned one is finished.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AuthError {
    /// The mechListMIC is not that of the mechanism list: somebody changed the list.
    BadMechListMic,
    /// The MIC over the three NTLM messages is wrong: somebody changed one of them.
    BadMic,
    /// Only an LM or LMv2 response came.
    LmResponse,
    /// The token breaks its syntax; what is wrong with it.
    Malformed(&'static str),
    /// The mechanism was not the client's first choice, and no mechListMIC came.
    MechListMicMissing,
    /// The client offers nothing we speak.
    NoCommonMechanism,
    /// There is no such account.
    NoSuchUser,
    /// The client does not speak Unicode.
    NotUnicode,
    /// An NTLMv1 response came.
    NtlmV1,
    /// A token, or an account, that does not belong to this point of the exchange.
    OutOfSequence,
    /// The other side refused.
    Refused,
    /// The token is longer than any honest one.
    TooLong(usize),
    /// The account exists, and the response was not made with its password.
    WrongPassword,
}

impl AuthError {
    /// What the client is told: never whether the account exists.
    pub fn status(self) -> NtStatus {
        match self {
            Self::LmResponse | Self::NoSuchUser | Self::NtlmV1 | Self::WrongPassword => {
                NtStatus::LOGON_FAILURE
            }
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
            Self::LmResponse => f.write_str("only an LM response"),
            Self::Malformed(what) => write!(f, "malformed token: {what}"),
            Self::MechListMicMissing => f.write_str("no mechListMIC"),
            Self::NoCommonMechanism => f.write_str("no mechanism in common"),
            Self::NoSuchUser => f.write_str("no such user"),
            Self::NotUnicode => f.write_str("the client does not speak Unicode"),
            Self::NtlmV1 => f.write_str("an NTLMv1 response"),
            Self::OutOfSequence => f.write_str("a token out of sequence"),
            Self::Refused => f.write_str("the other side refused"),
            Self::TooLong(len) => write!(f, "a token of {len} bytes"),
            Self::WrongPassword => f.write_str("wrong password"),
        }
    }
}

impl std::error::Error for AuthError {}
