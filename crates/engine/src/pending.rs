//! Requests that wait: for the store, or suspended for an event that may never happen.

use std::mem::take;
use std::time::Duration;

use model::connection::ConnectionId;
use model::memory_account::Charge;
use model::now::Now;
use model::reject::Reject;
use model::request_id::RequestId;
use object::FileIdentity;
use trace::Phase;
use wire::{Command, FileId};

use crate::change::AddedName;
use crate::effect::{Effect, Reply};
use crate::pending_command::{Abandoned, PendingCommand};
use crate::request::{Chain, InFlight, Incoming};
use crate::response::Step;
use crate::server::Server;

/// Highest number of requests of a connection that wait for an event without an end.
///
/// Each keeps its message and an entry of a wait list; no known client has more than a few.
const ASYNC_COMMANDS_MAX: u32 = 511;

/// Highest size of such a request with the rest of its compound, in bytes. A CREATE with the
/// largest valid contexts is smaller; larger requests move data, and never wait like that.
const SUSPENDED_BYTES_MAX: usize = 256 * 1024;

/// Longest time for which a request for slow storage keeps its credits. Then it has its interim
/// response: clients give up a request without any response after 60 s or more. A CREATE has this
/// time for all of its waits together.
const INTERIM_TIME_MAX: Duration = Duration::from_secs(30);

/// Highest number of CREATEs whose interim response is put off; further ones get it at once.
const LATE_INTERIMS_MAX: usize = 512;

impl Server {
    /// Makes a request wait that cannot be answered yet. Gives the chain back if the request was
    /// refused instead, and the next one in it may go on.
    pub(crate) fn wait(
        &mut self,
        mut chain: Box<Chain>,
        mut incoming: Box<Incoming>,
        file_id: Option<FileId>,
        mut async_id: Option<u64>,
        step: Step,
    ) -> Option<Box<Chain>> {
        let (mut changed, mut throttled) = (None, None);
        let memory;
        let (pending, is_suspended) = match step {
            Step::Done(response) => {
                self.respond(&mut chain, &incoming, async_id, response);
                return Some(chain);
            }
            Step::Ended => return Some(chain),
            Step::Refused(reject, response) => {
                incoming.trace.refuse(reject.reason(), &reject);
                self.respond(&mut chain, &incoming, async_id, response);
                return Some(chain);
            }
            Step::Begun { pending, changed: changing } => {
                changed = changing;
                incoming.is_admitted = true;
                memory = self.globals.memory.pass(chain.memory());
                (pending, false)
            }
            Step::Wait(effect, pending) => {
                let by_name = || pending.file_being_changed();
                changed = self.changed_by(file_id, &effect).or_else(by_name);
                throttled = self.ask(&mut chain, &mut incoming, &mut async_id, file_id, effect);
                memory = self.globals.memory.pass(chain.memory());
                (pending, false)
            }
            Step::Suspend(pending) => {
                let is_silent = pending.is_silent();
                match self.suspend(&mut chain, &mut incoming, async_id, is_silent) {
                    Ok(suspended) => (async_id, memory) = suspended,
                    Err(reject) => {
                        self.abandon(pending, None);
                        self.refuse(&mut chain, &incoming, async_id, reject);
                        return Some(chain);
                    }
                }
                (pending, true)
            }
        };
        let id = incoming.id;
        if is_suspended {
            incoming.trace.wait(suspension(&incoming));
        }
        if is_suspended && let Some(file) = pending.waits_for() {
            self.globals.files.wait(file, id, pending.waits_for_program());
        }
        if let Some(open) = file_id.and_then(|file_id| self.opens.get_mut(&file_id.volatile)) {
            open.channel_sequence.wait(id, &incoming.header);
            // The CLOSE no longer has to wait for this request.
            if is_suspended && open.is_closing && incoming.header.command != Command::CLOSE {
                self.wake_closes_of(file_id);
            }
        }
        let waiting = InFlight {
            incoming,
            pending,
            chain,
            file_id,
            async_id,
            is_suspended,
            throttled,
            _memory: memory,
            changed,
        };
        self.in_flight.insert(waiting);
        None
    }

