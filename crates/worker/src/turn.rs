//! What a turn of the loop does for its completions: from received bytes to the engine, and from
//! there to the sockets.
//!
//! `complete` finds out what a completion is for. A receive goes on to `take_frames`, which cuts
//! whole frames out of the connection's buffer and gives each to `Server::handle_frame_with`,
//! together with the store. It stops while answers or memory exceed their limits (`must_wait`).
//! `serve_effects` then carries out the engine's effects. `flush` ends each turn: it sends what is
//! queued, in one operation for each connection, and takes the frames that had to wait.

use std::io;
use std::time::{Duration, Instant};

use object::Piped;
use proto::{ConnectionId, Disconnect, Logon, ReceivedFrame, Server};
use trace::{Phase, Spent};
use tracing::{debug, warn};
use uring::{Backend, Completion, Op, SendBuffer, Token};

use super::connection::{Filled, Transport, make_whole};
use super::event_loop::{
    COMMANDS, CONTROL, KERNEL_LEASES, LANES, MESSAGES, RECEIVE, SEND, STORAGE_COMMANDS,
    STORAGE_THREADS, STORE, Worker,
};
use super::lanes::{LANE_BYTES_MIN, LaneFrame, LaneId};

/// Highest number of connections of a client that reserve memory for a long frame in advance, after
/// a long one. With more connections, none does.
const EXPECTING_MAX: usize = 32;

impl Worker {
    pub(super) fn complete(&mut self, completion: Completion) {
        let Token(token) = completion.token;
        let low = token & u64::from(u32::MAX);
        let id = ConnectionId(u32::try_from(low).expect("masked"));
        match token & !u64::from(u32::MAX) {
            CONTROL => self.read_control(),
            MESSAGES => self.read_messages(),
            LANES => self.read_lanes(),
            STORAGE_THREADS => self.read_storage_threads(),
            RECEIVE => self.received(id, completion),
            SEND => self.sent(id, completion),
            COMMANDS => self.command_completed(id.0),
            STORAGE_COMMANDS => self.storage_command_completed(id.0),
            KERNEL_LEASES => self.read_kernel_leases(),
            STORE => self.store_completed(usize::try_from(low).expect("32 bits"), completion),
            other => unreachable!("a token of kind {other:#x} was never given out"),
        }
    }

    /// Carries out all effects of the engine, and takes its frames, notices and closed connections.
    pub(super) fn serve_effects(&mut self) {
        while let Some((request, effect)) = self.server.poll_effect() {
            self.serve(request, effect);
        }
        self.queue_responses();
        while let Some(notice) = self.server.poll_notice() {
            self.record_notice(notice, self.now().wall);
        }
        while let Some((id, reason, logon)) = self.server.poll_close() {
            self.end_connection(id, reason, logon);
        }
    }

    fn queue_responses(&mut self) {
        while let Some(transmit) = self.server.poll_transmit() {
            if let Some(transport) = self.transports.get_mut(&transmit.connection) {
                transport.queue(transmit);
            }
        }
    }

    /// Sends what the engine has answered so far, without waiting for the end of the turn.
    #[cold]
    pub(super) fn send_responses(&mut self) {
        self.queue_responses();
        let wants_to_send =
            |(id, it): (&ConnectionId, &Transport)| it.wants_to_send().then_some(*id);
        let ids: Vec<ConnectionId> = self.transports.iter().filter_map(wants_to_send).collect();
        for id in ids {
            self.send(id, false);
            self.trace.enter(Phase::Other);
        }
    }

    /// Closes a connection that the engine has ended, once its last frames are sent.
    #[cold]
    fn end_connection(&mut self, id: ConnectionId, reason: Disconnect, logon: Logon) {
        // Clients without a password could fill the log with these, also those that have come
        // beside a user by the ClientGuid: the line has the user's name.
        let is_from_stranger = logon != Logon::User || reason == Disconnect::TooSlow;
        match is_from_stranger {
            true => debug!("closing {}: {reason}", self.describe(id)),
            false => warn!("closing {}: {reason}", self.describe(id)),
        }
        if let Some(transport) = self.transports.get_mut(&id) {
            transport.end(Instant::now());
            // Frames queued for a client that receives nothing would wait for minutes.
            if transport.is_drained() || reason == Disconnect::BreakNotConfirmed {
                self.close(id);
            }
        }
    }

