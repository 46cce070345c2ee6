//! `logond`: the process that checks the proofs of clients.
//!
//! It alone has secrets: the user database with its password hashes, the keys of the service for
//! Kerberos tickets, and the connection to winbindd for users of a domain. Workers send it the
//! proofs of their clients and get users, ids and session keys back. It is a process of its own
//! because a hash logs on everywhere, the key of a service can forge any user's ticket, libraries
//! in C parse what strangers send, and a domain may take a minute to answer.
//!
//! Responses of the server's own users take microseconds: the main thread checks them. All else has
//! six pools of threads: tickets are verified without winbindd, and never wait behind passwords or
//! ids, which need it; passwords and ids of the own domain never wait behind those of others; names
//! delay no logon. Workers take turns in each.
//! It also runs the modules of the system's name service for workers, on threads of their own:
//! modules are code of others, and ask directories in the network.
//! If this process dies, workers ask its successor, except about tickets, which can be used once.

#![forbid(unsafe_code)]

mod checks;
mod complaints;
mod contexts;
mod database;
mod domain_pools;
mod domains;
mod ids;
mod ids_of_sids;
mod jobs;
mod keys;
mod known_groups;
mod line_limit;
mod lookup;
mod lookups;
mod machine_keys;
mod name_queues;
mod name_service;
mod name_threads;
mod names;
mod outage;
mod passwords;
mod pool;
mod principal;
mod recent_names;
mod under_way;

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use config::Global;
use confinement::ProcessKind;
use dtyp::{NtStatus, ServerId};
use logon::gss::Gss;
use logon::winbind::Winbind;
use messaging::{
    Content, LogonAnswer, LogonProof, LogonQuestion, LogonVerdict, Message, MessageKind,
    NamesQuestion,
};
use process::arguments::Start;
use process::{HelperProcess, Mailbox, Order, administration, look_up_name};
use settings::Settings;
use tables::{SingleProcess, announce};
use tracing::{debug, error, warn};
use zeroize::Zeroize;

pub use keys::OwnKeytab;

use checks::{Checker, Parameters, Shared};
use database::Database;
use domain_pools::DomainPools;
use ids::Ids;
use ids_of_sids::IdsOfSids;
use jobs::{Answer, Done, IdsJob, Job};
use lookup::Lookup;
use lookups::Lookups;
use name_service::{NameService, Tokens};
use passwords::Passwords;
use pool::Pool;
use under_way::UnderWay;

/// Threads for tickets, which take 0.3 ms each.
const TICKET_THREADS: usize = 2;

/// Threads for passwords, each of which may wait for the domain.
const PASSWORD_THREADS: usize = 6;

/// Threads for passwords of other domains.
const OTHER_THREADS: usize = 4;

/// Threads for the ids of owners of tickets of the own realm, and of others.
const IDS_THREADS: usize = 4;

/// Threads for names, which nobody's logon waits for.
const NAMES_THREADS: usize = 2;

/// Checks of each kind that wait for a thread.
const WAITING_MAX: usize = 1_024;

/// Checks of one worker that are under way: none can exhaust the others' room.
const PER_WORKER_MAX: u32 = 32;

/// Highest number of messages to take before results are sent.
const MESSAGES_PER_TURN_MAX: usize = 256;

const RESULTS: u64 = HelperProcess::FIRST_TOKEN;
const USERS: u64 = RESULTS + 1;
/// Tokens of workers' questions for users and groups of the system.
const NAMES: Tokens = Tokens { listener: USERS + 1, found: USERS + 2, connections: 1 << 32 };

/// State of the process `logond`.
#[derive(Debug)]
pub struct Logond {
    process: HelperProcess,
    results: Arc<Mailbox<Done>>,
    /// Users of this server, with their hashes.
    database: Database,
    /// Tickets, where there are keys.
    tickets: Option<Pool<Job>>,
    passwords: Option<Passwords>,
    /// Ids of owners of tickets, in a domain.
    ids: Option<Ids<Job>>,
    /// Look-ups of names, in a domain.
    names: Option<Lookups>,
    /// Checks of each worker that are under way.
    asked: UnderWay,
    /// Questions of workers for users and groups of the system.
    name_service: NameService,
}

