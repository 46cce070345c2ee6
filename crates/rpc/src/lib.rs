//! DCE/RPC over named pipes: lsarpc, samr, srvsvc and wkssvc.
//!
//! Clients use these pipes to list the shares of a server, to learn its name and version, and to
//! show names instead of SIDs. Administrators manage shares, sessions and open files by them.
//!
//! This crate is the connection-oriented protocol of C706 chapter 12 with the rules of [MS-RPCE],
//! without sockets: [`Pipe::write`] takes the bytes that a client wrote to a pipe, and
//! [`Pipe::read`] returns those for the client to read. A [`Catalogue`] has the data.
//!
//! The SMB session that opened the pipe is the identity of the client. Authentication within the
//! pipe is refused.

#![forbid(unsafe_code)]

mod catalogue;
mod pipe;

mod answers;
mod bind;
mod handles;
mod interface;
mod ndr;
mod pdu;
mod principal;
mod task;
mod win32;

pub use catalogue::{AccountEntry, Catalogue, ServerEntry, ShareEntry};
pub use interface::PipeName;
pub use pipe::{Pipe, PipeError};
pub use principal::{Caller, NameQuestion, Origin, Principal, PrincipalKind};
pub use task::{
    FileEntry, Outcome, SessionEntry, ShareChange, Task, TaskFailure, TransportEntry,
    TreeConnectEntry,
};