    pub(super) fn receive(&mut self, id: ConnectionId) {
        if self.must_wait(id) {
            return; // Until there is room: see `flush`.
        }
        let expects_more = self.transports.len() <= EXPECTING_MAX && !self.server.is_throttling();
        if expects_more
            && self.transports.get(&id).is_some_and(Transport::receives_bulk)
            && let Some(lane) = self.lane(id)
        {
            let length_max = frame_len_max(&self.server, id);
            let frame_keys = self.server.frame_keys(id);
            let transport = self.transports.get_mut(&id);
            if let Some(job) = transport.and_then(|it| it.lane_receive(frame_keys, length_max)) {
                return self.lanes.submit(lane, id, job);
            }
        }
        let is_secondary = self.transports.len() > 1 && self.server.is_secondary(id);
        let op = self.transports.get_mut(&id).and_then(|it| match is_secondary {
            true => it.receive_little(),
            false => it.receive(expects_more),
        });
        if let Some(op) = op {
            self.submit(Token(RECEIVE | u64::from(id.0)), op);
        }
    }

    pub(super) fn received(&mut self, id: ConnectionId, completion: Completion) {
        let Some(transport) = self.transports.get_mut(&id) else { return };
        let at = self.trace.receives();
        match completion.op {
            Op::Receive { buffer, .. } => transport.received(buffer, at),
            Op::PollReadable { .. } => transport.may_fill(),
            other => unreachable!("{other:?} is no receive"),
        }
        match completion.result {
            Ok(1..) => self.take_frames(id),
            end => self.receive_ended(id, end),
        }
    }

    #[cold]
    pub(super) fn receive_ended(&mut self, id: ConnectionId, end: io::Result<usize>) {
        let why = end.map_or_else(|error| error.to_string(), |_| "the client closed it".to_owned());
        self.connection_lost(id, &why);
    }

    /// True if there is no room for more frames of a connection: answers have to leave first, or
    /// throttled requests or the rest of a compound have to begin.
    pub(super) fn must_wait(&self, id: ConnectionId) -> bool {
        let waiting = || self.transports.values().map(Transport::outgoing_bytes).sum();
        let must_drain = |it: &Transport| it.outgoing_bytes() > 0 && it.must_drain(waiting);
        let must_drain = self.transports.get(&id).is_some_and(must_drain);
        must_drain || self.server.must_stop_receiving(id) || self.server.memory().must_wait()
    }

    /// Returns the earliest deadline of partly received frames.
    pub(super) fn next_frame_deadline(&self) -> Option<Duration> {
        self.transports.values().filter_map(Transport::frame_deadline).min()
    }

    /// Ends connections with a frame that did not arrive completely in time.
    pub(super) fn end_unfinished(&mut self, now: Duration) {
        let is_late = |it: &Transport| it.frame_deadline().is_some_and(|at| at <= now);
        let late = self.transports.iter().filter(|(_, it)| is_late(it)).map(|(id, _)| *id);
        for id in late.collect::<Vec<ConnectionId>>() {
            self.frame_overdue(id);
            self.serve_effects();
        }
    }

    /// Ends a connection whose frame did not arrive completely in time.
    pub(super) fn frame_overdue(&mut self, id: ConnectionId) {
        if self.server.has_user_over(id) {
            warn!("closing {}: a frame did not arrive in time", self.describe(id));
        }
        self.connection_lost(id, "a frame did not arrive in time");
    }

