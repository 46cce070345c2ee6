//! Questions of workers for users and groups of the system: their connections and turns.
//!
//! A worker has a connection for each question, and is trusted no more than has to be: it cannot
//! have more than a part of connections and threads, and none waits for it. Threads of their own
//! run the modules of the name service, so one that hangs keeps no password from its check. A
//! thread that hangs is replaced by another one, within limits.
//!
//! Clients choose names and ids freely, and users and guests may have any number of workers. So
//! their questions wait until no logon's does, and have a part of the threads
//! ([`crate::name_queues`]). A question that a thread has is not given to another: equal ones wait
//! for its answer.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::Context;
use dtyp::ServerId;
use process::{
    EventSet, NameAnswer, NameConnection, NamePurpose, NameQuestion, NameRequest, loading_questions,
};
use tracing::{debug, warn};

use crate::name_queues::{NAME_THREADS_MAX, NameQueues};
use crate::name_threads::{Found, LookUp, NameThreads};
use crate::recent_names::RecentNames;
use crate::under_way::UnderWay;

/// Connections of workers. More wait in the socket.
const NAME_CONNECTIONS_MAX: usize = 4_096;

/// Connections of one worker, each of whose threads may ask. More are closed.
const NAMES_PER_WORKER_MAX: u32 = 40;

/// Questions of one worker that threads have.
const NAMES_RUNNING_PER_WORKER_MAX: u32 = 4;

/// Time after which a question of a guest that no thread has is refused. A user in the same worker
/// may wait for it.
const GUEST_QUESTION_TIMEOUT: Duration = Duration::from_millis(500);

/// Time after which a question that no thread has is refused, and a thread is late; workers wait no
/// longer.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections taken before other work of the process goes on.
const ACCEPTED_PER_TURN_MAX: usize = 64;

/// Number of questions without a connection. They are never late.
const LOADING: u64 = 0;

/// Connections of workers with a question, and threads for them.
#[derive(Debug)]
pub(crate) struct NameService {
    listener: Option<OwnedFd>,
    /// The listener is waited for.
    has_room: bool,
    /// Connections with a question, by number from 1.
    connections: HashMap<u64, Connection>,
    last: u64,
    /// Number of the connections of each worker.
    asked: UnderWay,
    /// Number of the questions of each worker that threads have.
    running: UnderWay,
    /// Questions without a thread; the connections of some have ended.
    queues: NameQueues,
    /// Numbers of the questions that wait for the answer to an equal one, which a thread has and is
    /// not late.
    joined: HashMap<NameQuestion, Vec<u64>>,
    /// Further questions of workers that have their part of the threads.
    put_off: HashMap<ServerId, VecDeque<u64>>,
    recent: RecentNames,
    threads: NameThreads,
}

#[derive(Debug)]
struct Connection {
    socket: NameConnection,
    asker: ServerId,
    since: Instant,
    purpose: NamePurpose,
    step: Step,
}

#[derive(Debug)]
enum Step {
    /// Its question has not arrived.
    Silent,
    Waiting(NameQuestion),
    /// A thread has the question.
    Running(NameQuestion),
    /// A thread has an equal question.
    Joined(NameQuestion),
    /// The same, and its time is over.
    Late,
}

/// Tokens of the sources in the set of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens {
    pub(crate) listener: u64,
    pub(crate) found: u64,
    /// Connections have this one and those behind it.
    pub(crate) connections: u64,
}

