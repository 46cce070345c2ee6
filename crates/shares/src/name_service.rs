//! Access to the system's name service that cannot block a worker for long.
//!
//! Looking a user up may take as long as a directory in the network does, or forever. So a separate
//! thread asks, the worker waits for a limited time, and answers are cached for a while. The thread
//! gets one question at a time. While it is late with one, others wait for it as long as that one
//! may take, and then fail at once. A late answer is kept for the next request. A worker's thread
//! asks `logond`, which runs the modules of the name service; the one of a command runs them
//! itself.
//!
//! A thread costs a short-lived client a twentieth of its worker. So a worker that has nothing to
//! lose may ask by itself (`NameService::end_when_late`): then the process ends in place of a
//! late answer, as if the connection had been lost.
//!
//! A missing answer is an error, and never taken for "there is no such user".

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use process::Deadline;
pub(super) use process::{NameAnswer as Answer, NameQuestion as Question};

use super::served::serves_guest;

/// Answers one question, without a time limit.
pub(super) type LookUp = fn(&Question) -> anyhow::Result<Answer>;

/// The name service, as one worker uses it.
#[derive(Debug)]
pub(super) struct NameService {
    look_ups: LookUps,
    deadline: Duration,
    believed: HashMap<Question, (Instant, Answer)>,
    asking: Option<Asking>,
    /// Another thread for questions of guests: a late one keeps no user waiting.
    asking_for_guests: Option<Asking>,
    ends_when_late: bool,
    spent: Spent,
    spent_by_guests: Spent,
    /// Time up to which a guest's request is in the account, while one is served.
    counted: Option<Instant>,
    /// Account that guests act as.
    guest_account: String,
}

/// Ways to answer a question, by its purpose.
#[derive(Clone, Copy, Debug)]
pub(super) struct LookUps {
    /// For questions of the server itself.
    pub(super) server: LookUp,
    /// For questions of clients of users.
    pub(super) client: LookUp,
    /// For questions that guests cause.
    pub(super) guest: LookUp,
}

/// The thread that asks the name service.
#[derive(Debug)]
struct Asking {
    questions: SyncSender<(LookUp, Question)>,
    answers: Receiver<(Question, anyhow::Result<Answer>, Instant)>,
    /// Time of the thread's question, if its answer did not come in time.
    late_since: Option<Instant>,
}

/// Time of the worker spent on questions that clients cause, or on all requests of guests that may
/// have such questions.
#[derive(Debug, Default)]
struct Spent {
    /// Time at which the account is empty again.
    until: Option<Instant>,
}

/// Longest time for which the worker waits for an answer. A healthy directory in the network
/// answers within one second.
pub(super) const DEADLINE: Duration = Duration::from_secs(5);
/// Time for which a user's rights are cached: session setup and tree connect ask one after the
/// other.
const RIGHTS_BELIEVED: Duration = Duration::from_secs(1);
/// The same for the guest account: guests act as it, and cause such questions at will.
const GUEST_RIGHTS_BELIEVED: Duration = Duration::from_secs(60);
/// Time for which the id of a name, or the name of an id, is cached.
const NAME_BELIEVED: Duration = Duration::from_secs(60);
/// Time for which a missing name or id is cached.
const NOBODY_BELIEVED: Duration = Duration::from_secs(10);
/// Highest number of cached answers. One more clears the cache.
const BELIEVED_MAX: usize = 4_096;
/// Longest time for which clients may keep the worker waiting by their questions; after that, half
/// of the time.
const SPENT_MAX: Duration = Duration::from_secs(5);
/// The same for guests, who may be beside a user: after that, a part of [`GUESTS_PARTS`]. All of a
/// guest's request to a pipe counts, since one that asks nobody may take as long.
const GUESTS_SPENT_MAX: Duration = Duration::from_millis(50);
/// Parts of the time of which guests have one.
const GUESTS_PARTS: u32 = 20;

impl NameService {
    pub(super) fn new(look_ups: LookUps, deadline: Duration) -> Self {
        Self {
            look_ups,
            deadline,
            believed: HashMap::new(),
            asking: None,
            asking_for_guests: None,
            ends_when_late: false,
            spent: Spent::default(),
            spent_by_guests: Spent::default(),
            counted: None,
            guest_account: String::new(),
        }
    }

    /// Notes the account that guests act as.
    pub(super) fn set_guest_account(&mut self, name: &str) {
        name.clone_into(&mut self.guest_account);
    }

