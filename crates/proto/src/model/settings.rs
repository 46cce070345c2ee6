//! What the administrator decided, as far as the protocol needs it.

use std::sync::Arc;

use dtyp::Guid;

use crate::model::logon_throttle::ThrottleSettings;

/// Which breaks are told again, if one channel does not take them: [MS-SMB2] 3.3.4.6, 3.3.4.7.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BreakRetry {
    /// All, as the specification has it.
    All,
    /// Those of leases. One of an oplock is told once, on the newest channel, as by Windows.
    LeasesOnly,
    /// None: nobody tells what channels take.
    Never,
}

/// Whether something is offered, asked for or insisted upon.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Policy {
    /// Not even if the client asks.
    Off,
    /// If the client wants it.
    #[default]
    Enabled,
    /// Whenever the client can.
    Desired,
    /// Or the client is refused.
    Required,
}

/// What `map to guest` does with a logon that failed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum MapToGuest {
    /// It fails.
    #[default]
    Never,
    /// A user that does not exist becomes the guest.
    BadUser,
    /// A wrong password makes the guest, too.
    BadPassword,
}

/// The settings of a server. They may be replaced while it runs; a connection keeps what it
/// negotiated.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// `ServerGuid`.
    pub server_guid: Guid,
    /// NetBIOS name, as NTLM and srvsvc tell it.
    pub netbios_name: String,
    /// Workgroup or domain.
    pub workgroup: String,
    /// DNS name of the host.
    pub dns_name: String,
    /// DNS domain of the host.
    pub dns_domain: String,
    /// The lowest dialect offered.
    pub dialect_min: wire::Dialect,
    /// The highest dialect offered.
    pub dialect_max: wire::Dialect,
    /// `server signing`.
    pub signing: Policy,
    /// `server smb encrypt`, for the whole server.
    pub encryption: Policy,
    /// Ciphers offered, best first: [MS-SMB2] 2.2.3.1.2.
    pub ciphers: Vec<crypto::Cipher>,
    /// Signing algorithms offered, best first: [MS-SMB2] 2.2.3.1.7.
    pub signing_algorithms: Vec<crypto::SigningAlgorithm>,
    /// `map to guest`.
    pub map_to_guest: MapToGuest,
    /// How fast passwords may be guessed.
    pub logon_throttle: ThrottleSettings,
    /// `server multi channel support`: IsMultiChannelCapable of [MS-SMB2] 3.3.1.5.
    pub multi_channel: bool,
    /// Offer the POSIX extensions of 3.1.1.
    pub posix_extensions: bool,
    /// There are shares that are continuously available, and opens of them are kept beyond the server:
    /// SMB2_GLOBAL_CAP_PERSISTENT_HANDLES.
    pub persistent_handles: bool,
    /// MaxReadSize in bytes.
    pub max_read_size: u32,
    /// MaxWriteSize in bytes.
    pub max_write_size: u32,
    /// MaxTransactSize in bytes.
    pub max_transact_size: u32,
    /// Credits that a connection may hold.
    pub credits_max: u32,
    /// Credits that all connections may hold together; 0 for no such limit.
    pub credits_total: u32,
    /// Bytes of memory that a client may take: `max client memory`.
    pub client_memory_max: usize,
    /// Bytes that it may take while no user has logged on: `max guest memory`.
    pub guest_memory_max: usize,
    /// `smbd:FSCTL_SMBTORTURE`: the control codes with which tests make the server behave oddly.
    pub smbtorture_hooks: bool,
    /// What a client repeats is done once: CREATEs are known by their CreateGuid, and requests of an
    /// earlier channel sequence change nothing. No parameter switches that off; tests do, to see that
    /// it matters.
    pub replay_detection: bool,
    /// Which breaks are told again on another channel: `smb2 disable oplock break retry`.
    pub break_retry: BreakRetry,
    /// `IsDfsCapable`: a share is the root of a DFS namespace.
    pub dfs: bool,
    /// A LOCK that is repeated is done once: the opposite of
    /// `smb2 disable lock sequence checking`.
    pub lock_sequence_checking: bool,
    /// CHANGE_NOTIFY is offered.
    pub change_notify: bool,
    /// `smb2 leases`: leases are granted.
    pub leases: bool,
    /// `smb3 directory leases`: leases are granted on directories, too.
    pub directory_leases: bool,
    /// When the server started: ServerStartTime is not told (zero), but srvsvc's clock needs one.
    pub started: dtyp::FileTime,
    /// What srvsvc and wkssvc tell.
    pub catalogue: Arc<dyn CatalogueDebug>,
}

/// A catalogue that can be printed.
pub trait CatalogueDebug: rpc::Catalogue + std::fmt::Debug {}

impl<T: rpc::Catalogue + std::fmt::Debug> CatalogueDebug for T {}
