//! The part of a lane in a connection's bytes.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use proto::FrameKeys;
use trace::{Moment, Phase, Spent};
use uring::SendBuffer;

use super::{EXPECTED_LEN_MAX, Transport, missing};
use crate::lanes::{Job, LANE_BYTES_MIN, LaneFrame, LaneId, Outgoing};

/// A transport that has moved much within this time is worth a lane.
const BULK_INTERVAL: Duration = Duration::from_secs(1);

impl Transport {
    /// Takes back what [`Transport::lane_receive`] lent.
    pub(crate) fn received_by_lane(
        &mut self,
        buffer: BytesMut,
        checked: VecDeque<LaneFrame>,
        at: Moment,
    ) {
        self.arrival.received(at);
        self.received = Some(buffer);
        self.checked = checked;
    }

    /// Whether the queue is long enough for a lane and has frames to sign or encrypt.
    pub(crate) fn has_much_to_protect(&self) -> bool {
        let is_protected = |it: &Outgoing| it.protection.is_some();
        self.queued_bytes >= LANE_BYTES_MIN && self.queued.iter().any(is_protected)
    }

    /// Notes that many signed or encrypted bytes leave now.
    pub(crate) fn sends_bulk_now(&mut self) {
        self.last_bulk = Some(Instant::now());
    }

    /// Notes that many signed or encrypted bytes have arrived now.
    pub(crate) fn receives_bulk_now(&mut self) {
        self.last_bulk = Some(Instant::now());
        self.last_bulk_received = self.last_bulk;
    }

    /// Whether much went in or out lately.
    pub(crate) fn is_bulky(&self) -> bool {
        self.last_bulk.is_some_and(|at| at.elapsed() < BULK_INTERVAL)
    }

    /// Whether much came in lately.
    pub(crate) fn receives_bulk(&self) -> bool {
        self.last_bulk_received.is_some_and(|at| at.elapsed() < BULK_INTERVAL)
    }

    /// The lane of this transport; `choose` finds one.
    pub(crate) fn lane(&mut self, choose: impl FnOnce() -> Option<LaneId>) -> Option<LaneId> {
        self.lane = self.lane.or_else(choose);
        self.lane
    }

    /// The lane that still has frames, behind which all others have to go.
    pub(crate) fn busy_lane(&self) -> Option<LaneId> {
        self.lane.filter(|_| self.lane_bytes > 0)
    }

    /// Returns the job of a lane in place of [`Transport::receive`]: the next whole frames, none
    /// longer than `length_max`. `None` while frames that a lane has checked wait here.
    ///
    /// A lane gives back a frame that is longer than expected once it has the length, because
    /// memory must be reserved first.
    pub(crate) fn lane_receive(&mut self, frame_keys: FrameKeys, length_max: usize) -> Option<Job> {
        if self.is_closing
            || self.is_in_handover
            || self.filling.is_some()
            || !self.checked.is_empty()
        {
            return None;
        }
        let whole = self.received.as_ref().map(|it| it.len() + missing(it))?;
        if whole > EXPECTED_LEN_MAX && !self.take_frame_memory() {
            return None;
        }
        let length_max = length_max.min(whole.max(EXPECTED_LEN_MAX));
        let buffer = self.received.take()?;
        if buffer.is_empty() {
            self.arrival.expect_new();
        }
        Some(Job::Receive { socket: self.socket.as_raw_fd(), buffer, length_max, frame_keys })
    }

    /// Returns the job of a lane in place of [`Transport::send`].
    pub(crate) fn lane_send(&mut self) -> Job {
        // A lane is for what is signed or sealed: there is little of this, if any.
        if self.queued.iter_mut().any(|it| it.read_into_memory().is_err()) {
            self.break_off();
        }
        self.lane_bytes += std::mem::take(&mut self.queued_bytes);
        let frames = std::mem::take(&mut self.queued);
        self.sending.append(&mut self.answered);
        Job::Send { socket: self.socket.as_raw_fd(), frames }
    }

    /// Handles frames of [`Transport::lane_send`] that were sent, or never will be, with the time
    /// that the lane took to sign or encrypt each of them.
    pub(crate) fn sent_by_lane(
        &mut self,
        buffers: &[SendBuffer],
        protected: &[Option<Spent>],
        has_left: bool,
    ) {
        for (answered, spent) in self.sending.iter().zip(protected) {
            if let Some(spent) = spent {
                answered.spent(Phase::Signing, *spent);
            }
        }
        self.lane_bytes -= self.account(buffers, has_left);
    }
}
