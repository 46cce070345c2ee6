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
                && it.throttled.is_none()
                && it.incoming.header.command != Command::CLOSE
                && it.is_on(volatile)
        };
        self.by_id.values().any(is_under_way)
    }

    /// Returns the requests suspended on an open, in the order of their arrival.
    pub(crate) fn suspended_on(&self, volatile: u64) -> Vec<RequestId> {
        self.sorted(|it| it.is_suspended && it.is_on(volatile))
    }

    /// Returns the CLOSEs that wait for other requests of their open, in the order they arrived.
    pub(crate) fn closes_of(&self, volatile: u64) -> Vec<RequestId> {
        let is_close = |it: &InFlight| it.incoming.header.command == Command::CLOSE;
        self.sorted(|it| it.is_suspended && is_close(it) && it.is_on(volatile))
    }

    /// Returns throttled requests in the order of their arrival.
    pub(crate) fn throttled(&self, is_meant: impl Fn(&InFlight) -> bool) -> Vec<RequestId> {
        self.sorted(|it| it.throttled.is_some() && is_meant(it))
    }

    /// Returns the throttled requests of an open, in the order of their arrival.
    pub(crate) fn throttled_on(&self, volatile: u64) -> Vec<RequestId> {
        self.throttled(|it| it.is_on(volatile))
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

#[cfg(test)]
mod tests {
    use model::memory_account::MemoryAccount;
    use wire::{FileId, Header};

    use super::*;
    use crate::effect::{Effect, Reply};
    use crate::pending_command::Abandoned;
    use crate::request::Chain;

    const CONNECTION: ConnectionId = ConnectionId(3);
    const SESSION: u64 = 9;

    /// State of a command whose requests are the same if their names are.
    #[derive(Debug)]
    struct Named(&'static str);

    impl PendingCommand for Named {
        fn ends_with_connection(&self, is_suspended: bool) -> bool {
            is_suspended
        }

        fn is_same(&self, other: &dyn PendingCommand) -> bool {
            other.downcast_ref::<Self>().is_some_and(|it| it.0 == self.0)
        }

        fn abandon(self: Box<Self>, _: Option<Reply>) -> Abandoned {
            unreachable!("nothing here ends a request")
        }
    }

    /// A LOCK on the open 5, which waits for the store. Its MessageId is ten times its id.
    fn request(id: u64) -> InFlight {
        let chain = Chain { connection: CONNECTION, ..Chain::default() };
        let header = Header {
            command: Command::LOCK,
            message_id: 10 * id,
            session_id: SESSION,
            ..Header::default()
        };
        let (id, connection) = (RequestId(id), CONNECTION);
        let incoming = Incoming { id, connection, header, ..Incoming::default() };
        InFlight {
            incoming: Box::new(incoming),
            pending: Box::new(Named("a")),
            chain: Box::new(chain),
            file_id: Some(FileId { persistent: 5, volatile: 5 }),
            async_id: None,
            is_suspended: false,
            throttled: None,
            _memory: MemoryAccount::new(0).pass(0),
            changed: None,
        }
    }

    fn suspended(id: u64) -> InFlight {
        InFlight { is_suspended: true, async_id: Some(id), ..request(id) }
    }

    fn throttled(id: u64) -> InFlight {
        let effect = Effect::Sleep(std::time::Duration::ZERO);
        InFlight { throttled: Some(Box::new(effect)), ..request(id) }
    }

    fn of(command: Command, mut waiting: InFlight) -> InFlight {
        waiting.incoming.header.command = command;
        waiting
    }

    fn table(waiting: impl IntoIterator<Item = InFlight>) -> RequestsInFlight {
        let mut requests = RequestsInFlight::default();
        waiting.into_iter().for_each(|it| requests.insert(it));
        requests
    }

    fn cancel(header: Header) -> Incoming {
        Incoming { id: RequestId(99), connection: CONNECTION, header, ..Incoming::default() }
    }

    #[test]
    fn only_a_request_that_is_under_way_uses_its_open() {
        assert!(table([request(1)]).is_used(5));
        assert!(!table([request(1)]).is_used(6), "it names another open");
        assert!(!table([suspended(1)]).is_used(5));
        assert!(!table([throttled(1)]).is_used(5));
        assert!(!table([of(Command::CLOSE, request(1))]).is_used(5));
    }

    #[test]
    fn requests_of_an_open_come_in_the_order_of_their_arrival() {
        let other = InFlight { file_id: None, ..suspended(9) };
        let mut waiting = vec![other, request(8), throttled(7), throttled(6)];
        waiting.extend([5, 1, 4, 2, 3].map(suspended));
        let requests = table(waiting);
        assert_eq!(requests.suspended_on(5), [1, 2, 3, 4, 5].map(RequestId));
        assert_eq!(requests.throttled_on(5), [6, 7].map(RequestId));
    }

    #[test]
    fn the_end_of_a_request_concerns_the_closes_of_its_open_alone() {
        let close = |id| of(Command::CLOSE, suspended(id));
        let elsewhere = InFlight { file_id: None, ..close(5) };
        let under_way = of(Command::CLOSE, request(4));
        let requests = table([close(3), suspended(2), close(1), under_way, elsewhere]);
        assert_eq!(requests.closes_of(5), [1, 3].map(RequestId));
    }

    #[test]
    fn a_cancel_names_its_request_by_either_id() {
        let requests = table([suspended(1), throttled(2), request(3)]);
        let named = |header| requests.canceled_by(&cancel(header));
        let header = Header { session_id: SESSION, ..Header::default() };
        assert_eq!(named(Header { async_id: Some(1), ..header }), Some(RequestId(1)));
        assert_eq!(named(Header { message_id: 10, ..header }), Some(RequestId(1)));
        assert_eq!(named(Header { message_id: 20, ..header }), Some(RequestId(2)));
        assert_eq!(named(Header { message_id: 30, ..header }), None, "the store has begun");
        assert_eq!(named(Header { async_id: Some(2), ..header }), None);
    }

    #[test]
    fn a_cancel_ends_requests_of_its_own_session_and_connection_only() {
        let requests = table([suspended(1), of(Command::CLOSE, suspended(2))]);
        let header = Header { session_id: SESSION, message_id: 10, ..Header::default() };
        let session = cancel(Header { session_id: 8, ..header });
        assert_eq!(requests.canceled_by(&session), None);
        let connection = Incoming { connection: ConnectionId(4), ..cancel(header) };
        assert_eq!(requests.canceled_by(&connection), None);
        let close = cancel(Header { message_id: 20, ..header });
        assert_eq!(requests.canceled_by(&close), None, "its open would stay behind");
    }

    #[test]
    fn a_request_sent_twice_is_the_same_to_its_client() {
        let other = InFlight { pending: Box::new(Named("b")), ..suspended(3) };
        let requests = table([suspended(1), suspended(2), other]);
        assert_eq!(requests.same_as(RequestId(1)), [RequestId(2)]);
        assert_eq!(requests.same_as(RequestId(3)), []);
        assert_eq!(requests.same_as(RequestId(4)), [], "there is none");
        assert_eq!(requests.pending::<Named>().filter(|it| it.0 == "b").count(), 1);
    }

    #[test]
    fn a_lost_connection_ends_only_requests_that_wait_for_an_event() {
        let mut requests = table([suspended(1), request(2)]);
        assert_eq!(requests.ending_with(CONNECTION), [RequestId(1)]);
        assert_eq!(requests.ending_with(ConnectionId(4)), []);
        requests.forget_connection(CONNECTION);
        assert!(requests.is_empty());
    }
}
