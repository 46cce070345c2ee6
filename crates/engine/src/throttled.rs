//! Requests that the [throttle](crate::throttle) delays, from their delay to their start or end.
//!
//! A request is throttled before its first operation of the store: it has passed all checks and has
//! changed nothing yet. Its client may get an interim response, which returns the credits, so that
//! other requests of the connection go on; within the budget of [`qos::gate`]. Requests that wait
//! for their turn at a busy storage keep their credits, which slows their client down.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use dtyp::NtStatus;
use model::account::Account;
use model::connection::{Connection, ConnectionId};
use model::logon::Logon;
use model::now::Now;
use model::open::Open;
use model::request_id::RequestId;
use model::session::Session;
use object::{ObjectOp, RootId};
use qos::{Admission, Classes, Cost, Kind, Membership, Slots};
use trace::Phase;
use wire::{Command, FileId};

use crate::effect::{Effect, Reply};
use crate::globals::Globals;
use crate::request::{Chain, Charged, InFlight, Incoming};
use crate::server::Server;
use crate::throttle::{Throttle, charged, copied_from, cost, range_cost};

impl Server {
    /// Gives the server the slots in which all workers count the use of classes.
    pub fn handle_slots(&mut self, slots: Box<dyn Slots>) {
        self.globals.throttle = Throttle::new(slots, self.globals.files.worker());
    }

    /// Determines the classes of each tree connect anew, by its user, the client's address, and the
    /// share's name and root.
    pub fn handle_classes(
        &mut self,
        mut of: impl FnMut(&Account, SocketAddr, &str, Option<RootId>) -> Membership,
    ) {
        for session in self.sessions.values_mut() {
            let Session { session_id, account, channels, tree_connects, .. } = session;
            let first = channels.first().map(|channel| channel.connection);
            let Some(connection) = first.and_then(|id| self.connections.get(&id)) else { continue };
            let Some(account) = account else { continue };
            for tree in tree_connects.values_mut() {
                let share = &tree.share;
                let classes = of(account, connection.client, &share.name, share.root);
                let classes = Arc::new(classes);
                for open in self.opens.values_mut() {
                    if (open.session_id, open.tree_id) == (*session_id, tree.tree_id) {
                        let path = open.file().map(|file| file.path.as_str()).unwrap_or_default();
                        open.classes = classes.of_path(path);
                    }
                }
                tree.classes = classes;
            }
        }
        self.globals.throttle.credits_change();
    }

    /// True if nothing more must be received on a connection: too many of the client's requests are
    /// throttled, or the rest of a compound waits there.
    #[must_use]
    pub fn must_stop_receiving(&self, connection: ConnectionId) -> bool {
        self.globals.throttle.must_stop() || self.has_postponed(Some(connection))
    }

    /// True if any request is throttled.
    #[must_use]
    pub fn is_throttling(&self) -> bool {
        !self.globals.throttle.is_empty()
    }

    /// Emits the effect of a request, or returns it if the request must be throttled.
    pub(crate) fn ask(
        &mut self,
        chain: &mut Chain,
        incoming: &mut Incoming,
        async_id: &mut Option<u64>,
        file_id: Option<FileId>,
        mut effect: Effect,
    ) -> Option<Box<Effect>> {
        if std::mem::replace(&mut incoming.is_admitted, true) {
            if copied_from(&effect).is_some() {
                return self.ask_to_copy(chain, incoming, async_id, file_id, effect);
            }
        } else if let Some((classes, cost)) = self.cost_of(chain, incoming, file_id, &effect) {
            incoming.charged = charged(&classes, &effect);
            let interim = self.wants_interim_response(incoming);
            let throttle = &mut self.globals.throttle;
            let admission = throttle.admit(incoming.now, incoming.id, &classes, cost);
            if admission != Admission::Begins {
                self.throttle(chain, incoming, async_id, interim && admission == Admission::Waits);
                chain.shrink(incoming, &mut effect);
                self.give_back_buffer(incoming.now, &mut effect);
                return Some(Box::new(effect));
            }
        }
        incoming.trace.wait(effect.phase());
        self.globals.outbox.effects.push_back((Some(incoming.id), effect));
        None
    }

    /// Begins the wait of a throttled request. Without an interim response it is throttled all the
    /// same, and keeps its credits.
    fn throttle(
        &mut self,
        chain: &mut Chain,
        incoming: &mut Incoming,
        async_id: &mut Option<u64>,
        interim: bool,
    ) {
        if interim && async_id.is_none() && chain.messages.is_empty() {
            let wanted = self.globals.credits_wanted(chain, &incoming.header);
            *async_id = self.go_async(chain, incoming, wanted).ok();
        }
        incoming.trace.wait(Phase::Throttled);
    }

