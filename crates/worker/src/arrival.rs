//! Time of arrival of a frame's bytes: for a long one, first and last.

use proto::ConnectionId;
use trace::{Moment, Spent, Tracer};

/// Time of arrival of the bytes in a connection's buffer.
#[derive(Debug, Default)]
pub(super) struct Arrival {
    /// Arrival of the next frame's first byte, if it has arrived.
    began: Option<Moment>,
    /// Arrival of the last received byte.
    last: Moment,
}

impl Arrival {
    /// The buffer is empty: with the next byte a frame begins.
    pub(super) fn expect_new(&mut self) {
        self.began = None;
    }

    /// Notes that bytes have arrived.
    pub(super) fn received(&mut self, at: Moment) {
        self.began.get_or_insert(at);
        self.last = at;
    }

    /// Reports the arrival of a whole frame. Bytes behind it arrived together with its end.
    /// `checked` is the time that a lane took to verify or decrypt it.
    pub(super) fn take(&mut self, trace: &Tracer, id: ConnectionId, bytes: usize, checked: Spent) {
        let began = self.began.replace(self.last);
        trace.frame_came(id.0, bytes, (began, self.last), checked);
    }
}