impl NameService {
    /// Begins without connections.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn new(look_up: LookUp) -> io::Result<Self> {
        Ok(Self {
            listener: None,
            has_room: true,
            connections: HashMap::new(),
            last: LOADING,
            asked: UnderWay::default(),
            running: UnderWay::default(),
            queues: NameQueues::new(NAME_CONNECTIONS_MAX),
            joined: HashMap::new(),
            put_off: HashMap::new(),
            recent: RecentNames::default(),
            threads: NameThreads::new(look_up, NAME_THREADS_MAX)?,
        })
    }

    /// Descriptor that is readable when threads have answered.
    pub(crate) fn found_source(&self) -> BorrowedFd<'_> {
        self.threads.found().wake_source()
    }

    /// Serves those who connect to a socket. A thread loads the modules of the name service, with
    /// the name of a user.
    ///
    /// # Errors
    /// The socket cannot be polled.
    pub(crate) fn listen(
        &mut self,
        socket: OwnedFd,
        events: &EventSet<u64>,
        tokens: Tokens,
        user: &str,
    ) -> anyhow::Result<()> {
        events.add(&socket, tokens.listener).context("cannot wait for questions for names")?;
        self.listener = Some(socket);
        for question in loading_questions(user) {
            self.threads.give(LOADING, question).context("cannot start threads")?;
            self.queues.begin(NamePurpose::Server);
        }
        Ok(())
    }

    /// Handles the sources of the set that are ready.
    pub(crate) fn go_on(
        &mut self,
        now: Instant,
        ready: &[u64],
        events: &EventSet<u64>,
        tokens: Tokens,
    ) {
        for token in ready {
            match *token {
                it if it == tokens.listener => self.accept(now, events, tokens),
                it if it == tokens.found => {
                    for found in self.threads.found().take() {
                        self.finish(found);
                    }
                }
                it if it >= tokens.connections => {
                    let number = it - tokens.connections;
                    self.receive(now, number);
                    // A closed one is in no set any more. Nothing more is awaited from others: an
                    // answer fails if the worker is gone.
                    if let Some(it) = self.connections.get(&number).filter(|it| !it.is_silent()) {
                        events.remove(it.socket.socket());
                    }
                }
                _ => {}
            }
        }
        self.end_late(now);
        self.hand_out();
        self.watch_listener(events, tokens);
    }

    /// Returns the time of the next [`Self::go_on`] without a source.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let in_time = |it: &&Connection| !matches!(it.step, Step::Late);
        self.connections.values().filter(in_time).map(Connection::until).min()
    }

    fn accept(&mut self, now: Instant, events: &EventSet<u64>, tokens: Tokens) {
        for _ in 0..ACCEPTED_PER_TURN_MAX {
            let Some(listener) = &self.listener else { return };
            if self.connections.len() >= NAME_CONNECTIONS_MAX {
                return;
            }
            let connection = match NameConnection::accept(listener) {
                Ok(Some(connection)) => connection,
                Ok(None) => return,
                Err(error) => return warn!("cannot take a question for a name: {error}"),
            };
            let asker = ServerId { pid: connection.pid(), unique_id: 0 };
            let Some(number) = self.add(now, connection, asker) else { continue };
            // Mostly the question is there already.
            self.receive(now, number);
            let silent = self.connections.get(&number).filter(|it| it.is_silent());
            let added =
                silent.map(|it| events.add(it.socket.socket(), tokens.connections + number));
            if let Some(Err(error)) = added {
                warn!("cannot wait for a question for a name: {error}");
                self.remove(number);
            }
        }
    }

    /// Adds a connection, and returns its number; `None` if its worker has too many.
    fn add(&mut self, now: Instant, socket: NameConnection, asker: ServerId) -> Option<u64> {
        if !self.asked.permits(asker, NAMES_PER_WORKER_MAX) {
            debug!("worker {} asks for too many names", asker.pid);
            return None;
        }
        self.asked.add(asker);
        self.last += 1;
        let (purpose, step) = (NamePurpose::Guest, Step::Silent);
        let connection = Connection { socket, asker, since: now, purpose, step };
        self.connections.insert(self.last, connection);
        Some(self.last)
    }

    /// Reads the question of a connection, if it is there, and answers it if it was asked a moment
    /// ago.
    fn receive(&mut self, now: Instant, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let asker = connection.asker;
        match connection.socket.receive() {
            Ok(None) => {}
            Ok(Some(NameRequest { question, purpose })) => {
                if let Some(answer) = self.recent.find(now, &question) {
                    let answer = Ok(answer.clone());
                    return self.answer(number, &answer);
                }
                connection.step = Step::Waiting(question);
                connection.purpose = purpose;
                self.enqueue(asker, number);
            }
            Err(error) => {
                debug!("worker {}: {error}", asker.pid);
                self.remove(number);
            }
        }
    }

    fn enqueue(&mut self, asker: ServerId, number: u64) {
        let Some(connection) = self.connections.get(&number) else { return };
        if let Some((asker, displaced)) = self.queues.push(connection.purpose, (asker, number)) {
            self.answer(displaced, &Err("too many names are asked for".to_owned()));
            self.take_put_off(asker);
        }
    }

    /// Gives questions to threads, in the order of their turns.
    fn hand_out(&mut self) {
        while let Some((asker, number)) = self.queues.pop() {
            let Some(connection) = self.connections.get_mut(&number) else {
                // Its time is over.
                self.take_put_off(asker);
                continue;
            };
            let Step::Waiting(question) = &connection.step else { continue };
            let question = question.clone();
            if let Some(joined) = self.joined.get_mut(&question) {
                joined.push(number);
                connection.step = Step::Joined(question);
                self.take_put_off(asker);
                continue;
            }
            if !self.running.permits(asker, NAMES_RUNNING_PER_WORKER_MAX) {
                self.put_off.entry(asker).or_default().push_back(number);
                continue;
            }
            connection.step = Step::Running(question.clone());
            if let Err(error) = self.threads.give(number, question.clone()) {
                self.answer(number, &Err(format!("no thread for the name service: {error}")));
                self.take_put_off(asker);
                continue;
            }
            self.queues.begin(connection.purpose);
            self.running.add(asker);
            self.joined.insert(question, Vec::new());
        }
    }

    /// Handles an answer of a thread.
    fn finish(&mut self, (number, answer): Found) {
        self.threads.finish();
        let Some(connection) = self.connections.get(&number) else {
            self.queues.end(NamePurpose::Server, false);
            if let Err(error) = answer {
                warn!("{error}");
            }
            return;
        };
        let asker = connection.asker;
        self.queues.end(connection.purpose, matches!(connection.step, Step::Late));
        self.running.remove(asker);
        let mut joined = Vec::new();
        if let Step::Running(question) = &connection.step {
            joined = self.joined.remove(question).unwrap_or_default();
            if let Ok(answer) = &answer {
                self.recent.keep(connection.since, question.clone(), answer);
            }
        }
        // A late one is kept by its worker for the next request.
        for number in std::iter::once(number).chain(joined) {
            self.answer(number, &answer);
        }
        self.take_put_off(asker);
    }

    /// Lets the next question of a worker wait that had its part of the threads.
    fn take_put_off(&mut self, asker: ServerId) {
        let Some(numbers) = self.put_off.get_mut(&asker) else { return };
        let next = numbers.pop_front();
        if numbers.is_empty() {
            self.put_off.remove(&asker);
        }
        if let Some(next) = next {
            self.enqueue(asker, next);
        }
    }

    /// Ends connections whose time is over, except for those whose question a thread has.
    fn end_late(&mut self, now: Instant) {
        let is_late = |it: &Connection| it.until() <= now && !matches!(it.step, Step::Late);
        let late = self.connections.iter().filter(|(_, it)| is_late(it));
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        for number in late {
            let Some(connection) = self.connections.get_mut(&number) else { continue };
            match &connection.step {
                Step::Silent => drop(self.remove(number)),
                Step::Waiting(_) => {
                    let asker = connection.asker;
                    if let Some(numbers) = self.put_off.get_mut(&asker) {
                        numbers.retain(|it| *it != number);
                        if numbers.is_empty() {
                            self.put_off.remove(&asker);
                        }
                    }
                    self.answer(number, &Err("the name service hangs".to_owned()));
                }
                Step::Joined(question) => {
                    if let Some(joined) = self.joined.get_mut(question) {
                        joined.retain(|it| *it != number);
                    }
                    self.answer(number, &Err("the name service hangs".to_owned()));
                }
                Step::Running(question) => {
                    let joined = self.joined.remove(question).unwrap_or_default();
                    connection.step = Step::Late;
                    self.queues.be_late(connection.purpose);
                    joined.into_iter().for_each(|it| self.ask_again(it));
                }
                Step::Late => {}
            }
        }
    }

    /// Has a question wait for a thread that waited for the answer to another one.
    fn ask_again(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let Step::Joined(question) = &connection.step else { return };
        connection.step = Step::Waiting(question.clone());
        let asker = connection.asker;
        self.enqueue(asker, number);
    }

    fn answer(&mut self, number: u64, answer: &Result<NameAnswer, String>) {
        let Some(Connection { socket, asker, .. }) = self.remove(number) else { return };
        if let Err(error) = socket.answer(answer) {
            debug!("worker {} does not learn of a name: {error}", asker.pid);
        }
    }

    fn remove(&mut self, number: u64) -> Option<Connection> {
        let connection = self.connections.remove(&number)?;
        self.asked.remove(connection.asker);
        Some(connection)
    }

    /// Waits for further connections, if there is room.
    fn watch_listener(&mut self, events: &EventSet<u64>, tokens: Tokens) {
        let has_room = self.connections.len() < NAME_CONNECTIONS_MAX;
        if has_room != self.has_room
            && let Some(listener) = &self.listener
        {
            match events.enable(listener, tokens.listener, has_room) {
                Ok(()) => self.has_room = has_room,
                Err(error) => warn!("cannot wait for questions for names: {error}"),
            }
        }
    }
}