    /// Asks without a thread from now on, unless there is one, and ends this process where the
    /// thread's answer would be late; or no longer does so.
    pub(super) fn end_when_late(&mut self, ends: bool) {
        self.ends_when_late = ends;
    }

    /// Asks a question that the server itself needs answered.
    ///
    /// # Errors
    /// If the name service failed, or did not answer in time.
    pub(super) fn ask(&mut self, question: Question) -> anyhow::Result<Answer> {
        let look_up = match serves_guest() {
            true => self.look_ups.guest,
            false => self.look_ups.server,
        };
        self.ask_within(question, self.deadline, look_up)
    }

    fn ask_within(
        &mut self,
        question: Question,
        wait: Duration,
        look_up: LookUp,
    ) -> anyhow::Result<Answer> {
        self.wait_for_late(Duration::ZERO);
        let now = Instant::now();
        if let Some((at, answer)) = self.believed.get(&question)
            && now.saturating_duration_since(*at) < self.believed_for(&question, answer)
        {
            return Ok(answer.clone());
        }
        let answer = self.ask_now(&question, wait, look_up)?;
        self.believe(question, answer.clone(), Instant::now());
        Ok(answer)
    }

    /// Asks a question that only a client needs answered, or about a name that a client chose,
    /// perhaps before any proof of a password. Refuses if such questions have taken too much time.
    ///
    /// # Errors
    /// As for [`Self::ask`], or if such questions have taken too much time.
    pub(super) fn ask_for_client(&mut self, question: Question) -> anyhow::Result<Answer> {
        self.count_call();
        let begun = Instant::now();
        let Some(left) = self.left(begun) else {
            bail!("clients' requests for names have taken too much time");
        };
        let (wait, look_up) = match serves_guest() {
            true => (left / GUESTS_PARTS, self.look_ups.guest),
            false => (self.deadline, self.look_ups.client),
        };
        let answer = self.ask_within(question, wait.min(self.deadline), look_up);
        self.spend(begun);
        answer
    }

    fn asking(&mut self) -> &mut Option<Asking> {
        if serves_guest() { &mut self.asking_for_guests } else { &mut self.asking }
    }

    /// Begins a request that may ask for many names. The time until [`Self::end_call`] is in the
    /// account of guests, whatever it is spent on.
    pub(super) fn begin_call(&mut self) {
        self.counted = serves_guest().then(Instant::now);
    }

    /// Ends the request of [`Self::begin_call`].
    pub(super) fn end_call(&mut self) {
        self.count_call();
        self.counted = None;
    }

    /// Returns false if the request is a guest's, and those have taken too much time.
    pub(super) fn may_serve_call(&mut self) -> bool {
        self.count_call();
        !serves_guest() || self.left(Instant::now()).is_some()
    }

    /// Brings the account of guests up to now, within a request.
    fn count_call(&mut self) {
        if let Some(counted) = self.counted {
            self.spend(counted);
        }
    }

    /// Time that the account of the questions has left, with the parts; `None` if it is overdrawn.
    fn left(&mut self, now: Instant) -> Option<Duration> {
        let max = if serves_guest() { GUESTS_PARTS * GUESTS_SPENT_MAX } else { SPENT_MAX };
        let ahead = self.account().until.map(|until| until.saturating_duration_since(now));
        max.checked_sub(ahead.unwrap_or_default())
    }

    /// Notes the time since `begun` in the account of the questions.
    fn spend(&mut self, begun: Instant) {
        let now = Instant::now();
        let parts = if serves_guest() { GUESTS_PARTS } else { 2 };
        let account = self.account();
        let until = account.until.unwrap_or(begun).max(begun);
        account.until = Some(until + parts * now.saturating_duration_since(begun));
        self.counted = self.counted.map(|_| now);
    }

    fn account(&mut self) -> &mut Spent {
        if serves_guest() { &mut self.spent_by_guests } else { &mut self.spent }
    }

    /// Spends the time of clients for the next hour.
    #[cfg(test)]
    pub(super) fn exhaust_time_of_clients(&mut self) {
        let until = Some(Instant::now() + Duration::from_secs(3_600));
        self.spent.until = until;
        self.spent_by_guests.until = until;
    }