    /// Returns the file whose contents the store is asked to change, and the volatile id of the
    /// open.
    fn changed_by(&self, file_id: Option<FileId>, effect: &Effect) -> Option<(FileIdentity, u64)> {
        let Effect::Object { op, .. } = effect else { return None };
        let open = file_id.filter(|_| op.changes_contents())?;
        let file = self.opens.get(&open.volatile)?.file().ok()?;
        Some((file.identity, open.volatile))
    }

    /// Suspends a request, in as little memory as possible: the client has its credits back, unless
    /// the request waits silently, and the frame may be much longer than the rest of it. A request
    /// that was throttled before has had its interim response.
    fn suspend(
        &mut self,
        chain: &mut Chain,
        incoming: &mut Incoming,
        async_id: Option<u64>,
        is_silent: bool,
    ) -> Result<(Option<u64>, Charge), Reject> {
        if incoming.is_canceled {
            return Err(Reject::Cancelled);
        }
        if incoming.message.len() + chain.messages.len() > SUSPENDED_BYTES_MAX {
            return Err(Reject::TooLongToWait);
        }
        chain.copy_messages(incoming);
        let mut memory = self.globals.memory.keep(chain.memory())?;
        let async_id = match async_id {
            Some(async_id) => Some(async_id),
            None if is_silent || self.puts_off_interim(incoming) => None,
            None => {
                let wanted = self.globals.credits_wanted(chain, &incoming.header);
                Some(self.go_async(chain, incoming, wanted)?)
            }
        };
        // The earlier responses were sent, unless the request waits silently.
        memory.set(chain.memory());
        Ok((async_id, memory))
    }

    /// Puts off the interim response of a CREATE, if that is the setting: most breaks are
    /// acknowledged at once, which spares it.
    fn puts_off_interim(&mut self, incoming: &Incoming) -> bool {
        let delay = self.globals.settings.interim_delay;
        let late = &mut self.globals.late_interims;
        if delay.is_zero() || incoming.header.command != Command::CREATE {
            return false;
        }
        if late.iter().any(|(_, id)| *id == incoming.id) {
            return true;
        }
        let has_room = late.len() < LATE_INTERIMS_MAX;
        if has_room {
            late.push_back((incoming.now.monotonic + delay, incoming.id));
        }
        has_room
    }

    /// Sends the interim responses that were put off until now.
    pub(crate) fn send_late_interims(&mut self, now: Now) {
        while let Some((at, id)) = self.globals.late_interims.front().copied()
            && at <= now.monotonic
        {
            self.globals.late_interims.pop_front();
            let waits = |it: &InFlight| it.is_suspended && it.async_id.is_none();
            if !self.in_flight.get(id).is_some_and(waits) {
                continue;
            }
            let mut waiting = self.in_flight.remove(id).expect("it was found");
            let wanted = self.globals.credits_wanted(&waiting.chain, &waiting.incoming.header);
            match self.go_async(&mut waiting.chain, &waiting.incoming, wanted) {
                Ok(async_id) => {
                    waiting.async_id = Some(async_id);
                    self.in_flight.insert(waiting);
                }
                Err(reject) => self.refuse_waiting(waiting, reject, now),
            }
        }
    }

    /// Ends a request that waits, and goes on with the rest of its compound.
    pub(crate) fn refuse_waiting(&mut self, waiting: InFlight, reject: Reject, now: Now) {
        let InFlight { incoming, pending, mut chain, file_id, async_id, .. } = waiting;
        let id = incoming.id;
        if let Some(file) = pending.waits_for() {
            self.globals.files.forget_waiting(file, id);
        }
        self.abandon(pending, None);
        self.end_request(id, file_id);
        self.refuse(&mut chain, &incoming, async_id, reject);
        self.run_rest(*chain, now);
    }

