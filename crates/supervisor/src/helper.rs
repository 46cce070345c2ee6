//! A process of which there is one in a server, started again when it dies.

use std::io;
use std::os::fd::OwnedFd;
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

    /// Has the process serve those who connect to a socket. Without it workers would wait for
    /// nobody, so the process is replaced if there is none.
    pub(super) fn give_socket(&mut self, socket: io::Result<OwnedFd>) {
        let error = match (socket, &self.process) {
            (Ok(socket), Some(process)) => {
                process.send(&ToWorker::Connection(socket)).err().map(|error| error.to_string())
            }
            (Ok(_), None) => None,
            (Err(error), _) => Some(error.to_string()),
        };
        if let Some(error) = error {
            tracing::error!("{} gets no socket: {error}", self.name);
            self.kill();
            // Its successor may get none, either.
            self.process.iter_mut().for_each(|process| process.is_ready = false);
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

    use std::time::Instant;

    use dtyp::ServerId;
    use process::Priority;
    use process::control::{self, Received, ToWorker};
    use rustix::io::Errno;
    use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, waitpid};

    use super::{End, Helper};
    use crate::workers::Worker;

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

    /// The attack: clients use all descriptors, so that workers would ask a process for ever that
    /// does not listen.
    #[test]
    fn a_process_that_gets_no_socket_is_killed_and_has_a_successor_after_a_pause() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("it is installed");
        let (supervisor_end, worker_end) = control::pair().expect("descriptors are left");
        let server_id = ServerId { pid: child.id(), unique_id: 1 };
        let mut helper = Helper::new("logond");
        helper.process = Some(Worker::new(server_id, None, supervisor_end, Priority::Normal));
        assert!(helper.is_ready(1));
        let (socket, _) = std::os::unix::net::UnixStream::pair().expect("descriptors are left");
        helper.give_socket(Ok(socket.into()));
        let received = worker_end.receive();
        assert!(matches!(received, Ok(Received::Message(ToWorker::Connection(_)))));
        helper.give_socket(Err(Errno::MFILE.into()));
        let pid = Some(Pid::from_child(&child));
        let (_, status) = waitpid(pid, WaitOptions::empty()).expect("ours").expect("it has ended");
        drop(child.try_wait());
        assert_eq!(status.terminating_signal(), Some(Signal::KILL.as_raw()));
        assert_eq!(helper.take_end(status, false), Some(server_id));
        let now = Instant::now();
        assert!(helper.start_at(now).is_some_and(|at| at > now), "descriptors are still used");
    }
}
