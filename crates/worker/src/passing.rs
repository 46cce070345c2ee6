//! One worker for all connections of a client: connections to another worker are handed over.
//!
//! The clients table records the worker of each client, and one record's lock makes two first
//! connections of a client at the same moment choose the same worker.
//! [`messaging::OfferConnection`] describes the protocol of a handover, in which no two processes
//! ever use one connection and none loses it.

mod handover;
pub(super) mod queue;

use mistake::{Mistake, is_made};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use bytes::BytesMut;
use dtyp::{Guid, ServerId};
use messaging::{
    AnswerOffer, Content, Message, MessageKind, OfferConnection, SendError, SettleOffer,
};
use process::clocks::wall_clock;
use proto::Reply;
use proto::server::Passed;
use tables::{Claim, ClientRecord};
use tracing::{debug, warn};

use super::connection::Transport;
use super::event_loop::Worker;
use handover::{Answered, Offered};
use queue::{CONNECTIONS_MAX, Received, UnplacedConnection};

/// Highest number of workers to offer a connection to, one after the other.
const OFFERS_MAX: u32 = 3;

impl Worker {
    /// Serves a client's connection here, or hands it over to the worker that serves the client.
    pub(super) fn claim_client(&mut self, newcomer: UnplacedConnection) {
        self.find_worker(newcomer, OFFERS_MAX, None);
    }

    /// Claims the client, or offers the connection to the worker that has claimed it.
    fn find_worker(
        &mut self,
        newcomer: UnplacedConnection,
        offers_left: u32,
        gone: Option<ServerId>,
    ) {
        self.store.revert_to_server();
        let mut gone = gone;
        for left in (0..=offers_left).rev() {
            let addresses =
                self.transports.get(&newcomer.connection).and_then(|it| it.addresses().ok());
            let record = self.claim_record(newcomer.client_guid, addresses);
            let other = match self.registry.claim_client(&record, gone) {
                Ok(Claim::Of(other)) if left > 0 => other,
                Ok(Claim::Of(_)) => break,
                Ok(Claim::Ours) => {
                    self.notices.claimed(newcomer.client_guid);
                    break;
                }
                Err(error) => {
                    warn!("whose client this is cannot be found out: {error}");
                    break;
                }
            };
            match self.offer(&newcomer, other, left - 1) {
                Ok(()) => return,
                Err(SendError::NoSuchProcess) => gone = Some(other),
                Err(error) => {
                    debug!("connection {} stays here: {error}", newcomer.connection.0);
                    break;
                }
            }
        }
        self.keep(newcomer);
    }

    /// Serves the connection here, and resumes its NEGOTIATE.
    fn keep(&mut self, newcomer: UnplacedConnection) {
        if let Some(transport) = self.transports.get_mut(&newcomer.connection) {
            transport.is_in_handover = false;
        }
        self.answer(Some(newcomer.request), Reply::ClientClaimed);
    }

    fn claim_record(
        &self,
        client_guid: Guid,
        addresses: Option<(SocketAddr, SocketAddr)>,
    ) -> ClientRecord {
        let (client, server) =
            addresses.map_or_else(Default::default, |(a, b)| (a.to_string(), b.to_string()));
        ClientRecord {
            server_id: self.registry.server_id(),
            client_guid,
            is_claim: true,
            has_user: false,
            client_address: client,
            local_address: server,
            // The other fields are set after NEGOTIATE.
            dialect: 0,
            connected_at: wall_clock(),
            signing_algorithm: None,
            signing_required: false,
            cipher: None,
        }
    }

    fn offer(
        &mut self,
        newcomer: &UnplacedConnection,
        to: ServerId,
        offers_left: u32,
    ) -> Result<(), SendError> {
        let Some(transport) = self.transports.get_mut(&newcomer.connection) else {
            return Err(SendError::NoSuchProcess);
        };
        // Data received already cannot be put back. A client waits for the response to NEGOTIATE
        // before it sends more; the connection of any other is served here.
        if transport.has_received() || transport.is_busy() {
            return Err(SendError::Full);
        }
        let offer = OfferConnection {
            offer_id: self.passing.next_offer_id(),
            client_guid: newcomer.client_guid,
            after_smb1: newcomer.after_smb1,
            negotiate: newcomer.negotiate.to_vec(),
        };
        let now = Instant::now();
        let content = Content {
            kind: MessageKind::OFFER_CONNECTION,
            data: &offer.encode(),
            descriptors: &[transport.descriptor()],
        };
        self.messaging.send(now, to, &content)?;
        if is_made(Mistake::PassesUnasked) {
            self.server.handle_passed_on(newcomer.connection);
            self.transports.remove(&newcomer.connection);
            return Ok(());
        }
        transport.is_in_handover = true;
        debug!("connection {} is offered to worker {}", newcomer.connection.0, to.pid);
        self.passing.offered(now, (to, offer.offer_id), newcomer.clone(), offers_left);
        Ok(())
    }

    /// Handles a message about a handover; returns other messages.
    pub(super) fn read_passing(&mut self, message: Message) -> Option<Message> {
        let sender = message.sender;
        match message.kind {
            MessageKind::OFFER_CONNECTION => self.take_offer(message),
            MessageKind::ANSWER_OFFER => {
                if let Some(answer) = AnswerOffer::decode(&message.data) {
                    self.take_answer(sender, answer);
                }
            }
            MessageKind::SETTLE_OFFER => {
                let settled = SettleOffer::decode(&message.data)?;
                match self.passing.settled(sender, settled.offer_id, settled.yours) {
                    Some(received) => self.adopt(sender, received),
                    None => debug!("worker {} serves a connection itself", sender.pid),
                }
            }
            _ => return Some(message),
        }
        None
    }

