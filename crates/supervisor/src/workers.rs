//! The worker processes: their start, the idle ones, their state and their end.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::mem::forget;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dtyp::ServerId;
use process::arguments::WORKER_COMMAND;
use process::control::{
    self, ControlError, Received, SupervisorEnd, ToSupervisor, ToWorker, WorkerEnd,
};
use process::{Forked, Priority, set_process_priority, take_idle_priority};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process};

use super::signals;

/// Workers that wait for a client, so that no client waits for one to start.
///
/// An idle worker costs about 0.3 MiB; a burst of more clients than this finds workers as fast as
/// they start.
pub(super) const IDLE_WORKERS: usize = 3;

/// Command line of an exec'ed process of the server.
#[derive(Clone, Debug)]
pub(super) struct WorkerCommand {
    /// The configuration in effect, written by the supervisor.
    pub(super) config: PathBuf,
    /// Generation of the configuration, counted from 1.
    pub(super) generation: u64,
    /// By what all workers measure time.
    pub(super) clock: trace::Clock,
    /// The detail of the log, if an administrator wants another than that of the configuration.
    pub(super) log_level: Option<u32>,
}

impl WorkerCommand {
    /// Returns the command line of the first configuration.
    pub(super) fn new(config: PathBuf) -> Self {
        Self { config, generation: 1, clock: trace::Clock::measure(), log_level: None }
    }
}

/// State of a worker, as known to the supervisor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WorkerState {
    /// It waits for a client.
    Idle,
    /// It was handed a client.
    Serving,
    /// It was told to exit, or its control socket failed.
    Stopping,
    /// It was told to exit so that another client has the place of its own.
    Ending,
}

/// Result of starting a worker, in each of the two processes after a fork.
#[derive(Debug)]
pub(super) enum Spawned<'a> {
    /// Returned in the new worker.
    Child(Birth),
    /// Returned in the supervisor, with the new worker's record.
    Parent(&'a Worker),
}

/// Data that a process needs to become a worker.
#[derive(Debug)]
pub(super) struct Birth {
    pub(super) server_id: ServerId,
    pub(super) control: WorkerEnd,
    pub(super) slot: usize,
}

/// A worker process, as the supervisor sees it.
#[derive(Debug)]
pub(super) struct Worker {
    /// Its name in the tables.
    pub(super) server_id: ServerId,
    /// Present state of the process.
    pub(super) state: WorkerState,
    /// True once it has reported its start. It may be given a client before that.
    pub(super) is_ready: bool,
    /// Its slot in the page of logons, if it serves clients.
    pub(super) slot: Option<usize>,
    /// Priority that it was given. A worker whose client has become a user takes that of others
    /// itself.
    priority: Priority,
    /// True if it was told to check a file: deletions of dead workers may have become its own.
    pub(super) may_own_deletions: bool,
    /// Number of the system call for which it ends, once it has reported one.
    pub(super) violation: Option<u32>,
    /// End of a pipe that shows the closing of inherited descriptors, until the worker is ready.
    inherited: Option<Closing>,
    control: SupervisorEnd,
}

impl Worker {
    pub(super) fn new(
        server_id: ServerId,
        slot: Option<usize>,
        control: SupervisorEnd,
        priority: Priority,
    ) -> Self {
        Self {
            server_id,
            state: WorkerState::Idle,
            is_ready: false,
            slot,
            priority,
            may_own_deletions: false,
            violation: None,
            inherited: None,
            control,
        }
    }

    /// Notes that it has reported its start.
    pub(super) fn set_ready(&mut self) {
        self.is_ready = true;
        self.inherited = None;
    }

    /// Socket to poll for messages of the worker.
    pub(super) fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Sends a message whose failure is the caller's to handle; for all others there is
    /// [`send_to`].
    pub(super) fn send(&self, message: &ToWorker) -> Result<(), ControlError> {
        self.control.send(message)
    }

