//! The engine's effects, and their execution.

use std::time::Instant;

use dtyp::NtStatus;
use interfaces::Offer;
use object::{ObjectOp, ObjectReply, OpenRequest, Opened, RootId, UserId};
use proto::effect::Removal;
use proto::passages::Passage;
use proto::{ConnectionId, Effect, Reply, RequestId};
use shares::shares::Shares;
use store::{Started, Store};
use trace::Phase;
use tracing::{debug, warn};
use uring::{Completion, Op};

use super::connection::Channel;
use super::event_loop::{Worker, store_token};
use super::messages::{tell_file_changed, tell_turn};
use super::passing::queue::Newcomer;
use super::store_request::{StoreRequest, Work};
use super::traced;

impl Worker {
    /// Does one thing that the engine asks for. What cannot be answered at once is answered by a
    /// later completion or message.
    pub(super) fn serve(&mut self, request: Option<RequestId>, effect: Effect) {
        if let Some(effect) = self.slow_storage.delay(&self.qos, request, effect) {
            self.serve_now(request, effect);
        }
    }

    pub(super) fn serve_now(&mut self, request: Option<RequestId>, effect: Effect) {
        let reply = match effect {
            Effect::Object { user, mut op } => {
                let more_waits = self.more_waits();
                self.store.set_more_waits(more_waits);
                let room = match &op {
                    ObjectOp::Read { buffer, .. } => buffer.len(),
                    _ => 0,
                };
                let operation = traced::operation(&op);
                let work = self.trace.store_begins(operation, request.is_some());
                let work = Work { work, room };
                let probed = self.choose_way(request, &mut op);
                let started = self.store.start(user, op);
                if let Some(probed) = probed {
                    self.look_at_way(probed, &started);
                }
                return self.go_on(request, work, started);
            }
            Effect::FileDeleted { file, stream } => {
                let now = self.now();
                self.server.handle_deleted(now, file, stream);
                return;
            }
            Effect::TellFileChanged { server, file } => {
                self.store.revert_to_server();
                tell_file_changed(&mut self.messaging, server, file);
                return;
            }
            Effect::TellTurn { server } => {
                self.store.revert_to_server();
                tell_turn(&mut self.messaging, server);
                return;
            }
            Effect::Remove(removal) => return self.remove(&removal),
            Effect::Traverse(passage) => {
                let Passage { user, root, directory } = &*passage;
                let may = self.store.may_traverse(*user, *root, directory);
                let now = self.now();
                self.server.handle_traversed(now, &passage, may);
                return;
            }
            Effect::DisconnectShare(root) => {
                self.store.close_root(root);
                return;
            }
            Effect::ConnectShare(connect) => {
                Reply::Share(self.shares().connect(&connect).map(Box::new))
            }
            Effect::FindReferral(question) => {
                Reply::Referral(self.shares().find_referral(&question.connect, &question.path))
            }
            Effect::FindAccount { user, requested_user } => {
                self.store.revert_to_server();
                // Before a thread of the name service starts, which would have the same.
                take_normal_priority();
                let account = self.accounts.find(&mut self.store, user, requested_user);
                Reply::Account(account.map(Box::new))
            }
            Effect::FindCredential { user, .. } => {
                self.store.revert_to_server();
                Reply::Credential(self.accounts.credential(&user).map(Box::new))
            }
            Effect::IsOwnName { target_name, server } => {
                self.store.revert_to_server();
                Reply::OwnName(self.own_names.include(&target_name, server))
            }
            Effect::ClaimClient { connection, client_guid, message: negotiate, after_smb1 } => {
                let request = request.expect("NEGOTIATE waits for this");
                return self.claim_client(Newcomer {
                    connection,
                    request,
                    client_guid,
                    negotiate,
                    after_smb1,
                });
            }
            Effect::FindSession { session_id } => {
                let request = request.expect("SESSION_SETUP waits for this");
                return self.ask_for_session(session_id, request);
            }
            Effect::Sleep(time) => {
                let request = request.expect("a request sleeps");
                return self.waiting.sleep(request, Instant::now() + time);
            }
            Effect::ListNetworkInterfaces => {
                self.store.revert_to_server();
                Reply::NetworkInterfaces(self.interface_offer().to_wire())
            }
            Effect::FindGuest => {
                self.store.revert_to_server();
                Reply::Account(self.accounts.guest(&mut self.store).map(Box::new))
            }
            Effect::ClosePreviousSession { session_id, user } => {
                self.store.revert_to_server();
                let request = request.expect("SESSION_SETUP waits for this");
                let waiting = &mut self.waiting;
                let registry = &self.registry;
                let messaging = &mut self.messaging;
                let done =
                    waiting.close_previous_session(registry, messaging, session_id, &user, request);
                if done.is_none() {
                    return;
                }
                Reply::PreviousSessionClosed
            }
        };
        self.answer(request, reply);
    }

