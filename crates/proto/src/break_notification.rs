//! Break notifications on their way to the client: [MS-SMB2] 3.3.4.6, 3.3.4.7.
//!
//! A break is told to a client, not to a connection: one that the client's transport does not take
//! is told again over the next channel, until one takes it or none is left. The engine cannot see
//! what a transport takes. It marks the frames of which it wants to know, and whoever owns the
//! sockets says for each whether it was taken, or that the connection is as good as gone.
//!
//! What a transport has taken, its client need not have read: a connection that is reset takes with
//! it what is in the client's own buffers. So a break is kept until it is answered or its time is
//! over, and told again if its connection ends before that. A client that hears of it twice knows
//! it by the epoch of the lease, or answers twice.

use std::time::Duration;

use arbitration::LeaseId;
use bytes::BytesMut;
use wire::{Command, Header, HeaderFlags};

use crate::connection::ConnectionId;
use crate::open::Open;
use crate::server::Server;
use crate::session::{Session, SessionState};
use crate::settings::BreakRetry;

/// Breaks of a worker that may have to be told again. Beyond it the oldest is forgotten that a
/// client's transport has taken, and if none was taken, the new one is told once.
///
/// Each keeps some 200 bytes, for a second or so while the client answers; a client that makes more
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

/// The breaks that may have to be told again, oldest first.
#[derive(Debug, Default)]
pub struct BreakNotifications {
    told: Vec<Told>,
    confirmation_count: u64,
}

/// A break that may be lost on its way.
#[derive(Debug)]
struct Told {
    id: ConfirmationId,
    connection: ConnectionId,
    holder: Holder,
    /// The body behind its headroom: it is the same over every channel, but is sealed anew.
    body: BytesMut,
    /// The client's transport has it.
    is_taken: bool,
    /// When nobody waits for an answer any more.
    until: Duration,
}

impl BreakNotifications {
    fn next_id(&mut self) -> ConfirmationId {
        self.confirmation_count += 1;
        ConfirmationId(self.confirmation_count)
    }

    /// Keeps a break, if there is room.
    fn keep(&mut self, told: Told, now: Duration) -> Option<ConfirmationId> {
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
    fn take_lost(&mut self, connection: ConnectionId, now: Duration) -> Vec<Told> {
        self.told.retain(|it| it.until > now);
        self.told.extract_if(.., |it| it.connection == connection).collect()
    }
}

impl Server {
    /// Tells the client over one of its channels. Where there is none, the break's time runs out, or
    /// the end of the session has closed the open.
    pub(crate) fn send_break(&mut self, holder: Holder, body: BytesMut) {
        let until = self.globals.files.break_deadline();
        self.send_break_until(until, holder, body);
    }

    fn send_break_until(&mut self, until: Duration, holder: Holder, body: BytesMut) {
        let Some(channel) = self.channel_for(holder) else { return };
        let is_retried = match self.globals.settings.break_retry {
            BreakRetry::All => true,
            BreakRetry::LeasesOnly => matches!(holder, Holder::Lease(_)),
            BreakRetry::Never => false,
        };
        let mut confirmation = None;
        if is_retried {
            let (connection, body) = (channel.0, body.clone());
            let now = self.globals.files.now();
            let breaks = &mut self.globals.breaks;
            let id = breaks.next_id();
            let told = Told { id, connection, holder, body, is_taken: false, until };
            confirmation = breaks.keep(told, now);
        }
        self.notify(channel, confirmation, header(), body);
    }

    /// Sends the breaks again that were told over a connection which is gone, and not answered.
    pub(crate) fn repeat_breaks(&mut self, lost: ConnectionId) {
        let now = self.globals.files.now();
        for Told { holder, body, until, .. } in self.globals.breaks.take_lost(lost, now) {
            let next = self.channel_for(holder).map(|(connection, _)| connection);
            if let Some(connection) = next.and_then(|next| self.connections.get_mut(&next)) {
                connection.repeated_breaks = connection.repeated_breaks.saturating_add(1);
            }
            self.send_break_until(until, holder, body);
        }
    }

    /// The oldest connection that a break may be told on, and the session to seal it for, if that
    /// one wants it. An oplock belongs to an open, and so to a session; a lease to the ClientGuid and
    /// the user of its first session.
    /// Where oplocks are broken as by Windows, it is the newest connection for those.
    fn channel_for(&self, holder: Holder) -> Option<(ConnectionId, Option<u64>)> {
        let shares_in = |open: &&Open, lease| open.file().is_ok_and(|it| it.lease == Some(lease));
        let of_open = match holder {
            Holder::Oplock(volatile) => self.opens.get(&volatile)?.session_id,
            Holder::Lease(id) => {
                let opens = self.opens.values().filter(|it| shares_in(it, id));
                opens.map(|it| it.session_id).min()?
            }
        };
        fn user(session: &Session) -> Option<&str> {
            session.account.as_ref().map(|it| it.identity.as_str())
        }
        let holds = self.sessions.get(&of_open).and_then(user);
        let may_tell = |session: &&Session| match holder {
            Holder::Oplock(_) => session.session_id == of_open,
            // A ClientGuid is no secret: another user who says the same must not keep the break from
            // who holds the lease.
            Holder::Lease(id) => {
                session.negotiated.client_guid == id.client && user(session) == holds
            }
        };
        let sessions = self.sessions.values();
        let channels = sessions
            .filter(|session| matches!(session.state, SessionState::Valid | SessionState::Expired))
            .filter(may_tell)
            .flat_map(|session| session.bound_channels().map(move |it| (it.connection, session)));
        let is_as_by_windows = self.globals.settings.break_retry == BreakRetry::LeasesOnly
            && matches!(holder, Holder::Oplock(_));
        let chosen = match is_as_by_windows {
            true => channels.max_by_key(|(connection, _)| *connection),
            // Of the sessions on one connection, rather that of the open.
            false => channels.min_by_key(|(connection, it)| {
                (*connection, it.session_id != of_open, it.session_id)
            }),
        };
        chosen.map(|(connection, it)| (connection, it.encrypt_data.then_some(it.session_id)))
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
