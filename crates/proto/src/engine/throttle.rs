//! Holding requests that are over a limit of their classes, or wait for their turn at the storage.
//!
//! A request is held when it is about to ask the store for the first time: it has passed all checks
//! and has done nothing yet. Whoever sent it may be told by an interim response, which gives it its
//! credits back, so that the rest of the connection moves on; within the budget of [`qos::gate`].
//! Who waits for a turn at a busy storage keeps them: that is how the client hears that it is busy.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use dtyp::NtStatus;
use object::{ObjectOp, Piped, RootId};
use qos::class::InterimResponses;
use qos::controller::ONE;
use qos::{Admission, Classes, Cost, Gate, Kind, Membership, Slots, credits};
use trace::Phase;
use wire::{Command, FileId};

use crate::engine::effect::{Effect, Reply};
use crate::engine::request::{Chain, Charged, InFlight, Incoming};
use crate::engine::server::Server;
use crate::model::account::Account;
use crate::model::now::Now;
use crate::model::request_id::RequestId;
use crate::model::session::Session;

/// The time of the gate's slots, which all workers agree on.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("five centuries fit")
}

/// What a READ is charged for.
fn charged(classes: &Classes, effect: &Effect) -> Option<Charged> {
    let Effect::Object { op: ObjectOp::Read { length, buffer, .. }, .. } = effect else {
        return None;
    };
    let is_counted = !classes.ids.is_empty();
    is_counted.then(|| Charged { classes: classes.clone(), length: *length, room: buffer.len() })
}

impl Server {
    /// Gives the server the slots in which all workers count what classes have.
    pub fn handle_slots(&mut self, slots: Box<dyn Slots>) {
        self.globals.gate = Gate::new(slots, self.globals.files.server());
    }