    /// Gives it this priority, if it had another one. It lowers itself, because it may be holding a
    /// lock just now. And it leaves idle priority for good by itself: a step with a lock, which has
    /// normal priority anyway, would end in idle priority else.
    fn set_priority(&mut self, priority: Priority) {
        if std::mem::replace(&mut self.priority, priority) != priority {
            if priority == Priority::Normal {
                self.raise();
            }
            send_to(self.server_id.pid, self, &ToWorker::Priority(priority));
        }
    }

    /// Gives it normal priority until it lowers itself: without, it may not come to read its
    /// messages as long as others keep the processors busy. If that fails, it serves all the same.
    fn raise(&self) {
        let pid = self.server_id.pid;
        if let Err(error) = set_process_priority(pid, Priority::Normal) {
            tracing::debug!("cannot change the priority of worker {pid}: {error}");
        }
    }

    /// Takes the messages that an ended process has left.
    pub(super) fn take_last_messages(&mut self) {
        while let Ok(Received::Message(message)) = self.control.receive() {
            match message {
                ToSupervisor::Violation { call } => self.violation = Some(call),
                // A process with a short life may have ended before its message was read.
                ToSupervisor::Ready { .. }
                | ToSupervisor::FurtherUser { .. }
                | ToSupervisor::LacksPaths { .. } => self.is_ready = true,
            }
        }
    }

    /// The next message of the worker.
    pub(super) fn receive(&self) -> Result<Received<ToSupervisor>, ControlError> {
        self.control.receive()
    }
}

/// All workers that were started and not yet reaped, by pid.
#[derive(Debug)]
pub(super) struct Workers {
    by_pid: BTreeMap<u32, Worker>,
    /// Pids of idle workers, the longest waiting first.
    idle: VecDeque<u32>,
    /// Number of workers that are [`WorkerState::Ending`].
    ending: usize,
    /// True if workers are forked, not exec'ed.
    may_fork: bool,
    /// True if workers may leave idle priority again.
    may_yield: bool,
}

impl Workers {
    /// Begins without workers. They have idle priority only if they may leave it again.
    pub(super) fn new(may_yield: bool) -> Self {
        let (by_pid, idle) = (BTreeMap::new(), VecDeque::new());
        Self { by_pid, idle, ending: 0, may_fork: true, may_yield }
    }

    fn priority_of(&self, wanted: Priority) -> Priority {
        if self.may_yield { wanted } else { Priority::Normal }
    }

    /// Gives all workers normal priority again.
    pub(super) fn restore_priority(&mut self) {
        self.by_pid.values_mut().for_each(|worker| worker.set_priority(Priority::Normal));
    }