    /// As [`Self::ask`], for each range that an admitted request copies.
    #[cold]
    fn ask_to_copy(
        &mut self,
        chain: &mut Chain,
        incoming: &mut Incoming,
        async_id: &mut Option<u64>,
        file_id: Option<FileId>,
        effect: Effect,
    ) -> Option<Box<Effect>> {
        let interim = self.wants_interim_response(incoming);
        let kept = incoming.message.len() + chain.messages.len();
        let now = incoming.now;
        let admission = self.admit_range(now, incoming, file_id, kept, &effect);
        if admission == Admission::Begins {
            incoming.trace.wait(effect.phase());
            self.globals.outbox.effects.push_back((Some(incoming.id), effect));
            return None;
        }
        self.throttle(chain, incoming, async_id, interim && admission == Admission::Waits);
        Some(Box::new(effect))
    }

    /// Admits a range that a request copies: a READ for the classes of the source, then a WRITE for
    /// those of the target. So it waits for one limit at a time, and holds no turn at a storage
    /// meanwhile.
    fn admit_range(
        &mut self,
        now: Now,
        incoming: &mut Incoming,
        file_id: Option<FileId>,
        kept: usize,
        effect: &Effect,
    ) -> Admission {
        let Some((source, length)) = copied_from(effect) else { return Admission::Begins };
        let id = incoming.id;
        let cost = |kind| range_cost(kind, length, kept);
        if !std::mem::replace(&mut incoming.is_range_read, true) {
            let is_source = |it: &&Open| it.file().is_ok_and(|file| file.local_open == source);
            let classes = self.opens.values().find(is_source).and_then(|it| it.classes.clone());
            if let Some(Classes { ids, .. }) = classes {
                let classes = Classes { ids, device: None };
                let admission = self.globals.throttle.admit(now, id, &classes, cost(Kind::Read));
                if admission != Admission::Begins {
                    return admission;
                }
            }
        }
        let target = file_id.and_then(|file_id| self.opens.get(&file_id.volatile));
        let admission = match target.and_then(|it| it.classes.clone()) {
            Some(classes) => self.globals.throttle.admit(now, id, &classes, cost(Kind::Write)),
            None => Admission::Begins,
        };
        // Once it is admitted or queued for the last time, the next one begins anew.
        incoming.is_range_read = false;
        admission
    }

    /// Returns the classes of a request, and its cost for their limits.
    fn cost_of(
        &self,
        chain: &Chain,
        incoming: &Incoming,
        file_id: Option<FileId>,
        effect: &Effect,
    ) -> Option<(Classes, Cost)> {
        let Effect::Object { op, .. } = effect else { return None };
        // A CLOSE is never throttled, because it frees resources.
        if incoming.header.command == Command::CLOSE {
            return None;
        }
        let open = file_id.and_then(|file_id| self.opens.get(&file_id.volatile));
        let classes = match open {
            Some(open) => open.classes.clone(),
            None => {
                let session = self.sessions.get(&incoming.header.session_id)?;
                session.tree_connects.get(&incoming.header.tree_id)?.classes.always.clone()
            }
        }?;
        Some((classes, cost(op, incoming.message.len() + chain.messages.len())))
    }

    /// Returns the part of a READ's charge that exceeds its data.
    pub(crate) fn give_back_unread(&mut self, now: Now, charged: Charged, reply: &Reply) {
        if self.globals.throttle.give_back_unread(now, charged, reply) {
            self.release(now);
        }
    }

    /// Returns the limit of a connection's credits beside its own maximum.
    #[inline]
    pub(crate) fn credits_limit(&mut self, now: Now) -> Option<u32> {
        if self.globals.throttle.must_check_credits(now) {
            self.update_credits(now);
        }
        let Globals { throttle, settings, storage_load, memory, .. } = &self.globals;
        let of_throttle = throttle.credits_limit(now, settings);
        let of_storage = storage_load.credits(memory.in_transit_max());
        [of_throttle, of_storage].into_iter().flatten().min()
    }

    /// Computes the limit of credits anew. Classes of all of the client's tree connects count, over
    /// whichever connection they were made; of connections only those with a session, because
    /// others may be strangers'.
    #[cold]
    fn update_credits(&mut self, now: Now) {
        let trees = self.sessions.values().flat_map(|it| it.tree_connects.values());
        let classes = trees.flat_map(|tree| tree.classes.of_client.iter().copied());
        let has_session = |it: &&Connection| it.progress.logon() != Logon::Nobody;
        let connections = self.connections.values().filter(has_session).count();
        let Globals { throttle, settings, storage_load, .. } = &mut self.globals;
        storage_load.set_connections(connections);
        throttle.update_credits(now, settings, classes, connections);
    }

