//! Tasks that came over srvsvc, nearly all of administrators: [MS-SRVS] 3.1.4.
//!
//! Lists are made of the tables that all workers share. A session is closed by a message to its
//! worker, and an open by a mark in its file's record. A change of shares is written to the file of
//! added shares, and the supervisor reads the configuration again before the answer.

mod changed_shares;
mod in_use;
mod share_tasks;
mod transports;
pub(super) mod waiting_requests;

use proto::{Reply, RequestId};
use rpc::{Outcome, Task, TaskFailure};

use self::waiting_requests::WrittenChange;
use super::event_loop::Worker;

impl Worker {
    /// Carries out a task, whose requester has the right to it.
    pub(super) fn carry_out(&mut self, request: RequestId, task: Task, session_id: u64) {
        self.store.revert_to_server();
        let done = match task {
            Task::ListSessions => self.list_sessions(),
            Task::ListFiles => self.list_files(),
            Task::ListTreeConnects => self.list_tree_connects(),
            Task::ListTransports => self.list_transports(),
            Task::CloseSessions { client, user } => {
                self.close_sessions(session_id, client.as_deref(), user.as_deref())
            }
            Task::CloseFile(number) => self.close_file(number),
            Task::AddShare { name, change } => match self.add_share(name, change) {
                Ok(added) => {
                    return self.have_configuration_read(request, WrittenChange::Added(added));
                }
                Err(failure) => Err(failure),
            },
            Task::ChangeShare { name, change } => match self.change_share(&name, change) {
                Ok(share_tasks::Effect::AtOnce) => Ok(Outcome::Done),
                Ok(share_tasks::Effect::AfterReload) => {
                    return self.have_configuration_read(request, WrittenChange::Other);
                }
                Err(failure) => Err(failure),
            },
            Task::RemoveShare(name) => match self.remove_share(&name) {
                Ok(()) => return self.have_configuration_read(request, WrittenChange::Other),
                Err(failure) => Err(failure),
            },
        };
        self.answer_task(request, done);
    }

    fn answer_task(&mut self, request: RequestId, done: Result<Outcome, TaskFailure>) {
        let outcome = done.unwrap_or_else(Outcome::Failed);
        self.answer(Some(request), Reply::Outcome(Box::new(outcome)));
    }
}