    /// Starts an idle worker by a fork, or by exec if this process has threads: a library, such as
    /// a module of the system's name service, may have started some.
    ///
    /// A forked worker closes what this process has open before anything else:
    /// [`Self::wait_until_closed`].
    ///
    /// # Errors
    /// The kernel has no process or descriptor for us.
    pub(super) fn spawn(
        &mut self,
        command: &WorkerCommand,
        slot: usize,
        priority: Priority,
    ) -> io::Result<Spawned<'_>> {
        let (supervisor_end, worker_end) = control::pair()?;
        let unique_id = tables::random_unique_id()?;
        let inherited = Inherited::new()?;
        let priority = self.priority_of(priority);
        let forked = if self.may_fork { process::fork(&signals::HANDLED)? } else { None };
        let worker = match forked {
            Some(Forked::Child) => {
                if priority == Priority::Idle {
                    // Less is always allowed.
                    let _ = take_idle_priority();
                }
                // The worker closes it with all the others.
                forget(inherited);
                let server_id = ServerId { pid: std::process::id(), unique_id };
                return Ok(Spawned::Child(Birth { server_id, control: worker_end, slot }));
            }
            Some(Forked::Parent(pid)) => {
                drop(worker_end);
                let mut worker =
                    Worker::new(ServerId { pid, unique_id }, Some(slot), supervisor_end, priority);
                worker.inherited = Some(inherited.into_reader());
                worker
            }
            None => {
                if std::mem::replace(&mut self.may_fork, false) {
                    tracing::info!("workers are exec'ed: this process has threads");
                }
                start(WORKER_COMMAND, command, Some(slot), priority)?
            }
        };
        let pid = worker.server_id.pid;
        self.idle.push_back(pid);
        Ok(Spawned::Parent(self.by_pid.entry(pid).or_insert(worker)))
    }

    /// Waits until forked workers have closed what this process has open. Until then an address
    /// that it no longer listens on may still be taken.
    pub(super) fn wait_until_closed(&mut self) {
        for worker in self.by_pid.values_mut() {
            if let Some(inherited) = worker.inherited.take() {
                worker.set_priority(Priority::Normal);
                inherited.wait();
            }
        }
    }

    /// Hands a client to an idle worker, which has this priority from now on, and returns its pid
    /// and its slot in the page of logons; gives the socket back if no idle worker can take it.
    pub(super) fn hand_over(
        &mut self,
        client: OwnedFd,
        priority: Priority,
    ) -> Result<(u32, usize), OwnedFd> {
        let mut message = ToWorker::Connection(client);
        let priority = self.priority_of(priority);
        while let Some(pid) = self.take_idle() {
            let worker = self.by_pid.get_mut(&pid).expect("idle workers are workers");
            worker.set_priority(priority);
            match worker.control.send(&message) {
                Ok(()) => {
                    worker.state = WorkerState::Serving;
                    return Ok((pid, worker.slot.expect("it serves clients")));
                }
                Err(error) => {
                    // It died just now; the next one gets the client.
                    tracing::debug!("cannot pass a client to idle worker {pid}: {error}");
                    worker.state = WorkerState::Stopping;
                    kill(pid, Signal::TERM);
                }
            }
        }
        let ToWorker::Connection(client) = std::mem::replace(&mut message, ToWorker::Shutdown)
        else {
            unreachable!("it was made above")
        };
        Err(client)
    }

    /// Takes an idle worker that is ready; without one, the worker that was started first.
    fn take_idle(&mut self) -> Option<u32> {
        let ready = self.idle.iter().position(|pid| self.is_ready(*pid));
        self.idle.remove(ready.unwrap_or(0))
    }

    /// Whether an idle worker has started.
    pub(super) fn has_ready(&self) -> bool {
        self.idle.iter().any(|pid| self.is_ready(*pid))
    }

    fn is_ready(&self, pid: u32) -> bool {
        self.by_pid.get(&pid).is_some_and(|worker| worker.is_ready)
    }

    /// Returns the worker that takes over deletions of dead ones: the idle one that gets a client
    /// last, else one that serves.
    pub(super) fn deletion_owner(&self) -> Option<ServerId> {
        let idle = self.idle.iter().rev().filter_map(|pid| self.by_pid.get(pid));
        let serving = self.by_pid.values().filter(|it| it.state == WorkerState::Serving);
        idle.chain(serving).find(|it| it.is_ready).map(|it| it.server_id)
    }

    /// Removes a worker that has ended.
    pub(super) fn remove(&mut self, pid: u32) -> Option<Worker> {
        self.idle.retain(|&idle| idle != pid);
        let worker = self.by_pid.remove(&pid)?;
        self.ending -= usize::from(worker.state == WorkerState::Ending);
        Some(worker)
    }

    pub(super) fn get_mut(&mut self, pid: u32) -> Option<&mut Worker> {
        self.by_pid.get_mut(&pid)
    }

    /// Makes all idle workers exit: their configuration is out of date.
    pub(super) fn dismiss_idle(&mut self) {
        for pid in std::mem::take(&mut self.idle) {
            if let Some(worker) = self.by_pid.get_mut(&pid) {
                worker.state = WorkerState::Stopping;
                send_to(pid, worker, &ToWorker::Shutdown);
            }
        }
    }

    /// Tells a worker that serves a client to end.
    pub(super) fn end(&mut self, pid: u32) {
        if let Some(worker) = self.by_pid.get_mut(&pid) {
            // Only so many may be ending. Whatever priority it was given, it may have lowered
            // itself since.
            worker.raise();
            worker.state = WorkerState::Ending;
            self.ending += 1;
            send_to(pid, worker, &ToWorker::Shutdown);
        }
    }

    /// Returns the number of workers that were told so and have not ended.
    pub(super) fn ending_len(&self) -> usize {
        self.ending
    }

    /// Sends a message to every worker that serves a client.
    pub(super) fn send_to_serving(&self, message: &ToWorker) {
        for (&pid, worker) in &self.by_pid {
            if worker.state == WorkerState::Serving {
                send_to(pid, worker, message);
            }
        }
    }

    /// Tells every worker, also those without a client.
    pub(super) fn send_to_all(&self, message: &ToWorker) {
        self.by_pid.iter().for_each(|(&pid, worker)| send_to(pid, worker, message));
    }

    /// Tells every worker to finish.
    pub(super) fn shut_down(&mut self) {
        self.idle.clear();
        self.ending = 0;
        for (&pid, worker) in &mut self.by_pid {
            worker.state = WorkerState::Stopping;
            send_to(pid, worker, &ToWorker::Shutdown);
        }
    }

    /// Iterates over all living workers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Worker> {
        self.by_pid.values()
    }

    /// Ends every worker at once.
    pub(super) fn kill_all(&self) {
        for &pid in self.by_pid.keys() {
            kill(pid, Signal::KILL);
        }
    }

    /// Returns the number of workers that are not reaped.
    pub(super) fn len(&self) -> usize {
        self.by_pid.len()
    }

    /// Returns the number of workers without a client.
    pub(super) fn idle_len(&self) -> usize {
        self.idle.len()
    }
}

