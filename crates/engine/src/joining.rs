//! Connections that share a worker: those of one client, and of strangers who name its ClientGuid.
//!
//! A NEGOTIATE carries the ClientGuid in clear, and leads a connection to the worker that serves
//! that client. So a connection without a user takes no place from one over which a user has logged
//! on.

use std::net::IpAddr;

use model::connection::{Connection, ConnectionId};
use model::logon::Logon;
use model::now::Now;
use model::reject::Disconnect;
use model::session::CHANNELS_MAX;

use crate::notice::Notice;
use crate::request::Incoming;
use crate::server::Server;

/// Connections without a user that a worker takes beside its user's, from addresses where the user
/// has none. Windows opens four at a time over another interface before it binds them as channels.
const STRANGERS_MAX: usize = 4;

impl Server {
    /// Makes room for a connection from `client` that another worker offers, while `coming` others
    /// are being handed over. Returns whether there is room: the oldest connection without a user
    /// may have been ended for it.
    pub fn handle_offered_connection(&mut self, now: Now, client: IpAddr, coming: usize) -> bool {
        let waiting = self.connections.values().filter(|it| !has_user(it));
        if !self.connections.values().any(has_user) {
            // The new client may be the user among strangers: a worker of its own serves it better.
            let is_strange = !self.connections.values().any(|it| is_from(it, client));
            let joins_strangers = is_strange && !self.connections.is_empty();
            return !joins_strangers && waiting.count() + coming < CHANNELS_MAX;
        }
        if self.has_user_at(client) {
            return waiting.count() + coming < CHANNELS_MAX || self.handle_connection_limit(now);
        }
        waiting.filter(|it| !self.has_user_at(it.client.ip())).count() + coming < STRANGERS_MAX
    }

    /// Ends a connection over which no user has logged on, to make room for another: the oldest one
    /// without any session, or else with sessions of guests and anonymous users only. Returns
    /// whether there was one.
    pub fn handle_connection_limit(&mut self, now: Now) -> bool {
        self.globals.files.set_now(now.monotonic);
        let others = self.connections.iter().filter(|(_, it)| !has_user(it));
        let oldest = others.min_by_key(|(id, it)| (it.progress.logon(), id.0));
        let Some(id) = oldest.map(|(id, _)| *id) else { return false };
        self.disconnect(id, Disconnect::Crowded);
        self.quiesce(now);
        true
    }

    /// Handles a successful SESSION_SETUP: a session was set up, authenticated anew, or bound.
    pub(crate) fn logged_on(&mut self, incoming: &Incoming, session_id: u64) {
        let id = incoming.connection;
        let session = self.sessions.get(&session_id);
        let is_user = session.is_some_and(|it| it.is_users() && it.signing_key(id).is_some());
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let had_user = has_user(connection);
        connection.progress.logged_on(incoming.now.monotonic, is_user);
        self.globals.throttle.credits_change();
        if is_user && !had_user && self.globals.logon == Logon::User {
            let client = connection.client.ip();
            self.globals.outbox.notices.push_back(Notice::FurtherUser { client });
        }
        match connection.progress.deadline() {
            Some(deadline) => drop(self.deadlines.insert(id, deadline)),
            None => drop(self.deadlines.remove(&id)),
        }
        self.part_from_guests();
        self.report_logon();
    }

    /// Ends connections of guests from addresses without a user of this worker.
    fn part_from_guests(&mut self) {
        if !self.connections.values().any(has_user) {
            return;
        }
        let is_strange = |it: &Connection| {
            it.progress.logon() == Logon::Guest && !self.has_user_at(it.client.ip())
        };
        let strange = self.connections.iter().filter(|(_, it)| is_strange(it));
        let strange: Vec<ConnectionId> = strange.map(|(id, _)| *id).collect();
        for id in strange {
            self.disconnect(id, Disconnect::GuestBesideUser);
        }
    }

    fn has_user_at(&self, address: IpAddr) -> bool {
        self.connections.values().any(|it| has_user(it) && is_from(it, address))
    }

    /// Ends a connection that has missed the deadline of its logon.
    pub(crate) fn check_progress(&mut self, now: Now, id: ConnectionId) {
        let sessions = self.sessions.values().filter(|session| session.channel(id).is_some());
        let mut trees = sessions.flat_map(|session| session.tree_connects.values());
        let has_files = trees.any(|tree| !tree.is_pipe());
        self.deadlines.remove(&id);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.progress.may_stay(now.monotonic, has_files) {
            let deadline = connection.progress.deadline();
            self.deadlines.extend(deadline.map(|deadline| (id, deadline)));
        } else {
            self.disconnect(id, Disconnect::TooSlow);
        }
    }

    /// Reports the highest logon over all connections, if it has changed. The last connection's end
    /// changes nothing: a worker that is about to end waits for no logon.
    pub(crate) fn report_logon(&mut self) {
        if self.connections.is_empty() {
            return;
        }
        let logons = self.connections.values().map(|it| it.progress.logon());
        let logon = logons.max().unwrap_or_default();
        if std::mem::replace(&mut self.globals.logon, logon) != logon {
            self.globals.outbox.notices.push_back(Notice::LogonChanged(logon));
        }
    }
}

fn has_user(connection: &Connection) -> bool {
    connection.progress.logon() == Logon::User
}

fn is_from(connection: &Connection, address: IpAddr) -> bool {
    connection.client.ip().to_canonical() == address.to_canonical()
}
