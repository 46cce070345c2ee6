//! Breaks that were sent, and may have to be sent again.

use std::time::Duration;

use arbitration::LeaseId;
use bytes::BytesMut;

use crate::model::connection::ConnectionId;

/// Breaks of a worker that may have to be told again. Beyond it the oldest is forgotten that a
/// client's transport has taken, and if none was taken, the new one is told once.
///
/// Each keeps some 200 bytes, for a second or so while the client answers; a client that makes more
/// at once has as many oplocks broken by itself.
pub const UNCONFIRMED_MAX: usize = 4_096;

/// Names a frame of which the engine wants to know whether it was taken. Never given twice.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ConfirmationId(pub u64);

/// Holder of the oplock or lease that is broken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Holder {
    /// The lease, whichever of the client's opens share in it.
    Lease(LeaseId),
    /// The oplock of the open with this volatile id.
    Oplock(u64),
}

/// The breaks that may have to be told again, oldest first.
#[derive(Debug, Default)]
pub struct BreakNotifications {
    told: Vec<Told>,
    confirmation_count: u64,
}

/// A break that may be lost on its way.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) id: ConfirmationId,
    pub(crate) connection: ConnectionId,
    pub(crate) holder: Holder,
    /// The body behind its headroom: it is the same over every channel, but is sealed anew.
    pub(crate) body: BytesMut,
    /// The client's transport has it.
    pub(crate) is_taken: bool,
    /// When nobody waits for an answer any more.
    pub(crate) until: Duration,
}

impl BreakNotifications {
    /// Returns a name for the next frame.
    pub(crate) fn next_id(&mut self) -> ConfirmationId {
        self.confirmation_count += 1;
        ConfirmationId(self.confirmation_count)
    }

    /// Keeps a break, if there is room.
    pub(crate) fn keep(&mut self, told: Told, now: Duration) -> Option<ConfirmationId> {
        self.told.retain(|it| it.until > now);
        if self.told.len() >= UNCONFIRMED_MAX {
            let taken = self.told.iter().position(|it| it.is_taken)?;
            self.told.remove(taken);
        }
        let id = told.id;
        self.told.push(told);
        Some(id)
    }

    /// The client's transport has it.
    pub(crate) fn confirm(&mut self, id: ConfirmationId) {
        let told = self.told.iter_mut().find(|it| it.id == id);
        told.into_iter().for_each(|it| it.is_taken = true);
    }

    /// The client has answered, so it knows.
    pub(crate) fn acknowledged(&mut self, holder: Holder) {
        self.told.retain(|it| it.holder != holder);
    }

    /// What was told over a connection and not answered.
    pub(crate) fn take_lost(&mut self, connection: ConnectionId, now: Duration) -> Vec<Told> {
        self.told.retain(|it| it.until > now);
        self.told.extract_if(.., |it| it.connection == connection).collect()
    }
}
