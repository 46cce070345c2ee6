//! Requests in flight: those that wait for a reply or a wake-up.

use model::connection::ConnectionId;
use model::request_id::RequestId;
use rustc_hash::FxHashMap;
use wire::Command;

use crate::pending_command::PendingCommand;
use crate::request::{InFlight, Incoming};

/// All requests of a worker that wait, by their ids.
#[derive(Debug, Default)]
pub struct RequestsInFlight {
    by_id: FxHashMap<RequestId, InFlight>,
}

impl RequestsInFlight {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(crate) fn contains(&self, id: RequestId) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(crate) fn get(&self, id: RequestId) -> Option<&InFlight> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut InFlight> {
        self.by_id.get_mut(&id)
    }

    pub(crate) fn insert(&mut self, waiting: InFlight) {
        self.by_id.insert(waiting.incoming.id, waiting);
    }

    pub(crate) fn remove(&mut self, id: RequestId) -> Option<InFlight> {
        self.by_id.remove(&id)
    }

    /// Drops the requests whose responses were for this connection.
    pub(crate) fn forget_connection(&mut self, connection: ConnectionId) {
        self.by_id.retain(|_, waiting| waiting.chain.connection != connection);
    }

    /// Returns the states of the pending requests of one command.
    pub fn pending<P: PendingCommand>(&self) -> impl Iterator<Item = &P> {
        self.by_id.values().filter_map(|it| it.pending.downcast_ref())
    }

    /// Returns whether a request is under way that uses an open, other than a CLOSE. A suspended
    /// request may wait forever, and a throttled one has not begun: both resume once the open is
    /// gone.
    #[must_use]
    pub fn is_used(&self, volatile: u64) -> bool {
        let is_under_way = |it: &InFlight| {
            !it.is_suspended
                && it.held.is_none()
                && it.incoming.header.command != Command::CLOSE
                && it.is_on(volatile)
        };
        self.by_id.values().any(is_under_way)
    }

    /// Returns the requests suspended on an open, in the order of their arrival.
    pub(crate) fn suspended_on(&self, volatile: u64) -> Vec<RequestId> {
        self.sorted(|it| it.is_suspended && it.is_on(volatile))
    }

    /// Returns throttled requests in the order of their arrival.
    pub(crate) fn held(&self, is_meant: impl Fn(&InFlight) -> bool) -> Vec<RequestId> {
        self.sorted(|it| it.held.is_some() && is_meant(it))
    }

    /// Returns the throttled requests of an open, in the order of their arrival.
    pub(crate) fn held_on(&self, volatile: u64) -> Vec<RequestId> {
        self.held(|it| it.is_on(volatile))
    }

    /// Returns the requests that end with a lost connection.
    pub(crate) fn ending_with(&self, connection: ConnectionId) -> Vec<RequestId> {
        let ends = |it: &InFlight| {
            it.chain.connection == connection && it.pending.ends_with_connection(it.is_suspended)
        };
        self.by_id.iter().filter(|(_, it)| ends(it)).map(|(id, _)| *id).collect()
    }

    /// Returns the request that a CANCEL ends.
    pub(crate) fn canceled_by(&self, cancel: &Incoming) -> Option<RequestId> {
        let header = &cancel.header;
        // [MS-SMB2] 3.2.4.24: CANCEL names the session of its request, whose key signs it.
        let mut of_connection = self.by_id.iter().filter(|(_, waiting)| {
            waiting.may_be_canceled()
                && waiting.chain.connection == cancel.connection
                && waiting.incoming.header.session_id == header.session_id
        });
        let found = match header.async_id {
            Some(async_id) => of_connection.find(|(_, waiting)| waiting.async_id == Some(async_id)),
            None => of_connection
                .find(|(_, waiting)| waiting.incoming.header.message_id == header.message_id),
        };
        found.map(|(id, _)| *id)
    }

    /// Returns the other requests that are the same to their client as this one.
    pub(crate) fn same_as(&self, id: RequestId) -> Vec<RequestId> {
        let Some(one) = self.get(id).map(|it| &*it.pending) else { return Vec::new() };
        let others = self.by_id.iter().filter(|(other, _)| **other != id);
        others.filter(|(_, it)| one.is_same(&*it.pending)).map(|(id, _)| *id).collect()
    }

    /// Takes the message of a request out of the engine, and drops the request.
    #[cfg(feature = "inspection")]
    pub fn take_message(&mut self) -> Option<bytes::Bytes> {
        let (_, waiting) = self.by_id.drain().next()?;
        Some(waiting.incoming.message)
    }

    fn sorted(&self, is_meant: impl Fn(&InFlight) -> bool) -> Vec<RequestId> {
        let meant = self.by_id.iter().filter(|(_, it)| is_meant(it));
        let mut ids: Vec<RequestId> = meant.map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }
}
