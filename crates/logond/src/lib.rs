//! `logond`: the process that checks logons which other authorities decide.
//!
//! It has the keys of the service, for Kerberos tickets, and asks winbindd, for users of a domain.
//! Workers send it the proofs of their clients and get users, ids and session keys back. It is a
//! process of its own because the key of a service can forge any user's ticket, because libraries
//! in C parse what strangers send, and because a domain may take a minute to answer.
//!
//! Two pools of threads: tickets need no other machine, and never wait behind passwords, which do.
//! If this process dies, the logons under way fail, and the next ones are its successor's.

#![forbid(unsafe_code)]

mod checks;
mod contexts;
mod outage;
mod pool;
mod principal;
mod seldom;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use dtyp::{NtStatus, ServerId};
use logon::gss::Gss;
use logon::winbind::Winbind;
use messaging::{
    Content, LogonAnswer, LogonProof, LogonQuestion, LogonVerdict, Message, MessageKind, Messaging,
};
use process::arguments::Start;
use process::control::{Received, ToSupervisor, ToWorker, WorkerEnd};
use process::log;
use process::{EventSet, Mailbox, administration};
use settings::Settings;
use settings::messaging_settings::messaging_settings;
use tables::announce_logond;
use tracing::{debug, info, warn};
use zeroize::Zeroize;

use checks::{Checked, Checker, Parameters, Shared};
use outage::Outage;
use pool::Pool;

/// Threads for tickets, which take 0.3 ms each.
const TICKET_THREADS: usize = 2;

/// Threads for passwords, each of which may wait for the domain.
const PASSWORD_THREADS: usize = 6;

/// Checks of each kind that wait for a thread.
const WAITING_MAX: usize = 1_024;

/// Checks of one worker that are under way: none can exhaust the others' room.
const PER_WORKER_MAX: u32 = 32;

/// Time after which a domain without an answer counts as out, before winbindd gives up.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Highest number of messages to take before results are sent.
const MESSAGES_PER_TURN_MAX: usize = 256;

const MESSAGES: u64 = 0;
const CONTROL: u64 = 1;
const RESULTS: u64 = 2;

/// State of the process `logond`.
#[derive(Debug)]
pub struct Logond {
    settings: Settings,
    messaging: Messaging,
    control: WorkerEnd,
    events: EventSet<u64>,
    results: Arc<Mailbox<Done>>,
    tickets: Pool<Job>,
    passwords: Option<Pool<Job>>,
    outage: Outage,
    /// Questions of each worker that are under way.
    asked: HashMap<ServerId, u32>,
    /// Checks of passwords that have no answer yet, by job.
    waiting: HashMap<u64, Waiting>,
    next_job: u64,
}

// Work for a thread.
#[derive(Debug)]
struct Job {
    number: u64,
    task: Task,
}

#[derive(Debug)]
enum Task {
    /// Check a proof of a worker's client.
    Check { asker: ServerId, question: u64, proof: LogonProof },
    /// Ask the domain for a sign of life.
    Ping,
}

/// A check of a password without an answer.
#[derive(Debug)]
struct Waiting {
    since: Instant,
    asker: ServerId,
    question: u64,
}

/// Result of a job, in the mailbox of the threads.
#[derive(Debug)]
struct Done {
    job: u64,
    outcome: Outcome,
}

#[derive(Debug)]
enum Outcome {
    Password { checked: Checked },
    Ticket { asker: ServerId, question: u64, verdict: LogonVerdict },
    Pinged(bool),
}

impl Logond {
    /// Joins the messages of the server, opens the libraries and starts the threads.
    ///
    /// # Errors
    /// The server cannot be joined, or a library is missing.
    pub fn prepare(start: Start) -> anyhow::Result<Self> {
        let Start { settings, server_id, control, .. } = start;
        let lock_dir = &settings.directories.lock;
        let how = messaging_settings(&settings.config.global)?;
        let messaging = Messaging::init(lock_dir, server_id, how)
            .context("cannot join the server's messages")?;
        let events = EventSet::new().context("cannot poll")?;
        if let Some(wake) = messaging.wake_source() {
            events.add(wake, MESSAGES).context("cannot poll messages")?;
        }
        events.add(&control, CONTROL).context("cannot poll the supervisor")?;
        let results = Arc::new(Mailbox::new()?);
        events.add(results.wake_source(), RESULTS).context("cannot poll the threads")?;
        let (tickets, passwords) = start_threads(&settings, &results)?;
        Ok(Self {
            settings,
            messaging,
            control,
            events,
            results,
            tickets,
            passwords,
            outage: Outage::default(),
            asked: HashMap::new(),
            waiting: HashMap::new(),
            next_job: 0,
        })
    }

