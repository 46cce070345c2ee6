//! [MS-SMB2] 3.3.1.7 Per Transport Connection.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use crypto::{Cipher, PreauthHash, SigningAlgorithm, SigningKey};
use dtyp::{FileTime, Guid};
use wire::Dialect;
use wire::negotiate::{Capabilities, SecurityMode};

use crate::model::logon::Progress;
use crate::model::reject::Reject;
use crate::model::sequence_window::CommandSequenceWindow;

/// Names a connection between the worker and the engine.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ConnectionId(pub u32);

/// `Connection`.
#[derive(Debug)]
pub struct Connection {
    /// Where the client is.
    pub client: SocketAddr,
    /// Which address it came to.
    pub server: SocketAddr,
    /// When it came to this worker.
    pub connected_at: FileTime,
    /// Progress of the client's logon.
    pub progress: Progress,
    /// What was negotiated; nothing before NEGOTIATE is done.
    pub negotiated: Option<Arc<Negotiated>>,
    /// An SMB1 NEGOTIATE was answered with the wildcard dialect, and the SMB2 one is due.
    pub awaits_smb2_negotiate: bool,
    /// Message ids that the client may use.
    pub command_sequence_window: CommandSequenceWindow,
    /// `Connection.PreauthIntegrityHashValue`.
    pub preauth: PreauthHash,
    /// `Connection.PreauthSessionTable`: hashes of sessions that are being set up, by session id.
    pub preauth_sessions: HashMap<u64, PreauthHash>,
    /// Requests that were answered with an interim response and are not finished.
    pub async_commands: u32,
    /// Another worker has passed it on: whose client this is has been decided.
    pub was_passed: bool,
    /// The session to which the client of this connection wants it bound, and that session's key:
    /// the client has signed with it, so that the answers may be signed with it, too.
    pub binding_key: Option<(u64, Arc<SigningKey>)>,
    /// The client has asked which other addresses it may come to.
    pub asked_for_interfaces: bool,
    /// Breaks that were told on it again, because another connection ended before an answer.
    pub repeated_breaks: u32,
    /// Bytes without a meaning that a test wants before the data of READ responses.
    pub read_padding: u8,
    /// Credits that the classes of its client let it hold.
    pub credits_limit: Option<u32>,
    /// A test wants whatever is sent to count as lost.
    pub confirms_nothing: bool,
}

/// What NEGOTIATE decided.
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
    /// The dialects that the client offered, for VALIDATE_NEGOTIATE_INFO.
    pub client_dialects: Vec<Dialect>,
    /// `Connection.ServerCapabilities`.
    pub server_capabilities: Capabilities,
    /// `Connection.ServerSecurityMode`.
    pub server_security_mode: SecurityMode,
    /// `Connection.CipherId`.
    pub cipher: Option<Cipher>,
    /// `Connection.SigningAlgorithmId`.
    pub signing_algorithm: SigningAlgorithm,
    /// Opens may be as POSIX means them: both sides have the POSIX extensions.
    pub posix_extensions: bool,
    /// MaxReadSize in bytes.
    pub max_read_size: u32,
    /// MaxWriteSize in bytes.
    pub max_write_size: u32,
    /// MaxTransactSize in bytes.
    pub max_transact_size: u32,
    /// `Connection.SupportsMultiCredit`.
    pub supports_multi_credit: bool,
}

impl Connection {
    /// A connection on which nothing was said.
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
            asked_for_interfaces: false,
            repeated_breaks: 0,
            read_padding: 0,
            credits_limit: None,
            confirms_nothing: false,
        }
    }

    /// Message ids that a request takes: one before 2.1, whatever it says ([MS-SMB2] 3.3.5.2.3).
    #[must_use]
    pub fn charge(&self, header: &wire::Header) -> u16 {
        let pays = self.negotiated.as_ref().is_some_and(|it| it.supports_multi_credit);
        if pays { header.credit_charge } else { 1 }
    }

    /// Has the client hold no more credits than this. What it has already, it keeps until it is
    /// used.
    pub fn limit_credits(&mut self, limit: Option<u32>) {
        let least = |before: u32| limit.map_or(before, |limit| before.min(limit));
        self.credits_limit = self.credits_limit.map(least).or(limit);
    }

    /// What NEGOTIATE decided.
    ///
    /// # Panics
    /// Before NEGOTIATE: `receive` lets nothing else through until then.
    #[must_use]
    pub fn negotiated(&self) -> &Arc<Negotiated> {
        self.negotiated.as_ref().expect("only NEGOTIATE is served before NEGOTIATE")
    }
}

impl Negotiated {
    /// Whether the dialect belongs to the 3.x family.
    #[must_use]
    pub fn is_smb3(&self) -> bool {
        self.dialect >= Dialect::SMB_3_0
    }

    /// [MS-SMB2] 3.3.5.2.5 Verifying the Credit Charge and the Payload Size.
    ///
    /// # Errors
    /// If the request pays for less than it sends or asks for.
    pub fn verify_credit_charge(&self, charge: u16, payload_bytes: u32) -> Result<(), Reject> {
        let got = charge.max(1);
        let need = credit_charge(payload_bytes);
        if self.supports_multi_credit && need > u32::from(got) {
            return Err(Reject::CreditChargeTooSmall { need, got });
        }
        Ok(())
    }
}

/// [MS-SMB2] 3.1.5.2 Calculating the CreditCharge.
fn credit_charge(payload_bytes: u32) -> u32 {
    /// Bytes that one credit pays for.
    const CREDIT_BYTES: u32 = 65_536;
    payload_bytes.div_ceil(CREDIT_BYTES).max(1)
}
