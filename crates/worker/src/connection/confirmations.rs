//! Confirmation by TCP that the client has received certain frames: break notifications.
//!
//! A connection with dropped packets looks alive for minutes. So a frame that must arrive gets the
//! time of six retransmissions; then the kernel is asked for the unacknowledged bytes. A connection
//! on which nothing at all was acknowledged meanwhile is closed, and the engine sends the break
//! over another one. A connection that is only slow, with much to send before the frame, gets the
//! same time again while it makes progress.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use proto::ConfirmationId;
use uring::tcp;

use super::Transport;

/// Retransmissions after which unacknowledged bytes count as lost.
const RETRANSMISSIONS: u32 = 6;

/// Lower and upper bound of the retransmission timeout, so that a lost transport is noticed within
/// 1.2 to 6 seconds: well within a client's time for the acknowledgment of a break.
const RTO_MIN: Duration = Duration::from_millis(200);
const RTO_MAX: Duration = Duration::from_secs(1);

/// Returns the longest time for a frame to be acknowledged, with the kernel's timeout `rto`.
pub(crate) fn patience(rto: Duration) -> Duration {
    rto.clamp(RTO_MIN, RTO_MAX) * RETRANSMISSIONS
}

/// The frames of one connection of which the engine wants to know, in the order in which they were
/// queued. There are no more than `engine::unconfirmed_breaks::UNCONFIRMED_MAX`.
#[derive(Debug, Default)]
pub(crate) struct Confirmations {
    awaited: VecDeque<Awaited>,
}

#[derive(Debug)]
struct Awaited {
    id: ConfirmationId,
    /// End of the frame, in bytes of the connection.
    end: u64,
    /// Time to check whether it was acknowledged.
    due: Instant,
    /// Progress of the connection when that time began.
    progress: u64,
    patience: Duration,
}

impl Confirmations {
    /// A frame was queued whose last byte is the `end`th of the connection; for `progress` see
    /// [`Confirmations::is_lost`].
    pub(crate) fn expect(
        &mut self,
        id: ConfirmationId,
        end: u64,
        progress: u64,
        now: Instant,
        patience: Duration,
    ) {
        self.awaited.push_back(Awaited { id, end, due: now + patience, progress, patience });
    }

    /// Returns the time of the next call of [`Confirmations::is_lost`].
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.awaited.iter().map(|it| it.due).min()
    }

    /// The frames that were taken, now that so many bytes are acknowledged.
    pub(crate) fn take_confirmed(&mut self, acknowledged: u64) -> Vec<ConfirmationId> {
        let count = self.awaited.iter().take_while(|it| it.end <= acknowledged).count();
        self.awaited.drain(..count).map(|it| it.id).collect()
    }

    /// Whether a frame is overdue on a connection that makes no progress: a number that grows with
    /// whatever is acknowledged. What was taken has been taken out before.
    pub(crate) fn is_lost(&mut self, progress: u64, now: Instant) -> bool {
        for awaited in self.awaited.iter_mut().filter(|it| it.due <= now) {
            if progress <= awaited.progress {
                return true;
            }
            awaited.due = now + awaited.patience;
            awaited.progress = progress;
        }
        false
    }
}

impl Transport {
    /// Asks for a confirmation of the last queued frame: see [`Confirmations`].
    #[cold]
    pub(super) fn expect_confirmation(&mut self, id: ConfirmationId) {
        let (timeout, progress) = self.tcp_info();
        self.confirmations.expect(
            id,
            self.queued_total,
            progress,
            Instant::now(),
            patience(timeout),
        );
    }

    /// Time of the next check for confirmed frames.
    pub(crate) fn next_confirmation(&self) -> Option<Instant> {
        if self.is_closing { None } else { self.confirmations.next_timeout() }
    }

    /// Returns the frames that were confirmed since the last call.
    pub(crate) fn take_confirmed(&mut self) -> Vec<ConfirmationId> {
        if self.confirmations.next_timeout().is_none() {
            return Vec::new();
        }
        let acknowledged = self.acknowledged();
        self.confirmations.take_confirmed(acknowledged)
    }

    /// Whether nothing arrives any more.
    pub(crate) fn is_lost(&mut self, now: Instant) -> bool {
        let (_, progress) = self.tcp_info();
        self.confirmations.is_lost(progress, now)
    }

    /// Returns the retransmission timeout, and a number that grows with each acknowledgment.
    /// Without support of the kernel: the shortest timeout, and no progress.
    fn tcp_info(&self) -> (Duration, u64) {
        tcp::info(self.socket.as_fd())
            .map(|it| (it.retransmission_timeout, it.bytes_acknowledged))
            .unwrap_or_default()
    }

    /// Bytes of this connection that the client's TCP has acknowledged. A send in progress does not
    /// count, so the figure is never too high.
    fn acknowledged(&self) -> u64 {
        let waiting = tcp::unacknowledged_bytes(self.socket.as_fd()).unwrap_or(u64::MAX);
        self.taken_total.saturating_sub(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(1_200);

    fn awaiting(end: u64) -> (Confirmations, Instant) {
        let (mut confirmations, now) = (Confirmations::default(), Instant::now());
        confirmations.expect(ConfirmationId(7), end, 0, now, PATIENCE);
        (confirmations, now)
    }

    #[test]
    fn a_frame_is_confirmed_when_its_last_byte_is() {
        let (mut confirmations, now) = awaiting(100);
        assert_eq!(confirmations.take_confirmed(99), []);
        assert_eq!(confirmations.next_timeout(), Some(now + PATIENCE));
        assert_eq!(confirmations.take_confirmed(100), [ConfirmationId(7)]);
        assert_eq!(confirmations.next_timeout(), None);
    }

    #[test]
    fn a_connection_that_acknowledges_nothing_is_lost_when_its_time_is_over() {
        let (mut confirmations, now) = awaiting(100);
        assert!(!confirmations.is_lost(0, now + PATIENCE - Duration::from_millis(1)));
        assert!(confirmations.is_lost(0, now + PATIENCE));
    }

    #[test]
    fn a_slow_connection_has_time_while_it_makes_progress() {
        let (mut confirmations, now) = awaiting(100);
        assert!(!confirmations.is_lost(50, now + PATIENCE));
        assert_eq!(confirmations.next_timeout(), Some(now + 2 * PATIENCE));
        assert!(confirmations.is_lost(50, now + 2 * PATIENCE));
    }

    #[test]
    fn the_retransmission_time_is_bounded_for_any_value_of_the_kernel() {
        assert_eq!(patience(Duration::from_millis(1)), Duration::from_millis(1_200));
        assert_eq!(patience(Duration::from_millis(500)), Duration::from_secs(3));
        assert_eq!(patience(Duration::from_secs(60)), Duration::from_secs(6));
    }
}
