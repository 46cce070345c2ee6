//! Requests of the supervisor and of other processes to a worker.

use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use dtyp::ServerId;
use messaging::MessageKind;
use process::control::{Received, ToWorker};
use process::log;
use process::{Priority, administration};
use settings::Settings;
use shares::classes::membership;
use shares::server_settings::server_settings;
use trace::Phase;
use tracing::{debug, info, warn};
use uring::{Op, Token};

use super::event_loop::{CONTROL, MESSAGES, Worker, slow_ns};
use super::messages::{MessageRequest, Waiting};
use super::own_names::OwnNames;

/// Longest wait for requests to end after the order to stop.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

impl Worker {
    pub(super) fn watch_control(&mut self) {
        let fd = self.control.as_fd().as_raw_fd();
        self.submit(Token(CONTROL), Op::PollReadable { fd });
    }

    pub(super) fn read_control(&mut self) {
        self.trace.enter(Phase::Other);
        loop {
            match self.control.receive() {
                Ok(Received::Nothing) => break,
                Ok(Received::Closed) => return self.stop("the supervisor is gone"),
                Ok(Received::Message(ToWorker::Shutdown)) => {
                    process::leave_idle_priority();
                    return self.stop("requested");
                }
                Ok(Received::Message(ToWorker::Priority(priority))) => take_priority(priority),
                Ok(Received::Message(ToWorker::Reload { .. })) => self.reload(),
                Ok(Received::Message(ToWorker::WatchAgain)) => self.watch_again(),
                Ok(Received::Message(ToWorker::LogonsFailed)) => self.fail_logons(),
                Ok(Received::Message(ToWorker::LogonsAgain)) => self.repeat_logons(),
                Ok(Received::Message(ToWorker::PathRules { are_newer })) => {
                    self.path_rules_answered(are_newer);
                }
                Ok(Received::Message(ToWorker::Log(file))) => log::continue_in(file),
                Ok(Received::Message(ToWorker::Connection(socket))) => {
                    self.add_connection(socket.into());
                }
                Err(error) => warn!("cannot receive from the supervisor: {error}"),
            }
        }
        self.watch_control();
    }

    pub(super) fn watch_messages(&mut self) {
        if let Some(fd) = self.messaging.wake_source().map(|fd| fd.as_raw_fd()) {
            self.submit(Token(MESSAGES), Op::PollReadable { fd });
        }
    }

    pub(super) fn read_messages(&mut self) {
        self.take_messages();
        self.watch_messages();
    }

    pub(super) fn take_messages(&mut self) {
        self.trace.enter(Phase::Messages);
        // Messages that waited for room may need a new connection, which is the server's to make.
        self.store.revert_to_server();
        while let Some(message) = self.messaging.poll(Instant::now()) {
            self.store.revert_to_server();
            let rest = self.read_passing(message);
            let rest = rest.and_then(|message| self.read_about_logons(message));
            let rest = rest.and_then(|message| self.read_about_sessions(message));
            let Some(message) = rest.and_then(|message| self.read_about_shares(message)) else {
                self.serve_effects();
                continue;
            };
            match self.waiting.read(&mut self.messaging, &message) {
                MessageRequest::CloseSession { session_id, user, sender } => {
                    let now = self.now();
                    self.server.handle_close_session_of(now, session_id, &user);
                    self.serve_effects();
                    self.store.revert_to_server();
                    Waiting::report_closed(&mut self.messaging, sender, session_id);
                }
                MessageRequest::EndSession(session_id) => {
                    let now = self.now();
                    self.server.handle_close_session(now, session_id);
                }
                MessageRequest::ListChannels { sender } => self.report_channels(sender),
                MessageRequest::CloseShare { share, sender } => self.close_share(&share, sender),
                MessageRequest::Changed(changes) => {
                    let now = self.now();
                    self.server.handle_changes(now, changes.at, &changes.changes);
                }
                MessageRequest::LookAtFile(file) => {
                    let now = self.now();
                    self.server.handle_file_changed(now, file);
                }
                MessageRequest::TakeTurn => {
                    let now = self.now();
                    self.server.handle_turn(now);
                }
                MessageRequest::GoOn(request) => {
                    self.answer(Some(request), proto::Reply::PreviousSessionClosed);
                }
                MessageRequest::Shutdown => self.stop("requested"),
                MessageRequest::Reload => self.reload(),
                MessageRequest::Nothing => {}
            }
            self.serve_effects();
        }
    }

    /// Disconnects all clients from a share; `*` means all shares.
    fn close_share(&mut self, share: &str, asked_by: ServerId) {
        let now = self.now();
        let closed = self.server.handle_close_share(now, (share != "*").then_some(share));
        self.serve_effects();
        self.store.revert_to_server();
        if closed > 0 {
            info!("closed {closed} tree connects of {share} at an administrator's request");
        }
        let (closed, kind) = (closed.try_into().unwrap_or(u64::MAX), MessageKind::CLOSE_SHARE);
        administration::report_done(&mut self.messaging, asked_by, kind, Ok(closed));
    }

    /// Ends all connections; the loop ends after the requests in flight.
    pub(super) fn stop(&mut self, why: &str) {
        debug!("stopping: {why}");
        self.leave_client("the server is stopping");
    }

    /// As [`Self::stop`], for a reason that the client's lines in the log name.
    pub(super) fn leave_client(&mut self, why: &'static str) {
        self.had_client = true;
        self.stop_at.get_or_insert_with(|| Instant::now() + SHUTDOWN_TIMEOUT);
        self.lose_all(why);
    }

    /// Reads the configuration again; one that cannot be read changes nothing.
    pub(super) fn reload(&mut self) {
        self.store.revert_to_server();
        match Settings::load(self.settings.source.clone()) {
            Ok(settings) => {
                let engine = server_settings(&settings, self.server_guid, self.keeps_persistent);
                self.server.handle_settings(engine);
                self.accounts.reopen(&settings);
                self.own_names = OwnNames::of(&settings.config);
                self.kept_offer.forget();
                self.trace.set_slow_threshold(slow_ns(&settings.config.global));
                if let Err(error) = log::follow_without_file(&settings) {
                    warn!("cannot change the log: {error:#}");
                }
                let (config, page) = (&settings.config, &self.qos);
                let (store, threads) = (&self.store, &self.storage_threads);
                self.server.handle_classes(|account, client, share, root| {
                    let device =
                        root.and_then(|root| store.device(root).or_else(|| threads.device(root)));
                    membership(config, page, account, client, share, device)
                });
                self.settings = settings;
                info!("configuration reloaded");
            }
            Err(error) => warn!("reload failed, the old configuration stays in effect: {error:#}"),
        }
    }
}

/// Gives this thread a priority, and so those that it starts later. A client without a user has
/// started none before.
fn take_priority(priority: Priority) {
    match priority {
        Priority::Normal => process::leave_idle_priority(),
        Priority::Idle => {
            if let Err(error) = process::take_idle_priority() {
                debug!("cannot take idle priority: {error}");
            }
        }
    }
}