impl Logond {
    /// Joins the messages of the server, opens the libraries and starts the threads.
    ///
    /// # Errors
    /// The server cannot be joined, or a library is missing.
    pub fn prepare(start: Start) -> anyhow::Result<Self> {
        let process = HelperProcess::join(ProcessKind::Logond, start)?;
        let results = Arc::new(Mailbox::new()?);
        process.events.add(results.wake_source(), RESULTS).context("cannot poll the threads")?;
        let database = Database::open(&process.settings);
        if let Some(changes) = database.changes() {
            process.events.add(changes, USERS).context("cannot poll the user database")?;
        }
        let (tickets, of_domain) = start_threads(&process.settings, &results)?;
        let (passwords, ids, names) = match of_domain {
            Some((passwords, ids, names)) => (Some(passwords), Some(ids), Some(names)),
            None => (None, None, None),
        };
        let asked = UnderWay::default();
        let name_service = NameService::new(look_up_name)?;
        process
            .events
            .add(name_service.found_source(), NAMES.found)
            .context("cannot poll names")?;
        Ok(Self { process, results, database, tickets, passwords, ids, names, asked, name_service })
    }

    /// Serves until the supervisor ends it.
    ///
    /// # Errors
    /// The supervisor is gone, or this process cannot be announced to workers.
    pub fn run(&mut self) -> anyhow::Result<()> {
        let server_id = self.process.messaging.server_id();
        announce(&self.process.settings.directories.lock, SingleProcess::Logond, server_id)
            .context("cannot tell workers of this process")?;
        self.process.report_ready(&[])?;
        loop {
            let passwords = self.passwords.as_ref().and_then(Passwords::next_timeout);
            let ids = self.ids.as_ref().and_then(Ids::next_timeout);
            let questions = self.database.has_questions().then(Instant::now);
            let names = self.name_service.next_timeout();
            let until = [passwords, ids, questions, names].into_iter().flatten();
            let ready = self.process.wait(until)?;
            if ready.contains(&USERS) {
                self.database.follow_change();
            }
            if self.follow_orders()? {
                return Ok(());
            }
            self.name_service.go_on(Instant::now(), &ready, &self.process.events, NAMES);
            for done in self.results.take() {
                self.finish(done);
            }
            for _ in 0..MESSAGES_PER_TURN_MAX {
                let Some(message) = self.process.messaging.poll(Instant::now()) else { break };
                self.take(message);
            }
            for Answer { asker, question, verdict } in self.database.answer() {
                self.answer(asker, question, verdict);
            }
            let late = self.passwords.as_mut().map(|it| it.serve_timeouts(Instant::now()));
            self.answer_all(late.unwrap_or_default());
            let late = self.ids.as_mut().map(|it| it.refuse_late(Instant::now()));
            self.answer_all(late.unwrap_or_default());
            self.process.messaging.flush(Instant::now());
            let dropped = self.process.messaging.take_dropped().messages;
            if dropped > 0 {
                warn!("{dropped} answers were dropped: the workers' queues are full");
            }
        }
    }

