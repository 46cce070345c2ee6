//! Events for the engine: `Server::handle_*`, called by the worker (and by `testkit`).
//!
//! Each takes the time, changes the state, and ends with `Server::quiesce`, which does the deferred
//! work of the handler: files to check, woken requests, changes for watches, ended sessions.
//! Results wait in `Globals::outbox` until the worker takes them with `Server::poll_*`. So no
//! request is resumed between two events.

use std::net::SocketAddr;
use std::time::Duration;

use arbitration::FileKey;
use bytes::BytesMut;
use dtyp::NtStatus;
use dtyp::upcase::equal_ignoring_case;
use model::connection::{Connection, ConnectionId};
use model::file_key::key;
use model::logon::Progress;
use model::logon_throttle::{self, LogonThrottle};
use model::now::Now;
use model::open::Open;
use model::reject::Disconnect;
use model::request_id::RequestId;
use model::session::{Session, SessionState};
use model::traversals::Traversal;
use model::tree_connect::TreeConnect;
use object::{HostChange, HostChangeKind, LocalOpen, Opened};

use crate::effect::{ByClose, Deletion, Effect, Removal, Remover, Reply, Unlocked};
use crate::server::{Passed, Server};
use crate::unconfirmed_breaks::ConfirmationId;
use crate::watches;

impl Server {
    /// Takes a new connection: [MS-SMB2] 3.3.5.1.
    pub fn handle_connect(
        &mut self,
        now: Now,
        client: SocketAddr,
        server: SocketAddr,
    ) -> ConnectionId {
        let id = self.next_connection_id();
        self.globals.files.set_now(now.monotonic);
        let credits_max = self.globals.settings.credits_max;
        let progress = Progress::new(now.monotonic);
        let began = (now.wall, progress);
        self.connections.insert(id, Connection::new(client, server, began, credits_max));
        self.deadlines.extend(progress.deadline().map(|deadline| (id, deadline)));
        // The previous last connection may have been a user's.
        self.report_logon();
        id
    }

    /// Takes a connection handed over by another worker, and serves its NEGOTIATE: see
    /// [`Effect::ClaimClient`].
    pub fn handle_passed_connection(&mut self, now: Now, passed: Passed) -> ConnectionId {
        let id = self.handle_connect(now, passed.client, passed.server);
        let connection = self.connections.get_mut(&id).expect("it was just made");
        connection.was_passed = true;
        if passed.after_smb1 {
            connection.follow_smb1();
        }
        self.globals.trace.frame_passed();
        self.handle_frame(id, now, passed.message);
        id
    }

    /// Gives the server the memory in which all workers count failed logons.
    pub fn handle_logon_slots(&mut self, slots: Box<dyn logon_throttle::Slots>) {
        self.globals.logon_throttle = LogonThrottle::new(slots);
    }

    /// Drops the connection of an [`Effect::ClaimClient`], which another worker owns now.
    pub fn handle_passed_on(&mut self, id: ConnectionId) {
        self.in_flight.forget_connection(id);
        self.deadlines.remove(&id);
        self.connections.remove(&id);
    }

    /// Takes the reply to an effect with a request id.
    pub fn handle_reply(&mut self, now: Now, id: RequestId, reply: Reply) {
        self.globals.files.set_now(now.monotonic);
        self.globals.throttle.end_at_storage(now, id, &reply);
        self.resume_request(now, id, reply);
        self.quiesce(now);
    }

    /// Handles a pause of the operation for a request that is carried out in parts: others of the
    /// client may begin at the storage.
    pub fn handle_paused(&mut self, now: Now, id: RequestId) {
        self.globals.throttle.pause_at_storage(now, id);
        self.notify_turns(now);
    }

    /// Handles the start of the next part of such an operation.
    pub fn handle_resumed(&mut self, now: Now, id: RequestId) {
        self.globals.throttle.resume_at_storage(now, id);
    }

    /// Handles a change of a file's record that concerns this worker.
    pub fn handle_file_changed(&mut self, now: Now, file: FileKey) {
        self.globals.files.set_now(now.monotonic);
        self.check_file(file);
        self.quiesce(now);
    }

    /// Handles the end of a deletion: see [`Effect::FileDeleted`].
    pub fn handle_deleted(&mut self, now: Now, deletion: &Deletion) {
        self.globals.files.set_now(now.monotonic);
        match deletion.remover {
            Remover::Closer => self.globals.end_deletion(deletion),
            Remover::CloserFirst | Remover::Requester => self.globals.pass_on_deletion(deletion),
        }
        self.quiesce(now);
    }

    /// Handles the end of an open with byte-range locks: see [`Effect::FileUnlocked`].
    pub fn handle_unlocked(&mut self, now: Now, unlocked: &Unlocked) {
        self.globals.files.set_now(now.monotonic);
        self.globals.files.release_all_locks(unlocked.file, unlocked.volatile);
        self.quiesce(now);
    }

