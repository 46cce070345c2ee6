//! Commands that print the free space of shares (`dfree command`).
//!
//! One runs at a time, beside those for tree connects, while the event loop goes on. Its answer is
//! for all requests with the same question, and is cached. Without an answer clients see the
//! figures of the file system.

pub(super) mod commands;

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use object::{FreeSpace, ObjectPath, RootId};
use proto::{Reply, RequestId};
use shares::free_space::{FreeSpaceCommand, argument, parse};
use trace::Phase;
use tracing::{debug, warn};
use uring::{Op, Token};

use super::event_loop::{FREE_SPACE, Worker};
use super::shells::Output;
use commands::{Question, Running};

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
        let Some(request) = request else { return };
        let question = Question { root, argument: argument(path) };
        let of_root = self.free_space.of_roots.get(&root);
        let cached = of_root.and_then(|it| it.cached.get(&question.argument));
        if let Some((_, answer)) = cached.filter(|(until, _)| Instant::now() < *until) {
            return self.answer(Some(request), Reply::FreeSpace(*answer));
        }
        self.free_space.waiting.push((question, request));
        self.run_free_space_command();
    }

    /// Starts the command for the oldest question. Behind one that hangs, none can be started.
    fn run_free_space_command(&mut self) {
        loop {
            let hangs = match &self.free_space.running {
                Some(running) if running.until.is_some() => return,
                running => running.is_some(),
            };
            let Some((question, _)) = self.free_space.waiting.first() else { return };
            let question = question.clone();
            let of_root = self.free_space.of_roots.get(&question.root);
            let Some(command) = of_root.map(|it| it.command.clone()).filter(|_| !hangs) else {
                self.free_space_found(question, None);
                continue;
            };
            match self.start_free_space_command(&command, question.clone()) {
                Ok(()) => return,
                Err(fault) => self.free_space_unknown(&command.share, question, &fault),
            }
        }
    }

    fn start_free_space_command(
        &mut self,
        command: &FreeSpaceCommand,
        question: Question,
    ) -> Result<(), String> {
        let FreeSpaceCommand { share, identity, requester, .. } = command;
        debug!("share {share}: dfree command starts for {}", question.argument);
        let text = command.for_argument(&question.argument);
        let shell = self.start_shell(&text, (identity.as_ref(), requester), Output::Kept)?;
        let commands = &mut self.free_space;
        commands.last = commands.last.wrapping_add(1);
        let (number, share) = (commands.last, share.clone());
        let until = Some(Instant::now() + ANSWER_TIMEOUT);
        commands.running = Some(Running { number, shell, share, question, until });
        self.watch_free_space_command();
        Ok(())
    }

    fn watch_free_space_command(&mut self) {
        if let Some(Running { number, shell, .. }) = &self.free_space.running {
            let fd = shell.end_source().as_raw_fd();
            let token = Token(FREE_SPACE | u64::from(*number));
            self.submit(token, Op::PollReadable { fd });
        }
    }

    /// Goes on when a shell has ended: the completion with this number.
    pub(super) fn free_space_completed(&mut self, number: u32) {
        self.trace.enter(Phase::Other);
        let Some(mut running) = self.free_space.running.take_if(|it| it.number == number) else {
            return;
        };
        let ended = running.shell.try_wait();
        let Running { shell, share, question, until, .. } = &running;
        let (share, question) = (share.clone(), question.clone());
        match ended {
            Ok(None) => {
                self.free_space.running = Some(running);
                return self.watch_free_space_command();
            }
            Ok(Some(_)) if until.is_none() => debug!("share {share}: dfree command was ended"),
            Ok(Some(status)) if status.success() => match parse(shell.output()) {
                Some(figures) => self.free_space_found(question, Some(figures)),
                None => self.free_space_unknown(&share, question, "it tells no two numbers"),
            },
            Ok(Some(status)) => self.free_space_unknown(&share, question, &status.to_string()),
            Err(error) => self.free_space_unknown(&share, question, &error.to_string()),
        }
        self.run_free_space_command();
    }

    fn free_space_unknown(&mut self, share: &str, question: Question, fault: &str) {
        warn!("share {share}: dfree command has failed for {}: {fault}", question.argument);
        self.free_space_found(question, None);
    }

    fn free_space_found(&mut self, question: Question, answer: Option<FreeSpace>) {
        for request in self.free_space.take_waiting(&question) {
            self.answer(Some(request), Reply::FreeSpace(answer));
        }
        self.free_space.cache(question, answer);
    }

    /// Ends a command whose time is over: see `FreeSpaceCommands::next_timeout`.
    pub(super) fn serve_free_space_timeout(&mut self, now: Instant) {
        let running = self.free_space.running.as_mut();
        let is_late = |it: &&mut Running| it.until.is_some_and(|until| until <= now);
        let Some(running) = running.filter(is_late) else { return };
        running.until = None;
        self.store.revert_to_server();
        running.shell.kill();
        let (share, question) = (running.share.clone(), running.question.clone());
        self.free_space_unknown(&share, question, "its time is over");
        // The kernel may need long to end it.
        self.run_free_space_command();
    }

    /// Ends the command that runs, as the process ends.
    pub(super) fn end_free_space_command(&mut self) {
        if let Some(mut running) = self.free_space.running.take() {
            self.store.revert_to_server();
            running.shell.kill();
        }
    }
}
