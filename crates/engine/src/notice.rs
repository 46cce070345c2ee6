//! Changes of this worker's state for the tables of the server.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use dtyp::{Guid, NtStatus};
use model::audit::{Audit, AuditEvent};
use model::logon::Logon;
use model::reject::Reject;
use object::{FileIdentity, HostChange, ObjectPath};
use trace::LogonOutcome;
use wire::Dialect;

/// One change. Fields have the names that `choro status` shows.
#[derive(Clone, Debug)]
pub enum Notice {
    /// An event of a share's audit.
    Audited(Box<AuditRecord>),
    /// This client made changes, and another worker has a watch.
    Changed(Vec<HostChange>),
    /// A connection negotiated a dialect.
    ConnectionNegotiated {
        /// ClientGuid of the connection's client.
        client_guid: Guid,
        /// Address and port of the client.
        client: SocketAddr,
        /// Local address that the client connected to.
        server: SocketAddr,
        /// Dialect agreed upon in NEGOTIATE.
        dialect: Dialect,
        /// `crypto::SigningAlgorithm` as its id of [MS-SMB2] 2.2.3.1.7.
        signing_algorithm: u16,
        /// Cipher as its id of [MS-SMB2] 2.2.3.1.2; 0 for none.
        cipher: u16,
    },
    /// A connection with a dialect has ended.
    ConnectionClosed {
        /// ClientGuid of the connection's client.
        client_guid: Guid,
        /// Address and port of the client.
        client: SocketAddr,
    },
    /// The highest logon over the connections of this worker has changed.
    LogonChanged(Logon),
    /// A user has logged on over a connection or bound it, and another connection of this worker
    /// has a user already.
    FurtherUser {
        /// Address of the client over that connection.
        client: IpAddr,
    },
    /// A session was set up.
    SessionOpened(Box<SessionOpened>),
    /// A session that was set up has ended.
    SessionClosed { session_id: u64 },
    /// A session was connected to a share.
    TreeConnected {
        session_id: u64,
        tree_id: u32,
        /// Name of the share as configured.
        share: String,
        /// True if requests must be encrypted.
        encrypted: bool,
        /// True if the share is read-only for this user.
        read_only: bool,
    },
    /// A session was disconnected from a share.
    TreeDisconnected { session_id: u64, tree_id: u32 },
    /// A logon failed or was refused.
    LogonRefused(Box<LogonRefused>),
    /// A directory is not watched any more.
    Unwatched {
        /// Volatile id of the watching open.
        volatile: u64,
    },
    /// A watch has begun, or its directory has a new path.
    Watched(Box<WatchedDirectory>),
}

/// An event of a share's audit, which the audit selects.
#[derive(Clone, Debug)]
pub struct AuditRecord {
    /// Audit of the tree connect, with its client.
    pub audit: Arc<Audit>,
    /// Kind of the event, which the audit selects.
    pub event: AuditEvent,
    /// Result of the operation, as its client gets it.
    pub status: NtStatus,
    /// Path of the file below the share, with `/` between components.
    pub path: Option<String>,
    /// Its path after a rename, or the path of a new link.
    pub new_path: Option<String>,
    /// Number of bytes that were written over an open.
    pub bytes: Option<u64>,
}

/// A session, with the fields of the tables.
#[derive(Clone, Debug)]
pub struct SessionOpened {
    pub session_id: u64,
    /// ClientGuid of the session's first connection.
    pub client_guid: Guid,
    /// Name of the user as configured.
    pub user: String,
    /// Domain or workgroup of the user.
    pub domain: String,
    /// SID of the user as text.
    pub sid: String,
    /// Address and port of the client.
    pub client: SocketAddr,
    /// Name of the client machine; unproven.
    pub client_name: String,
    /// Dialect of the session's first connection.
    pub dialect: Dialect,
    /// Signing algorithm as its id of [MS-SMB2] 2.2.3.1.7.
    pub signing_algorithm: u16,
    /// True if requests must be signed.
    pub signing_required: bool,
    /// Cipher as its id of [MS-SMB2] 2.2.3.1.2; 0 for none.
    pub cipher: u16,
    /// True if all requests must be encrypted.
    pub encrypted: bool,
    /// The account of the session: a user's, the guests' or the anonymous one.
    pub outcome: LogonOutcome,
}

/// A logon that failed or was refused.
#[derive(Clone, Debug)]
pub struct LogonRefused {
    /// Address and port of the client.
    pub client: SocketAddr,
    /// The user's name as the client gave it; empty before the client has given one.
    pub user: String,
    /// The domain as the client gave it.
    pub domain: String,
    /// Service name of the client, if it is none of this server's.
    pub target_name: Option<String>,
    /// Reason of the refusal, for the log.
    pub reject: Reject,
    /// Number of logons from this address, to all workers, that were refused without a notice since
    /// the last one about it, because there were too many.
    pub unlogged: u64,
}

/// A directory that a client watches.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WatchedDirectory {
    /// Volatile id of the watching open.
    pub volatile: u64,
    /// The directory, from the root of the host's file system.
    pub path: ObjectPath,
    /// Identity of the directory: its path may lead elsewhere by the time another process resolves
    /// it.
    pub identity: FileIdentity,
    /// True to include all directories below.
    pub recursive: bool,
    /// Kinds of changes to report: [MS-SMB2] 2.2.35.
    pub filter: u32,
    /// True to include changes by other programs of this host.
    pub kernel: bool,
    /// True if its storage may wait long, so that it has a thread of its own.
    pub may_wait: bool,
}
