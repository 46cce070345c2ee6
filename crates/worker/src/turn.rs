//! What a turn of the loop does for its completions: from received bytes to the engine, and from
//! there to the sockets.
//!
//! `complete` finds out what a completion is for. A receive goes on to `take_frames`, which cuts
//! whole frames out of the connection's buffer and gives each to `Server::handle_frame_with`,
//! together with the store. It stops while answers or memory exceed their limits (`must_wait`).
//! `serve_effects` then carries out what the engine wants. `flush` ends each turn: it sends what is
//! queued, in one operation for each connection, and takes the frames that had to wait.

use std::io;
use std::time::{Duration, Instant};

use object::Piped;
use proto::{ConnectionId, Disconnect, ReceivedFrame, Server};
use trace::{Phase, Spent};
use tracing::{debug, info, warn};
use uring::{Backend, Completion, Op, SendBuffer, Token};

use super::connection::{Channel, Filled, make_whole};
use super::event_loop::{CONTROL, LANES, MESSAGES, RECEIVE, SEND, STORAGE_THREADS, STORE, Worker};
use super::lanes::{LANE_BYTES_MIN, LaneId, OpenedFrame};

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
            STORE => self.store_completed(usize::try_from(low).expect("32 bits"), completion),
            other => unreachable!("a token of kind {other:#x} was never given out"),
        }
    }

    /// Does what the engine wants done, until it wants nothing more.
    pub(super) fn serve_effects(&mut self) {
        while let Some((request, effect)) = self.server.poll_effect() {
            self.serve(request, effect);
        }
        while let Some(transmit) = self.server.poll_transmit() {
            if let Some(channel) = self.channels.get_mut(&transmit.connection) {
                channel.queue(transmit);
            }
        }
        while let Some(notice) = self.server.poll_notice() {
            self.enter(notice, self.now().wall);
        }
        while let Some((id, reason)) = self.server.poll_close() {
            self.end_connection(id, reason);
        }
    }

    /// Lets a connection end that the engine has ended, once its last frames have left.
    #[cold]
    fn end_connection(&mut self, id: ConnectionId, reason: Disconnect) {
        // Strangers could fill the log with these.
        let is_strangers = !self.notices.had_session() || reason == Disconnect::TooSlow;
        match is_strangers {
            true => debug!("closing {}: {reason}", self.named(id)),
            false => warn!("closing {}: {reason}", self.named(id)),
        }
        if let Some(channel) = self.channels.get_mut(&id) {
            channel.end(Instant::now());
            // Frames queued for a client that receives nothing would wait for minutes.
            if channel.is_drained() || reason == Disconnect::BreakNotConfirmed {
                self.close(id);
            }
        }
    }

    pub(super) fn receive(&mut self, id: ConnectionId) {
        if self.must_wait(id) {
            return; // Until there is room: see `flush`.
        }
        let expects_more = self.channels.len() <= EXPECTING_MAX && !self.server.is_holding();
        if expects_more
            && self.channels.get(&id).is_some_and(Channel::receives_bulk)
            && let Some(lane) = self.lane(id)
        {
            let length_max = frame_len_max(&self.server, id);
            let opener = self.server.opener(id);
            let channel = self.channels.get_mut(&id);
            if let Some(job) = channel.and_then(|it| it.lane_receive(opener, length_max)) {
                return self.lanes.submit(lane, id, job);
            }
        }
        let op = self.channels.get_mut(&id).and_then(|it| it.receive(expects_more));
        if let Some(op) = op {
            self.submit(Token(RECEIVE | u64::from(id.0)), op);
        }
    }

    pub(super) fn received(&mut self, id: ConnectionId, completion: Completion) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let at = self.trace.receives();
        match completion.op {
            Op::Receive { buffer, .. } => channel.received(buffer, at),
            Op::PollReadable { .. } => channel.may_fill(),
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
        self.lost(id, &why);
    }

    /// True if there is no room for more frames of a connection: answers have to leave first, or
    /// throttled requests have to begin.
    pub(super) fn must_wait(&self, id: ConnectionId) -> bool {
        let waiting = || self.channels.values().map(Channel::outgoing_bytes).sum();
        let must_drain = |it: &Channel| it.outgoing_bytes() > 0 && it.must_drain(waiting);
        let must_drain = self.channels.get(&id).is_some_and(must_drain);
        must_drain || self.server.holds_too_much() || self.server.memory().must_wait()
    }

    /// Returns the earliest deadline of partly received frames.
    pub(super) fn next_frame_deadline(&self) -> Option<Duration> {
        self.channels.values().filter_map(Channel::frame_deadline).min()
    }

    /// Ends connections over which a frame does not come to its end.
    pub(super) fn end_unfinished(&mut self, now: Duration) {
        let is_late = |it: &Channel| it.frame_deadline().is_some_and(|at| at <= now);
        let late = self.channels.iter().filter(|(_, it)| is_late(it)).map(|(id, _)| *id);
        for id in late.collect::<Vec<ConnectionId>>() {
            self.frame_overdue(id);
            self.serve_effects();
        }
    }

    /// Ends a connection whose frame has had its time.
    pub(super) fn frame_overdue(&mut self, id: ConnectionId) {
        if self.notices.had_session() {
            warn!("closing {}: a frame did not arrive in time", self.named(id));
        }
        self.lost(id, "a frame did not arrive in time");
    }

    /// Serves the whole frames that are there, as far as there is room for their answers. The rest
    /// is taken when answers have left: see [`Self::flush`].
    pub(super) fn take_frames(&mut self, id: ConnectionId) {
        let must_wait = loop {
            let must_wait = self.must_wait(id);
            let Some(channel) = self.channels.get_mut(&id) else { return };
            if channel.is_closing || channel.is_lent || must_wait {
                break must_wait;
            }
            if channel.is_filling() {
                if self.take_filled(id) {
                    continue;
                }
                break false;
            }
            match channel.next_frame(|| frame_len_max(&self.server, id)) {
                Ok(Some(frame)) => {
                    let OpenedFrame { opened, spent } = channel.take_opened();
                    let frame = ReceivedFrame { connection: id, frame, piped: None, opened };
                    self.take_frame(frame, spent);
                }
                Ok(None) if channel.has_received() && self.begin_filling(id) => {}
                Ok(None) => break false,
                Err(error) => return self.lost(id, &error.to_string()),
            }
        };
        if self.channels.get(&id).is_some_and(Channel::has_part) {
            self.time_frame(id, !must_wait);
        }
    }

    /// Receives more of a frame whose end goes into a pipe, and serves it once it is whole. Returns
    /// whether there may be more to do.
    #[cold]
    fn take_filled(&mut self, id: ConnectionId) -> bool {
        let channel = self.channels.get_mut(&id);
        let Some(channel) = channel.filter(|it| it.can_fill()) else { return false };
        match channel.fill(self.trace.receives()) {
            Ok(Filled::Whole(frame, piped)) => {
                let piped = Some(piped);
                let frame = ReceivedFrame { connection: id, frame, piped, opened: None };
                self.take_frame(frame, Spent::default());
            }
            Ok(Filled::Part) => return false,
            Ok(Filled::NoRoom(piped)) => self.store.give_back(piped),
            Err(error) => {
                self.lost(id, &error.to_string());
                return false;
            }
        }
        true
    }

    #[cold]
    fn time_frame(&mut self, id: ConnectionId, is_received: bool) {
        let now = self.now().monotonic;
        if let Some(channel) = self.channels.get_mut(&id) {
            channel.time_frame(now, is_received);
        }
    }

    fn take_frame(&mut self, frame: ReceivedFrame, opened_in: Spent) {
        let (id, now) = (frame.connection, self.now());
        let behind = frame.piped.as_ref().map_or(0, Piped::length);
        let bytes = frame.frame.len() + behind;
        if bytes >= LANE_BYTES_MIN {
            self.note_long_frame(id, &frame.frame, behind, frame.opened.is_some());
        }
        if let Some(channel) = self.channels.get_mut(&id) {
            channel.arrival.take(&self.trace, id, bytes, opened_in);
        }
        self.server.handle_watched_elsewhere(self.watches.is_watched_elsewhere());
        self.store.begin_frame();
        let (server, mut storage) = self.server_and_storage();
        server.handle_frame_with(now, frame, &mut storage);
        self.serve_effects();
        self.store.end_frame();
    }

    /// Decides which way the next long frame takes: through memory or a pipe, here or over a lane.
    fn note_long_frame(&mut self, id: ConnectionId, frame: &[u8], behind: usize, is_opened: bool) {
        if !is_opened && self.may_pipe_writes(frame.len() + behind) {
            self.choose_way_of_writes(id, frame, behind);
        }
        if self.channels.len() > 1
            && frame.len() >= LANE_BYTES_MIN
            && (is_opened || self.server.opener(id).can_open(frame))
            && let Some(channel) = self.channels.get_mut(&id)
        {
            channel.receives_bulk_now();
        }
    }

    /// Sends what is queued, and goes on receiving where that was held back.
    pub(super) fn flush(&mut self) {
        let ids: Vec<ConnectionId> = self.channels.keys().copied().collect();
        for id in ids {
            // Answers that have left make room for those to frames that were held back.
            loop {
                self.take_frames(id);
                if !self.channels.get(&id).is_some_and(Channel::wants_to_send) {
                    break;
                }
                self.send(id);
            }
            self.receive(id);
            // An operation that ended may have been the last thing to wait for.
            if self.channels.get(&id).is_some_and(Channel::is_over) {
                self.close(id);
            }
        }
    }

    fn send(&mut self, id: ConnectionId) {
        self.trace.enter(Phase::Sending);
        if (!self.lanes.is_empty() || self.channels.len() > 1)
            && let Some(lane) = self.lane_to_send(id)
            && let Some(channel) = self.channels.get_mut(&id)
        {
            return self.lanes.submit(lane, id, channel.lane_send());
        }
        let (now, server, store) = (self.now(), &mut self.server, &mut self.store);
        let waits_with_sends = self.driver.backend() == Backend::Ring;
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let op = channel.send(waits_with_sends, |frame, piped: Option<Piped>| {
            server.handle_sent(now, frame);
            piped.into_iter().for_each(|it| store.give_back(it));
        });
        if let Some(op) = op {
            self.submit(Token(SEND | u64::from(id.0)), op);
        }
    }

    /// Returns the lane that sends what is queued, if one has to.
    fn lane_to_send(&mut self, id: ConnectionId) -> Option<LaneId> {
        let is_shared = self.channels.len() > 1;
        let channel = self.channels.get_mut(&id)?;
        let protects_much = is_shared && channel.protects_much();
        if protects_much {
            channel.sends_bulk_now();
        }
        match channel.busy_lane() {
            None if protects_much => self.lane(id),
            busy => busy,
        }
    }

    pub(super) fn sent(&mut self, id: ConnectionId, completion: Completion) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let buffers = match (completion.op, &completion.result) {
            (Op::SendAtOnce { buffers, .. }, Ok(taken)) => channel.sent_at_once(buffers, *taken),
            (Op::SendAtOnce { buffers, .. } | Op::Send { buffers, .. }, result) => {
                channel.sent(&buffers, result.is_ok());
                buffers
            }
            (Op::PollWritable { .. }, _) => {
                channel.may_send();
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
        let mut is_begun = self.channels.get_mut(&id).is_some_and(Channel::take_front_begun);
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
            return self.lost(id, &error.to_string());
        }
        if self.channels.get(&id).is_some_and(|it| it.is_closing && it.is_drained()) {
            self.close(id);
        }
    }

    /// Closes connections that were ended and whose clients do not read what is left for them.
    pub(super) fn close_undrained(&mut self, now: Instant) {
        let is_late = |it: &Channel| it.next_drain_timeout().is_some_and(|at| at <= now);
        let late = self.channels.iter().filter(|(_, it)| is_late(it)).map(|(id, _)| *id);
        for id in late.collect::<Vec<ConnectionId>>() {
            info!("closing {}: its client does not read", self.named(id));
            self.close(id);
        }
    }
}

/// Highest length of a frame of this connection, in bytes.
fn frame_len_max(server: &Server, id: ConnectionId) -> usize {
    usize::try_from(server.frame_len_max(id)).expect("32 bits fit memory")
}
