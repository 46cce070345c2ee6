//! Connections that are being handed over.

use std::net::TcpStream;

use bytes::Bytes;
use dtyp::Guid;
use messaging::OfferConnection;
use proto::{ConnectionId, RequestId};

use super::handover::Handover;

/// Highest number of connections of a worker with those handed over to it. A session has at most 32
/// channels; a client may have some sessions. Anybody can reach this worker by naming a client's
/// ClientGuid, so a new connection replaces one without a user.
pub(crate) const CONNECTIONS_MAX: usize = 256;

/// Connections being handed over from here to other workers, and from others to here.
pub(crate) type Passing = Handover<UnplacedConnection, Received>;

/// A connection of a client whose worker is not known yet.
#[derive(Clone, Debug)]
pub(crate) struct UnplacedConnection {
    pub(crate) connection: ConnectionId,
    /// Its pending NEGOTIATE, to be answered here.
    pub(crate) request: RequestId,
    pub(crate) client_guid: Guid,
    pub(crate) negotiate: Bytes,
    pub(crate) after_smb1: bool,
}

/// Contents of another worker's offer.
#[derive(Debug)]
pub(crate) struct Received {
    pub(super) socket: TcpStream,
    pub(super) offer: OfferConnection,
}