    /// Carries out the supervisor's orders. Returns true if this process must end: with another
    /// configuration its successor takes over, so that no thread has an old one.
    ///
    /// # Errors
    /// It cannot wait for workers.
    fn follow_orders(&mut self) -> anyhow::Result<bool> {
        while let Some(order) = self.process.next_order() {
            let ends = match order {
                Order::End => true,
                Order::Listen(socket) => {
                    let Self { process, name_service, .. } = self;
                    let guest = &process.settings.config.global.guest_account;
                    name_service.listen(socket, &process.events, NAMES, guest)?;
                    false
                }
                Order::Reloaded(before) => {
                    let [new, old] = [&self.process.settings, &before]
                        .map(|it| Parameters::of(&it.config.global));
                    new != old || !self.database.is_of(&self.process.settings)
                }
            };
            if ends {
                return Ok(true);
            }
        }
        Ok(false)
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
            MessageKind::FIND_NAMES => match NamesQuestion::decode(&message.data) {
                Some(question) => {
                    let lookup = Lookup::new(Instant::now(), sender, question);
                    // Without a domain nothing is known.
                    let answered = match &mut self.names {
                        Some(names) => names.begin(lookup),
                        None => Some(lookup),
                    };
                    self.answer_names(answered);
                }
                None => warn!("{sender:?} sent names that cannot be read"),
            },
            _ => drop(administration::read(&mut self.process.messaging, &message)),
        }
    }

    /// Gives a check to a thread, or refuses it at once.
    fn begin(&mut self, asker: ServerId, question: u64, proof: LogonProof) {
        let refuse = |logond: &mut Self, status| {
            logond.answer(asker, question, LogonVerdict::Refused(status));
        };
        if let LogonProof::OwnResponse { .. } = proof {
            if let Some(Answer { asker, question, verdict }) =
                self.database.add(asker, question, proof)
            {
                self.answer(asker, question, verdict);
            }
            return;
        }
        if !self.asked.permits(asker, PER_WORKER_MAX) {
            return refuse(self, NtStatus::INSUFF_SERVER_RESOURCES);
        }
        let added = match self.domain_of(&proof) {
            None => match &self.tickets {
                Some(tickets) => {
                    let added = tickets.add_of(asker, Job::Ticket { asker, question, proof });
                    let displaced = added.map_err(|_| NtStatus::INSUFF_SERVER_RESOURCES);
                    displaced.map(|job| job.and_then(refused))
                }
                None => Err(NtStatus::LOGON_FAILURE),
            },
            Some(domain) => match &mut self.passwords {
                Some(it) => it.begin(Instant::now(), (asker, question), proof, domain),
                None => Err(NtStatus::NO_LOGON_SERVERS),
            },
        };
        match added {
            Ok(displaced) => {
                self.asked.add(asker);
                self.answer_all(displaced);
            }
            Err(status) => refuse(self, status),
        }
    }

    fn answer_names(&mut self, answered: Option<Lookup>) {
        if let Some(lookup) = answered {
            let to = lookup.asker;
            self.send(to, MessageKind::NAMES_FOUND, &lookup.into_answer().encode());
        }
    }

    /// Returns the domain of a password, by its name if it is another than the own one; `None` for
    /// other proofs.
    #[expect(clippy::option_option, reason = "the own domain needs no name")]
    fn domain_of(&self, proof: &LogonProof) -> Option<Option<String>> {
        let LogonProof::Response { user, domain, .. } = proof else { return None };
        let Global { workgroup, realm, .. } = &self.process.settings.config.global;
        Some(domains::other_domain(user, domain, [workgroup, realm]))
    }

    fn finish(&mut self, done: Done) {
        let now = Instant::now();
        let answers = match (done, &mut self.passwords, &mut self.ids) {
            (Done::Ticket { asker, question, verdict }, ..) => {
                vec![Answer { asker, question, verdict }]
            }
            (Done::Proven { asker, question, ticket }, _, Some(ids)) => {
                let Global { workgroup, realm, .. } = &self.process.settings.config.global;
                let realm = domains::other_domain(&ticket.principal, "", [workgroup, realm]);
                let of = realm.clone();
                let job = |number, begin| Job::Ids(IdsJob { number, asker, realm, ticket, begin });
                let begun = ids.begin(now, (asker, question), of.as_deref(), job, Job::number);
                let refused = |status| Some(Answer::refused(asker, question, status));
                begun.unwrap_or_else(refused).into_iter().collect()
            }
            (Done::Ids { number, realm, verdict }, _, Some(ids)) => {
                ids.finish(number, realm.as_deref(), verdict).into_iter().collect()
            }
            (Done::Password { number, domain, checked }, Some(passwords), _) => {
                passwords.finish(now, number, domain.as_deref(), checked)
            }
            (Done::Names(lookup), ..) => {
                let names = self.names.as_mut();
                let answered = names.and_then(|names| names.finish(now, lookup));
                return self.answer_names(answered);
            }
            (Done::Pinged(is_alive), Some(passwords), _) => {
                passwords.finish_ping(now, is_alive);
                Vec::new()
            }
            // Only in a domain there are such threads.
            (
                Done::Proven { .. } | Done::Ids { .. } | Done::Password { .. } | Done::Pinged(_),
                ..,
            ) => Vec::new(),
        };
        self.answer_all(answers);
    }

    fn answer_all(&mut self, answers: impl IntoIterator<Item = Answer>) {
        for Answer { asker, question, verdict } in answers {
            self.asked.remove(asker);
            self.answer(asker, question, verdict);
        }
    }

    fn answer(&mut self, to: ServerId, number: u64, verdict: LogonVerdict) {
        let data = LogonAnswer { number, verdict }.encode();
        self.send(to, MessageKind::LOGON_CHECKED, &data);
    }

    fn send(&mut self, to: ServerId, kind: MessageKind, data: &[u8]) {
        let content = Content::new(kind, data);
        if let Err(error) = self.process.messaging.send(Instant::now(), to, &content) {
            debug!("cannot answer worker {}: {error}", to.pid);
        }
    }
}

