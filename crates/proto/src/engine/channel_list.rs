//! The channels of all sessions, for an administrator.

use std::net::SocketAddr;
use std::sync::Arc;

use dtyp::FileTime;

use crate::engine::server::Server;
use crate::model::connection::{ConnectionId, Negotiated};

/// A channel: a session's binding to a connection, and what is known of both.
#[derive(Clone, Debug)]
pub struct ChannelInfo {
    /// The session.
    pub session_id: u64,
    /// It has a key, so that further connections can be bound to it: guests have none.
    pub can_be_bound: bool,
    /// The connection, which may carry other sessions, too.
    pub connection: ConnectionId,
    /// Where the client is.
    pub client: SocketAddr,
    /// Which address it came to.
    pub server: SocketAddr,
    /// When it came to this worker.
    pub connected_at: FileTime,
    /// What was negotiated.
    pub negotiated: Arc<Negotiated>,
    /// The client has asked for the addresses of this server on it.
    pub asked_for_interfaces: bool,
    /// Breaks that were told on it again, because another connection ended before an answer.
    pub repeated_breaks: u32,
}

impl Server {
    /// The channels of all sessions; those of one beside each other, oldest first.
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
                    can_be_bound: session.signing_key.is_some(),
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