    fn ask_now(
        &mut self,
        question: &Question,
        wait: Duration,
        look_up: LookUp,
    ) -> anyhow::Result<Answer> {
        if self.asking().is_none()
            && self.ends_when_late
            && let Ok(_deadline) = Deadline::after(wait)
        {
            return look_up(question);
        }
        if self.asking().is_none() {
            *self.asking() = Some(Asking::begin()?);
        }
        let begun = Instant::now();
        // One of a client may be late soon, and is no reason to refuse another.
        self.wait_for_late(wait);
        let asking = self.asking().as_mut().expect("begun above");
        if asking.late_since.is_some() {
            bail!("the name service has not answered an earlier question yet");
        }
        let asked = Instant::now();
        asking
            .questions
            .send((look_up, question.clone()))
            .context("the thread of the name service has ended")?;
        match asking.answers.recv_timeout(wait.saturating_sub(begun.elapsed())) {
            Ok((_, answer, _)) => answer,
            Err(_) => {
                asking.late_since = Some(asked);
                Err(anyhow!("the name service has not answered within {wait:?}"))
            }
        }
    }

    /// Waits for the answer to an earlier question, as long as that may take, and caches it.
    fn wait_for_late(&mut self, wait: Duration) {
        let deadline = self.deadline;
        let Some(asking) = self.asking() else { return };
        let Some(since) = asking.late_since else { return };
        let left = wait.min(deadline.saturating_sub(since.elapsed()));
        let Ok((question, answer, at)) = asking.answers.recv_timeout(left) else { return };
        asking.late_since = None;
        if let Ok(answer) = answer {
            // The answer may have been there for long.
            self.believe(question, answer, at);
        }
    }

    fn believed_for(&self, question: &Question, answer: &Answer) -> Duration {
        match (question, answer) {
            (Question::User(name), _) if serves_guest() && *name == self.guest_account => {
                GUEST_RIGHTS_BELIEVED
            }
            (Question::User(_) | Question::Netgroup { .. }, _) => RIGHTS_BELIEVED,
            (_, Answer::Named(None)) => NOBODY_BELIEVED,
            _ => NAME_BELIEVED,
        }
    }

    fn believe(&mut self, question: Question, answer: Answer, at: Instant) {
        if self.believed.len() >= BELIEVED_MAX {
            self.believed.clear();
        }
        self.believed.insert(question, (at, answer));
    }
}