/// Refuses a ticket whose place another worker's has.
fn refused(job: Job) -> Option<Answer> {
    let Job::Ticket { asker, question, .. } = job else { return None };
    Some(Answer::refused(asker, question, NtStatus::INSUFF_SERVER_RESOURCES))
}

/// Checks that need winbindd, each kind with its threads.
type OfDomain = (Passwords, Ids<Job>, Lookups);

/// Opens the libraries that the configuration needs, and starts the threads. A server without a
/// library still has its own users.
fn start_threads(
    settings: &Settings,
    results: &Arc<Mailbox<Done>>,
) -> anyhow::Result<(Option<Pool<Job>>, Option<OfDomain>)> {
    let global = &settings.config.global;
    let replay_cache = settings.directories.lock.join(REPLAY_CACHE);
    let parameters = Parameters::of(global);
    let missing = |error: &anyhow::Error| {
        error!("{error:#}: tickets and users of the domain are refused until a restart");
    };
    let gss = parameters.keys.is_some().then(|| Gss::open().context("cannot check tickets"));
    let gss = gss.and_then(|gss| gss.inspect_err(missing).ok());
    let winbind = parameters.is_member.then(|| Winbind::open().context("cannot ask the domain"));
    let winbind = winbind.and_then(|winbind| winbind.inspect_err(missing).ok());
    if gss.is_none() && winbind.is_none() {
        return Ok((None, None));
    }
    let state_dir = winbind.map(|_| &*settings.directories.state);
    let ids_of_sids = IdsOfSids::open(state_dir);
    let shared = Arc::new(Shared::new(parameters, replay_cache, ids_of_sids));
    let begin = move || Checker::new(Arc::clone(&shared), gss, winbind);
    let results = Arc::clone(results);
    let work = move |checker: &mut Checker, job: Job| results.put(job.run(checker));
    let start = |name, threads| {
        let pool = Pool::start(name, threads, WAITING_MAX, begin.clone(), work.clone());
        pool.context("cannot start threads")
    };
    let tickets = gss.map(|_| start("tickets", TICKET_THREADS)).transpose()?;
    if winbind.is_none() {
        return Ok((tickets, None));
    }
    let own = start("passwords", PASSWORD_THREADS)?;
    let passwords = DomainPools::new(own, start("other domains", OTHER_THREADS)?);
    let ids = DomainPools::new(start("ids", IDS_THREADS)?, start("ids of others", IDS_THREADS)?);
    let names = Lookups::new(start("names", NAMES_THREADS)?);
    Ok((tickets, Some((Passwords::new(passwords), Ids::new(ids), names))))
}

/// Name of the file of used authenticators in the lock directory.
const REPLAY_CACHE: &str = "tickets.replay";
