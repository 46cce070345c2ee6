//! DCE/RPC over named pipes: lsarpc, srvsvc and wkssvc.
//!
//! What a client asks to list the shares of a server, to learn its name and version, and to show names
//! in place of SIDs. The
//! connection-oriented protocol of C706 chapter 12 with the rules of [MS-RPCE], without sockets:
//! bytes that a client wrote to a pipe go into [`Pipe::write`], what it may read comes out of
//! [`Pipe::read`]. What there is to tell comes from a [`Catalogue`].
//!
//! There is no authentication here: the SMB session that opened the pipe is the identity. A client
//! that asks for authentication within the pipe is told that there is none.

#![forbid(unsafe_code)]

mod catalogue;
mod pipe;

mod bind;
mod handles;
mod interface;
mod ndr;
mod pdu;
mod principal;
mod win32;

pub use catalogue::{Catalogue, ServerEntry, ShareEntry};
pub use interface::PipeName;
pub use pipe::{Pipe, PipeError};
pub use principal::{Caller, Principal, PrincipalKind};
