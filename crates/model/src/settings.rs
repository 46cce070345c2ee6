//! Settings of the administrator for the protocol.

use std::sync::Arc;
use std::time::Duration;

use dtyp::Guid;

use crate::logon_throttle::ThrottleSettings;

/// Breaks to repeat on another channel if one does not confirm them: [MS-SMB2] 3.3.4.6, 3.3.4.7.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BreakRetry {
    /// All breaks, as the specification has it.
    All,
    /// Breaks of leases. A break of an oplock is sent once, on the newest channel, as by Windows.
    LeasesOnly,
    /// None: the operating system does not report confirmations.
    Never,
}

/// Setting for an optional feature of the protocol.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Policy {
    /// Never, even at the client's request.
    Off,
    /// At the client's request only.
    #[default]
    Enabled,
    /// With every client that is capable of it.
    Desired,
    /// Always: other clients are refused.
    Required,
}

/// `map to guest`: failed logons that become guests.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum MapToGuest {
    /// None: every failed logon fails.
    #[default]
    Never,
    /// Logons of a user that does not exist.
    BadUser,
    /// Logons with a wrong password, too.
    BadPassword,
}

/// Settings of a server. They may be replaced while it runs; a connection keeps the results of its
/// NEGOTIATE.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// `ServerGuid` of [MS-SMB2] 3.3.1.5.
    pub server_guid: Guid,
    /// NetBIOS name, as in NTLM and srvsvc.
    pub netbios_name: String,
    /// Workgroup or domain of the server.
    pub workgroup: String,
    /// DNS name of the host.
    pub dns_name: String,
    /// DNS domain of the host.
    pub dns_domain: String,
    /// Mechanisms of logons that are offered.
    pub mechanisms: auth::Mechanisms,
    /// `security = ads`: users of other domains than the server's own name are the domain's.
    pub is_member: bool,
    /// Lowest dialect that is offered.
    pub dialect_min: wire::Dialect,
    /// Highest dialect that is offered.
    pub dialect_max: wire::Dialect,
    /// `server signing`, the policy for all connections.
    pub signing: Policy,
    /// `server smb encrypt`, for the whole server.
    pub encryption: Policy,
    /// Ciphers offered, best first: [MS-SMB2] 2.2.3.1.2.
    pub ciphers: Vec<crypto::Cipher>,
    /// Signing algorithms offered, best first: [MS-SMB2] 2.2.3.1.7.
    pub signing_algorithms: Vec<crypto::SigningAlgorithm>,
    /// `map to guest`: failed logons that become guests.
    pub map_to_guest: MapToGuest,
    /// Limit on the rate of password guesses.
    pub logon_throttle: ThrottleSettings,
    /// `server multi channel support`: IsMultiChannelCapable of [MS-SMB2] 3.3.1.5.
    pub multi_channel: bool,
    /// True to offer the POSIX extensions of 3.1.1.
    pub posix_extensions: bool,
    /// True if some share is continuously available, so that opens may survive the server:
    /// SMB2_GLOBAL_CAP_PERSISTENT_HANDLES.
    pub persistent_handles: bool,
    /// `MaxReadSize` of [MS-SMB2] 2.2.4, in bytes.
    pub max_read_size: u32,
    /// `MaxWriteSize` of [MS-SMB2] 2.2.4, in bytes.
    pub max_write_size: u32,
    /// `MaxTransactSize` of [MS-SMB2] 2.2.4, in bytes.
    pub max_transact_size: u32,
    /// Highest number of credits that a connection may hold.
    pub credits_max: u32,
    /// Highest number of credits of all connections together; 0 for no such limit.
    pub credits_total: u32,
    /// `max client memory`: bytes of memory that a client may take.
    pub client_memory_max: usize,
    /// `max guest memory`: bytes that it may take while no user has logged on.
    pub guest_memory_max: usize,
    /// `smbd:FSCTL_SMBTORTURE`: true to serve the control codes by which tests change the server's
    /// behavior.
    pub smbtorture_hooks: bool,
    /// True if replayed requests are executed once: CREATEs are known by their CreateGuid, and
    /// requests of an earlier channel sequence change nothing. No parameter sets it to false; tests
    /// do, to prove its effect.
    pub replay_detection: bool,
    /// Time that a CREATE waits for a break before it gets its interim response; zero for none.
    pub interim_delay: Duration,
    /// `smb2 disable oplock break retry`: breaks to repeat on another channel.
    pub break_retry: BreakRetry,
    /// `IsDfsCapable`: true if a share is the root of a DFS namespace.
    pub dfs: bool,
    /// True if a replayed LOCK is executed once: the opposite of `smb2 disable lock sequence
    /// checking`.
    pub lock_sequence_checking: bool,
    /// True if some share is audited.
    pub is_audited: bool,
    /// True if CHANGE_NOTIFY is served.
    pub change_notify: bool,
    /// `smb2 leases`: true if leases are granted.
    pub leases: bool,
    /// `smb3 directory leases`: true if leases are granted on directories, too.
    pub directory_leases: bool,
    /// Time of the server's start, for srvsvc's clock. ServerStartTime is always zero.
    pub started: dtyp::FileTime,
    /// Shares, sessions and users that srvsvc and wkssvc report.
    pub catalogue: Arc<dyn CatalogueDebug>,
}

impl ServerSettings {
    /// Returns whether `smb2 leases` and `smb3 directory leases` permit a lease. They do not limit
    /// oplocks.
    #[must_use]
    pub fn permits_lease(&self, is_directory: bool) -> bool {
        self.leases && (self.directory_leases || !is_directory)
    }
}

/// A catalogue that can be printed.
pub trait CatalogueDebug: rpc::Catalogue + std::fmt::Debug {}

impl<T: rpc::Catalogue + std::fmt::Debug> CatalogueDebug for T {}