    /// Sends the responses that the chain has so far, and the interim response after them, with as
    /// many of the `wanted` credits as there are.
    pub(crate) fn go_async(
        &mut self,
        chain: &mut Chain,
        incoming: &Incoming,
        wanted: u16,
    ) -> Result<u64, Reject> {
        // A CREATE waits at any position, and the rest of its compound with it, as in Windows: its
        // client may be unable to acknowledge a break before it has a response. So does a CLOSE,
        // which would leave its open behind.
        let waits_anywhere = matches!(incoming.header.command, Command::CREATE | Command::CLOSE);
        if !chain.messages.is_empty() && !waits_anywhere {
            return Err(Reject::AsyncInCompound);
        }
        let waiting = self.connections.get(&chain.connection).map_or(0, |it| it.async_commands);
        if waiting >= ASYNC_COMMANDS_MAX {
            return Err(Reject::TooManyAsyncCommands);
        }
        let async_id = incoming.id.0;
        self.transmit(chain.connection, chain.sealed, &mut take(&mut chain.outgoing));
        let receiver = (chain.connection, chain.sealed);
        self.respond_interim(receiver, incoming, async_id, wanted);
        Ok(async_id)
    }

    /// Sends the interim response of a request that waits long for the store, so that its client
    /// has its credits back and can cancel it: [MS-SMB2] 3.3.4.2. Without effect for a request that
    /// had one, within a compound, and for commands that clients expect to be short, unless such a
    /// request has the client's last credit: its other shares are to go on.
    ///
    /// Returns the time of the next call if the request keeps its credits until then, because
    /// [`StorageLoad`] is full: half a minute after the first call. A client that has spent
    /// its last credit gets one back at once.
    ///
    /// [`StorageLoad`]: model::storage_load::StorageLoad
    pub fn handle_slow(&mut self, now: Now, id: RequestId) -> Option<Duration> {
        let is_stuck = |waiting: &InFlight| {
            let connection = self.connections.get(&waiting.chain.connection);
            connection.is_some_and(|it| it.command_sequence_window.is_used_up())
        };
        let is_due = |waiting: &InFlight| {
            let command = waiting.incoming.header.command;
            let is_waiting = !waiting.is_suspended && waiting.throttled.is_none();
            is_waiting
                && waiting.async_id.is_none()
                && (may_be_slow(command) || may_hang(command) && is_stuck(waiting))
        };
        if !self.in_flight.get(id).is_some_and(is_due) {
            return None;
        }
        let mut waiting = self.in_flight.remove(id).expect("it was found");
        waiting.incoming.now = now;
        let keeps_credits = self.globals.keeps_credits();
        let interim_at = now.monotonic + INTERIM_TIME_MAX;
        let interim_at = *waiting.incoming.interim_at.get_or_insert(interim_at);
        if now.monotonic < interim_at && keeps_credits && !is_stuck(&waiting) {
            self.in_flight.insert(waiting);
            return Some(interim_at);
        }
        // Without an interim response it waits all the same, and keeps its credits.
        let wanted = if keeps_credits { 0 } else { waiting.incoming.header.credits };
        waiting.async_id = self.go_async(&mut waiting.chain, &waiting.incoming, wanted).ok();
        self.in_flight.insert(waiting);
        None
    }

    /// Resumes a request that was pending.
    pub(crate) fn resume_request(&mut self, now: Now, id: RequestId, reply: Reply) {
        let Some(waiting) = self.in_flight.remove(id) else {
            return; // It was canceled, and only a wake-up can come for it.
        };
        let InFlight { mut incoming, pending, mut chain, file_id, async_id, changed, .. } = waiting;
        incoming.now = now;
        incoming.trace.resume();
        if let Some(charged) = incoming.charged.take() {
            self.give_back_unread(now, charged, &reply);
        }
        if let Some((identity, volatile)) = changed {
            self.globals.files.break_granted_during_change(identity, volatile);
        }
        self.find_another_channel(&mut incoming);
        let rest = match self.commands.resume(self, &incoming, file_id, pending, reply) {
            Ok(step) => self.wait(chain, incoming, file_id, async_id, step),
            Err(Reject::Disconnect(reason)) => {
                self.disconnect(chain.connection, reason);
                None
            }
            Err(reject) => {
                self.refuse(&mut chain, &incoming, async_id, reject);
                drop(incoming);
                Some(chain)
            }
        };
        if !self.in_flight.contains(id) {
            self.end_request(id, file_id);
        }
        if let Some(chain) = rest {
            self.run_rest(*chain, now);
        }
    }

