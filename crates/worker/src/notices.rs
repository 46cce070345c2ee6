//! Records the engine's notices in the tables that `choro status` and other workers read.

use std::collections::{HashMap, HashSet};

use dtyp::{FileTime, Guid, ServerId};
use proto::Notice;
use proto::notice::SessionOpened;
use tables::{Claim, ClientRecord, Registry, SessionRecord, TableError, TreeConnectRecord};
use trace::LogonOutcome;
use tracing::warn;
use wire::Dialect;

/// Writes the tables on behalf of one worker.
#[derive(Debug)]
pub(super) struct Notices {
    server_id: ServerId,
    /// Number of connections of each client. There is more than one client only if another worker
    /// that should serve one of them did not take its connection.
    connections: HashMap<Guid, usize>,
    /// Clients whose further connections come here.
    claims: HashSet<Guid>,
    /// Clients over which a user has logged on: [`Registry::claim_client_of_user`].
    of_users: HashSet<Guid>,
    had_session: bool,
    /// A user has logged on, no guest or anonymous user.
    had_user: bool,
    /// Name of the user who has logged on last; empty for an anonymous one.
    user: Option<String>,
}

impl Notices {
    pub(super) fn new(server_id: ServerId) -> Self {
        Self {
            server_id,
            connections: HashMap::new(),
            claims: HashSet::new(),
            of_users: HashSet::new(),
            had_session: false,
            had_user: false,
            user: None,
        }
    }

    /// This worker has claimed the client: see [`Registry::claim_client`].
    pub(super) fn claimed(&mut self, client_guid: Guid) {
        self.claims.insert(client_guid);
    }

    /// Whether this worker claims the client.
    pub(super) fn claims(&self, client_guid: Guid) -> bool {
        self.claims.contains(&client_guid)
    }

    /// Returns true if a user or guest has logged on. Before that, a client's faults are not logged
    /// as warnings: any number of strangers can cause any number of them.
    pub(super) fn had_session(&self) -> bool {
        self.had_session
    }

    /// Returns true if a user has logged on. Anyone can be a guest or an anonymous user.
    pub(super) fn had_user(&self) -> bool {
        self.had_user
    }

    /// Returns the user who has logged on last, for the log.
    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Takes all clients out of the tables.
    pub(super) fn release_all(&mut self, registry: &Registry) {
        // Another client waits for the place of this one.
        process::leave_idle_priority();
        let clients = self.connections.drain().map(|(client_guid, _)| client_guid);
        let clients: HashSet<Guid> = clients.chain(self.claims.drain()).collect();
        for client_guid in clients {
            if let Err(error) = registry.remove_client(client_guid) {
                warn!("cannot remove a client from the tables: {error}");
            }
        }
    }

    /// Records one change. The tables are for others to read: if one cannot be written, this client
    /// is served all the same, and the log says what is missing.
    pub(super) fn record(&mut self, registry: &Registry, notice: Notice, now: FileTime) {
        if let Err(error) = self.write(registry, notice, now) {
            warn!("cannot write the tables: {error}");
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
                let connections = self.connections.entry(client_guid).or_default();
                *connections += 1;
                if *connections > 1 {
                    return Ok(()); // It is about the first.
                }
                let record = ClientRecord {
                    server_id: self.server_id,
                    client_guid,
                    is_claim: self.claims.contains(&client_guid),
                    has_user: false,
                    client_address: client.to_string(),
                    local_address: server.to_string(),
                    dialect: dialect.0,
                    connected_at: now,
                    signing_algorithm: Some(signing_algorithm),
                    signing_required: false,
                    cipher: nonzero(cipher),
                };
                self.record_client(registry, record)
            }
            Notice::ConnectionClosed { client_guid, .. } => {
                let connections = self.connections.entry(client_guid).or_insert(1);
                *connections -= 1;
                if *connections > 0 {
                    return Ok(());
                }
                self.connections.remove(&client_guid);
                self.claims.remove(&client_guid);
                self.of_users.remove(&client_guid);
                registry.remove_client(client_guid).map(drop)
            }
            Notice::SessionOpened(session) => {
                self.had_session = true;
                self.had_user |= session.outcome == LogonOutcome::User;
                self.user = Some(session.user.clone());
                if session.outcome == LogonOutcome::User && session.dialect >= Dialect::SMB_3_0 {
                    self.user_came(registry, session.client_guid)?;
                }
                registry.put_session(&self.session(*session, now))
            }
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
            // Not for the tables: it goes to `notifyd`, the supervisor, or the log.
            Notice::Audited(_)
            | Notice::LogonChanged(_)
            | Notice::FurtherUser { .. }
            | Notice::LogonRefused(_)
            | Notice::Changed(_)
            | Notice::Unwatched { .. }
            | Notice::Watched(_) => Ok(()),
        }
    }

    /// Records a client. Another worker may have taken the claim meanwhile, with a user.
    fn record_client(
        &mut self,
        registry: &Registry,
        record: ClientRecord,
    ) -> Result<(), TableError> {
        if record.is_claim && registry.claim_client(&record, None)? != Claim::Ours {
            self.claims.remove(&record.client_guid);
            return registry.put_client(&ClientRecord { is_claim: false, ..record });
        }
        registry.put_client(&record)
    }

    /// Claims a client for its user, unless another worker has done so: further connections of the
    /// client come here, whoever has named its ClientGuid before.
    fn user_came(&mut self, registry: &Registry, client_guid: Guid) -> Result<(), TableError> {
        if client_guid == Guid::default() || !self.of_users.insert(client_guid) {
            return Ok(());
        }
        match registry.claim_client_of_user(client_guid)? {
            Some(Claim::Ours) => drop(self.claims.insert(client_guid)),
            Some(Claim::Of(_)) => drop(self.claims.remove(&client_guid)),
            None => {}
        }
        Ok(())
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
