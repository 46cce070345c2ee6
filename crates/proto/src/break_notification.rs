//! Break notifications on their way to the client: [MS-SMB2] 3.3.4.6, 3.3.4.7.
//!
//! A break is told to a client, not to a connection: one that the client's transport does not take
//! is told again over the next channel, until one takes it or none is left. The engine cannot see
//! what a transport takes. It marks the frames of which it wants to know, and whoever owns the
//! sockets says for each whether it was taken, or that the connection is as good as gone.

use arbitration::LeaseId;
use bytes::BytesMut;
use wire::{Command, Header, HeaderFlags};

use crate::connection::ConnectionId;
use crate::open::Open;
use crate::server::Server;
use crate::session::{Session, SessionState};

/// Breaks of a worker that may be unconfirmed at a time. Further ones are told once.
///
/// Each keeps some 200 bytes, for a second or so while the client is there; a client that makes more
/// at once has as many oplocks broken by itself.
pub const UNCONFIRMED_MAX: usize = 4_096;

/// Names a frame of which the engine wants to know whether it was taken. Never given twice.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ConfirmationId(pub u64);

/// What is broken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Holder {
    /// The lease, whichever of the client's opens share in it.
    Lease(LeaseId),
    /// The oplock of the open with this volatile id.
    Oplock(u64),
}

/// The breaks that were sent and not confirmed, oldest first.
#[derive(Debug, Default)]
pub struct BreakNotifications {
    unconfirmed: Vec<Unconfirmed>,
    confirmation_count: u64,
}

/// A break that may be lost on its way.
#[derive(Debug)]
struct Unconfirmed {
    id: ConfirmationId,
    connection: ConnectionId,
    holder: Holder,
    /// The body behind its headroom: it is the same over every channel, but is sealed anew.
    body: BytesMut,
}

impl BreakNotifications {
    fn expect(
        &mut self,
        connection: ConnectionId,
        holder: Holder,
        body: &BytesMut,
    ) -> Option<ConfirmationId> {
        if self.unconfirmed.len() >= UNCONFIRMED_MAX {
            return None;
        }
        self.confirmation_count += 1;
        let id = ConfirmationId(self.confirmation_count);
        self.unconfirmed.push(Unconfirmed { id, connection, holder, body: body.clone() });
        Some(id)
    }

    /// The client's transport has it.
    pub(crate) fn confirm(&mut self, id: ConfirmationId) {
        self.unconfirmed.retain(|it| it.id != id);
    }

    /// The client has answered, so it knows.
    pub(crate) fn acknowledged(&mut self, holder: Holder) {
        self.unconfirmed.retain(|it| it.holder != holder);
    }

    /// What was lost with a connection.
    fn take_lost(&mut self, connection: ConnectionId) -> Vec<Unconfirmed> {
        self.unconfirmed.extract_if(.., |it| it.connection == connection).collect()
    }
}

impl Server {
    /// Tells the client over its oldest channel. Where there is none, the break's time runs out, or
    /// the end of the session has closed the open.
    pub(crate) fn send_break(&mut self, holder: Holder, body: BytesMut) {
        let Some(channel) = self.channel_for(holder) else { return };
        let retry = self.globals.settings.oplock_break_retry;
        let breaks = &mut self.globals.breaks;
        let confirmation = retry.then(|| breaks.expect(channel.0, holder, &body)).flatten();
        self.notify(channel, confirmation, header(), body);
    }

    /// Sends the breaks again that a connection did not confirm, now that it is gone.
    pub(crate) fn repeat_breaks(&mut self, lost: ConnectionId) {
        for Unconfirmed { holder, body, .. } in self.globals.breaks.take_lost(lost) {
            let next = self.channel_for(holder).map(|(connection, _)| connection);
            if let Some(connection) = next.and_then(|next| self.connections.get_mut(&next)) {
                connection.repeated_breaks = connection.repeated_breaks.saturating_add(1);
            }
            self.send_break(holder, body);
        }
    }

    /// The oldest connection that a break may be told on, and the session to seal it for, if that
    /// one wants it. An oplock belongs to an open, and so to a session; a lease to the ClientGuid.
    fn channel_for(&self, holder: Holder) -> Option<(ConnectionId, Option<u64>)> {
        let shares_in = |open: &&Open, lease| open.file().is_ok_and(|it| it.lease == Some(lease));
        let of_open = match holder {
            Holder::Oplock(volatile) => self.opens.get(&volatile)?.session_id,
            Holder::Lease(id) => {
                let opens = self.opens.values().filter(|it| shares_in(it, id));
                opens.map(|it| it.session_id).min()?
            }
        };
        let may_tell = |session: &&Session| match holder {
            Holder::Oplock(_) => session.session_id == of_open,
            Holder::Lease(id) => session.negotiated.client_guid == id.client,
        };
        self.sessions
            .values()
            .filter(|session| matches!(session.state, SessionState::Valid | SessionState::Expired))
            .filter(may_tell)
            .flat_map(|session| session.bound_channels().map(move |it| (it.connection, session)))
            // Of the sessions on one connection, rather that of the open.
            .min_by_key(|(connection, it)| (*connection, it.session_id != of_open, it.session_id))
            .map(|(connection, it)| (connection, it.encrypt_data.then_some(it.session_id)))
    }
}

/// A message that answers no request: [MS-SMB2] 3.3.4.6.
fn header() -> Header {
    Header {
        command: Command::OPLOCK_BREAK,
        flags: HeaderFlags::SERVER_TO_REDIR,
        message_id: u64::MAX,
        ..Header::default()
    }
}