    /// Accepts or refuses another worker's offer.
    fn take_offer(&mut self, message: Message) {
        let Message { sender, data, mut descriptors, .. } = message;
        let Some(offer) = OfferConnection::decode(&data) else { return };
        let Some(socket) = descriptors.pop().filter(|_| descriptors.is_empty()) else { return };
        let socket = TcpStream::from(socket);
        if is_made(Mistake::PassesUnasked) {
            return self.adopt(sender, Received { socket, offer });
        }
        let accepted = self.deadline().is_none()
            && self.notices.claims(offer.client_guid)
            && self.has_place(&socket);
        let offer_id = offer.offer_id;
        let data = AnswerOffer { offer_id, accepted }.encode();
        let content = Content::new(MessageKind::ANSWER_OFFER, &data);
        let now = Instant::now();
        if let Err(error) = self.messaging.send(now, sender, &content) {
            debug!("worker {} offered a connection and is gone: {error}", sender.pid);
        } else if accepted {
            let received = Received { socket, offer };
            self.passing.accept(now, sender, offer_id, received);
        }
    }

    /// True if one more connection can be served here, if necessary in place of another.
    fn has_place(&mut self, socket: &TcpStream) -> bool {
        let Ok(client) = socket.peer_addr() else { return false };
        let (now, coming) = (self.now(), self.passing.accepted());
        self.server.handle_offered_connection(now, client.ip(), coming)
            && (self.transports.len() + coming < CONNECTIONS_MAX
                || self.server.handle_connection_limit(now))
    }

    /// Handles a worker's answer to an offer.
    fn take_answer(&mut self, sender: ServerId, answer: AnswerOffer) {
        let answered =
            self.passing.answered(Instant::now(), (sender, answer.offer_id), answer.accepted);
        let Offered { newcomer, offers_left, .. } = match answered {
            Answered::Give(offered) => offered,
            // The other worker is about to end, or has too many connections.
            Answered::Refused(Offered { newcomer, offers_left, .. }) => {
                return self.find_worker(newcomer, offers_left.min(1), None);
            }
            Answered::TooLate(offered) => {
                let _ = self.settle(sender, answer.offer_id, false);
                // Otherwise the connection is served here already.
                if let Some(Offered { newcomer, offers_left, .. }) = offered {
                    self.find_worker(newcomer, offers_left, Some(sender));
                }
                return;
            }
        };
        match self.settle(sender, answer.offer_id, true) {
            Ok(()) => {
                debug!("connection {} is passed to worker {}", newcomer.connection.0, sender.pid);
                self.server.handle_passed_on(newcomer.connection);
                // Closed, not shut down: the other worker has it.
                self.transports.remove(&newcomer.connection);
            }
            Err(_) => self.find_worker(newcomer, offers_left, Some(sender)),
        }
    }

    fn settle(&mut self, with: ServerId, offer_id: u64, yours: bool) -> Result<(), SendError> {
        let data = SettleOffer { offer_id, yours }.encode();
        let content = Content::new(MessageKind::SETTLE_OFFER, &data);
        self.messaging.send(Instant::now(), with, &content)
    }

    /// Takes a connection over from another worker.
    fn adopt(&mut self, from: ServerId, received: Received) {
        let Received { socket, offer } = received;
        let transport = Transport::new(socket, self.server.memory());
        let (client, server) = match transport.addresses() {
            Ok(addresses) => addresses,
            Err(error) => return debug!("a passed connection was gone at once: {error}"),
        };
        if !self.notices.claims(offer.client_guid) {
            // The client's last other connection has ended since the offer was accepted.
            let record = self.claim_record(offer.client_guid, Some((client, server)));
            if self.registry.claim_client(&record, None) == Ok(Claim::Ours) {
                self.notices.claimed(offer.client_guid);
            }
        }
        let message = BytesMut::from(&offer.negotiate[..]);
        let passed = Passed { client, server, message, after_smb1: offer.after_smb1 };
        let now = self.now();
        let id = self.server.handle_passed_connection(now, passed);
        debug!("{client} was passed here by worker {}", from.pid);
        self.transports.insert(id, transport);
        self.serve_effects();
        self.receive(id);
    }

    /// Handles all that is due: see `Handover::next_timeout`.
    pub(super) fn serve_passing_timeouts(&mut self, now: Instant) {
        if self.passing.next_timeout().is_none_or(|at| at > now) {
            return;
        }
        self.store.revert_to_server();
        if self.passing.must_check_senders(now) {
            // If the members are unknown, all are assumed to live.
            let living = self.messaging.members().ok();
            // Messages of the dead, sent before they died, are handled first.
            self.take_messages();
            let is_alive = |it| living.as_ref().is_none_or(|living| living.contains(&it));
            self.passing.forget_dead(now, is_alive);
        }
        let registry = &self.registry;
        let due = self.passing.take_due(now, |to, newcomer| {
            registry.find_claim(newcomer.client_guid).is_ok_and(|it| it == Some(to))
        });
        for Offered { offer_id, to, newcomer, offers_left, .. } in due {
            debug!("worker {} does not answer", to.pid);
            let _ = self.settle(to, offer_id, false);
            self.find_worker(newcomer, offers_left, Some(to));
        }
        self.serve_effects();
    }

    /// Releases the clients when this worker ends, so that their next connections find another one,
    /// and refuses pending offers.
    pub(super) fn release_clients(&mut self) {
        self.store.revert_to_server();
        self.notices.release_all(&self.registry);
        while let Some(message) = self.messaging.poll(Instant::now()) {
            let _ = self.read_passing(message);
        }
    }
}