    fn wants_interim_response(&self, incoming: &Incoming) -> bool {
        let session = self.sessions.get(&incoming.header.session_id);
        let tree = session.and_then(|it| it.tree_connects.get(&incoming.header.tree_id));
        let interim_responses = tree.map(|tree| tree.classes.interim_responses).unwrap_or_default();
        self.globals.throttle.wants_interim_response(interim_responses)
    }

    /// Begins the throttled requests that may.
    pub(crate) fn release(&mut self, now: Now) {
        while let Some(id) = self.globals.throttle.release(now) {
            self.begin_throttled(now, id);
        }
    }

    /// Ends the throttled requests of a closed open at once.
    pub(crate) fn end_throttled_on(&mut self, now: Now, volatile: u64) {
        if !self.globals.throttle.is_empty() {
            self.end_throttled(now, self.in_flight.throttled_on(volatile));
        }
    }

    /// Ends the throttled requests of ended tree connects, as [`Self::end_throttled_on`]. They must
    /// not reach the store: their root may belong to another share by then.
    pub(crate) fn end_throttled_without_tree(&mut self, now: Now) {
        if self.globals.throttle.is_empty() {
            return;
        }
        let ids = self.in_flight.throttled(|it| {
            let header = &it.incoming.header;
            let session = self.sessions.get(&header.session_id);
            !session.is_some_and(|it| it.tree_connects.contains_key(&header.tree_id))
        });
        self.end_throttled(now, ids);
    }

    /// Ends throttled requests as if the store had refused them.
    fn end_throttled(&mut self, now: Now, ids: Vec<RequestId>) {
        for id in ids {
            self.globals.throttle.forget(now, id);
            let Some(waiting) = self.in_flight.get_mut(id) else { continue };
            // Nothing was changed, and the charge was returned.
            (waiting.throttled, waiting.changed, waiting.incoming.charged) = (None, None, None);
            self.resume_request(now, id, Reply::Object(Err(NtStatus::FILE_CLOSED)));
        }
    }

    /// Begins the requests whose turn it is, and notifies other workers of the turns of theirs.
    pub(crate) fn notify_turns(&mut self, now: Now) {
        let own = self.globals.files.worker();
        while let Some(worker) = self.globals.throttle.poll_turn() {
            if worker == own {
                self.release(now);
            } else {
                self.globals.outbox.effects.push_back((None, Effect::NotifyTurn { worker }));
            }
        }
    }

    fn begin_throttled(&mut self, now: Now, id: RequestId) {
        let Some(waiting) = self.in_flight.get_mut(id) else { return };
        let Some(mut effect) = waiting.throttled.take() else { return };
        if waiting.incoming.is_range_read {
            return self.go_on_to_copy(now, id, effect);
        }
        waiting.incoming.trace.wait(effect.phase());
        if let Effect::Object { op: ObjectOp::Read { length, buffer, .. }, .. } = &mut *effect {
            let length = usize::try_from(*length).expect("32 bits fit memory");
            let head = buffer.split();
            *buffer = self.globals.buffers.take(head.len() + length, now.monotonic);
            buffer.extend_from_slice(&head);
        }
        self.globals.outbox.effects.push_back((Some(id), *effect));
    }

    /// Begins to copy a range that the limits of the source permit by now, or throttles it for
    /// those of the target.
    #[cold]
    fn go_on_to_copy(&mut self, now: Now, id: RequestId, effect: Box<Effect>) {
        let Some(mut waiting) = self.in_flight.remove(id) else { return };
        let InFlight { incoming, chain, file_id, .. } = &mut waiting;
        let kept = incoming.message.len() + chain.messages.len();
        match self.admit_range(now, incoming, *file_id, kept, &effect) {
            Admission::Begins => {
                incoming.trace.wait(effect.phase());
                self.globals.outbox.effects.push_back((Some(id), *effect));
            }
            Admission::Waits | Admission::WaitsForTurn => waiting.throttled = Some(effect),
        }
        self.in_flight.insert(waiting);
    }

    /// Returns the buffer of a throttled READ, which needs it only when it begins.
    fn give_back_buffer(&mut self, now: Now, effect: &mut Effect) {
        if let Effect::Object { op: ObjectOp::Read { buffer, .. }, .. } = effect {
            let head = BytesMut::from(&buffer[..]);
            self.globals.buffers.give(std::mem::replace(buffer, head), now.monotonic);
        }
    }
}
