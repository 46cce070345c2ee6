//! Channels of all sessions, for an administrator.

use std::net::SocketAddr;
use std::sync::Arc;

use dtyp::FileTime;
use model::connection::{ConnectionId, Negotiated};

use crate::server::Server;

/// A channel: a session's binding to a connection, with the state of both.
#[derive(Clone, Debug)]
pub struct ChannelInfo {
    pub session_id: u64,
    /// True if the session has a key, so that further connections can be bound to it: guests have
    /// none.
    pub can_be_bound: bool,
    /// The connection, which may carry other sessions, too.
    pub connection: ConnectionId,
    /// Address and port of the client.
    pub client: SocketAddr,
    /// Local address that the client connected to.
    pub server: SocketAddr,
    /// Time at which this worker took the connection.
    pub connected_at: FileTime,
    /// Results of the connection's NEGOTIATE.
    pub negotiated: Arc<Negotiated>,
    /// True if the client has queried the server's network interfaces over it.
    pub asked_for_interfaces: bool,
    /// Number of breaks repeated on it, because another connection ended before their
    /// acknowledgment.
    pub repeated_breaks: u32,
}

impl Server {
    /// Returns the address of a connection's client.
    #[must_use]
    pub fn client_of(&self, connection: ConnectionId) -> Option<SocketAddr> {
        self.connections.get(&connection).map(|it| it.client)
    }

    /// Returns the channels of all sessions, by session and then by age.
    #[must_use]
    pub fn channels(&self) -> Vec<ChannelInfo> {
        let mut channels: Vec<ChannelInfo> = self
            .sessions
            .values()
            .flat_map(|session| session.bound_channels().map(move |channel| (session, channel)))
            .filter_map(|(session, channel)| {
                let connection = self.connections.get(&channel.connection)?;
                Some(ChannelInfo {
                    session_id: session.session_id,
                    can_be_bound: session.is_users(),
                    connection: channel.connection,
                    client: connection.client,
                    server: connection.server,
                    connected_at: connection.connected_at,
                    negotiated: Arc::clone(connection.negotiated.as_ref()?),
                    asked_for_interfaces: connection.asked_for_interfaces,
                    repeated_breaks: connection.repeated_breaks,
                })
            })
            .collect();
        channels.sort_by_key(|channel| (channel.session_id, channel.connection));
        channels
    }
}