impl Connection {
    fn is_silent(&self) -> bool {
        matches!(self.step, Step::Silent)
    }

    /// End of the time of its step.
    fn until(&self) -> Instant {
        match self.step {
            Step::Waiting(_) | Step::Joined(_) if self.purpose == NamePurpose::Guest => {
                self.since + GUEST_QUESTION_TIMEOUT
            }
            _ => self.since + QUESTION_TIMEOUT,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Condvar, Mutex};
    use std::thread;

    use process::SystemUser;
    use rustix::io::Errno;
    use rustix::net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
    };

    use super::*;
    use crate::name_queues::{
        CLIENT_THREADS_HANGING_MAX, CLIENT_THREADS_MAX, GUEST_THREADS_HANGING_MAX,
        GUEST_THREADS_MAX, NAME_THREADS_HANGING_MAX,
    };

    fn worker(pid: u32) -> ServerId {
        ServerId { pid, unique_id: 0 }
    }

    /// Sends a packet from a worker, and returns its end of the connection.
    fn ask(names: &mut NameService, now: Instant, pid: u32, packet: &[u8]) -> OwnedFd {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (end, own) = socketpair(AddressFamily::UNIX, kind, flags, None).expect("room");
        if !packet.is_empty() {
            send(&end, packet, SendFlags::empty()).expect("there is room");
        }
        let connection = NameConnection::of(own).expect("it is connected").expect("our own");
        if let Some(number) = names.add(now, connection, worker(pid)) {
            names.receive(now, number);
        }
        names.hand_out();
        end
    }