impl Asking {
    fn begin() -> anyhow::Result<Self> {
        let (questions, asked) = sync_channel::<(LookUp, Question)>(1);
        let (answer, answers) = sync_channel(1);
        let ask = move || {
            // A client's question may come while its user is impersonated.
            let rights = store::take_server_rights();
            while let Ok((look_up, question)) = asked.recv() {
                let answered = match &rights {
                    Ok(()) => look_up(&question),
                    Err(error) => Err(anyhow!("the thread lacks the server's rights: {error}")),
                };
                if answer.send((question, answered, Instant::now())).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("name service".to_owned());
        thread.spawn(ask).context("cannot start the thread of the name service")?;
        Ok(Self { questions, answers, late_since: None })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use rustix::process::{Gid, Uid};
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

    use super::super::served::serve_guest;
    use super::{Answer, LookUp, LookUps, NameService, Question};

    /// A name service with the same answers for all.
    fn service(look_up: LookUp, deadline: Duration) -> NameService {
        // Another test may have used this thread.
        serve_guest(false);
        let look_ups = LookUps { server: look_up, client: look_up, guest: look_up };
        NameService::new(look_ups, deadline)
    }

    fn group(name: &str) -> Question {
        Question::GroupId(name.to_owned())
    }

    #[track_caller]
    fn id(answer: anyhow::Result<Answer>) -> Option<u32> {
        match answer.expect("it was answered") {
            Answer::Named(named) => named.map(|(_, id)| id),
            other => panic!("a group was asked for: {other:?}"),
        }
    }

    #[test]
    fn a_name_service_that_hangs_is_waited_for_once_and_its_late_answer_is_kept() {
        static HANGS: Mutex<()> = Mutex::new(());
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let mut names = service(
            |_| {
                ASKED.fetch_add(1, Ordering::SeqCst);
                let _until_the_test_lets_go = HANGS.lock();
                Ok(Answer::Named(Some(("late".to_owned(), 7))))
            },
            Duration::from_millis(10),
        );
        let hangs = HANGS.lock().expect("it is the first");
        let error = names.ask(group("late")).expect_err("it hangs");
        assert!(error.to_string().contains("within"), "{error}");
        for _ in 0..100 {
            let error = names.ask(group("other")).expect_err("it still hangs");
            assert!(error.to_string().contains("earlier"), "{error}");
        }
        assert_eq!(ASKED.load(Ordering::SeqCst), 1);
        drop(hangs);
        while names.ask(group("late")).is_err() {
            std::thread::yield_now();
        }
        assert_eq!(id(names.ask(group("late"))), Some(7));
        assert_eq!(ASKED.load(Ordering::SeqCst), 1, "its answer came late, and was kept");
    }

    #[test]
    fn questions_of_guests_keep_a_worker_waiting_for_a_small_part_of_the_time() {
        let mut names = service(
            |_| {
                std::thread::sleep(Duration::from_millis(5));
                Ok(Answer::Named(None))
            },
            super::DEADLINE,
        );
        serve_guest(true);
        let begun = Instant::now();
        let asked = (0..1_000).map(|id| names.ask_for_client(Question::UserName(id)));
        let answered = asked.filter(Result::is_ok).count();
        let permitted = super::GUESTS_SPENT_MAX + begun.elapsed() / super::GUESTS_PARTS;
        let one_more = 1 + permitted.as_millis() / 5;
        assert!(answered as u128 <= one_more, "{answered} in {permitted:?}");
        serve_guest(false);
        names.ask_for_client(Question::UserName(1_001)).expect("a user has another account");
    }

    #[test]
    fn all_time_of_a_guests_request_counts_though_nobody_is_asked_in_it() {
        let mut names = service(|_| Ok(Answer::Named(None)), super::DEADLINE);
        serve_guest(true);
        names.begin_call();
        assert!(names.may_serve_call());
        // As if the request had taken that long.
        names.counted = names.counted.and_then(|it| it.checked_sub(2 * super::GUESTS_SPENT_MAX));
        names.ask_for_client(group("a")).expect_err("the request has taken too long");
        names.end_call();
        serve_guest(true);
        names.begin_call();
        assert!(!names.may_serve_call(), "the next request of a guest");
        names.end_call();
        serve_guest(false);
        names.begin_call();
        assert!(names.may_serve_call());
        names.ask_for_client(group("a")).expect("a user has another account");
        names.end_call();
    }

    #[test]
    fn a_question_is_asked_for_its_purpose() {
        fn answer(id: u32) -> anyhow::Result<Answer> {
            Ok(Answer::Named(Some(("staff".to_owned(), id))))
        }
        let look_ups =
            LookUps { server: |_| answer(1), client: |_| answer(2), guest: |_| answer(3) };
        let mut names = NameService::new(look_ups, super::DEADLINE);
        serve_guest(false);
        assert_eq!(id(names.ask(group("by the server"))), Some(1));
        assert_eq!(id(names.ask_for_client(group("by a user"))), Some(2));
        serve_guest(true);
        assert_eq!(id(names.ask(group("for a guest"))), Some(3));
        let by_guest = loop {
            // On a busy machine the answer comes late, and is kept.
            match names.ask_for_client(group("by a guest")) {
                Ok(answer) => break answer,
                Err(_) => std::thread::yield_now(),
            }
        };
        assert_eq!(id(Ok(by_guest)), Some(3));
    }

    /// The attack: a guest with the ClientGuid of a user asks for names that hang.
    #[test]
    fn a_late_question_of_a_guest_keeps_no_user_waiting() {
        static HANGS: Mutex<()> = Mutex::new(());
        let hangs = HANGS.lock().expect("it is the first");
        let mut names = service(
            |question| {
                if *question == group("hangs") {
                    let _until_the_test_lets_go = HANGS.lock();
                }
                Ok(Answer::Named(Some(("staff".to_owned(), 7))))
            },
            Duration::from_secs(60),
        );
        serve_guest(true);
        names.ask_for_client(group("hangs")).expect_err("it hangs");
        serve_guest(false);
        let begun = Instant::now();
        assert_eq!(id(names.ask(group("staff"))), Some(7));
        assert!(begun.elapsed() < Duration::from_secs(60), "it did not wait for the other one");
        drop(hangs);
    }

    /// A guest acts as the same user each time, and connects as often as it likes.
    #[test]
    fn the_guest_account_is_asked_for_once_a_minute() {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let mut names = service(
            |_| {
                ASKED.fetch_add(1, Ordering::SeqCst);
                Ok(Answer::User(None))
            },
            super::DEADLINE,
        );
        names.set_guest_account("nobody");
        let nobody = Question::User("nobody".to_owned());
        serve_guest(true);
        names.ask(nobody.clone()).expect("it is quick");
        let (at, _) = names.believed.get_mut(&nobody).expect("it is cached");
        *at -= 2 * super::RIGHTS_BELIEVED;
        names.ask(nobody.clone()).expect("it is cached");
        assert_eq!(ASKED.load(Ordering::SeqCst), 1);
        serve_guest(false);
        names.ask(nobody).expect("it is quick");
        assert_eq!(ASKED.load(Ordering::SeqCst), 2, "rights of a user are those of now");
        serve_guest(true);
        let forced = Question::User("anna".to_owned());
        names.ask(forced.clone()).expect("it is quick");
        let (at, _) = names.believed.get_mut(&forced).expect("it is cached");
        *at -= 2 * super::RIGHTS_BELIEVED;
        names.ask(forced).expect("it is quick");
        assert_eq!(ASKED.load(Ordering::SeqCst), 4, "also where a share forces guests to be one");
        serve_guest(false);
    }

    #[test]
    fn the_thread_that_asks_is_the_own_one_only_while_a_late_answer_may_end_the_process() {
        let mut names = service(
            |_| Ok(Answer::Named(std::thread::current().name().map(|it| (it.to_owned(), 1)))),
            super::DEADLINE,
        );
        let asked_by = |names: &mut NameService, number| match names
            .ask(Question::UserName(number))
            .expect("it is quick")
        {
            Answer::Named(named) => named.expect("threads here have names").0,
            other => panic!("a name was asked for: {other:?}"),
        };
        names.end_when_late(true);
        let own = std::thread::current().name().map(str::to_owned);
        assert_eq!(Some(asked_by(&mut names, 1)), own);
        names.end_when_late(false);
        assert_eq!(asked_by(&mut names, 2), "name service");
        names.end_when_late(true);
        assert_eq!(asked_by(&mut names, 3), "name service", "it may have a question still");
    }

    /// Only a server that runs as root impersonates anybody.
    #[test]
    fn the_thread_that_asks_has_the_servers_rights_though_a_user_is_impersonated() {
        if !rustix::process::getuid().is_root() {
            return;
        }
        let mut names = service(
            |_| {
                let status = std::fs::read_to_string("/proc/thread-self/status")?;
                let is_id = |line: &&str| {
                    ["Uid:", "Gid:", "Groups:"].iter().any(|name| line.starts_with(name))
                };
                let ids: String = status.lines().filter(is_id).collect();
                Ok(Answer::Named(Some((ids.split_whitespace().collect(), 0))))
            },
            super::DEADLINE,
        );
        let (nobody, root) = (65_534, 0);
        let group = Gid::from_raw(nobody);
        set_thread_groups(&[group]).expect("root may");
        set_thread_res_gid(Gid::from_raw(root), group, Gid::from_raw(root)).expect("root may");
        let user = Uid::from_raw(nobody);
        set_thread_res_uid(Uid::from_raw(root), user, Uid::from_raw(root)).expect("root may");
        let answer = names.ask(Question::UserName(1)).expect("it is quick");
        let Answer::Named(Some((ids, _))) = answer else { panic!("{answer:?}") };
        assert_eq!(ids, "Uid:0000Gid:0000Groups:");
    }

    #[test]
    fn an_answered_question_is_not_asked_again_and_a_failed_one_is() {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let mut names = service(
            |question| {
                ASKED.fetch_add(1, Ordering::SeqCst);
                match question {
                    Question::GroupId(name) if name == "fails" => anyhow::bail!("no directory"),
                    Question::GroupId(name) if name == "there" => {
                        Ok(Answer::Named(Some((name.clone(), 3))))
                    }
                    _ => Ok(Answer::Named(None)),
                }
            },
            super::DEADLINE,
        );
        for _ in 0..3 {
            assert_eq!(id(names.ask(group("there"))), Some(3));
            assert_eq!(id(names.ask(group("missing"))), None);
        }
        assert_eq!(ASKED.load(Ordering::SeqCst), 2);
        for _ in 0..3 {
            names.ask(group("fails")).expect_err("there is no directory");
        }
        assert_eq!(ASKED.load(Ordering::SeqCst), 5);
    }

    #[test]
    fn questions_of_clients_do_not_take_all_of_the_time() {
        let mut names = service(|_| Ok(Answer::Named(None)), super::DEADLINE);
        names.ask_for_client(group("a")).expect("it is quick");
        names.exhaust_time_of_clients();
        names.ask_for_client(group("b")).expect_err("too long");
        assert_eq!(id(names.ask(group("b"))), None, "what has to be known is still asked for");
    }

    #[test]
    fn kept_answers_are_bounded() {
        let mut names = service(|_| Ok(Answer::Named(None)), super::DEADLINE);
        for number in 0..10_000 {
            names.ask(Question::UserName(number)).expect("it is quick");
            assert!(names.believed.len() <= super::BELIEVED_MAX);
        }
    }
}