    /// Moves a request to another channel of its session, if its connection is gone, so that its
    /// change is made once and completely. Only its response is lost: its MessageId means another
    /// request on other channels. The client learns the result by repeating the request.
    fn find_another_channel(&self, incoming: &mut Incoming) {
        if self.connections.contains_key(&incoming.connection) || !incoming.may_be_repeated() {
            return;
        }
        let session = self.sessions.get(&incoming.header.session_id);
        if let Some(channel) = session.and_then(|session| session.bound_channels().next()) {
            incoming.connection = channel.connection;
        }
    }

    /// Releases the resources of a command that cannot be resumed. Returns the reason in its
    /// response, if it has one of its own.
    pub fn abandon(
        &mut self,
        pending: Box<dyn PendingCommand>,
        reply: Option<Reply>,
    ) -> Option<Reject> {
        let abandoned = pending.abandon(reply);
        let Abandoned { effect, unknown_open, reject, added, audited, unlocked } = abandoned;
        audited.into_iter().for_each(|record| self.globals.audit(*record));
        if let Some(added) = added {
            let AddedName { change, parent, parent_lease, audit } = *added;
            if let Some(audit) = audit {
                self.globals.audit_created(&audit, &change.path, change.is_directory);
            }
            self.globals.report_added(parent, parent_lease, || change);
        }
        let effects = effect.into_iter().chain(unlocked.map(Effect::FileUnlocked));
        self.globals.outbox.effects.extend(effects.map(|effect| (None, effect)));
        if let Some(volatile) = unknown_open {
            self.globals.withdraw(volatile, &mut self.opens);
        }
        reject
    }

    /// Ends a pending request for the channel sequence: [MS-SMB2] 3.3.5.2.10.
    pub(crate) fn end_request(&mut self, id: RequestId, file_id: Option<FileId>) {
        if let Some(open) = file_id.and_then(|file_id| self.opens.get_mut(&file_id.volatile)) {
            open.channel_sequence.end(id);
            if open.is_closing {
                self.wake_closes_of(file_id);
            }
        }
    }

    /// Wakes the CLOSEs of an open that wait for its other requests, and nothing else: a request
    /// that is woken in vain suspends again, and would wake the others for ever.
    fn wake_closes_of(&mut self, file_id: Option<FileId>) {
        let closes = file_id.map(|file_id| self.in_flight.closes_of(file_id.volatile));
        self.globals.outbox.requests_to_wake.extend(closes.into_iter().flatten());
    }

    /// Ends the requests of a lost connection that wait for an event and that the client can only
    /// send anew over another channel: a result that the client does not know of would conflict
    /// with its own requests.
    pub(crate) fn forget_waits(&mut self, connection: ConnectionId) {
        for id in self.in_flight.ending_with(connection) {
            let waiting = self.in_flight.remove(id).expect("listed above");
            self.abandon(waiting.pending, None);
            self.end_request(id, waiting.file_id);
        }
    }
}

/// Returns true for commands whose work in the store may take long.
fn may_be_slow(command: Command) -> bool {
    matches!(
        command,
        Command::CREATE
            | Command::FLUSH
            | Command::QUERY_DIRECTORY
            | Command::READ
            | Command::SET_INFO
            | Command::WRITE
    )
}

/// Returns true for other commands that ask the store, which may hang.
fn may_hang(command: Command) -> bool {
    matches!(command, Command::CLOSE | Command::IOCTL | Command::QUERY_INFO)
}

/// Returns the phase of a suspended request.
fn suspension(incoming: &Incoming) -> Phase {
    match incoming.header.command {
        Command::CREATE | Command::SET_INFO => Phase::Break,
        _ => Phase::Event,
    }
}
