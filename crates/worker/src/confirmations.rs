//! Checks that clients have received break notifications: see [`super::connection`].

use std::time::Instant;

use proto::ConnectionId;
use tracing::debug;

use super::connection::Transport;
use super::event_loop::Worker;

impl Worker {
    /// Time of the next check of any connection.
    pub(super) fn next_confirmation(&self) -> Option<Instant> {
        self.transports.values().filter_map(Transport::next_confirmation).min()
    }

    /// Asks the connections where a frame that must arrive is due.
    pub(super) fn serve_confirmations(&mut self, now: Instant) {
        let due = |it: &Transport| it.next_confirmation().is_some_and(|at| at <= now);
        let ids: Vec<ConnectionId> =
            self.transports.iter().filter(|(_, it)| due(it)).map(|(id, _)| *id).collect();
        for id in ids {
            self.confirm_taken(id);
            let is_lost = self.transports.get_mut(&id).is_some_and(|it| it.is_lost(now));
            if is_lost {
                debug!("connection {} did not acknowledge a break notification", id.0);
                let now = self.now();
                self.server.handle_unconfirmed(now, id);
            }
            self.serve_effects();
        }
    }

    /// Tells the engine what of a connection's frames has arrived.
    pub(super) fn confirm_taken(&mut self, id: ConnectionId) {
        let Some(transport) = self.transports.get_mut(&id) else { return };
        for confirmation in transport.take_confirmed() {
            let now = self.now();
            self.server.handle_confirmed(now, id, confirmation);
        }
    }
}
