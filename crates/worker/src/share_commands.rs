//! Commands of shares at the start and the end of tree connects (`preexec`, `postexec`).
//!
//! They run one after the other, in the order of those events. The event loop goes on meanwhile:
//! the end of a shell is a completion like others.

pub(super) mod queue;

use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::time::Instant;

use object::RootId;
use proto::{Reply, RequestId, ShareRefusal};
use shares::share_commands::{ShareCommand, ShareCommands};
use shares::shares::Prepared;
use trace::Phase;
use tracing::{debug, warn};
use uring::{Op, Token};

use super::event_loop::{COMMANDS, Worker};
use super::shells::{Output, log_failure};
use queue::{COMMAND_TIMEOUT, Event, Job, KILL_TIMEOUT, Running, WaitingConnect};

impl Worker {
    /// Goes on with a tree connect once the commands of its share have ended.
    pub(super) fn run_before_connect(
        &mut self,
        request: Option<RequestId>,
        mut prepared: Box<Prepared>,
    ) {
        let ShareCommands { before, after, free_space, quotas } = prepared.take_commands();
        let connect = WaitingConnect { request, prepared, after, free_space, quotas };
        if before.is_empty() && connect.after.is_empty() {
            return self.open_prepared(connect);
        }
        let connect = Box::new(connect);
        self.command_queue.jobs.push_back(Job { commands: before, of: Event::Connect(connect) });
        self.run_commands();
    }

    /// Keeps the commands for the end of a tree connect.
    pub(super) fn keep_commands(&mut self, root: RootId, after: VecDeque<ShareCommand>) {
        if !after.is_empty() {
            self.command_queue.after.insert(root, after);
        }
    }

    /// Runs the commands for the end of a tree connect.
    pub(super) fn run_after_connect(&mut self, root: RootId) {
        if let Some(commands) = self.command_queue.after.remove(&root) {
            self.command_queue.jobs.push_back(Job { commands, of: Event::Disconnect });
            self.run_commands();
        }
    }

    /// Starts the next command, and ends the jobs before it.
    fn run_commands(&mut self) {
        while self.command_queue.running.is_none()
            && let Some(job) = self.command_queue.jobs.front_mut()
        {
            if let Some(command) = job.commands.pop_front() {
                self.start_command(command);
                continue;
            }
            match self.command_queue.jobs.pop_front().map(|job| job.of) {
                Some(Event::Connect(connect)) => self.open_after_commands(*connect),
                Some(Event::Disconnect) | None => {}
            }
        }
    }

    fn open_after_commands(&mut self, connect: WaitingConnect) {
        match self.shares().verify_room_after_commands(&connect.prepared) {
            Ok(()) => self.open_prepared(connect),
            Err(refusal) => self.answer(connect.request, Reply::Share(Err(refusal))),
        }
    }

    fn start_command(&mut self, command: ShareCommand) {
        let ShareCommand { share, parameter, command: text, user, .. } = &command;
        debug!("share {share}: {parameter} starts");
        match self.start_shell(text, user, Output::Dropped) {
            Ok(shell) => {
                let queue = &mut self.command_queue;
                queue.last = queue.last.wrapping_add(1);
                let (number, until) = (queue.last, Some(Instant::now() + COMMAND_TIMEOUT));
                let is_killed = false;
                queue.running = Some(Running { number, shell, command, until, is_killed });
                self.watch_command();
            }
            Err(fault) => self.command_ended(&command, Some(&fault)),
        }
    }

    fn watch_command(&mut self) {
        if let Some(Running { number, shell, .. }) = &self.command_queue.running {
            let fd = shell.end_source().as_raw_fd();
            let token = Token(COMMANDS | u64::from(*number));
            self.submit(token, Op::PollReadable { fd });
        }
    }

    /// Goes on when a shell has ended: the completion with this number.
    pub(super) fn command_completed(&mut self, number: u32) {
        self.trace.enter(Phase::Other);
        let Some(mut running) = self.command_queue.running.take_if(|it| it.number == number) else {
            return;
        };
        let fault = match running.shell.try_wait() {
            Ok(None) => {
                self.command_queue.running = Some(running);
                return self.watch_command();
            }
            Ok(Some(_)) if running.is_killed => Some("its time is over".to_owned()),
            Ok(Some(status)) if status.success() => None,
            Ok(Some(status)) => Some(status.to_string()),
            Err(error) => Some(error.to_string()),
        };
        self.command_ended(&running.command, fault.as_deref());
        self.run_commands();
    }

    /// Refuses the tree connect that a command was for, if it must not fail and has.
    fn command_ended(&mut self, command: &ShareCommand, fault: Option<&str>) {
        let ShareCommand { share, parameter, refuses, user, .. } = command;
        let Some(fault) = fault else { return debug!("share {share}: {parameter} is done") };
        log_failure(user.is_guest, &format!("share {share}: {parameter} has failed: {fault}"));
        if *refuses
            && let Some(Job { of: Event::Connect(it), .. }) = self.command_queue.jobs.pop_front()
        {
            self.answer(it.request, Reply::Share(Err(ShareRefusal::AccessDenied)));
        }
    }

    /// Ends commands whose time is over: see `CommandQueue::next_timeout`.
    pub(super) fn serve_command_timeouts(&mut self, now: Instant) {
        let running = self.command_queue.running.as_mut();
        let is_late = |it: &&mut Running| it.until.is_some_and(|until| until <= now);
        let Some(running) = running.filter(is_late) else { return };
        let ShareCommand { share, parameter, .. } = &running.command;
        if running.is_killed {
            warn!("share {share}: {parameter} hangs in the kernel, others of the client wait");
            running.until = None;
            return;
        }
        self.store.revert_to_server();
        running.shell.kill();
        running.is_killed = true;
        running.until = Some(now + KILL_TIMEOUT);
    }

    /// Ends the running command, and logs the commands that have no time left, as the process ends.
    pub(super) fn end_commands(&mut self) {
        self.store.revert_to_server();
        if let Some(mut running) = self.command_queue.running.take() {
            running.shell.kill();
            self.command_ended(&running.command, Some("the server is stopping"));
        }
        let jobs = std::mem::take(&mut self.command_queue.jobs);
        for ShareCommand { share, parameter, .. } in jobs.iter().flat_map(|job| &job.commands) {
            warn!("share {share}: {parameter} is not run: the server is stopping");
        }
    }
}
