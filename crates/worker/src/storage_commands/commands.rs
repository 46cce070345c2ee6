//! Commands that print free space: those of tree connects, and the running one.

use std::time::{Duration, Instant};

use object::{FreeSpace, RootId};
use process::PassedCommand;
use proto::RequestId;
use rustc_hash::FxHashMap;
use shares::free_space::FreeSpaceCommand;

/// Time for which a command that has failed is not run again.
const RETRY_TIME: Duration = Duration::from_secs(10);

/// Answers that are cached for one tree connect: one for each path that clients ask about.
const CACHED_MAX: usize = 64;

/// Commands of tree connects, and the requests that wait for them: no more than are in flight.
#[derive(Debug, Default)]
pub(crate) struct FreeSpaceCommands {
    pub(super) of_roots: FxHashMap<RootId, OfRoot>,
    pub(super) waiting: Vec<(Question, RequestId)>,
    pub(super) running: Option<Running>,
    pub(super) last: u32,
}

/// The command of a tree connect.
#[derive(Debug)]
pub(super) struct OfRoot {
    pub(super) command: FreeSpaceCommand,
    /// Answers by the argument, each with the end of its time; none after a failure.
    pub(super) cached: FxHashMap<String, (Instant, Option<FreeSpace>)>,
}

/// A root, and the argument of its command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Question {
    pub(super) root: RootId,
    pub(super) argument: String,
}

#[derive(Debug)]
pub(super) struct Running {
    /// Number of its completion, unlike those of others.
    pub(super) number: u32,
    pub(super) shell: PassedCommand,
    pub(super) share: String,
    pub(super) question: Question,
    /// End of its time; none once that is over and the shell is killed.
    pub(super) until: Option<Instant>,
}

impl FreeSpaceCommands {
    /// Keeps the command of a tree connect, if there is one.
    pub(crate) fn keep(&mut self, root: RootId, command: Option<FreeSpaceCommand>) {
        if let Some(command) = command {
            self.of_roots.insert(root, OfRoot { command, cached: FxHashMap::default() });
        }
    }

    /// Forgets the command at the end of a tree connect.
    pub(crate) fn forget(&mut self, root: RootId) {
        self.of_roots.remove(&root);
    }

    /// Returns the next call of `Worker::serve_free_space_timeout`.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.running.as_ref()?.until
    }

    /// Takes the requests with a question out of those that wait.
    pub(super) fn take_waiting(&mut self, question: &Question) -> Vec<RequestId> {
        let asked = self.waiting.extract_if(.., |(other, _)| other == question);
        asked.map(|(_, request)| request).collect()
    }

    pub(super) fn cache(&mut self, question: Question, answer: Option<FreeSpace>) {
        let Some(OfRoot { command, cached }) = self.of_roots.get_mut(&question.root) else {
            return;
        };
        if cached.len() >= CACHED_MAX {
            cached.clear();
        }
        let time = if answer.is_some() { command.cache_time } else { RETRY_TIME };
        if let Some(until) = Instant::now().checked_add(time) {
            cached.insert(question.argument, (until, answer));
        }
    }
}
