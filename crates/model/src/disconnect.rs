//! Reasons to end a connection.

use crypto::OpenError;
use wire::DecodeError;

use crate::sequence_window::SequenceError;

/// Why a connection must go: the client broke a rule after which no later message of it can be
/// trusted, or it is of no use any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Disconnect {
    /// The client's transport did not take a break notification in time.
    BreakNotConfirmed,
    /// A CANCEL came before any session: it costs no credit, and nothing can be cancelled.
    CancelWithoutSession,
    /// Another connection needed its place, and no user had logged on over it.
    Crowded,
    /// A compressed message arrived without negotiation of compression.
    CompressionNotNegotiated,
    /// The administrator, or the server's end.
    Administrator,
    /// A header, or the chain of a compound, is not what it says it is.
    Malformed(DecodeError),
    /// What the client says that it negotiated is not what arrived here: somebody changed it on
    /// the way ([MS-SMB2] 3.3.5.15.12).
    NegotiationChanged,
    /// NEGOTIATE came a second time.
    NegotiatedTwice,
    /// It is a guest's, and the worker serves a user whose connections come from elsewhere.
    GuestBesideUser,
    /// Something else than NEGOTIATE came first.
    NotNegotiated,
    /// The server ran out of nonces for the session.
    NoncesExhausted,
    /// A message that only a server sends.
    ResponseFromClient,
    /// An encrypted message did not decrypt.
    Sealed(OpenError),
    /// The session of an encrypted message is unknown, or is not the one inside it.
    SealedForAnotherSession,
    /// A message id that is not the client's to use.
    Sequence(SequenceError),
    /// An SMB1 client that cannot do SMB2.
    Smb1Only,
    /// More CANCELs came in a second than requests can be in flight.
    TooManyCancels,
    /// No user logged on in time, or a guest used no share.
    TooSlow,
    /// A user of 3.1.1 connected to a share without proving what was negotiated.
    TreeConnectNotSigned,
    /// A 3.1.1 client, whose negotiation is protected otherwise, asks to validate it.
    ValidationNotWanted,
}

impl std::fmt::Display for Disconnect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reason = match self {
            Self::BreakNotConfirmed => "a break notification was not acknowledged by TCP in time",
            Self::CancelWithoutSession => "CANCEL came before any session",
            Self::Crowded => "another client needs the place, and no user has logged on",
            Self::CompressionNotNegotiated => "compression was not negotiated",
            Self::Administrator => "the server or an administrator ended it",
            Self::Malformed(error) => return write!(f, "malformed message: {error}"),
            Self::NegotiationChanged => "the negotiation was changed on the way",
            Self::NegotiatedTwice => "NEGOTIATE was sent twice",
            Self::GuestBesideUser => "a guest may not share the worker of a user elsewhere",
            Self::NotNegotiated => "the first message was not NEGOTIATE",
            Self::NoncesExhausted => "the session has used up its nonces",
            Self::ResponseFromClient => "the client sent a response",
            Self::Sealed(error) => return write!(f, "cannot decrypt a message: {error}"),
            Self::SealedForAnotherSession => "an encrypted message names another session",
            Self::Sequence(SequenceError::OutsideWindow { message_id }) => {
                return write!(f, "message id {message_id} is outside the sequence window");
            }
            Self::Sequence(SequenceError::UsedTwice { message_id }) => {
                return write!(f, "message id {message_id} was used twice");
            }
            Self::Smb1Only => "the client speaks SMB 1 only",
            Self::TooManyCancels => "there were too many CANCELs",
            Self::TooSlow => "no user logged on in time, or a guest connected to no share",
            Self::TreeConnectNotSigned => "a TREE_CONNECT in dialect 3.1.1 was not signed",
            Self::ValidationNotWanted => "FSCTL_VALIDATE_NEGOTIATE_INFO is not allowed in 3.1.1",
        };
        f.write_str(reason)
    }
}
