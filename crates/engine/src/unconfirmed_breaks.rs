//! Breaks that were sent, and may have to be sent again.

use std::time::Duration;

use arbitration::LeaseId;
use bytes::BytesMut;
use model::connection::ConnectionId;

/// Highest number of breaks kept for a repetition. Beyond it the oldest confirmed one is dropped,
/// and if none is confirmed, the new one is sent only once.
///
/// Each takes some 200 bytes, for a second or so until the client's acknowledgment; only a client
/// that breaks as many of its own oplocks can have more at once.
pub const UNCONFIRMED_MAX: usize = 4_096;

/// Identifies a frame that needs a confirmation by the client's transport. Never reused.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ConfirmationId(pub u64);

/// Holder of the oplock or lease that is broken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Holder {
    /// The lease, with all its opens.
    Lease(LeaseId),
    /// The oplock of the open with this volatile id.
    Oplock(u64),
}

/// The breaks that may have to be sent again, the oldest first.
#[derive(Debug, Default)]
pub struct BreakNotifications {
    unconfirmed: Vec<UnconfirmedBreak>,
    confirmation_count: u64,
}

/// A break that may be lost on its way.
#[derive(Debug)]
pub(crate) struct UnconfirmedBreak {
    pub(crate) id: ConfirmationId,
    pub(crate) connection: ConnectionId,
    pub(crate) holder: Holder,
    /// The body behind its headroom: the same over every channel, but encrypted anew.
    pub(crate) body: BytesMut,
    /// True once the client's transport has confirmed it.
    pub(crate) is_taken: bool,
    /// Deadline of the client's acknowledgment.
    pub(crate) until: Duration,
}

impl BreakNotifications {
    /// Returns an id for the next frame.
    pub(crate) fn next_id(&mut self) -> ConfirmationId {
        self.confirmation_count += 1;
        ConfirmationId(self.confirmation_count)
    }

    /// Keeps a break, if there is room.
    pub(crate) fn keep(
        &mut self,
        unconfirmed: UnconfirmedBreak,
        now: Duration,
    ) -> Option<ConfirmationId> {
        self.unconfirmed.retain(|it| it.until > now);
        if self.unconfirmed.len() >= UNCONFIRMED_MAX {
            let taken = self.unconfirmed.iter().position(|it| it.is_taken)?;
            self.unconfirmed.remove(taken);
        }
        let id = unconfirmed.id;
        self.unconfirmed.push(unconfirmed);
        Some(id)
    }

    /// Marks a break that the client's transport has confirmed.
    pub(crate) fn confirm(&mut self, id: ConfirmationId) {
        let unconfirmed = self.unconfirmed.iter_mut().find(|it| it.id == id);
        unconfirmed.into_iter().for_each(|it| it.is_taken = true);
    }

    /// Drops the breaks that the client has acknowledged.
    pub fn acknowledged(&mut self, holder: Holder) {
        self.unconfirmed.retain(|it| it.holder != holder);
    }

    /// Takes the breaks that were sent over a connection and not acknowledged.
    pub(crate) fn take_lost(
        &mut self,
        connection: ConnectionId,
        now: Duration,
    ) -> Vec<UnconfirmedBreak> {
        self.unconfirmed.retain(|it| it.until > now);
        self.unconfirmed.extract_if(.., |it| it.connection == connection).collect()
    }
}
