//! Frames that leave for the clients.

use std::io;
use std::time::Instant;

use object::Piped;
use proto::ConnectionId;
use trace::Phase;
use tracing::info;
use uring::{Backend, Completion, Op, SendBuffer, Token};

use super::connection::Channel;
use super::event_loop::{SEND, Worker};

impl Worker {
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
            let is_over = |it: &Channel| it.is_closing && it.is_drained() && !it.is_busy();
            if self.channels.get(&id).is_some_and(is_over) {
                self.close(id);
            }
        }
    }

    fn send(&mut self, id: ConnectionId) {
        self.trace.enter(Phase::Sending);
        let Some(channel) = self.channels.get(&id) else { return };
        let protects_much = self.channels.len() > 1 && channel.protects_much();
        let busy_lane = channel.busy_lane();
        if protects_much {
            self.channels.get_mut(&id).into_iter().for_each(Channel::sends_bulk_now);
        }
        let lane = match busy_lane {
            None if protects_much => self.lane(id),
            busy => busy,
        };
        if let Some(channel) = self.channels.get_mut(&id)
            && let Some(lane) = lane
        {
            return self.lanes.submit(lane, id, channel.lane_send());
        }
        let (now, server, store) = (self.now(), &mut self.server, &mut self.store);
        let waits_with_sends = self.driver.backend() == Backend::Ring;
        let channel = self.channels.get_mut(&id);
        let done = |frame, piped: Option<Piped>| {
            server.handle_sent(now, frame);
            piped.into_iter().for_each(|it| store.give_back(it));
        };
        let op = channel.and_then(|it| it.send(waits_with_sends, done));
        if let Some(op) = op {
            self.submit(Token(SEND | u64::from(id.0)), op);
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
        for buffer in buffers {
            if let SendBuffer::Bytes(bytes) = buffer
                && let Ok(frame) = bytes.try_into_mut()
            {
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
            info!("closing connection {}: its client does not read", id.0);
            self.close(id);
        }
    }
}