    /// Serves complete frames while there is room for their answers. The rest follows once answers
    /// are sent: see [`Self::flush`].
    pub(super) fn take_frames(&mut self, id: ConnectionId) {
        let must_wait = loop {
            let must_wait = self.must_wait(id);
            let Some(transport) = self.transports.get_mut(&id) else { return };
            if transport.is_closing || transport.is_in_handover || must_wait {
                break must_wait;
            }
            if transport.is_filling() {
                if self.take_filled(id) {
                    continue;
                }
                break false;
            }
            match transport.next_frame(|| frame_len_max(&self.server, id)) {
                Ok(Some(frame)) => {
                    let LaneFrame { checked, spent } = transport.take_checked();
                    let frame = ReceivedFrame { connection: id, frame, piped: None, checked };
                    self.take_frame(frame, spent);
                }
                Ok(None) if transport.has_received() && self.begin_filling(id) => {}
                Ok(None) => break false,
                Err(error) => return self.connection_lost(id, &error.to_string()),
            }
        };
        if self.transports.get(&id).is_some_and(Transport::has_partial_frame) {
            self.time_frame(id, !must_wait);
        }
    }

    /// Receives more of a frame whose end goes into a pipe, and serves it once it is whole. Returns
    /// whether there may be more to do.
    #[cold]
    fn take_filled(&mut self, id: ConnectionId) -> bool {
        let transport = self.transports.get_mut(&id);
        let Some(transport) = transport.filter(|it| it.can_fill()) else { return false };
        match transport.fill(self.trace.receives()) {
            Ok(Filled::Whole(frame, piped)) => {
                let piped = Some(piped);
                let frame = ReceivedFrame { connection: id, frame, piped, checked: None };
                self.take_frame(frame, Spent::default());
            }
            Ok(Filled::Part) => return false,
            Ok(Filled::NoRoom(piped)) => self.store.give_back(piped),
            Err(error) => {
                self.connection_lost(id, &error.to_string());
                return false;
            }
        }
        true
    }

    #[cold]
    fn time_frame(&mut self, id: ConnectionId, is_received: bool) {
        let now = self.now().monotonic;
        if let Some(transport) = self.transports.get_mut(&id) {
            transport.time_frame(now, is_received);
        }
    }

    fn take_frame(&mut self, frame: ReceivedFrame, checked_in: Spent) {
        let (id, now) = (frame.connection, self.now());
        let behind = frame.piped.as_ref().map_or(0, Piped::length);
        let bytes = frame.frame.len() + behind;
        if bytes >= LANE_BYTES_MIN {
            self.note_long_frame(id, &frame.frame, behind, frame.checked.is_some());
        }
        if let Some(transport) = self.transports.get_mut(&id) {
            transport.arrival.take(&self.trace, id, bytes, checked_in);
        }
        self.server.handle_watched_elsewhere(self.watches.is_watched_elsewhere());
        self.store.begin_frame();
        let (server, mut storage) = self.server_and_storage();
        server.handle_frame_with(now, frame, &mut storage);
        self.serve_effects();
        self.store.end_frame();
    }

    /// Serves the next request of a guest's compound, if a user's requests go first.
    pub(super) fn serve_postponed(&mut self) {
        if !self.server.has_postponed(None) {
            return;
        }
        let now = self.now();
        self.server.handle_watched_elsewhere(self.watches.is_watched_elsewhere());
        self.store.begin_frame();
        let (server, mut storage) = self.server_and_storage();
        server.serve_postponed(now, &mut storage);
        self.serve_effects();
        self.store.end_frame();
    }

    /// Chooses for the next long frame between memory and a pipe, and this thread and a lane.
    fn note_long_frame(&mut self, id: ConnectionId, frame: &[u8], behind: usize, is_checked: bool) {
        if !is_checked && self.may_pipe_writes(frame.len() + behind) {
            self.choose_path_of_writes(id, frame, behind);
        }
        if self.transports.len() > 1
            && frame.len() >= LANE_BYTES_MIN
            && (is_checked || self.server.frame_keys(id).can_check(frame))
            && let Some(transport) = self.transports.get_mut(&id)
        {
            transport.receives_bulk_now();
        }
    }

    /// Sends queued frames, and receives again on connections that had to wait.
    pub(super) fn flush(&mut self) {
        let ids: Vec<ConnectionId> = self.transports.keys().copied().collect();
        for id in ids {
            // Sent answers make room for those to waiting frames.
            loop {
                self.take_frames(id);
                if !self.transports.get(&id).is_some_and(Transport::wants_to_send) {
                    break;
                }
                self.send(id, self.driver.backend() == Backend::Ring);
            }
            self.receive(id);
            // Perhaps the last operation of an ended connection has completed.
            if self.transports.get(&id).is_some_and(Transport::is_over) {
                self.close(id);
            }
        }
    }