    /// Serves until the supervisor ends it.
    ///
    /// # Errors
    /// The supervisor is gone, or workers cannot be told of this process.
    pub fn run(&mut self) -> anyhow::Result<()> {
        let server_id = self.messaging.server_id();
        announce_logond(&self.settings.directories.lock, server_id)
            .context("cannot tell workers of this process")?;
        let ready = ToSupervisor::Ready { unique_id: server_id.unique_id };
        self.control.send(ready).context("the supervisor is gone")?;
        loop {
            if self.wait()?.contains(&CONTROL) && self.read_control() {
                return Ok(());
            }
            for done in self.results.take() {
                self.finish(done);
            }
            for _ in 0..MESSAGES_PER_TURN_MAX {
                let Some(message) = self.messaging.poll(Instant::now()) else { break };
                self.take(message);
            }
            self.look_at_domain(Instant::now());
            self.messaging.flush(Instant::now());
            let dropped = self.messaging.take_dropped().messages;
            if dropped > 0 {
                warn!("{dropped} answers were dropped: the workers' queues are full");
            }
        }
    }

    fn wait(&self) -> anyhow::Result<Vec<u64>> {
        let now = Instant::now();
        let late = self.waiting.values().map(|it| it.since + ANSWER_TIMEOUT).min();
        let next = [self.messaging.next_timeout(), late, self.outage.next_probe()];
        let next = next.into_iter().flatten().min();
        let timeout = next.map(|at| at.saturating_duration_since(now));
        self.events.wait(timeout).context("waiting")
    }

    /// Reads the supervisor's messages. Returns true if this process must end: with another
    /// configuration its successor takes over, so that no thread has an old one.
    fn read_control(&mut self) -> bool {
        loop {
            match self.control.receive() {
                Ok(Received::Nothing) => return false,
                Ok(Received::Closed | Received::Message(ToWorker::Shutdown)) => return true,
                Ok(Received::Message(ToWorker::Reload { .. })) => {
                    match Settings::load(self.settings.source.clone()) {
                        Ok(settings) => {
                            if let Err(error) = log::follow(&settings) {
                                warn!("the log is kept as it was: {error:#}");
                            }
                            let [new, old] = [&settings, &self.settings]
                                .map(|it| Parameters::of(&it.config.global));
                            self.settings = settings;
                            if new != old {
                                return true;
                            }
                        }
                        Err(error) => warn!("the configuration is kept: {error:#}"),
                    }
                }
                Ok(Received::Message(message)) => debug!("{message:?} is not for logond"),
                Err(error) => warn!("the control socket: {error}"),
            }
        }
    }

    fn take(&mut self, mut message: Message) {
        let sender = message.sender;
        match message.kind {
            MessageKind::CHECK_LOGON => {
                let question = LogonQuestion::decode(&message.data);
                message.data.zeroize();
                match question {
                    Some(LogonQuestion { number, proof }) => self.begin(sender, number, proof),
                    None => warn!("{sender:?} sent a proof that cannot be read"),
                }
            }
            _ => drop(administration::read(&mut self.messaging, &message)),
        }
    }

    /// Gives a check to a thread, or refuses it at once.
    fn begin(&mut self, asker: ServerId, question: u64, proof: LogonProof) {
        let refuse = |logond: &mut Self, status| {
            logond.answer(asker, question, LogonVerdict::Refused(status));
        };
        if self.asked.get(&asker).is_some_and(|count| *count >= PER_WORKER_MAX) {
            return refuse(self, NtStatus::INSUFF_SERVER_RESOURCES);
        }
        let is_password = matches!(proof, LogonProof::Response { .. });
        if is_password && !self.outage.may_ask() {
            return refuse(self, NtStatus::NO_LOGON_SERVERS);
        }
        let pool = if is_password { self.passwords.as_ref() } else { Some(&self.tickets) };
        let Some(pool) = pool else { return refuse(self, NtStatus::NO_LOGON_SERVERS) };
        self.next_job += 1;
        let job = Job { number: self.next_job, task: Task::Check { asker, question, proof } };
        if pool.add(job).is_err() {
            return refuse(self, NtStatus::INSUFF_SERVER_RESOURCES);
        }
        *self.asked.entry(asker).or_default() += 1;
        if is_password {
            let waiting = Waiting { since: Instant::now(), asker, question };
            self.waiting.insert(self.next_job, waiting);
        }
    }

