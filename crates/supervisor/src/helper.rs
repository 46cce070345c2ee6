//! A process of which there is one in a server, started again when it dies.

use std::time::Instant;

use confinement::ProcessKind;
use dtyp::ServerId;
use process::Priority;
use process::control::ToWorker;
use rustix::process::{Signal, WaitStatus};

use super::backoff::Backoff;
use super::workers::{self, Worker, WorkerCommand};

/// A process of which there is one.
#[derive(Debug)]
pub(super) struct Helper {
    /// Subcommand of the process, and its name in the log.
    name: &'static str,
    process: Option<Worker>,
    /// It was told to end, and its successor may start at once.
    is_ending: bool,
    backoff: Backoff,
}

impl Helper {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, process: None, is_ending: false, backoff: Backoff::default() }
    }

    /// Returns the name of the process in the log.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the kind that the process is confined as; `None` if it keeps all rights.
    pub(super) fn kind(&self) -> Option<ProcessKind> {
        ProcessKind::of_name(self.name)
    }

    /// Whether this is its pid.
    pub(super) fn is(&self, pid: u32) -> bool {
        self.process.as_ref().is_some_and(|process| process.server_id.pid == pid)
    }

    pub(super) fn is_running(&self) -> bool {
        self.process.is_some()
    }

    pub(super) fn process(&mut self) -> Option<&mut Worker> {
        self.process.as_mut()
    }

    /// Returns its process id while it runs.
    pub(super) fn server_id(&self) -> Option<ServerId> {
        self.process.as_ref().map(|process| process.server_id)
    }

    /// Returns the time of the next start; `None` while it runs.
    pub(super) fn start_at(&self, now: Instant) -> Option<Instant> {
        match self.process {
            Some(_) => None,
            None => Some(self.backoff.blocked_until(now).unwrap_or(now)),
        }
    }

    /// Starts the process, unless it runs.
    pub(super) fn start(&mut self, command: &WorkerCommand) -> Option<&Worker> {
        match workers::start(self.name, command, None, Priority::Normal) {
            Ok(process) => Some(self.process.insert(process)),
            Err(error) => {
                let pause = self.backoff.record_failure(Instant::now());
                tracing::error!("cannot start {}: {error}; next attempt in {pause:?}", self.name);
                None
            }
        }
    }

    /// Handles its ready message. True if `unique_id` is that of the started process.
    pub(super) fn is_ready(&mut self, unique_id: u64) -> bool {
        let expected = self.process.as_mut().filter(|it| it.server_id.unique_id == unique_id);
        let Some(process) = expected else { return false };
        process.is_ready = true;
        true
    }

    /// Notes that the process has ended. Returns its process id, if it ran.
    pub(super) fn take_end(&mut self, status: WaitStatus, is_stopping: bool) -> Option<ServerId> {
        let process = self.process.take()?;
        let ServerId { pid, .. } = process.server_id;
        if std::mem::take(&mut self.is_ending) || is_stopping {
            return Some(process.server_id);
        }
        let name = self.name;
        match End::of(status) {
            // Such as `logond` after a change of its parameters.
            End::Regular => tracing::debug!("{name} (pid {pid}) ended and is started again"),
            End::Fault(how) => tracing::error!("{name} (pid {pid}) {how} and is started again"),
        }
        if process.is_ready {
            self.backoff.record_success();
        } else {
            let pause = self.backoff.record_failure(Instant::now());
            tracing::warn!("{} starts again in {pause:?}", self.name);
        }
        Some(process.server_id)
    }

    /// Sends a message, if it runs.
    pub(super) fn send(&self, message: &ToWorker) {
        if let Some(process) = &self.process {
            workers::send_to(process.server_id.pid, process, message);
        }
    }

    /// Tells the process to end. What follows is up to the caller.
    pub(super) fn end(&mut self) {
        if self.process.is_some() && !self.is_ending {
            self.send(&ToWorker::Shutdown);
            self.is_ending = true;
        }
    }

    /// Kills the process at once.
    pub(super) fn kill(&self) {
        if let Some(process) = &self.process {
            workers::kill(process.server_id.pid, Signal::KILL);
        }
    }
}

/// Way in which a process has ended.
#[derive(Debug, Eq, PartialEq)]
enum End {
    /// It has ended itself, without an error.
    Regular,
    /// It has failed or was killed, in words.
    Fault(String),
}

impl End {
    fn of(status: WaitStatus) -> Self {
        match (status.terminating_signal(), status.exit_status()) {
            (None, Some(0)) => Self::Regular,
            (Some(signal), _) => Self::Fault(format!("was killed by signal {signal}")),
            (None, status) => Self::Fault(format!("ended with status {}", status.unwrap_or(-1))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

    use super::End;

    #[expect(clippy::zombie_processes, reason = "waited for by its pid, for a `WaitStatus`")]
    fn status_of(script: &str) -> WaitStatus {
        let child = Command::new("sh").args(["-c", script]).spawn().expect("there is a shell");
        let pid = Pid::from_child(&child);
        waitpid(Some(pid), WaitOptions::empty()).expect("it is ours").expect("it has ended").1
    }

    #[test]
    fn only_an_end_with_status_0_is_no_fault() {
        assert_eq!(End::of(status_of("exit 0")), End::Regular);
        let fault = |how: &str| End::Fault(how.to_owned());
        assert_eq!(End::of(status_of("exit 3")), fault("ended with status 3"));
        assert_eq!(End::of(status_of("kill -9 $$")), fault("was killed by signal 9"));
    }
}