    /// Sends the queued frames of a connection: a few bytes with the wait for the next request, if
    /// the driver can do both in one call (`waits_with_sends`).
    fn send(&mut self, id: ConnectionId, waits_with_sends: bool) {
        self.trace.enter(Phase::Sending);
        if (!self.lanes.is_empty() || self.transports.len() > 1)
            && let Some(lane) = self.lane_to_send(id)
            && let Some(transport) = self.transports.get_mut(&id)
        {
            return self.lanes.submit(lane, id, transport.lane_send());
        }
        let (now, server, store) = (self.now(), &mut self.server, &mut self.store);
        let Some(transport) = self.transports.get_mut(&id) else { return };
        let op = transport.send(waits_with_sends, |frame, piped: Option<Piped>| {
            server.handle_sent(now, frame);
            piped.into_iter().for_each(|it| store.give_back(it));
        });
        if let Some(op) = op {
            self.submit(Token(SEND | u64::from(id.0)), op);
        }
    }

    /// Returns the lane that sends the queued frames, if one has to.
    fn lane_to_send(&mut self, id: ConnectionId) -> Option<LaneId> {
        let is_shared = self.transports.len() > 1;
        let transport = self.transports.get_mut(&id)?;
        let has_much_to_protect = is_shared && transport.has_much_to_protect();
        if has_much_to_protect {
            transport.sends_bulk_now();
        }
        match transport.busy_lane() {
            None if has_much_to_protect => self.lane(id),
            busy => busy,
        }
    }

    pub(super) fn sent(&mut self, id: ConnectionId, completion: Completion) {
        let Some(transport) = self.transports.get_mut(&id) else { return };
        let buffers = match (completion.op, &completion.result) {
            (Op::SendAtOnce { buffers, .. }, Ok(taken)) => transport.sent_at_once(buffers, *taken),
            (Op::SendAtOnce { buffers, .. } | Op::Send { buffers, .. }, result) => {
                transport.sent(&buffers, result.is_ok());
                buffers
            }
            (Op::PollWritable { .. }, _) => {
                transport.may_send();
                Vec::new()
            }
            (other, _) => unreachable!("{other:?} is no send"),
        };
        self.take_sent(id, buffers, completion.result);
    }

    pub(super) fn take_sent(
        &mut self,
        id: ConnectionId,
        buffers: Vec<SendBuffer>,
        result: io::Result<usize>,
    ) {
        let now = self.now();
        let mut is_begun = self.transports.get_mut(&id).is_some_and(Transport::take_front_begun);
        for buffer in buffers {
            if let SendBuffer::Bytes(bytes) = buffer
                && let Ok(mut frame) = bytes.try_into_mut()
            {
                if std::mem::take(&mut is_begun) {
                    make_whole(&mut frame);
                }
                self.server.handle_sent(now, frame);
            }
        }
        if let Err(error) = result {
            return self.connection_lost(id, &error.to_string());
        }
        if self.transports.get(&id).is_some_and(|it| it.is_closing && it.is_drained()) {
            self.close(id);
        }
    }

    /// Closes ended connections whose clients do not read the last frames in time.
    pub(super) fn close_undrained(&mut self, now: Instant) {
        let is_late = |it: &Transport| it.next_drain_timeout().is_some_and(|at| at <= now);
        let late = self.transports.iter().filter(|(_, it)| is_late(it)).map(|(id, _)| *id);
        for id in late.collect::<Vec<ConnectionId>>() {
            debug!("closing {}: its client does not read", self.describe(id));
            self.close(id);
        }
    }
}

/// Highest length of a frame of this connection, in bytes.
fn frame_len_max(server: &Server, id: ConnectionId) -> usize {
    usize::try_from(server.frame_len_max(id)).expect("32 bits fit memory")
}
