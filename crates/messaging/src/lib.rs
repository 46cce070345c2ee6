//! Messages between the processes of one server.
//!
//! Workers share only the global tables; for everything else they exchange a [`Message`]: a kind,
//! some bytes, and file descriptors where the [`Transport`] carries them. [`Messaging`] is the
//! entry point. Nothing here blocks or reads a clock: time is an argument, and
//! [`Messaging::wake_source`] becomes readable when there is work.

#![warn(missing_docs)]

mod connection_offer;
mod counters;
mod kind;
mod latency;
mod message;
mod messaging;
mod payload;
pub mod transport;

pub use connection_offer::{
    AnswerOffer, FindSession, FoundSession, NEGOTIATE_BYTES_MAX, OfferConnection, SessionFound,
    SettleOffer,
};
pub use counters::{Counters, LATENCY_STEP};
pub use kind::MessageKind;
pub use latency::Latency;
pub use message::{Content, MESSAGE_VERSION, Message};
pub use messaging::{Broadcast, DATA_BYTES_MAX, Dropped, Messaging};
pub use payload::{
    AcceptedLogon, Announcement, AuditEntries, AuditEntry, Changes, Channel, Channels,
    ClosePreviousSession, CloseSession, CloseShare, DomainAccount, Done, FileChanged, FoundName,
    GROUPS_MAX, LogLevel, LogonAnswer, LogonKey, LogonOwner, LogonProof, LogonQuestion,
    LogonVerdict, NAMES_MAX, NameToFind, NamesAnswer, NamesQuestion, OwnUsers, PROCESSES_MAX,
    PreviousSessionClosed, Process, ProcessRole, Processes, SingleChannel, Statistics,
    USERS_PER_NAME_MAX, Unwatch, Watch,
};
pub use transport::{InitError, SendError, Transport, TransportKind, UnknownTransport};