/// Descriptors that a new process has inherited. The end of a pipe stands for all of them: it is
/// really closed only after `close_range` has closed everything else.
#[derive(Debug)]
struct Inherited {
    closed: OwnedFd,
    open: OwnedFd,
}

impl Inherited {
    /// Before the process is made.
    fn new() -> io::Result<Self> {
        let (closed, open) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self { closed, open })
    }

    /// In this process, once the other one is there.
    fn into_reader(self) -> Closing {
        drop(self.open);
        Closing(self.closed)
    }
}

/// The end of [`Inherited`] in this process, which can be read when all has been closed in the
/// other.
#[derive(Debug)]
struct Closing(OwnedFd);

impl Closing {
    fn wait(self) {
        while rustix::io::read(&self.0, &mut [0]) == Err(Errno::INTR) {}
    }
}

/// Starts a process of the server: this executable with the name of a command. Returns when the new
/// process has closed the descriptors of this one.
///
/// # Errors
/// The kernel has no process or descriptor for us.
pub(super) fn start(
    name: &str,
    command: &WorkerCommand,
    slot: Option<usize>,
    priority: Priority,
) -> io::Result<Worker> {
    let (supervisor_end, worker_end) = control::pair()?;
    let unique_id = tables::random_unique_id()?;
    let inherited = Inherited::new()?;
    // The running executable, even if its file has been replaced since: both ends of the
    // control socket must be of one version.
    let child = Command::new("/proc/self/exe")
        .arg0("choro")
        .arg(name)
        .arg("--config")
        .arg(&command.config)
        .args(["--config-generation", &command.generation.to_string()])
        .args(["--supervisor-pid", &std::process::id().to_string()])
        .args(["--unique-id", &format!("{unique_id:016x}")])
        .args(["--clock", &command.clock.to_string()])
        .args(slot.map(|slot| format!("--logon-slot={slot}")))
        .args((priority == Priority::Idle).then_some("--idle-priority"))
        .args(command.log_level.map(|log_level| format!("--log-level={log_level}")))
        .stdin(worker_end.into_stdio())
        .stdout(Stdio::null())
        // A ^C at the terminal is for the supervisor, which stops its workers in order.
        .process_group(0)
        .current_dir(Path::new("/"))
        .spawn()?;
    // The kernel lets us go on before it has closed what ends with exec.
    inherited.into_reader().wait();
    Ok(Worker::new(ServerId { pid: child.id(), unique_id }, slot, supervisor_end, priority))
}

