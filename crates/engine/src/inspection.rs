//! Access to the state of a server, for the tests of commands.

use model::connection::{Connection, ConnectionId};
use model::open::Open;
use model::session::Session;
use rustc_hash::FxHashMap;

use crate::globals::Globals;
use crate::in_flight::RequestsInFlight;
use crate::server::Server;

/// Everything that a server has, apart from its counters.
#[derive(Debug)]
pub struct Inspection<'s> {
    /// `Server.ConnectionList`.
    pub connections: &'s mut FxHashMap<ConnectionId, Connection>,
    /// `Server.GlobalSessionTable`.
    pub sessions: &'s mut FxHashMap<u64, Session>,
    /// `Server.GlobalOpenTable`, by volatile id.
    pub opens: &'s mut FxHashMap<u64, Open>,
    /// Requests of the worker that wait.
    pub in_flight: &'s mut RequestsInFlight,
    /// Settings, file records, limits, and queues of work.
    pub globals: &'s mut Globals,
}

impl Server {
    /// Returns all state, to be set up without requests, and to be looked at after them.
    pub fn inspect(&mut self) -> Inspection<'_> {
        let Self { connections, sessions, opens, in_flight, globals, .. } = self;
        Inspection { connections, sessions, opens, in_flight, globals }
    }
}