    /// The classes have changed: asks anew which are those of each tree connect, by its user, where
    /// the client is, and the share's name and root.
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
                        open.classes = classes.of_file(path);
                    }
                }
                tree.classes = classes;
            }
        }
    }

    /// Whether the client has so much waiting that nothing more is to be received from it.
    #[must_use]
    pub fn holds_too_much(&self) -> bool {
        self.globals.gate.must_stop()
    }

    /// Whether requests are held.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        !self.globals.gate.is_empty()
    }

    /// Has the world do what a request asks of it, or holds that back: then it is returned.
    pub(crate) fn ask(
        &mut self,
        chain: &mut Chain,
        incoming: &mut Incoming,
        async_id: &mut Option<u64>,
        file_id: Option<FileId>,
        mut effect: Effect,
    ) -> Option<Box<Effect>> {
        if !std::mem::replace(&mut incoming.is_admitted, true)
            && let Some((classes, cost)) = self.cost_of(chain, incoming, file_id, &effect)
        {
            let now = nanoseconds(incoming.now.monotonic);
            incoming.charged = charged(&classes, &effect);
            let interim = self.wants_interim_response(incoming);
            let admission = self.globals.gate.admit(now, &classes, cost, incoming.id);
            if admission != Admission::Begins {
                let interim = interim && admission == Admission::Waits;
                if interim && async_id.is_none() && chain.messages.is_empty() {
                    // Without one it waits all the same, and keeps its credits.
                    *async_id = self.go_async(chain, incoming).ok();
                }
                incoming.trace.wait(Phase::Held);
                chain.hold(incoming, &mut effect);
                self.give_back_buffer(incoming.now, &mut effect);
                return Some(Box::new(effect));
            }
        }
        incoming.trace.wait(effect.phase());
        self.globals.outbox.effects.push_back((Some(incoming.id), effect));
        None
    }

    /// The classes of a request, and what it takes of their limits.
    fn cost_of(
        &self,
        chain: &Chain,
        incoming: &Incoming,
        file_id: Option<FileId>,
        effect: &Effect,
    ) -> Option<(Classes, Cost)> {
        let Effect::Object { op, .. } = effect else { return None };
        // What gives things back must not be kept waiting.
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
        let count = |length: usize| u64::try_from(length).expect("64 bits are enough");
        let behind = match op {
            ObjectOp::Write { piped, .. } => piped.as_ref().map_or(0, Piped::length),
            _ => 0,
        };
        let (kind, bytes) = match op {
            ObjectOp::Read { length, .. } => (Kind::Read, u64::from(*length)),
            ObjectOp::Write { data, .. } => (Kind::Write, count(data.len() + behind)),
            _ => (Kind::Metadata, 0),
        };
        let kept = count(incoming.message.len() + behind + chain.messages.len());
        Some((classes, Cost { kind, bytes, kept }))
    }

    /// Gives back what a READ was charged for and did not bring.
    pub(crate) fn give_back_unread(&mut self, now: Now, charged: Charged, reply: &Reply) {
        let Charged { classes, length, room } = charged;
        let read = match reply {
            Reply::Object(Ok(reply)) => reply.bytes_read(room),
            _ => 0,
        };
        let read = u64::try_from(read).expect("64 bits are enough");
        let unread = u64::from(length).saturating_sub(read);
        let now_ns = nanoseconds(now.monotonic);
        if unread > 0 && self.globals.gate.give_back(now_ns, &classes, unread) {
            self.release(now);
        }
    }

    /// What a connection may hold of credits, beside its own maximum: nothing more while its client
    /// has too much waiting, and less while storage is saturated.
    pub(crate) fn credits_limit(&self, now: Now) -> Option<u32> {
        let gate = &self.globals.gate;
        if gate.is_full() {
            return Some(0);
        }
        let settings = &self.globals.settings;
        let connections = u32::try_from(self.connections.len()).unwrap_or(u32::MAX);
        let total = settings.credits_total;
        let part = (total > 0).then(|| credits::part(total, gate.clients(), connections));
        match gate.credits(nanoseconds(now.monotonic)) {
            ONE => part,
            parts => Some(credits::lowered(part.unwrap_or(settings.credits_max), parts)),
        }
    }

    fn wants_interim_response(&self, incoming: &Incoming) -> bool {
        let session = self.sessions.get(&incoming.header.session_id);
        let tree = session.and_then(|it| it.tree_connects.get(&incoming.header.tree_id));
        match tree.map(|tree| tree.classes.interim_responses).unwrap_or_default() {
            InterimResponses::Auto => self.globals.gate.has_much_room(),
            InterimResponses::No => false,
            InterimResponses::Yes => true,
        }
    }

    /// When the next request that is held may begin.
    pub(crate) fn next_release(&self) -> Option<Duration> {
        self.globals.gate.next_timeout().map(Duration::from_nanos)
    }

    /// Lets those begin that may.
    pub(crate) fn release(&mut self, now: Now) {
        while let Some(id) = self.globals.gate.release(nanoseconds(now.monotonic)) {
            self.begin_held(now, id);
        }
    }

    /// A request that is held is not to be held any more: it was cancelled, or what it is about is
    /// gone. Whether it was.
    pub(crate) fn forget_held(&mut self, now: Now, id: RequestId) -> bool {
        self.globals.gate.forget(nanoseconds(now.monotonic), id)
    }

    /// What is held for an open that was closed ends at once: nobody waits any longer.
    pub(crate) fn end_held_on(&mut self, now: Now, volatile: u64) {
        self.end_held(now, |_, it| it.file_id.is_some_and(|id| id.volatile == volatile));
    }

    /// As [`Self::end_held_on`], for what is held in tree connects that are gone. It must not reach
    /// the store: the root that it names may be another share's by then.
    pub(crate) fn end_held_without_tree(&mut self, now: Now) {
        self.end_held(now, |server, it| {
            let header = &it.incoming.header;
            let session = server.sessions.get(&header.session_id);
            !session.is_some_and(|it| it.tree_connects.contains_key(&header.tree_id))
        });
    }

    /// Ends requests that are held as if the store had refused them.
    fn end_held(&mut self, now: Now, is_meant: impl Fn(&Self, &InFlight) -> bool) {
        if self.globals.gate.is_empty() {
            return;
        }
        let held = self.in_flight.iter().filter(|(_, it)| it.held.is_some());
        let mut ids: Vec<RequestId> =
            held.filter(|(_, it)| is_meant(self, it)).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        for id in ids {
            self.forget_held(now, id);
            let Some(waiting) = self.in_flight.get_mut(&id) else { continue };
            // Nothing has happened, and what it was charged for was given back.
            (waiting.held, waiting.changed, waiting.incoming.charged) = (None, None, None);
            self.go_on(now, id, Reply::Object(Err(NtStatus::FILE_CLOSED)));
        }
    }

    /// The storage is done with what a request asked of it, if it has asked: others may have its
    /// place.
    pub(crate) fn end_at_storage(&mut self, now: Now, id: RequestId) {
        self.globals.gate.end(nanoseconds(now.monotonic), id);
    }

    /// Lets those begin here whose turn it is, and has the workers of others told.
    pub(crate) fn tell_turns(&mut self, now: Now) {
        let own = self.globals.files.server();
        while let Some(server) = self.globals.gate.poll_turn() {
            if server == own {
                self.release(now);
            } else {
                self.globals.outbox.effects.push_back((None, Effect::TellTurn { server }));
            }
        }
    }

    fn begin_held(&mut self, now: Now, id: RequestId) {
        let Some(waiting) = self.in_flight.get_mut(&id) else { return };
        let Some(mut effect) = waiting.held.take() else { return };
        waiting.incoming.trace.wait(effect.phase());
        if let Effect::Object { op: ObjectOp::Read { length, buffer, .. }, .. } = &mut *effect {
            let length = usize::try_from(*length).expect("32 bits fit memory");
            let head = buffer.split();
            *buffer = self.globals.buffers.take(head.len() + length, now.monotonic);
            buffer.extend_from_slice(&head);
        }
        self.globals.outbox.effects.push_back((Some(id), *effect));
    }

    /// A READ that is held needs room for its answer when it begins, and no sooner.
    fn give_back_buffer(&mut self, now: Now, effect: &mut Effect) {
        if let Effect::Object { op: ObjectOp::Read { buffer, .. }, .. } = effect {
            let head = BytesMut::from(&buffer[..]);
            self.globals.buffers.give(std::mem::replace(buffer, head), now.monotonic);
        }
    }
}
