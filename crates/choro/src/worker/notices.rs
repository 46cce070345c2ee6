//! From what the engine notices to the tables that `choro status` and other workers read.

use dtyp::{FileTime, Guid, ServerId};
use proto::Notice;
use proto::notice::SessionOpened;
use tables::{ClientRecord, Registry, SessionRecord, TableError, TreeConnectRecord};
use tracing::warn;

/// Writes the tables on behalf of one worker.
#[derive(Debug)]
pub(super) struct Notices {
    server_id: ServerId,
    /// Under which the client was entered.
    client_guid: Option<Guid>,
}

impl Notices {
    pub(super) fn new(server_id: ServerId) -> Self {
        Self { server_id, client_guid: None }
    }

    /// Enters one change. The tables are for others to read: if one cannot be written, this client
    /// is served all the same, and the log says what is missing.
    pub(super) fn enter(&mut self, registry: &Registry, notice: Notice, now: FileTime) {
        if let Err(error) = self.write(registry, notice, now) {
            warn!("the tables could not be written: {error}");
        }
    }

    fn write(
        &mut self,
        registry: &Registry,
        notice: Notice,
        now: FileTime,
    ) -> Result<(), TableError> {
        match notice {
            Notice::ConnectionNegotiated {
                client_guid,
                client,
                server,
                dialect,
                signing_algorithm,
                cipher,
            } => {
                self.client_guid = Some(client_guid);
                registry.put_client(&ClientRecord {
                    server_id: self.server_id,
                    client_guid,
                    client_address: client.to_string(),
                    local_address: server.to_string(),
                    dialect: dialect.0,
                    connected_at: now,
                    signing_algorithm: Some(signing_algorithm),
                    signing_required: false,
                    cipher: nonzero(cipher),
                })
            }
            Notice::ConnectionClosed { .. } => match self.client_guid.take() {
                Some(client_guid) => registry.remove_client(client_guid).map(drop),
                None => Ok(()),
            },
            Notice::SessionOpened(session) => registry.put_session(&self.session(*session, now)),
            Notice::SessionClosed { session_id } => registry.remove_session(session_id).map(drop),
            Notice::TreeConnected { session_id, tree_id, share, encrypted, read_only } => registry
                .put_tree_connect(&TreeConnectRecord {
                    session_id,
                    tree_id,
                    share,
                    server_id: self.server_id,
                    encrypted,
                    connected_at: now,
                    read_only,
                }),
            Notice::TreeDisconnected { session_id, tree_id } => {
                registry.remove_tree_connect(session_id, tree_id).map(drop)
            }
            // Not for the tables: `notifyd` is told.
            Notice::Changed(_) | Notice::Unwatched { .. } | Notice::Watched(_) => Ok(()),
        }
    }

    fn session(&self, session: SessionOpened, now: FileTime) -> SessionRecord {
        SessionRecord {
            session_id: session.session_id,
            server_id: self.server_id,
            user: session.user,
            domain: session.domain,
            user_sid: session.sid,
            client_address: session.client.to_string(),
            dialect: session.dialect.0,
            signing_algorithm: Some(session.signing_algorithm),
            signing_required: session.signing_required,
            cipher: nonzero(session.cipher),
            encrypted: session.encrypted,
            created_at: now,
        }
    }
}

fn nonzero(id: u16) -> Option<u16> {
    (id != 0).then_some(id)
}
