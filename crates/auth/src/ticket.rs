//! Kerberos tickets, as the acceptor hands them to the caller and gets the results.
//!
//! The acceptor checks no ticket: that takes the key of the service and a list of earlier
//! authenticators, which are in another process. It knows only how tickets travel in SPNEGO.

use crate::session_key::SessionKey;

/// A client's ticket, for the process that holds the key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ticket {
    /// The AP-REQ in the frame of RFC 4121 4.1.
    pub token: Vec<u8>,
    /// The mechanism list to verify and to sign with the key; empty without SPNEGO.
    pub mech_list: Vec<u8>,
    /// The client's mechListMIC, if it came with the ticket.
    pub mech_list_mic: Option<Vec<u8>>,
    /// True if the context is needed once more: the client's mechListMIC comes later.
    pub mic_follows: bool,
}

/// A client's mechListMIC that came after its ticket.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LateMic {
    /// Number of the ticket's context: [`TicketAccepted::context`].
    pub context: u64,
    /// The mechanism list that the MIC covers.
    pub mech_list: Vec<u8>,
    /// MIC of the client over that list.
    pub mech_list_mic: Vec<u8>,
}

/// Result of a valid ticket.
#[derive(Clone, Debug)]
pub struct TicketAccepted {
    /// The AP-REP, if the client wants to know the server, too; else empty.
    pub token: Vec<u8>,
    /// Key that both sides share now.
    pub session_key: SessionKey,
    /// MIC of the server over the mechanism list; empty without SPNEGO.
    pub mech_list_mic: Vec<u8>,
    /// Number of the context that can verify a later mechListMIC.
    pub context: u64,
    /// Name of the user in this system.
    pub user: String,
    /// Domain or realm of the user.
    pub domain: String,
}

/// Result of an invalid ticket.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TicketRefused {
    /// The mechListMIC does not match the mechanism list.
    BadMechListMic,
    /// The ticket is of no use, and the client cannot make another.
    Invalid,
    /// As `Invalid`, with a KRB-ERROR from which the client may learn: the server's time, or that
    /// the server has another key now.
    TryAgain(Vec<u8>),
}
