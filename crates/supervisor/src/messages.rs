//! Administrators' requests to the supervisor.

use std::time::Instant;

use dtyp::ServerId;
use messaging::{Content, Message, MessageKind, PROCESSES_MAX, Process, ProcessRole, Processes};
use process::administration::{self, AdministrativeRequest};

use super::Supervisor;
use super::workers::WorkerState;

impl Supervisor {
    /// Takes the messages that are there, and tries again to send what waits for room.
    pub(super) fn take_messages(&mut self, now: Instant) {
        self.has_more_messages = false;
        for _ in 0..MESSAGES_PER_TURN_MAX {
            let Some(message) = self.messaging.poll(now) else { return };
            self.take(&message);
        }
        self.has_more_messages = true;
    }

    fn take(&mut self, message: &Message) {
        let Message { kind, sender, .. } = *message;
        match kind {
            MessageKind::LIST_PROCESSES => self.send_processes(sender),
            MessageKind::RELOAD_CONFIG => {
                let outcome = self.reload().map_err(|error| format!("{error:#}"));
                administration::report_done(&mut self.messaging, sender, kind, outcome);
            }
            _ => match administration::read(&mut self.messaging, message) {
                // Processes that are started from now on use the same level.
                AdministrativeRequest::LogLevel(log_level) => {
                    self.command.log_level = Some(log_level)
                }
                AdministrativeRequest::Nothing => {}
            },
        }
    }

    fn send_processes(&mut self, to: ServerId) {
        let supervisor =
            Process { server_id: self.registry.server_id(), role: ProcessRole::Supervisor };
        let notifyd = self.notifyd.server_id();
        let notifyd = notifyd.map(|server_id| Process { server_id, role: ProcessRole::Notifyd });
        let logond = self.logond.server_id();
        let logond = logond.map(|server_id| Process { server_id, role: ProcessRole::Logond });
        let auditd = self.auditd.server_id();
        let auditd = auditd.map(|server_id| Process { server_id, role: ProcessRole::Auditd });
        let commandd = self.commandd.server_id();
        let commandd = commandd.map(|server_id| Process { server_id, role: ProcessRole::Commandd });
        let workers = self.workers.iter().filter_map(|worker| {
            let role = match worker.state {
                WorkerState::Idle => ProcessRole::IdleWorker,
                WorkerState::Serving => ProcessRole::Worker,
                WorkerState::Stopping | WorkerState::Ending => return None,
            };
            Some(Process { server_id: worker.server_id, role })
        });
        let helpers = [notifyd, logond, auditd, commandd].into_iter().flatten();
        let all = [supervisor].into_iter().chain(helpers).chain(workers);
        let data = Processes(all.take(PROCESSES_MAX).collect()).encode();
        let content = Content::new(MessageKind::PROCESSES, &data);
        if let Err(error) = self.messaging.send(Instant::now(), to, &content) {
            tracing::debug!("cannot send the processes to {to}: {error}");
        }
    }
}

/// Messages taken before clients that wait are accepted.
const MESSAGES_PER_TURN_MAX: usize = 64;