    fn user(name: &str) -> Vec<u8> {
        let question = NameQuestion::UserId(name.to_owned());
        NameRequest { question, purpose: NamePurpose::Server }.encode()
    }

    fn of_guest(name: &str) -> Vec<u8> {
        let question = NameQuestion::UserId(name.to_owned());
        NameRequest { question, purpose: NamePurpose::Guest }.encode()
    }

    /// Returns the answer that is there; an empty one is the end of the connection.
    fn received(end: &OwnedFd) -> Option<Vec<u8>> {
        let mut packet = [0; 1_024];
        match recv(end, &mut packet[..], RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN) => None,
            Err(Errno::CONNRESET) => Some(Vec::new()),
            received => Some(packet[..received.expect("it is connected").0].to_vec()),
        }
    }

    /// Takes answers of threads until this connection has one.
    fn answer(names: &mut NameService, end: &OwnedFd) -> Result<NameAnswer, String> {
        loop {
            for found in names.threads.found().take() {
                names.finish(found);
            }
            names.hand_out();
            if let Some(packet) = received(end) {
                return NameAnswer::decode(&packet).expect("an answer");
            }
            thread::yield_now();
        }
    }

    fn found(name: &str) -> Result<NameAnswer, String> {
        Ok(NameAnswer::Named(Some((name.to_owned(), 1))))
    }

    // Scenes with names that hang.
    static HANGING: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    static HAS_ENDED: Condvar = Condvar::new();

    /// Names of a scene; look-ups of them hang until the drop.
    struct Hangs {
        scene: u32,
        names: Cell<u32>,
    }

    impl Hangs {
        /// Returns a name that nobody else asks for.
        fn name(&self) -> String {
            self.names.set(self.names.get() + 1);
            format!("{} hangs {}", self.scene, self.names.get())
        }
    }

    impl Drop for Hangs {
        fn drop(&mut self) {
            HANGING.lock().expect("nobody panics").retain(|it| *it != self.scene);
            HAS_ENDED.notify_all();
        }
    }

    /// Names that hang, a name service that answers with the name that it is asked for, and now.
    fn scene() -> (Hangs, NameService, Instant) {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let scene = LAST.fetch_add(1, Ordering::Relaxed);
        HANGING.lock().expect("nobody panics").push(scene);
        let look_up = |question: &NameQuestion| {
            let NameQuestion::UserId(name) = question else { anyhow::bail!("not asked here") };
            let scene = name.split_once(" hangs ").and_then(|(scene, _)| scene.parse().ok());
            let hangs = |hanging: &mut Vec<u32>| scene.is_some_and(|it| hanging.contains(&it));
            let hanging = HANGING.lock().expect("nobody panics");
            drop(HAS_ENDED.wait_while(hanging, hangs).expect("nobody panics"));
            Ok(NameAnswer::Named(Some((name.clone(), 1))))
        };
        let names = NameService::new(look_up).expect("descriptors");
        (Hangs { scene, names: Cell::new(0) }, names, Instant::now())
    }

    /// The attack: a worker that was taken over asks for names that hang, as often as it can.
    #[test]
    fn a_worker_with_hanging_questions_leaves_threads_to_other_workers() {
        let (hangs, mut names, now) = scene();
        let count = NAMES_PER_WORKER_MAX + 10;
        let ends: Vec<_> =
            (0..count).map(|_| ask(&mut names, now, 1, &user(&hangs.name()))).collect();
        assert_eq!(names.threads.running(), 4, "its part");
        let refused = ends.iter().filter(|end| received(end).is_some()).count();
        assert_eq!(refused, 10, "further connections are closed");
        let other = ask(&mut names, now, 2, &user("anna"));
        assert_eq!(answer(&mut names, &other), found("anna"));
        drop(hangs);
        for end in &ends[..count as usize - 10] {
            answer(&mut names, end).expect("it is answered");
        }
        assert!(names.connections.is_empty() && names.put_off.is_empty());
        assert!(names.threads.running() == 0 && names.queues.is_idle());
    }

    /// The attack: strangers have as many workers as they may, and each asks for names that hang.
    #[test]
    fn many_workers_of_guests_with_hanging_questions_leave_threads_to_users() {
        let (hangs, mut names, now) = scene();
        let ask_as_guests = |names: &mut NameService, now| -> Vec<_> {
            (0..64).map(|pid| ask(names, now, 1_000 + pid, &of_guest(&hangs.name()))).collect()
        };
        let first = ask_as_guests(&mut names, now);
        assert_eq!(names.threads.running(), GUEST_THREADS_MAX, "the part of all guests");
        assert_eq!(names.next_timeout(), Some(now + GUEST_QUESTION_TIMEOUT));
        let user_of_another = ask(&mut names, now, 1, &user("anna"));
        let user_beside_a_guest = ask(&mut names, now, 1_000, &user("anna"));
        assert_eq!(answer(&mut names, &user_of_another), found("anna"));
        assert_eq!(answer(&mut names, &user_beside_a_guest), found("anna"));
        names.end_late(now + GUEST_QUESTION_TIMEOUT);
        let refused = first.iter().filter(|end| received(end).is_some()).count();
        assert_eq!(refused, 64 - GUEST_THREADS_MAX, "nobody waits for them in the same worker");
        let mut later = now;
        for _ in 0..40 {
            later += QUESTION_TIMEOUT;
            names.end_late(later);
            // They connect anew as often as they like.
            drop(ask_as_guests(&mut names, later));
        }
        assert_eq!(names.threads.running(), GUEST_THREADS_HANGING_MAX);
        let late = later + QUESTION_TIMEOUT;
        names.end_late(late);
        let users: Vec<_> =
            (0..16).map(|pid| ask(&mut names, late, pid, &user(&hangs.name()))).collect();
        let expected = GUEST_THREADS_HANGING_MAX + NAME_THREADS_MAX;
        assert_eq!(names.threads.running(), expected, "users have all threads meanwhile");
        drop(hangs);
        for end in &users {
            answer(&mut names, end).expect("it is answered");
        }
        while names.threads.running() > 0 {
            names.threads.found().take().into_iter().for_each(|found| names.finish(found));
            thread::yield_now();
        }
        assert!(names.queues.is_idle());
    }

    /// The attack: a user has many clients, and each asks for names of its choice, which hang.
    #[test]
    fn many_clients_of_users_with_hanging_questions_leave_threads_to_logons() {
        let (hangs, mut names, mut now) = scene();
        let mut ends = Vec::new();
        for _ in 0..40 {
            for pid in 0..64 {
                let question = NameQuestion::UserId(hangs.name());
                let request = NameRequest { question, purpose: NamePurpose::Client };
                ends.push(ask(&mut names, now, pid, &request.encode()));
            }
            let late = names.threads.running() - CLIENT_THREADS_MAX.min(names.threads.running());
            assert!(late <= CLIENT_THREADS_HANGING_MAX);
            let logon = ask(&mut names, now, 1_000, &user("anna"));
            assert_eq!(answer(&mut names, &logon), found("anna"));
            now += QUESTION_TIMEOUT;
            names.end_late(now);
            names.hand_out();
        }
        assert_eq!(names.threads.running(), CLIENT_THREADS_HANGING_MAX);
        drop(hangs);
        answer(&mut names, &ends[0]).expect("it is answered");
    }

    /// The attack: guests, who all act as one user, connect all the time.
    #[test]
    fn equal_questions_have_one_thread_and_its_answer() {
        let (hangs, mut names, now) = scene();
        let name = hangs.name();
        let guests: Vec<_> =
            (0..40).map(|pid| ask(&mut names, now, pid, &of_guest(&name))).collect();
        let of_user = ask(&mut names, now, 99, &user(&name));
        assert_eq!(names.threads.running(), 1);
        let other = ask(&mut names, now, 98, &user("anna"));
        assert_eq!(answer(&mut names, &other), found("anna"));
        drop(hangs);
        for end in guests.iter().chain([&of_user]) {
            assert_eq!(answer(&mut names, end), found(&name));
        }
        assert!(names.connections.is_empty() && names.joined.is_empty());
        assert!(names.queues.is_idle());
    }

    #[test]
    fn equal_questions_have_another_thread_once_the_first_is_late() {
        let (hangs, mut names, now) = scene();
        let name = hangs.name();
        let first = ask(&mut names, now, 1, &user(&name));
        let soon = now + QUESTION_TIMEOUT / 2;
        let second = ask(&mut names, soon, 2, &user(&name));
        let third = ask(&mut names, soon, 3, &user(&name));
        assert_eq!(names.threads.running(), 1);
        names.end_late(now + QUESTION_TIMEOUT);
        names.hand_out();
        assert_eq!(names.threads.running(), 2);
        assert!([&first, &second, &third].iter().all(|end| received(end).is_none()));
        names.end_late(soon + QUESTION_TIMEOUT);
        let refused = [&second, &third].iter().filter(|end| received(end).is_some()).count();
        assert_eq!(refused, 1, "the time of the one that no thread has is over");
        drop(hangs);
        assert_eq!(answer(&mut names, &first), found(&name));
        while names.threads.running() > 0 {
            names.threads.found().take().into_iter().for_each(|found| names.finish(found));
            thread::yield_now();
        }
        assert!(names.queues.is_idle() && names.joined.is_empty() && names.connections.is_empty());
    }

    #[test]
    fn questions_of_guests_are_answered_in_turns_once_no_user_waits() {
        let (hangs, mut names, now) = scene();
        let busy: Vec<_> =
            (0..16).map(|pid| ask(&mut names, now, pid, &user(&hangs.name()))).collect();
        let guests: Vec<_> =
            (100..108).map(|pid| ask(&mut names, now, pid, &of_guest("daemon"))).collect();
        let waiting = ask(&mut names, now, 99, &user("anna"));
        assert_eq!(names.threads.running(), 16);
        drop(hangs);
        for end in &busy {
            answer(&mut names, end).expect("it is answered");
        }
        assert_eq!(answer(&mut names, &waiting), found("anna"));
        for end in &guests {
            assert_eq!(answer(&mut names, end), found("daemon"));
        }
        assert!(names.connections.is_empty());
    }

    #[test]
    fn a_question_that_was_put_off_is_asked_though_the_one_before_it_was_refused_meanwhile() {
        let (hangs, mut names, now) = scene();
        let running: Vec<_> =
            (0..4).map(|_| ask(&mut names, now, 1, &user(&hangs.name()))).collect();
        let first = ask(&mut names, now, 1, &user("first"));
        let second = ask(&mut names, now + QUESTION_TIMEOUT / 2, 1, &user("second"));
        assert_eq!(names.put_off[&worker(1)].len(), 2);
        names.finish((1, found("hangs")));
        assert!(received(&running[0]).is_some() && received(&first).is_none(), "it waits again");
        names.end_late(now + QUESTION_TIMEOUT);
        assert!(received(&first).is_some_and(|packet| !packet.is_empty()), "it is refused");
        names.hand_out();
        assert_eq!((names.threads.running(), names.put_off.len()), (4, 0), "with the second one");
        assert_eq!(received(&second), None, "it is asked");
        drop(hangs);
    }

    #[test]
    fn hanging_threads_are_replaced_and_questions_that_waited_for_them_are_refused() {
        let (hangs, mut names, now) = scene();
        let hanging: Vec<_> =
            (0..16).map(|pid| ask(&mut names, now, pid, &user(&hangs.name()))).collect();
        let waiting = ask(&mut names, now, 99, &user("anna"));
        assert_eq!((names.threads.running(), received(&waiting)), (16, None));
        let later = now + QUESTION_TIMEOUT;
        assert_eq!(names.next_timeout(), Some(later));
        names.end_late(later);
        names.hand_out();
        let packet = received(&waiting).expect("it is refused");
        assert!(matches!(NameAnswer::decode(&packet), Some(Err(_))), "nobody is missing");
        let next = ask(&mut names, later, 98, &user("anna"));
        assert_eq!(answer(&mut names, &next), found("anna"));
        assert_eq!(names.next_timeout(), None, "late ones are waited for without a limit");
        drop(hangs);
        for end in &hanging {
            answer(&mut names, end).expect("late, and kept by its worker");
        }
        assert!(names.threads.running() == 0 && names.queues.is_idle());
    }

    /// The attack: the name service hangs, and clients cause questions without an end.
    #[test]
    fn threads_are_bounded_while_the_name_service_hangs() {
        let (hangs, mut names, mut now) = scene();
        let mut ends = Vec::new();
        for turn in 0..40 {
            for pid in 0..16 {
                ends.push(ask(&mut names, now, 16 * turn + pid, &user(&hangs.name())));
            }
            now += QUESTION_TIMEOUT;
            names.end_late(now);
        }
        assert_eq!(names.threads.running(), NAME_THREADS_HANGING_MAX);
        drop(hangs);
        answer(&mut names, &ends[0]).expect("it is answered");
    }

    #[test]
    fn a_recent_answer_about_a_user_takes_no_thread() {
        let look_up = |_: &NameQuestion| Ok(NameAnswer::User(Some(SystemUser::default())));
        let mut names = NameService::new(look_up).expect("descriptors");
        let question = NameQuestion::User("anna".to_owned());
        let packet = NameRequest { question, purpose: NamePurpose::Server }.encode();
        let now = Instant::now();
        let first = ask(&mut names, now, 1, &packet);
        let user = answer(&mut names, &first);
        let soon = ask(&mut names, now + Duration::from_millis(999), 2, &packet);
        assert_eq!(names.threads.running(), 0);
        assert_eq!(answer(&mut names, &soon), user);
        let later = ask(&mut names, now + Duration::from_secs(1), 3, &packet);
        assert_eq!((names.threads.running(), received(&later)), (1, None), "it may have changed");
        assert_eq!(answer(&mut names, &later), user);
        assert!(names.connections.is_empty() && names.asked.permits(worker(2), 1));
    }

    #[test]
    fn a_connection_without_a_question_or_with_another_packet_is_closed() {
        let mut names = NameService::new(|_| anyhow::bail!("not asked here")).expect("room");
        let now = Instant::now();
        let silent = ask(&mut names, now, 1, &[]);
        assert_eq!(received(&silent), None);
        for packet in [&[0xff; 64][..], &[0; process::QUESTION_BYTES_MAX + 1], &user("a\nb")] {
            let end = ask(&mut names, now, 1, packet);
            assert_eq!(received(&end), Some(Vec::new()));
        }
        names.end_late(now + QUESTION_TIMEOUT);
        assert_eq!(received(&silent), Some(Vec::new()));
        assert!(names.connections.is_empty() && names.threads.running() == 0);
        assert!(names.asked.permits(worker(1), 1), "nothing is counted any more");
    }

    #[test]
    fn a_worker_that_is_gone_or_reads_nothing_keeps_no_place() {
        let mut names =
            NameService::new(|_| Ok(NameAnswer::Membership(true))).expect("descriptors");
        let now = Instant::now();
        drop(ask(&mut names, now, 1, &user("anna")));
        let _unread: Vec<_> = (0..100)
            .map(|_| {
                let end = ask(&mut names, now, 2, &user("anna"));
                while !names.connections.is_empty() {
                    for found in names.threads.found().take() {
                        names.finish(found);
                    }
                }
                end
            })
            .collect();
        assert_eq!(names.threads.running(), 0);
    }
}
