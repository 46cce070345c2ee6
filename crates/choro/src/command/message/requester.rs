//! A short-lived process of the server: joins its messaging to ask the other processes.

use std::collections::{HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use dtyp::ServerId;
use messaging::{
    Content, InitError, Message, MessageKind, Messaging, Process, ProcessRole, Processes, transport,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Pid;
use settings::Settings;
use settings::messaging_settings;
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use supervisor::effective_config;
use tables::{Registry, RegistryError};

/// Membership of this process in the server. Dropping it removes the socket.
#[derive(Debug)]
pub(in crate::command) struct Requester {
    messaging: Messaging,
    supervisor: ServerId,
    timeout: Duration,
    /// True once a signal arrived; the socket is removed before the end.
    interrupted: Arc<AtomicBool>,
    /// Registered handlers that set `interrupted`.
    signals: Vec<SigId>,
}

impl Drop for Requester {
    fn drop(&mut self) {
        for signal in &self.signals {
            signal_hook::low_level::unregister(*signal);
        }
    }
}

/// Result of a request to several processes.
#[derive(Debug, Default)]
pub(in crate::command) struct Answers {
    /// Answers by the process that sent them.
    pub(in crate::command) by_process: HashMap<ServerId, Answer>,
    /// Processes that ended before they answered.
    pub(in crate::command) gone: HashSet<ServerId>,
}

/// An answer of a process, and the time until it arrived.
#[derive(Debug)]
pub(in crate::command) struct Answer {
    pub(in crate::command) message: Message,
    pub(in crate::command) after: Duration,
}

impl Requester {
    /// Joins the server that runs on `lock_dir`.
    ///
    /// # Errors
    /// No server runs, or this user may not join it.
    pub(in crate::command) fn join(lock_dir: &Path, timeout: Duration) -> anyhow::Result<Self> {
        let supervisor = match Registry::observe(lock_dir) {
            Err(RegistryError::File { path, source }) if is_forbidden(&source) => {
                bail!("{}: {source}; {ONLY_THE_OWNER}", path.display())
            }
            registry => registry?.supervisor(),
        };
        Self::join_server_of(supervisor, lock_dir, timeout)
    }

    /// As [`Requester::join`], for a caller that has the server's tables open: a process cannot
    /// open them twice.
    ///
    /// # Errors
    /// This user may not join it.
    pub(in crate::command) fn join_server_of(
        supervisor: ServerId,
        lock_dir: &Path,
        timeout: Duration,
    ) -> anyhow::Result<Self> {
        let how = settings_in_effect(lock_dir)?;
        let unique_id = tables::random_unique_id().context("cannot read random numbers")?;
        let server_id = ServerId { pid: std::process::id(), unique_id };
        let interrupted: Arc<AtomicBool> = Arc::default();
        let register = |signal| signal_hook::flag::register(signal, Arc::clone(&interrupted));
        let signals: Result<Vec<SigId>, _> =
            [SIGHUP, SIGINT, SIGTERM].map(register).into_iter().collect();
        let signals = signals.context("cannot receive signals")?;
        let mut messaging = Messaging::init(lock_dir, server_id, how).map_err(explain)?;
        // A killed process of this kind leaves its socket, and nothing else removes it.
        let _ = messaging.members().map_err(explain)?;
        Ok(Self { messaging, supervisor, timeout, interrupted, signals })
    }

    /// Returns the processes of the server, as the supervisor lists them.
    ///
    /// # Errors
    /// It does not answer.
    pub(in crate::command) fn processes(&mut self) -> anyhow::Result<Vec<Process>> {
        let supervisor = self.supervisor;
        let content = Content::new(MessageKind::LIST_PROCESSES, &[]);
        let mut answers =
            self.ask(&[supervisor], &content, |answer| answer.kind == MessageKind::PROCESSES)?;
        let Some(answer) = answers.by_process.remove(&supervisor) else {
            bail!(
                "the supervisor (pid {}) did not answer within {} s",
                supervisor.pid,
                self.timeout.as_secs_f64()
            )
        };
        let processes = Processes::decode(&answer.message.data);
        Ok(processes.context("the supervisor runs another version of choro")?.0)
    }

    /// Returns the supervisor; its record needs no message.
    pub(in crate::command) fn supervisor(&self) -> Process {
        Process { server_id: self.supervisor, role: ProcessRole::Supervisor }
    }

    /// Sends to all of `receivers` and waits for one answer of each, for the timeout at most.
    ///
    /// # Errors
    /// The wait was interrupted or failed.
    pub(in crate::command) fn ask(
        &mut self,
        receivers: &[ServerId],
        content: &Content<'_>,
        is_answer: impl Fn(&Message) -> bool,
    ) -> anyhow::Result<Answers> {
        let deadline = Instant::now() + self.timeout;
        let mut unsent: Vec<ServerId> = receivers.to_vec();
        let mut sent = HashMap::new();
        let mut answers = Answers::default();
        loop {
            // A process without a socket is starting, and will have one, or has ended.
            unsent.retain(|&to| {
                let now = Instant::now();
                let is_sent = self.messaging.send(now, to, content).is_ok();
                if is_sent {
                    sent.insert(to, now);
                }
                !is_sent
            });
            while let Some(message) = self.messaging.poll(Instant::now()) {
                let now = Instant::now();
                if is_answer(&message)
                    && let Some(sent_at) = sent.remove(&message.sender)
                {
                    let after = now.saturating_duration_since(sent_at);
                    answers.by_process.insert(message.sender, Answer { message, after });
                }
            }
            let (unsent_pids, sent_pids) = (unsent.iter(), sent.keys());
            let gone = unsent_pids.chain(sent_pids).filter(|it| has_ended(it.pid));
            answers.gone.extend(gone.copied());
            unsent.retain(|it| !answers.gone.contains(it));
            sent.retain(|it, _| !answers.gone.contains(it));
            if (unsent.is_empty() && sent.is_empty()) || Instant::now() >= deadline {
                return Ok(answers);
            }
            self.wait(deadline)?;
        }
    }

    fn wait(&self, deadline: Instant) -> anyhow::Result<()> {
        let now = Instant::now();
        let next = [Some(deadline), self.messaging.next_timeout(), Some(now + POLL_INTERVAL)];
        let next = next.into_iter().flatten().min().unwrap_or(deadline);
        let timeout = Timespec::try_from(next.saturating_duration_since(now)).ok();
        let wake = self.messaging.wake_source();
        let mut sources: Vec<PollFd<'_>> =
            wake.iter().map(|wake| PollFd::new(wake, PollFlags::IN)).collect();
        match poll(&mut sources, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for events"),
        }
        match self.interrupted.load(Ordering::Relaxed) {
            true => bail!("interrupted"),
            false => Ok(()),
        }
    }
}

fn has_ended(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_none_or(|pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH))
}

/// Returns the messaging settings of the running server; the file may have changed since.
fn settings_in_effect(lock_dir: &Path) -> anyhow::Result<transport::Settings> {
    let path = effective_config(lock_dir);
    let settings = Settings::load(settings::Source::File(path.clone())).map_err(|error| {
        let denied = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
        match denied.into_iter().any(is_forbidden) {
            true => error.context(ONLY_THE_OWNER),
            false => error,
        }
    })?;
    let global = &settings.config.global;
    // This may be another build than the server's, with another meaning of the same word.
    match transport::in_use(lock_dir).map_err(explain)? {
        Some(kind) => Ok(messaging_settings::of_kind(global, kind)),
        None => Ok(messaging_settings::messaging_settings(global)?),
    }
}

fn explain(error: InitError) -> anyhow::Error {
    match &error {
        InitError::DirectoryNotOurs { path, uid, .. } => anyhow::anyhow!(
            "{} belongs to the user with id {uid}; run this as the user that the server runs as",
            path.display()
        ),
        InitError::System { source, .. } if is_forbidden(source) => {
            anyhow::anyhow!("{error}; {ONLY_THE_OWNER}")
        }
        _ => error.into(),
    }
}

fn is_forbidden(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied
}

/// Interval between checks for receivers that ended, or began to listen.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

const ONLY_THE_OWNER: &str = "only the user that the server runs as may send it messages";