    fn finish(&mut self, done: Done) {
        let now = Instant::now();
        match done.outcome {
            Outcome::Pinged(true) => self.end_outage(),
            Outcome::Pinged(false) => drop(self.outage.begin(now)),
            Outcome::Ticket { asker, question, verdict } => {
                self.forget(asker);
                self.answer(asker, question, verdict);
            }
            Outcome::Password { checked } => {
                // Without one, it was too late.
                if let Some(Waiting { asker, question, .. }) = self.waiting.remove(&done.job) {
                    self.forget(asker);
                    self.answer(asker, question, checked.verdict);
                }
                if checked.is_outage {
                    self.begin_outage(now);
                } else {
                    self.end_outage();
                }
            }
        }
    }

    fn forget(&mut self, asker: ServerId) {
        if let Some(count) = self.asked.get_mut(&asker) {
            *count -= 1;
            if *count == 0 {
                self.asked.remove(&asker);
            }
        }
    }

    /// Declares an outage if a password has waited too long, and asks for a sign of life during
    /// one.
    fn look_at_domain(&mut self, now: Instant) {
        let is_late = |it: &Waiting| now.saturating_duration_since(it.since) >= ANSWER_TIMEOUT;
        if self.waiting.values().any(is_late) {
            self.begin_outage(now);
        }
        let Some(passwords) = &self.passwords else { return };
        if self.outage.take_probe(now) {
            self.next_job += 1;
            let job = Job { number: self.next_job, task: Task::Ping };
            if passwords.add(job).is_err() {
                self.outage.begin(now);
            }
        }
    }

    /// Refuses all passwords that wait, also those whose check has begun: it may take a minute.
    fn begin_outage(&mut self, now: Instant) {
        if self.outage.begin(now) {
            warn!("no controller of the domain answers: passwords of its users are refused");
        }
        let waiting = self.passwords.as_ref().map(Pool::take_waiting).unwrap_or_default();
        if waiting.iter().any(|job| matches!(job.task, Task::Ping)) {
            self.outage.begin(now);
        }
        for (_, Waiting { asker, question, .. }) in std::mem::take(&mut self.waiting) {
            self.forget(asker);
            self.answer(asker, question, LogonVerdict::Refused(NtStatus::NO_LOGON_SERVERS));
        }
    }

    fn end_outage(&mut self) {
        if self.outage.end() {
            info!("the domain answers again");
        }
    }

    fn answer(&mut self, to: ServerId, number: u64, verdict: LogonVerdict) {
        let data = LogonAnswer { number, verdict }.encode();
        let content = Content::new(MessageKind::LOGON_CHECKED, &data);
        if let Err(error) = self.messaging.send(Instant::now(), to, &content) {
            debug!("cannot answer worker {}: {error}", to.pid);
        }
    }
}

/// Opens the libraries that the configuration needs, and starts the threads.
fn start_threads(
    settings: &Settings,
    results: &Arc<Mailbox<Done>>,
) -> anyhow::Result<(Pool<Job>, Option<Pool<Job>>)> {
    let global = &settings.config.global;
    let replay_cache = settings.directories.lock.join(REPLAY_CACHE);
    let parameters = Parameters::of(global);
    let gss = parameters.keytab.is_some().then(Gss::open).transpose()?;
    let winbind = parameters.is_member.then(Winbind::open).transpose()?;
    let shared = Arc::new(Shared::new(parameters, replay_cache));
    let begin = move || Checker::new(Arc::clone(&shared), gss, winbind);
    let results = Arc::clone(results);
    let work = move |checker: &mut Checker, job: Job| {
        let outcome = match job.task {
            Task::Check { asker, question, proof } => {
                let is_password = matches!(proof, LogonProof::Response { .. });
                let checked = checker.check(asker, proof);
                match is_password {
                    true => Outcome::Password { checked },
                    false => Outcome::Ticket { asker, question, verdict: checked.verdict },
                }
            }
            Task::Ping => Outcome::Pinged(checker.ping()),
        };
        results.put(Done { job: job.number, outcome });
    };
    let start =
        |name, threads| Pool::start(name, threads, WAITING_MAX, begin.clone(), work.clone());
    let tickets = start("tickets", TICKET_THREADS).context("cannot start threads")?;
    let passwords = winbind.map(|_| start("passwords", PASSWORD_THREADS)).transpose();
    Ok((tickets, passwords.context("cannot start threads")?))
}

/// Name of the file of used authenticators in the lock directory.
const REPLAY_CACHE: &str = "tickets.replay";