    /// Handles that other programs of this machine open files of which the store has a lease: their
    /// oplocks are broken, as by an open of another client.
    pub fn handle_leases_broken(&mut self, now: Now, local_opens: &[LocalOpen]) {
        self.globals.files.set_now(now.monotonic);
        let deadline = self.globals.files.break_deadline();
        let opens = self.opens.values().filter(|open| {
            open.file()
                .is_ok_and(|file| file.has_kernel_lease && local_opens.contains(&file.local_open))
        });
        let broken: Vec<_> = opens.filter_map(Open::identity).collect();
        for (identity, volatile) in broken {
            let (id, file) = (self.globals.files.open_id(volatile), key(identity));
            // A record that cannot be read has no oplocks.
            let _ = self.globals.files.change(file, |record, notify| {
                let before = record.clone();
                record.break_oplock(id, deadline, notify);
                ((), *record != before)
            });
            // It may have lost its oplock before the lease.
            self.globals.files.check_again(file);
        }
        self.quiesce(now);
    }

    /// Takes the result of an [`Effect::Remove`]: the removed file, or the reason why it stays.
    pub fn handle_removed(
        &mut self,
        now: Now,
        removal: &Removal,
        removed: Result<&Opened, NtStatus>,
    ) {
        self.globals.files.set_now(now.monotonic);
        if removed.is_err_and(Removal::is_for_another_worker)
            && self.globals.files.delegate_deletion(removal.file, removal.mark)
        {
            return self.quiesce(now);
        }
        self.globals.audit_removed(removal, removed);
        if let Ok(Opened { parent, metadata, path, .. }) = removed {
            if let Some(parent) = parent {
                self.globals.files.break_for_listing(*parent, None);
            }
            if self.globals.is_watched() && removal.close == ByClose::Nothing {
                self.globals.outbox.changes.push(HostChange {
                    path: path.below(&removal.folder),
                    is_directory: metadata.is_directory() && path.stream().is_none(),
                    kind: HostChangeKind::Removed,
                });
            }
        }
        self.globals.files.end_deletion(removal.file, removal.mark);
        self.quiesce(now);
    }

    /// Handles the end of a connection: [MS-SMB2] 3.3.7.1.
    pub fn handle_disconnect(&mut self, now: Now, id: ConnectionId) {
        self.globals.files.set_now(now.monotonic);
        self.forget_connection(id);
        self.quiesce(now);
    }

    /// Handles the client's confirmation of the frame with this `Transmit::confirmation`.
    pub fn handle_confirmed(&mut self, now: Now, id: ConnectionId, confirmation: ConfirmationId) {
        if self.connections.get(&id).is_some_and(|it| it.confirms_nothing) {
            return self.handle_unconfirmed(now, id);
        }
        self.globals.breaks.confirm(confirmation);
    }

    /// Handles a frame with a `Transmit::confirmation` that was not confirmed in time: the
    /// connection is as good as gone, and its unconfirmed breaks go out on another one.
    pub fn handle_unconfirmed(&mut self, now: Now, id: ConnectionId) {
        self.globals.files.set_now(now.monotonic);
        self.disconnect(id, Disconnect::BreakNotConfirmed);
        self.quiesce(now);
    }

    /// Ends a session whose user has set up another one elsewhere: [MS-SMB2] 3.3.5.5.3. Another
    /// user's session is left alone.
    pub fn handle_close_session_of(&mut self, now: Now, session_id: u64, user: &str) {
        self.globals.files.set_now(now.monotonic);
        if self.sessions.get(&session_id).and_then(Session::identity) == Some(user) {
            self.globals.outbox.replaced_sessions.push(session_id);
            self.globals.outbox.ending_sessions.push(session_id);
        }
        self.quiesce(now);
    }

    /// Ends the tree connects to a share, or to all of them but IPC$ without a name, and closes
    /// their opens: [MS-SMB2] 3.3.4.15, but the share stays. Returns the number of tree connects.
    pub fn handle_close_share(&mut self, now: Now, share: Option<&str>) -> usize {
        self.globals.files.set_now(now.monotonic);
        let mut closed = 0;
        for session in self.sessions.values_mut() {
            let is_meant = |tree: &TreeConnect| match share {
                Some(name) => equal_ignoring_case(&tree.share.name, name),
                None => !tree.is_pipe(),
            };
            let trees = session.tree_connects.iter().filter(|(_, tree)| is_meant(tree));
            let tree_ids: Vec<u32> = trees.map(|(tree_id, _)| *tree_id).collect();
            closed += tree_ids.len();
            for tree_id in tree_ids {
                self.globals.end_tree_connect(session, tree_id, &mut self.opens);
            }
        }
        self.quiesce(now);
        closed
    }

    /// Takes changes by others: another worker's client, or a program of this host.
    ///
    /// They are delivered one after the other, even if they arrive together: a pending request is
    /// answered with the first, and the next request with the next. `at` is a time on the clock of
    /// [`Now::monotonic`] at which they had happened but were not reported yet: watches that began
    /// later do not get them.
    pub fn handle_changes(&mut self, now: Now, at: Duration, changes: &[HostChange]) {
        self.globals.files.set_now(now.monotonic);
        for change in changes {
            watches::report(self, change, Some(at));
            self.quiesce(now);
        }
    }

