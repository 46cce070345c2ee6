//! The engine's effects, and their execution.

use std::time::Instant;

use arbitration::FileKey;
use dtyp::ServerId;
use proto::effect::{Deletion, Unlocked};
use proto::{Effect, Reply, RequestId};
use shares::accounts::Accounts;
use shares::shares::Shares;
use shares::unix::end_when_late;
use store::Store;

use super::event_loop::Worker;
use super::kept_offer::list_interfaces;
use super::messages::{notify_file_changed, notify_turn};
use super::passing::queue::UnplacedConnection;

impl Worker {
    /// Carries out one effect of the engine. Without a result at once, the answer comes by a
    /// later completion or message.
    pub(super) fn serve(&mut self, request: Option<RequestId>, effect: Effect) {
        if let Some(effect) = self.slow_storage.delay(&self.qos, request, effect) {
            self.serve_now(request, effect);
        }
    }

    pub(super) fn serve_now(&mut self, request: Option<RequestId>, effect: Effect) {
        match effect {
            Effect::Object { user, op } => self.serve_object(request, user, op),
            Effect::FileDeleted(deletion) => self.file_deleted(deletion),
            Effect::FileUnlocked(unlocked) => self.file_unlocked(unlocked),
            Effect::NotifyFileChanged { worker, file } => self.notify_file_changed(worker, file),
            Effect::NotifyTurn { worker } => self.notify_turn(worker),
            Effect::Remove(removal) => self.remove(*removal),
            Effect::Traverse(traversal) => self.traversing.keep(traversal),
            Effect::DisconnectShare(root) => self.close_root(root),
            Effect::Withdraw(request) => self.withdraw(request),
            Effect::CheckMic(mic) => {
                self.check_mic(request.expect("SESSION_SETUP waits for this"), *mic);
            }
            Effect::CheckResponse { response, authority } => {
                let request = request.expect("SESSION_SETUP waits for this");
                self.check_response(request, *response, authority);
            }
            Effect::CheckTicket(ticket) => {
                self.check_ticket(request.expect("SESSION_SETUP waits for this"), *ticket);
            }
            Effect::CarryOut { task, session_id } => {
                self.carry_out(request.expect("IOCTL waits for this"), *task, session_id);
            }
            Effect::FindNames(questions) => {
                self.find_names(request.expect("IOCTL waits for this"), questions);
            }
            Effect::ClaimClient { connection, client_guid, message: negotiate, after_smb1 } => {
                let request = request.expect("NEGOTIATE waits for this");
                let newcomer =
                    UnplacedConnection { connection, request, client_guid, negotiate, after_smb1 };
                self.claim_client(newcomer);
            }
            Effect::FindSession { session_id, message } => {
                let request = request.expect("SESSION_SETUP waits for this");
                self.ask_for_session(session_id, &message, request);
            }
            Effect::Sleep(time) => {
                self.waiting.sleep(request.expect("a request sleeps"), Instant::now() + time);
            }
            Effect::ClosePreviousSession { session_id, user } => {
                let request = request.expect("SESSION_SETUP waits for this");
                self.close_previous_session(request, session_id, &user);
            }
            Effect::ConnectShare(connect) => self.connect_share(request, &connect),
            Effect::ChangeQuota { root, change } => self.change_quota(request, root, change),
            Effect::FindFreeSpace { root, path } => self.find_free_space(request, root, &path),
            Effect::FindQuota { root, subject } => self.find_quota(request, root, subject),
            Effect::FindReferral(question) => self.find_referral(request, *question),
            Effect::FindAccount { users, requested_user } => self.reply(request, |worker| {
                // Before a thread of the name service starts, which would have the same.
                // The client has proven the password.
                process::leave_idle_priority();
                let account = worker
                    .ask_for_account(|accounts, store| accounts.find(store, users, requested_user));
                Reply::Account(account.map(Box::new))
            }),
            Effect::FindGuest => self.reply(request, |worker| {
                worker.accounts.learn_users();
                Reply::Account(
                    worker.ask_for_account(|accounts, store| accounts.guest(store)).map(Box::new),
                )
            }),
            Effect::IsOwnName { target_name, server } => self.reply(request, |worker| {
                Reply::OwnName(worker.own_names.include(&target_name, server))
            }),
            Effect::ListNetworkInterfaces => self.reply(request, |worker| {
                let Self { kept_offer, settings, turn, .. } = worker;
                let list = || list_interfaces(&settings.config.global);
                Reply::NetworkInterfaces(kept_offer.offer(turn.monotonic, list).to_wire())
            }),
        }
    }

    /// Answers with what the server's own rights show.
    fn reply(&mut self, request: Option<RequestId>, find: impl FnOnce(&mut Self) -> Reply) {
        self.store.revert_to_server();
        let reply = find(self);
        self.answer(request, reply);
    }

    /// Asks for an account. Before the first session of this worker there is nothing to lose but
    /// connections without one: a name service that hangs may end the process.
    pub(super) fn ask_for_account<T>(
        &mut self,
        find: impl FnOnce(&mut Accounts, &mut Store) -> T,
    ) -> T {
        let Self { accounts, store, notices, .. } = self;
        if notices.had_session() {
            find(accounts, store)
        } else {
            end_when_late(|| find(accounts, store))
        }
    }

    /// Reports a deletion to the engine, behind the operation that carries it out.
    fn file_deleted(&mut self, deletion: Deletion) {
        self.run_in(Ok(deletion.store), move |_| {
            Box::new(move |worker| {
                let now = worker.now();
                worker.server.handle_deleted(now, &deletion);
            })
        });
    }

    /// Reports the end of an open with byte-range locks, behind the close of its file.
    fn file_unlocked(&mut self, unlocked: Unlocked) {
        self.run_in(Ok(unlocked.store), move |_| {
            Box::new(move |worker| {
                let now = worker.now();
                worker.server.handle_unlocked(now, &unlocked);
            })
        });
    }

    /// Sends the responses of this frame first, so that an acknowledgment is answered before the
    /// request of another client that has waited for it.
    fn notify_file_changed(&mut self, worker: ServerId, file: FileKey) {
        self.send_responses();
        self.store.revert_to_server();
        notify_file_changed(&mut self.messaging, worker, file);
    }

    fn notify_turn(&mut self, worker: ServerId) {
        self.store.revert_to_server();
        notify_turn(&mut self.messaging, worker);
    }

    fn close_previous_session(&mut self, request: RequestId, session_id: u64, user: &str) {
        self.store.revert_to_server();
        let Self { waiting, registry, messaging, .. } = self;
        let done = waiting.close_previous_session(registry, messaging, session_id, user, request);
        if done.is_some() {
            self.answer(Some(request), Reply::PreviousSessionClosed);
        }
    }

    /// Returns the shares for the server itself: the thread still has the rights of the last served
    /// user.
    pub(super) fn shares(&mut self) -> Shares<'_> {
        self.store.revert_to_server();
        Shares {
            config: &self.settings.config,
            store: &mut self.store,
            accounts: &self.accounts,
            registry: &self.registry,
            qos: &self.qos,
        }
    }

    pub(super) fn answer(&mut self, request: Option<RequestId>, reply: Reply) {
        if let Some(request) = request {
            let now = self.now();
            self.server.handle_watched_elsewhere(self.watches.is_watched_elsewhere());
            self.server.handle_reply(now, request, reply);
        }
    }
}
