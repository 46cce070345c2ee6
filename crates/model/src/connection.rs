//! [MS-SMB2] 3.3.1.7 Per Transport Connection.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crypto::{Cipher, PreauthHash, SigningAlgorithm, SigningKey};
use dtyp::{FileTime, Guid};
use wire::Dialect;
use wire::negotiate::{Capabilities, SecurityMode};

use crate::logon::Progress;
use crate::reject::Reject;
use crate::sequence_window::CommandSequenceWindow;

/// Identifies a connection between the worker and the engine.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ConnectionId(pub u32);

impl ConnectionId {
    /// No connection: responses to it are dropped.
    pub const NONE: Self = Self(0);
}

/// Highest number of CANCELs in a second: as many as a client may have requests in flight.
pub const CANCELS_PER_SECOND_MAX: u32 = 8_192;

/// `Connection` of [MS-SMB2] 3.3.1.7.
#[derive(Debug)]
pub struct Connection {
    /// Address and port of the client.
    pub client: SocketAddr,
    /// Local address that the client connected to.
    pub server: SocketAddr,
    /// Time at which this worker took the connection.
    pub connected_at: FileTime,
    /// Progress of the client's logon.
    pub progress: Progress,
    /// Results of NEGOTIATE; none before it is done.
    pub negotiated: Option<Arc<Negotiated>>,
    /// True after an SMB1 NEGOTIATE was answered with the wildcard dialect, until the SMB2 one.
    pub awaits_smb2_negotiate: bool,
    /// Message ids that the client may use.
    pub command_sequence_window: CommandSequenceWindow,
    /// `Connection.PreauthIntegrityHashValue`.
    pub preauth: PreauthHash,
    /// `Connection.PreauthSessionTable`: hashes of the sessions that are being set up, by session
    /// id.
    pub preauth_sessions: HashMap<u64, PreauthHash>,
    /// Number of pending requests with an interim response.
    pub async_commands: u32,
    /// True if another worker handed the connection over. It is not handed over again.
    pub was_passed: bool,
    /// Id and signing key of the session that the client is binding to this connection. The client
    /// signs the binding with that key, so the responses may be signed with it, too.
    pub binding_key: Option<(u64, Arc<SigningKey>)>,
    /// Number of pending questions about sessions of other workers.
    pub session_questions: u8,
    /// True if the client has queried the server's network interfaces.
    pub asked_for_interfaces: bool,
    /// CANCELs that came in this second.
    pub cancels: CancelRate,
    /// Number of breaks repeated on this connection, because another one ended before its client
    /// acknowledged them.
    pub repeated_breaks: u32,
    /// Padding before the data of READ responses, in bytes. Only tests set it.
    pub read_padding: u8,
    /// True if everything sent counts as lost. Only tests set it.
    pub confirms_nothing: bool,
}

/// Limit of the CANCELs of a connection. They take no credit and have no response, so nothing else
/// limits them.
#[derive(Clone, Copy, Debug, Default)]
pub struct CancelRate {
    second: u64,
    count: u32,
}

impl CancelRate {
    /// Counts a CANCEL; false if there are too many.
    #[must_use]
    pub fn admit(&mut self, now: Duration) -> bool {
        if self.second != now.as_secs() {
            *self = Self { second: now.as_secs(), count: 0 };
        }
        self.count += 1;
        self.count <= CANCELS_PER_SECOND_MAX
    }
}

/// Results of a connection's NEGOTIATE.
#[derive(Clone, Debug)]
pub struct Negotiated {
    /// `Connection.Dialect`.
    pub dialect: Dialect,
    /// `Connection.ClientGuid`.
    pub client_guid: Guid,
    /// `Connection.ClientCapabilities`.
    pub client_capabilities: Capabilities,
    /// `Connection.ClientSecurityMode`.
    pub client_security_mode: SecurityMode,
    /// Dialects that the client offered, for VALIDATE_NEGOTIATE_INFO.
    pub client_dialects: Vec<Dialect>,
    /// `Connection.ServerCapabilities`.
    pub server_capabilities: Capabilities,
    /// `Connection.ServerSecurityMode`.
    pub server_security_mode: SecurityMode,
    /// `Connection.CipherId`.
    pub cipher: Option<Cipher>,
    /// `Connection.SigningAlgorithmId`.
    pub signing_algorithm: SigningAlgorithm,
    /// True if both sides have the POSIX extensions, so that opens may use them.
    pub posix_extensions: bool,
    /// `Connection.MaxReadSize` in bytes.
    pub max_read_size: u32,
    /// `Connection.MaxWriteSize` in bytes.
    pub max_write_size: u32,
    /// `Connection.MaxTransactSize` in bytes.
    pub max_transact_size: u32,
    /// `Connection.SupportsMultiCredit`.
    pub supports_multi_credit: bool,
}

impl Connection {
    /// Makes a connection without any traffic yet.
    #[must_use]
    pub fn new(
        client: SocketAddr,
        server: SocketAddr,
        (connected_at, progress): (FileTime, Progress),
        credits_max: u32,
    ) -> Self {
        Self {
            client,
            server,
            connected_at,
            progress,
            negotiated: None,
            awaits_smb2_negotiate: false,
            command_sequence_window: CommandSequenceWindow::new(credits_max),
            preauth: PreauthHash::default(),
            preauth_sessions: HashMap::new(),
            async_commands: 0,
            was_passed: false,
            binding_key: None,
            session_questions: 0,
            asked_for_interfaces: false,
            cancels: CancelRate::default(),
            repeated_breaks: 0,
            read_padding: 0,
            confirms_nothing: false,
        }
    }

    /// True if requests consume as many message ids as their headers say, rather than one each.
    #[must_use]
    pub fn pays(&self) -> bool {
        self.negotiated.as_ref().is_some_and(|it| it.supports_multi_credit)
    }

    /// Puts a connection that was handed over into the state after the answer to an SMB1 NEGOTIATE:
    /// the SMB2 one is due.
    ///
    /// # Panics
    /// If a message was received on it here.
    pub fn follow_smb1(&mut self) {
        self.awaits_smb2_negotiate = true;
        self.command_sequence_window.consume(0, 1).expect("nothing else was received");
        self.command_sequence_window.grant(1, None);
    }

    /// Returns the results of NEGOTIATE.
    ///
    /// # Panics
    /// Before NEGOTIATE: `receive` admits no other command until then.
    #[must_use]
    pub fn negotiated(&self) -> &Arc<Negotiated> {
        self.negotiated.as_ref().expect("only NEGOTIATE is served before NEGOTIATE")
    }
}

impl Negotiated {
    /// True for the dialects 3.0 and later.
    #[must_use]
    pub fn is_smb3(&self) -> bool {
        self.dialect >= Dialect::SMB_3_0
    }

    /// Verifies the credit charge and the payload size: [MS-SMB2] 3.3.5.2.5.
    ///
    /// # Errors
    /// If the charge is too small for the larger of request and response payload.
    pub fn verify_credit_charge(&self, charge: u16, payload_bytes: u32) -> Result<(), Reject> {
        let got = charge.max(1);
        let need = credit_charge(payload_bytes);
        if self.supports_multi_credit && need > u32::from(got) {
            return Err(Reject::CreditChargeTooSmall { need, got });
        }
        Ok(())
    }
}

/// Payload bytes covered by one credit, which every request has.
pub const CREDIT_BYTES: u32 = 65_536;

/// [MS-SMB2] 3.1.5.2 Calculating the CreditCharge.
fn credit_charge(payload_bytes: u32) -> u32 {
    payload_bytes.div_ceil(CREDIT_BYTES).max(1)
}