    /// Returns the interfaces that are offered to the client.
    pub(super) fn interface_offer(&self) -> Offer {
        Offer::now(&self.settings.config.global).unwrap_or_else(|error| {
            warn!("cannot list the addresses of this machine: {error}");
            Offer::default()
        })
    }

    /// Returns the shares for the server itself: the thread still has the rights of the last served
    /// user.
    fn shares(&mut self) -> Shares<'_> {
        self.store.revert_to_server();
        Shares {
            config: &self.settings.config,
            store: &mut self.store,
            accounts: &self.accounts,
            registry: &self.registry,
            qos: &self.qos,
        }
    }

    /// Removes what was to be deleted with an open that ended without its worker. Its client was
    /// granted that; who the client was may not be known any more.
    fn remove(&mut self, removal: &Removal) {
        let Removal { share, folder, path, .. } = removal;
        let removed = self.shares().reopen(share, folder).and_then(|(root, user)| {
            let removed = remove_from(&mut self.store, root, user, removal);
            self.store.close_root(root);
            removed
        });
        if let Err(status) = &removed {
            let path = path.to_windows();
            warn!("share {share}: cannot delete {path:?} after its last close: {status}");
        }
        let now = self.now();
        self.server.handle_watched_elsewhere(self.watches.is_watched_elsewhere());
        self.server.handle_removed(now, removal, removed.ok().as_deref());
    }

    /// Whether this thread has other requests to see to than the one that is served.
    fn more_waits(&self) -> bool {
        !self.store_requests.is_empty() || self.channels.values().any(Channel::has_received)
    }

    /// The kernel has done something for the store.
    pub(super) fn store_completed(&mut self, slot: usize, completion: Completion) {
        let StoreRequest { request, continuation, work, promised } =
            self.store_requests.remove(slot);
        if let Some((connection, bytes)) = promised
            && let Some(channel) = self.channels.get_mut(&connection)
        {
            channel.keep_promise(bytes);
        }
        self.trace.enter(Phase::Storage);
        let started = self.store.finish(continuation, completion.op, completion.result);
        self.go_on(request, work, started);
    }

    fn go_on(&mut self, request: Option<RequestId>, work: Work, started: Started) {
        match started {
            Started::Done(result) => {
                let (bytes, status) = traced::outcome(&result, work.room);
                self.trace.store_ends(work.work, bytes, status);
                self.answer(request, Reply::Object(result));
            }
            Started::Submit(op, continuation) => {
                self.trace.enter(Phase::Other);
                let promised = self.promise(request, &op);
                let request = StoreRequest { request, continuation, work, promised };
                let slot = self.store_requests.insert(request);
                self.submit(store_token(slot), op);
            }
        }
    }

    /// Reserves room for a READ's data at the connection, so that a client cannot request more than
    /// may wait for it.
    fn promise(&mut self, request: Option<RequestId>, op: &Op) -> Option<(ConnectionId, usize)> {
        let Op::ReadAt { length, .. } = *op else { return None };
        let connection = self.server.connection_of(request?)?;
        self.channels.get_mut(&connection)?.promise(length);
        Some((connection, length))
    }

    pub(super) fn answer(&mut self, request: Option<RequestId>, reply: Reply) {
        if let Some(request) = request {
            let now = self.now();
            self.server.handle_watched_elsewhere(self.watches.is_watched_elsewhere());
            self.server.handle_reply(now, request, reply);
        }
    }
}

/// Ends the idle priority of a worker whose client came in a flood: it has proven the password.
fn take_normal_priority() {
    if process::is_idle_priority()
        && let Err(error) =
            process::set_process_priority(std::process::id(), process::Priority::Normal)
    {
        debug!("cannot return to normal priority: {error}");
    }
}

/// Opens the target of a removal, checks its identity, and closes it for good.
fn remove_from(
    store: &mut Store,
    root: RootId,
    user: UserId,
    removal: &Removal,
) -> Result<Box<Opened>, NtStatus> {
    let mut perform = |op| match store.start(user, op) {
        Started::Done(result) => result,
        Started::Submit(..) => unreachable!("names are opened and removed at once"),
    };
    let request = OpenRequest::to_remove(root, removal.path.clone());
    let ObjectReply::Opened(opened) = perform(ObjectOp::Open(Box::new(request)))? else {
        // A link that leads out of the share, in the place of a directory.
        return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
    };
    let unlink = removal.is_of(&opened);
    perform(ObjectOp::Close { open: opened.open, unlink })?;
    if unlink { Ok(opened) } else { Err(NtStatus::OBJECT_NAME_NOT_FOUND) }
}
