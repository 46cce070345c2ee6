//! Commands of shares that wait or run.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use object::RootId;
use process::PassedCommand;
use proto::RequestId;
use rustc_hash::FxHashMap;
use shares::free_space::FreeSpaceCommand;
use shares::quota_commands::QuotaCommands;
use shares::share_commands::ShareCommand;
use shares::shares::Prepared;

/// Time of a command. A client waits about a minute for its tree connect.
pub(super) const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Time for the kernel to end a command, unless its storage hangs.
pub(super) const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Commands of shares, one after the other in the order of tree connects and their ends. A tree
/// connect waits for those before it, so no more wait than requests are in flight and tree connects
/// exist.
#[derive(Debug, Default)]
pub(crate) struct CommandQueue {
    pub(super) jobs: VecDeque<Job>,
    pub(super) running: Option<Running>,
    /// Commands for the end of each tree connect.
    pub(super) after: FxHashMap<RootId, VecDeque<ShareCommand>>,
    pub(super) last: u32,
}

/// The commands of one event.
#[derive(Debug)]
pub(super) struct Job {
    /// Those that have not begun.
    pub(super) commands: VecDeque<ShareCommand>,
    pub(super) of: Event,
}

#[derive(Debug)]
pub(super) enum Event {
    /// A tree connect, which goes on after them, and has others for its end.
    Connect(Box<WaitingConnect>),
    /// The end of a tree connect.
    Disconnect,
}

#[derive(Debug)]
pub(in super::super) struct WaitingConnect {
    pub(in super::super) request: Option<RequestId>,
    pub(in super::super) prepared: Box<Prepared>,
    pub(in super::super) after: VecDeque<ShareCommand>,
    pub(in super::super) free_space: Option<FreeSpaceCommand>,
    pub(in super::super) quotas: Option<QuotaCommands>,
}

/// The command that runs: of the first job.
#[derive(Debug)]
pub(super) struct Running {
    /// Number of its completion, unlike those of others.
    pub(super) number: u32,
    pub(super) shell: PassedCommand,
    pub(super) command: ShareCommand,
    /// End of its time, or of the kernel's to end it; none when both are over.
    pub(super) until: Option<Instant>,
    pub(super) is_killed: bool,
}

impl CommandQueue {
    /// Returns the next call of `Worker::serve_command_timeouts`.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.running.as_ref()?.until
    }

    /// True if nothing runs or waits, or nothing can run any more behind a command that hangs.
    pub(crate) fn is_idle(&self) -> bool {
        match &self.running {
            Some(running) => running.until.is_none(),
            None => self.jobs.is_empty(),
        }
    }
}
