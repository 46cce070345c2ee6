//! Tasks that another part of the server carries out before the request is answered: [MS-SRVS]
//! 3.1.4. All but the list of transports are for administrators.

/// A task of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Task {
    /// List the sessions of the server. Outcome: `Sessions`.
    ListSessions,
    /// List the open files of the server. Outcome: `Files`.
    ListFiles,
    /// List the tree connects of the server. Outcome: `TreeConnects`.
    ListTreeConnects,
    /// List the transports of the server, for any user. Outcome: `Transports`.
    ListTransports,
    /// End sessions. Outcome: `Done`.
    CloseSessions {
        /// Address of the client; any without it.
        client: Option<String>,
        /// Name of the user; any without it.
        user: Option<String>,
    },
    /// Close an open file by its number in a list. Outcome: `Done`.
    CloseFile(u32),
    /// Add a share. Outcome: `Done`.
    AddShare {
        /// Name of the new share.
        name: String,
        /// Its properties; a path is among them.
        change: ShareChange,
    },
    /// Change a share. Outcome: `Done`.
    ChangeShare {
        /// Name of the share, in any case of letters.
        name: String,
        /// Properties to be set; others stay.
        change: ShareChange,
    },
    /// Remove a share; its folder stays. Outcome: `Done`.
    RemoveShare(String),
}

/// Properties of a share that a request sets.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ShareChange {
    /// Remark for users.
    pub comment: Option<String>,
    /// Folder on the host.
    pub path: Option<String>,
    /// Highest number of concurrent users; `u32::MAX` for any.
    pub max_users: Option<u32>,
    /// Caching by offline clients: CSC_MASK of [MS-SRVS] 2.2.4.29, from 0 to 3.
    pub offline_caching: Option<u8>,
    /// The share's descriptor, self-relative, not verified.
    pub security: Option<Vec<u8>>,
}

/// Result of a [`Task`], for the response.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The task is done.
    Done,
    /// The task had no effect.
    Failed(TaskFailure),
    /// Open files, ordered by their numbers.
    Files(Vec<FileEntry>),
    /// Sessions, ordered by age.
    Sessions(Vec<SessionEntry>),
    /// Tree connects, ordered by age.
    TreeConnects(Vec<TreeConnectEntry>),
    /// Transports that the server listens on.
    Transports(Vec<TransportEntry>),
}

/// Reason why a [`Task`] had no effect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TaskFailure {
    /// The configuration's file defines the share, and is the operator's alone.
    AccessDenied,
    /// There is such a share already.
    DuplicateShare,
    /// The server could not carry it out; its log says why.
    Failed,
    /// The name is none of a share.
    InvalidName,
    /// A property has no valid value.
    InvalidParameter,
    /// No open file has this number.
    NoSuchFile,
    /// The folder does not exist.
    NoSuchFolder,
    /// There is no such session.
    NoSuchSession,
    /// There is no such share.
    NoSuchShare,
    /// The configuration does not provide for it.
    NotSupported,
}

/// An open file: [MS-SRVS] 2.2.4.7.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FileEntry {
    /// Number of the open, for a request to close it.
    pub id: u32,
    /// Rights of the open: bits of [`FileEntry`].
    pub permissions: u32,
    /// Number of its byte-range locks.
    pub locks: u32,
    /// Path of the file on the host.
    pub path: String,
    /// Name of the user.
    pub user: String,
}

impl FileEntry {
    /// PERM_FILE_READ: the open may read.
    pub const READ: u32 = 1;
    /// PERM_FILE_WRITE: the open may write.
    pub const WRITE: u32 = 2;
}

/// A session: [MS-SRVS] 2.2.4.15.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SessionEntry {
    /// Address of the client.
    pub client: String,
    /// Name of the user.
    pub user: String,
    /// Number of open files.
    pub opens: u32,
    /// Age in seconds.
    pub seconds: u32,
    /// True for a session of guests.
    pub is_guest: bool,
}

/// A tree connect: [MS-SRVS] 2.2.4.2.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TreeConnectEntry {
    /// Number of the tree connect.
    pub id: u32,
    /// Name of the share.
    pub share: String,
    /// Address of the client.
    pub client: String,
    /// Name of the user.
    pub user: String,
    /// Number of open files.
    pub opens: u32,
    /// Age in seconds.
    pub seconds: u32,
}

/// A transport that the server listens on: [MS-SRVS] 3.1.1.2.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TransportEntry {
    /// Name of its device, as in `\Device\NetbiosSmb`.
    pub name: String,
    /// Hardware address of the network adapter, in hexadecimal digits.
    pub network_address: String,
    /// Number of clients that are connected over the transport.
    pub clients: u32,
}

impl TransportEntry {
    /// Name of SMB over TCP, without NetBIOS.
    pub const DIRECT: &str = "\\Device\\NetbiosSmb";
    /// Beginning of the name of NetBIOS over an adapter; its GUID in braces follows.
    pub const NETBIOS: &str = "\\Device\\NetBT_Tcpip_";
    /// Address of a transport without an adapter of its own.
    pub const NO_ADDRESS: &str = "000000000000";
}
