//! Commands that tell the storage of shares: `dfree command`, `get quota command`, and `set quota
//! command`, which changes it.
//!
//! One runs at a time, beside those for tree connects, while the event loop goes on. Its answer is
//! for all requests with the same question; those on free space, and on quotas that limit it, are
//! cached. Without an answer clients see the free space of the file system, and no quotas.

pub(super) mod commands;

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use object::{ObjectPath, QuotaChange, QuotaSubject, RootId};
use proto::RequestId;
use shares::free_space::argument;
use trace::Phase;
use tracing::debug;
use uring::{Op, Token};

use super::event_loop::{STORAGE_COMMANDS, Worker};
use super::shells::{Output, log_failure};
use commands::{Answer, Argument, Prepared, Question, Running};

/// Time of a command. Some clients end a connection without an answer after 20 s.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

impl Worker {
    /// Answers with the free space of a share, once its command has printed it.
    pub(super) fn find_free_space(
        &mut self,
        request: Option<RequestId>,
        root: RootId,
        path: &ObjectPath,
    ) {
        self.ask_storage_command(request, root, Argument::FreeSpace(argument(path)));
    }

    /// Answers with a quota, once the command for it has printed it.
    pub(super) fn find_quota(
        &mut self,
        request: Option<RequestId>,
        root: RootId,
        subject: QuotaSubject,
    ) {
        self.ask_storage_command(request, root, Argument::Quota(subject));
    }

    /// Answers once the command for it has changed a quota.
    pub(super) fn change_quota(
        &mut self,
        request: Option<RequestId>,
        root: RootId,
        change: QuotaChange,
    ) {
        let Some(number) = request else { return };
        self.ask_storage_command(request, root, Argument::NewQuota(number, change));
    }

    fn ask_storage_command(
        &mut self,
        request: Option<RequestId>,
        root: RootId,
        argument: Argument,
    ) {
        let Some(request) = request else { return };
        let question = Question { root, argument };
        if let Some(answer) = self.storage_commands.cached(&question, Instant::now()) {
            return self.answer(Some(request), answer.reply());
        }
        self.storage_commands.waiting.push((question, request));
        self.run_storage_command();
    }

    /// Starts the command for the oldest question. Behind one that hangs, none can be started.
    fn run_storage_command(&mut self) {
        loop {
            let hangs = match &self.storage_commands.running {
                Some(running) if running.until.is_some() => return,
                running => running.is_some(),
            };
            let Some((question, _)) = self.storage_commands.waiting.first() else { return };
            let question = question.clone();
            let of_root = self.storage_commands.of_roots.get(&question.root);
            let prepared = of_root.and_then(|it| it.prepare(&question.argument));
            let Some(prepared) = prepared.filter(|_| !hangs) else {
                let nothing = question.argument.nothing();
                self.storage_command_answered(question, nothing);
                continue;
            };
            match self.start_storage_command(&prepared, question.clone()) {
                Ok(()) => return,
                Err(fault) => self.storage_command_failed(&prepared.share, question, &fault),
            }
        }
    }

    fn start_storage_command(
        &mut self,
        prepared: &Prepared,
        question: Question,
    ) -> Result<(), String> {
        let Prepared { share, user, text } = prepared;
        let (parameter, object) = (question.argument.parameter(), question.argument.object());
        debug!("share {share}: {parameter} starts for {object}");
        let shell = self.start_shell(text, user, Output::Kept)?;
        let commands = &mut self.storage_commands;
        commands.last = commands.last.wrapping_add(1);
        let (number, share) = (commands.last, share.clone());
        let until = Some(Instant::now() + ANSWER_TIMEOUT);
        commands.running = Some(Running { number, shell, share, question, until });
        self.watch_storage_command();
        Ok(())
    }

    fn watch_storage_command(&mut self) {
        if let Some(Running { number, shell, .. }) = &self.storage_commands.running {
            let fd = shell.end_source().as_raw_fd();
            let token = Token(STORAGE_COMMANDS | u64::from(*number));
            self.submit(token, Op::PollReadable { fd });
        }
    }

    /// Goes on when a shell has ended: the completion with this number.
    pub(super) fn storage_command_completed(&mut self, number: u32) {
        self.trace.enter(Phase::Other);
        let Some(mut running) = self.storage_commands.running.take_if(|it| it.number == number)
        else {
            return;
        };
        let ended = running.shell.try_wait();
        let Running { shell, share, question, until, .. } = &running;
        let (share, question) = (share.clone(), question.clone());
        match ended {
            Ok(None) => {
                self.storage_commands.running = Some(running);
                return self.watch_storage_command();
            }
            Ok(Some(_)) if until.is_none() => {
                debug!("share {share}: {} was ended", question.argument.parameter());
            }
            Ok(Some(status)) if status.success() => match question.argument.read(shell.output()) {
                Ok(answer) => self.storage_command_answered(question, answer),
                Err(fault) => self.storage_command_failed(&share, question, fault),
            },
            Ok(Some(status)) => self.storage_command_failed(&share, question, &status.to_string()),
            Err(error) => self.storage_command_failed(&share, question, &error.to_string()),
        }
        self.run_storage_command();
    }

    fn storage_command_failed(&mut self, share: &str, question: Question, fault: &str) {
        let (parameter, object) = (question.argument.parameter(), question.argument.object());
        let line = format!("share {share}: {parameter} has failed for {object}: {fault}");
        log_failure(self.storage_commands.is_of_guest(question.root), &line);
        let nothing = question.argument.nothing();
        self.storage_command_answered(question, nothing);
    }

    fn storage_command_answered(&mut self, question: Question, answer: Answer) {
        let waiting = self.storage_commands.take_waiting(&question);
        // First, for the requests that follow these: they see the change of a quota.
        self.storage_commands.cache(question, answer, Instant::now());
        for request in waiting {
            self.answer(Some(request), answer.reply());
        }
    }

    /// Ends a command whose time is over: see `StorageCommands::next_timeout`.
    pub(super) fn serve_storage_command_timeout(&mut self, now: Instant) {
        let running = self.storage_commands.running.as_mut();
        let is_late = |it: &&mut Running| it.until.is_some_and(|until| until <= now);
        let Some(running) = running.filter(is_late) else { return };
        running.until = None;
        self.store.revert_to_server();
        running.shell.kill();
        let (share, question) = (running.share.clone(), running.question.clone());
        self.storage_command_failed(&share, question, "its time is over");
        // The kernel may need long to end it.
        self.run_storage_command();
    }

    /// Ends the command that runs, as the process ends.
    pub(super) fn end_storage_command(&mut self) {
        if let Some(mut running) = self.storage_commands.running.take() {
            self.store.revert_to_server();
            running.shell.kill();
        }
    }
}
