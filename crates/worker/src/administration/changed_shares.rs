//! Changes of shares that wait until the server has read its configuration.

use std::time::Instant;

use messaging::{Content, Done, Message, MessageKind};
use proto::RequestId;
use rpc::{Outcome, TaskFailure};
use tracing::warn;

use super::waiting_requests::{WaitingRequest, WrittenChange};
use crate::event_loop::Worker;

impl Worker {
    /// Has the supervisor read the configuration, and answers a request after that.
    pub(super) fn have_configuration_read(&mut self, request: RequestId, change: WrittenChange) {
        let now = Instant::now();
        let content = Content::new(MessageKind::RELOAD_CONFIG, &[]);
        let sent = self.messaging.send(now, self.registry.supervisor(), &content);
        if let Err(error) = sent {
            warn!("the supervisor cannot be told of a changed share: {error}");
            return self.answer_task(request, Err(TaskFailure::Failed));
        }
        match self.changed_shares.keep(request, change, now) {
            Ok(()) => {}
            Err(WrittenChange::Undone(failure)) => self.answer_task(request, Err(failure)),
            Err(WrittenChange::Added(_) | WrittenChange::Other) => {
                self.answer_task(request, Ok(Outcome::Done));
            }
        }
    }

    /// Reads the supervisor's report about the configuration; gives other messages back.
    pub(crate) fn read_about_shares(&mut self, message: Message) -> Option<Message> {
        if message.kind != MessageKind::DONE || message.sender != self.registry.supervisor() {
            return Some(message);
        }
        let done = Done::decode(&message.data)?;
        if done.request != MessageKind::RELOAD_CONFIG {
            return None;
        }
        let WaitingRequest { request, change, .. } = self.changed_shares.take_oldest()?;
        // The order of the supervisor may come later than this message.
        self.reload();
        match change {
            WrittenChange::Undone(failure) => {
                self.answer_task(request, Err(failure));
                return None;
            }
            WrittenChange::Added(added) => {
                if let Err(failure) = self.verify_added(&added) {
                    // The supervisor has read what is gone now.
                    self.have_configuration_read(request, WrittenChange::Undone(failure));
                    return None;
                }
            }
            WrittenChange::Other => {}
        }
        let in_effect = done.outcome.map(|_| Outcome::Done).map_err(|reason| {
            warn!("a changed share is not in effect: {reason}");
            TaskFailure::Failed
        });
        self.answer_task(request, in_effect);
        None
    }

    /// Answers requests for which the supervisor had no time.
    pub(crate) fn serve_changed_share_timeouts(&mut self, now: Instant) {
        while let Some(request) = self.changed_shares.take_late(now) {
            self.answer_task(request, Err(TaskFailure::Failed));
            self.serve_effects();
        }
    }
}