/// Sends a message to a worker, and ends the worker if that fails: no later message would reach it.
pub(super) fn send_to(pid: u32, worker: &Worker, message: &ToWorker) {
    if let Err(error) = worker.control.send(message) {
        tracing::debug!("cannot send a message to worker {pid}: {error}");
        kill(pid, Signal::TERM);
    }
}

/// Signals a worker. Only called for processes that were not reaped, so that the pid is theirs.
pub(super) fn kill(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("pids fit by definition");
    if let Err(error) = kill_process(pid, signal) {
        tracing::debug!("cannot signal worker {pid:?}: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use dtyp::ServerId;
    use process::control::{self, Received, ToWorker, WorkerEnd};
    use process::{Priority, set_process_priority};

    use super::{Worker, Workers};

    /// Number of the policy of normal priority.
    const SCHED_OTHER: i32 = 0;

    /// A program as a worker of normal priority, with the worker's end of the control socket.
    fn started() -> (Child, Workers, WorkerEnd) {
        let program = Command::new("sleep").arg("60").spawn().expect("it is installed");
        let (supervisor_end, worker_end) = control::pair().expect("descriptors are left");
        let server_id = ServerId { pid: program.id(), unique_id: 1 };
        let worker = Worker::new(server_id, Some(0), supervisor_end, Priority::Normal);
        let mut workers = Workers::new(true);
        workers.by_pid.insert(program.id(), worker);
        (program, workers, worker_end)
    }

    /// Scheduling policy of a process: the 41st value, counted from the state that follows the name
    /// in brackets as the third.
    fn policy_of(pid: u32) -> Option<i32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is not reaped");
        let (_, values) = stat.rsplit_once(") ")?;
        values.split_whitespace().nth(41 - 3)?.parse().ok()
    }

    fn end(mut program: Child) {
        program.kill().expect("it runs");
        program.wait().expect("it was started here");
    }

    #[test]
    fn a_worker_that_makes_room_ends_with_normal_priority_though_it_has_lowered_itself_since() {
        let (program, mut workers, worker_end) = started();
        let pid = program.id();
        set_process_priority(pid, Priority::Idle).expect("less is always allowed");
        let may_return = set_process_priority(pid, Priority::Normal).is_ok();
        set_process_priority(pid, Priority::Idle).expect("less is always allowed");
        workers.end(pid);
        let (policy, ending) = (policy_of(pid), workers.ending_len());
        end(program);
        assert_eq!((policy == Some(SCHED_OTHER), ending), (may_return, 1));
        assert!(matches!(worker_end.receive(), Ok(Received::Message(ToWorker::Shutdown))));
    }

    #[test]
    fn a_worker_lowers_itself_and_is_told_to_leave_idle_priority_for_good() {
        let (program, mut workers, worker_end) = started();
        let worker = workers.get_mut(program.id()).expect("it is there");
        worker.set_priority(Priority::Idle);
        let policy = policy_of(program.id());
        worker.set_priority(Priority::Normal);
        end(program);
        assert_eq!(policy, Some(SCHED_OTHER), "it may hold a lock just now");
        for priority in [Priority::Idle, Priority::Normal] {
            assert!(matches!(
                worker_end.receive(),
                Ok(Received::Message(ToWorker::Priority(it))) if it == priority
            ));
        }
    }
}
