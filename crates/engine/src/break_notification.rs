//! Break notifications on their way to the client: [MS-SMB2] 3.3.4.6, 3.3.4.7.
//!
//! A break is sent to a client, not to a connection: if the client's transport does not confirm it,
//! it is sent again over the next channel, until one confirms it or none is left. The engine cannot
//! see confirmations. It marks the frames that need one, and the owner of the sockets reports for
//! each that it was confirmed, or that the connection is as good as gone.
//!
//! A confirmed break may still be unread: the reset of a connection discards the client's own
//! receive buffers. So a break is kept until its acknowledgment or its deadline, and sent again if
//! its connection ends before. A client that gets it twice recognizes it by the epoch of the lease,
//! or acknowledges it twice.

use std::time::Duration;

use arbitration::{Caching, OutgoingBreak};
use bytes::BytesMut;
use model::caching::{lease_state, oplock_level};
use model::connection::ConnectionId;
use model::open::Open;
use model::session::{Session, SessionState};
use model::settings::BreakRetry;
use wire::lease::LeaseKey;
use wire::oplock_break::{LeaseBreakFlags, LeaseBreakNotification, OplockBreak as OplockBreakBody};
use wire::{Command, Header, HeaderFlags};

use crate::response::Response;
use crate::server::Server;
use crate::unconfirmed_breaks::{Holder, UnconfirmedBreak};

impl Server {
    /// Sends the notification of a break: [MS-SMB2] 3.3.4.6, 3.3.4.7.
    pub(crate) fn notify_of_break(&mut self, outgoing: &OutgoingBreak) {
        let Some(open) = self.opens.get(&outgoing.open) else { return };
        let notice = outgoing.notice;
        let body = match &outgoing.lease {
            None => Response::new(&OplockBreakBody {
                oplock_level: oplock_level(notice.to & Caching::READ),
                file_id: open.file_id,
            }),
            Some(lease) => {
                let mut flags = LeaseBreakFlags::empty();
                flags.set(LeaseBreakFlags::ACK_REQUIRED, notice.ack_required);
                Response::new(&LeaseBreakNotification {
                    new_epoch: if lease.is_v2 { lease.epoch } else { 0 },
                    flags,
                    lease_key: LeaseKey(lease.id.key),
                    current_lease_state: lease_state(notice.from),
                    new_lease_state: lease_state(notice.to),
                })
            }
        };
        let holder =
            outgoing.lease.map_or(Holder::Oplock(outgoing.open), |it| Holder::Lease(it.id));
        self.send_break(holder, body.buffer);
    }

    /// Sends a break over one of the client's channels. Without any, the break ends at its
    /// deadline, or the end of the session has closed the open.
    fn send_break(&mut self, holder: Holder, body: BytesMut) {
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
            let unconfirmed =
                UnconfirmedBreak { id, connection, holder, body, is_taken: false, until };
            confirmation = breaks.keep(unconfirmed, now);
        }
        self.notify(channel, confirmation, header(), body);
    }

    /// Sends the breaks again that were sent over a lost connection and not acknowledged.
    pub(crate) fn repeat_breaks(&mut self, lost: ConnectionId) {
        let now = self.globals.files.now();
        for UnconfirmedBreak { holder, body, until, .. } in self.globals.breaks.take_lost(lost, now)
        {
            let next = self.channel_for(holder).map(|(connection, _)| connection);
            if let Some(connection) = next.and_then(|next| self.connections.get_mut(&next)) {
                connection.repeated_breaks = connection.repeated_breaks.saturating_add(1);
            }
            self.send_break_until(until, holder, body);
        }
    }

    /// Returns the oldest connection for a break, and the session to encrypt for, if that requires
    /// encryption. An oplock belongs to an open, and so to a session; a lease to the ClientGuid and
    /// the user of its first session. For oplocks it is the newest connection, if they are broken
    /// as by Windows.
    fn channel_for(&self, holder: Holder) -> Option<(ConnectionId, Option<u64>)> {
        let shares_in = |open: &&Open, lease| open.file().is_ok_and(|it| it.lease == Some(lease));
        let of_open = match holder {
            Holder::Oplock(volatile) => self.opens.get(&volatile)?.session_id,
            Holder::Lease(id) => {
                let opens = self.opens.values().filter(|it| shares_in(it, id));
                opens.map(|it| it.session_id).min()?
            }
        };
        let holds = self.sessions.get(&of_open).and_then(Session::identity);
        let may_notify = |session: &&Session| match holder {
            Holder::Oplock(_) => session.session_id == of_open,
            // A ClientGuid is no secret: another user with the same one must not intercept the
            // break.
            Holder::Lease(id) => {
                session.negotiated.client_guid == id.client && session.identity() == holds
            }
        };
        let sessions = self.sessions.values();
        let channels = sessions
            .filter(|session| matches!(session.state, SessionState::Valid | SessionState::Expired))
            .filter(may_notify)
            .flat_map(|session| session.bound_channels().map(move |it| (it.connection, session)));
        let is_as_by_windows = self.globals.settings.break_retry == BreakRetry::LeasesOnly
            && matches!(holder, Holder::Oplock(_));
        let chosen = match is_as_by_windows {
            true => channels.max_by_key(|(connection, _)| *connection),
            // Of the sessions on one connection, that of the open comes first.
            false => channels.min_by_key(|(connection, it)| {
                (*connection, it.session_id != of_open, it.session_id)
            }),
        };
        chosen.map(|(connection, it)| (connection, it.encrypt_data.then_some(it.session_id)))
    }
}

/// Makes the header of a message that answers no request: [MS-SMB2] 3.3.4.6.
fn header() -> Header {
    Header {
        command: Command::OPLOCK_BREAK,
        flags: HeaderFlags::SERVER_TO_REDIR,
        message_id: u64::MAX,
        ..Header::default()
    }
}
