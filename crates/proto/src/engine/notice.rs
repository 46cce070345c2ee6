//! What the tables of the server should know of this worker's state.

use std::net::SocketAddr;

use dtyp::Guid;
use object::{FileIdentity, HostChange, ObjectPath};
use trace::LogonOutcome;
use wire::Dialect;

use crate::model::logon::Logon;
use crate::model::reject::Reject;

/// One change. Fields name what `choro status` shows.
#[derive(Clone, Debug)]
pub enum Notice {
    /// This client changed something, and somebody watches through another worker.
    Changed(Vec<HostChange>),
    /// A connection negotiated a dialect.
    ConnectionNegotiated {
        /// The client.
        client_guid: Guid,
        /// Where it is.
        client: SocketAddr,
        /// Which address it came to.
        server: SocketAddr,
        /// What was negotiated.
        dialect: Dialect,
        /// `crypto::SigningAlgorithm` as its id of [MS-SMB2] 2.2.3.1.7.
        signing_algorithm: u16,
        /// Cipher as its id of [MS-SMB2] 2.2.3.1.2; 0 for none.
        cipher: u16,
    },
    /// A connection has ended.
    ConnectionClosed {
        /// Whose it was.
        client_guid: Guid,
        /// Where the client was.
        client: SocketAddr,
    },
    /// The highest logon over the connections of this worker has changed.
    LogonChanged(Logon),
    /// A session was set up.
    SessionOpened(Box<SessionOpened>),
    /// A session has ended.
    SessionClosed {
        /// Which.
        session_id: u64,
    },
    /// A share was connected.
    TreeConnected {
        /// The session.
        session_id: u64,
        /// The tree connect.
        tree_id: u32,
        /// The share.
        share: String,
        /// Whether it must be encrypted.
        encrypted: bool,
        /// Whether it may only be read.
        read_only: bool,
    },
    /// A share was disconnected.
    TreeDisconnected {
        /// The session.
        session_id: u64,
        /// The tree connect.
        tree_id: u32,
    },
    /// A logon was refused.
    LogonRefused(Box<LogonRefused>),
    /// A directory is not watched any more.
    Unwatched {
        /// The open's volatile id.
        volatile: u64,
    },
    /// A directory is watched, or is called otherwise than before.
    Watched(Box<WatchedDirectory>),
}

/// A session as the tables know it.
#[derive(Clone, Debug)]
pub struct SessionOpened {
    /// Its id.
    pub session_id: u64,
    /// The user.
    pub user: String,
    /// The user's domain.
    pub domain: String,
    /// The user's SID.
    pub sid: String,
    /// Where the client is.
    pub client: SocketAddr,
    /// What was negotiated.
    pub dialect: Dialect,
    /// Signing algorithm id.
    pub signing_algorithm: u16,
    /// Signatures are insisted upon.
    pub signing_required: bool,
    /// Cipher id; 0 for none.
    pub cipher: u16,
    /// Everything is encrypted.
    pub encrypted: bool,
    /// The account of the session: a user's, the guests' or the anonymous one.
    pub outcome: LogonOutcome,
}

/// A logon that was refused.
#[derive(Clone, Debug)]
pub struct LogonRefused {
    /// Where the client is.
    pub client: SocketAddr,
    /// The user's name as the client gave it; empty if it had given none yet.
    pub user: String,
    /// The domain as the client gave it.
    pub domain: String,
    /// The service that the client meant, where it is none of this server's.
    pub target_name: Option<String>,
    /// Why.
    pub reject: Reject,
    /// Number of logons from this address, to all workers, that were refused without a notice since
    /// the last one about it: too many came.
    pub untold: u64,
}

/// A directory for whose changes a client asks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WatchedDirectory {
    /// The open's volatile id.
    pub volatile: u64,
    /// The directory, from the root of the host's file system.
    pub path: ObjectPath,
    /// Identity of the directory: its path may lead elsewhere when somebody follows it.
    pub identity: FileIdentity,
    /// What lies deeper counts, too.
    pub recursive: bool,
    /// Which changes count: [MS-SMB2] 2.2.35.
    pub filter: u32,
    /// Changes that other programs of this host make count.
    pub kernel: bool,
}