    /// Takes the answer to [`Effect::Traverse`]; none if the directory is gone.
    pub fn handle_traversed(&mut self, now: Now, traversal: &Traversal, may: Option<bool>) {
        self.globals.files.set_now(now.monotonic);
        watches::traversed(self, traversal, may);
        self.quiesce(now);
    }

    /// Notes that the other workers know of a watch, so that no later change of theirs is missed.
    /// The directory is checked once more for earlier ones. `at` is a time on the clock of
    /// [`Now::monotonic`] after they knew: the watch began then, see [`Server::handle_changes`].
    pub fn handle_watched(&mut self, now: Now, at: Duration, volatile: u64) {
        watches::begun(self, at, volatile);
        let waiting = self.in_flight.suspended_on(volatile);
        self.globals.outbox.requests_to_wake.extend(waiting);
        self.quiesce(now);
    }

    /// Sets whether a watch exists through another worker. Without any, no change is sent. Call it
    /// before every `handle_*` that may cause a change.
    pub fn handle_watched_elsewhere(&mut self, is_watched_elsewhere: bool) {
        self.globals.is_watched_elsewhere = is_watched_elsewhere;
    }

    /// Handles all that is due. See [`Server::poll_timeout`].
    pub fn handle_timeout(&mut self, now: Now) {
        self.globals.files.set_now(now.monotonic);
        self.globals.buffers.forget_idle(now.monotonic);
        for file in self.globals.files.take_overdue(now.monotonic) {
            self.check_file(file);
        }
        self.send_late_interims(now);
        let late: Vec<_> = self.deadlines.iter().filter(|(_, at)| **at <= now.monotonic).collect();
        let late: Vec<_> = late.into_iter().map(|(id, _)| *id).collect();
        for id in late {
            self.check_progress(now, id);
        }
        if self.globals.next_expiry.is_some_and(|at| at <= now.monotonic) {
            self.expire_sessions(now.monotonic);
        }
        self.release(now);
        self.quiesce(now);
    }

    /// Ends the validity of sessions whose user's ticket has ended, until the user authenticates
    /// again: [MS-SMB2] 3.3.2.5 Session Expiration Timer.
    fn expire_sessions(&mut self, now: Duration) {
        for session in self.sessions.values_mut() {
            if session.state == SessionState::Valid && session.expires.is_some_and(|at| at <= now) {
                session.state = SessionState::Expired;
            }
        }
        let valid = self.sessions.values().filter(|it| it.state == SessionState::Valid);
        self.globals.next_expiry = valid.filter_map(|it| it.expires).min();
    }

    /// Resumes requests that waited for their turn at the storage, after another worker's
    /// [`Effect::NotifyTurn`].
    pub fn handle_turn(&mut self, now: Now) {
        self.globals.files.set_now(now.monotonic);
        self.release(now);
        self.quiesce(now);
    }

    /// Takes the buffer of a frame that was sent, for reuse.
    pub fn handle_sent(&mut self, now: Now, frame: BytesMut) {
        self.globals.buffers.give(frame, now.monotonic);
    }

    /// Does the deferred work of handlers until none is left; usually there is none. A request that
    /// is resumed here may defer more, but only when its wait ends.
    #[inline(always)]
    pub(crate) fn quiesce(&mut self, now: Now) {
        if !self.globals.has_no_deferred_work(self.in_flight.is_empty()) {
            self.serve_deferred_work(now);
        }
    }

    /// Resumes requests, checks files and sends notices that handlers deferred.
    #[cold]
    pub(crate) fn serve_deferred_work(&mut self, now: Now) {
        loop {
            self.notify_turns(now);
            self.end_throttled_without_tree(now);
            watches::deliver(self);
            let own = self.globals.files.worker();
            for (file, worker) in self.globals.files.take_files_to_check() {
                if worker == own {
                    self.check_file(file);
                } else {
                    let effect = Effect::NotifyFileChanged { worker, file };
                    self.globals.outbox.effects.push_back((None, effect));
                }
            }
            // Emptied in place, because the next CLOSE fills it again.
            let mut ended_count = 0;
            while let Some(&volatile) = self.globals.outbox.closed_opens.get(ended_count) {
                ended_count += 1;
                let on_open = self.in_flight.suspended_on(volatile);
                self.globals.outbox.requests_to_wake.extend(on_open);
                self.end_throttled_on(now, volatile);
            }
            self.globals.outbox.closed_opens.clear();
            if let Some(id) = self.globals.outbox.requests_to_wake.pop_front() {
                if self.in_flight.get(id).is_some_and(|it| it.is_suspended) {
                    self.resume_request(now, id, Reply::Woken);
                }
                continue;
            }
            // Sessions end last, so that the responses to their requests are still signed and
            // encrypted.
            if self.close_ending_sessions() {
                continue;
            }
            let ended = std::mem::take(&mut self.globals.outbox.ending_sessions);
            if ended.is_empty() {
                return;
            }
            for session_id in ended {
                self.end_session(session_id);
            }
        }
    }
}
