//! Users of this server: the user database, which this process alone reads while the server runs.
//!
//! Workers hold no password hash. All that they need of the users besides, such as ids, is
//! published in the lock directory before an answer about a user leaves.
//! A check takes microseconds and is done by the main thread, in the order of the workers' turns.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use auth::{AuthError, NtlmResponse, SessionBaseKey};
use dtyp::{NtStatus, ServerId};
use messaging::{AcceptedLogon, LogonOwner, LogonProof, LogonVerdict, OwnUsers};
use process::FairQueue;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use settings::Settings;
use tracing::{debug, warn};
use users::{Fingerprint, UserDatabase, UserEntry};

use crate::WAITING_MAX;
use crate::jobs::Answer;
use crate::line_limit::LineLimit;

/// Checks between two looks at messages, orders and results: a worker that sends many delays that
/// of another by so many.
const CHECKS_PER_TURN_MAX: usize = 4;

/// The user database, and the questions about its users.
#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    lock_dir: PathBuf,
    /// `None` until the file could be read, and after a failure.
    users: Option<UserDatabase>,
    published: Published,
    questions: FairQueue<Question>,
    complaints: LineLimit,
    /// Reports changes of the file. Without it, they are seen at the next logon.
    changes: Option<OwnedFd>,
}

/// State of what workers can read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Published {
    /// Perhaps what an earlier process has left.
    Unknown,
    Nothing,
    /// The users of the file with this fingerprint; of none if there was no file.
    Of(Option<Fingerprint>),
}

/// A proof of a worker's client, to be checked.
#[derive(Debug)]
struct Question {
    asker: ServerId,
    number: u64,
    proof: LogonProof,
}

impl Database {
    /// Reads the database and publishes its users. One that cannot be read lets nobody in until it
    /// can.
    pub(crate) fn open(settings: &Settings) -> Self {
        let path = settings.users_path();
        let changes = watch(&path);
        let changes = changes.inspect_err(|error| debug!("the users are not watched: {error}"));
        let mut database = Self {
            path,
            lock_dir: settings.directories.lock.clone(),
            users: None,
            published: Published::Unknown,
            questions: FairQueue::new(WAITING_MAX),
            complaints: LineLimit::default(),
            changes: changes.ok(),
        };
        let _ = database.refresh();
        database
    }

    /// True if the configuration still names this file.
    pub(crate) fn is_of(&self, settings: &Settings) -> bool {
        self.path == settings.users_path()
    }

    /// Returns the source that becomes readable when the file may have changed.
    pub(crate) fn changes(&self) -> Option<BorrowedFd<'_>> {
        self.changes.as_ref().map(AsFd::as_fd)
    }

    /// Follows a change of the file.
    pub(crate) fn follow_change(&mut self) {
        if let Some(changes) = &self.changes {
            let mut events = [0; 4_096];
            while rustix::io::read(changes, &mut events).is_ok_and(|count| count > 0) {}
        }
        let _ = self.refresh();
    }

    /// Keeps a question until its turn. Returns the refusal of one that has to make room.
    pub(crate) fn add(
        &mut self,
        asker: ServerId,
        number: u64,
        proof: LogonProof,
    ) -> Option<Answer> {
        let question = Question { asker, number, proof };
        let refused = self.questions.push(asker, question).unwrap_or_else(Some)?;
        let status = NtStatus::INSUFF_SERVER_RESOURCES;
        Some(Answer::refused(refused.asker, refused.number, status))
    }

    /// Answers questions, as many as one turn permits.
    pub(crate) fn answer(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        while answers.len() < CHECKS_PER_TURN_MAX
            && let Some(Question { asker, number, proof }) = self.questions.pop()
        {
            let verdict = self.check(proof).unwrap_or_else(LogonVerdict::Refused);
            answers.push(Answer { asker, question: number, verdict });
        }
        answers
    }

    /// True if questions wait for another turn.
    pub(crate) fn has_questions(&self) -> bool {
        !self.questions.is_empty()
    }

    fn check(&mut self, proof: LogonProof) -> Result<LogonVerdict, NtStatus> {
        let LogonProof::OwnResponse { users: names, user, domain, challenge, nt_response } = proof
        else {
            return Err(NtStatus::LOGON_FAILURE);
        };
        self.refresh()?;
        let users = self.users.as_ref().ok_or(NtStatus::NO_LOGON_SERVERS)?;
        let entries: Vec<Option<UserEntry>> = names.iter().map(|name| users.get(name)).collect();
        let workstation = String::new();
        let response = NtlmResponse { user, domain, workstation, challenge, nt_response };
        let (key, owner) = verify(&response, entries)?;
        let accepted = AcceptedLogon::of_response(key.as_bytes(), LogonOwner::Own(owner));
        Ok(LogonVerdict::Accepted(Box::new(accepted)))
    }

    /// Reads the file again if it has changed, and publishes its users. Costs one `stat` while it
    /// does not change.
    ///
    /// # Errors
    /// STATUS_NO_LOGON_SERVERS: the file cannot be read, and nobody knows whether a user is in it.
    fn refresh(&mut self) -> Result<(), NtStatus> {
        let read = match &mut self.users {
            Some(users) => users.refresh(),
            None => UserDatabase::open(&self.path).map(|users| self.users = Some(users)),
        };
        if let Err(error) = read {
            self.users = None;
            if self.complaints.permit(Instant::now()).is_some() {
                warn!("cannot read the user database: {error}");
            }
        }
        self.publish().map_err(|error| {
            if self.complaints.permit(Instant::now()).is_some() {
                warn!("cannot publish the users in {}: {error}", self.lock_dir.display());
            }
            NtStatus::NO_LOGON_SERVERS
        })?;
        self.users.as_ref().map(|_| ()).ok_or(NtStatus::NO_LOGON_SERVERS)
    }

    fn publish(&mut self) -> io::Result<()> {
        let current = match &self.users {
            Some(users) => Published::Of(users.fingerprint()),
            None => Published::Nothing,
        };
        if current == self.published {
            return Ok(());
        }
        self.published = Published::Unknown;
        match &self.users {
            Some(users) => users::publish(&self.lock_dir, users.users())?,
            None => users::unpublish(&self.lock_dir)?,
        }
        self.published = current;
        Ok(())
    }
}

/// Watches the folder of a file: programs replace the file.
fn watch(path: &Path) -> io::Result<OwnedFd> {
    let changes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let folder = path.parent().unwrap_or_else(|| Path::new("/"));
    let events = WatchFlags::MOVED_TO
        | WatchFlags::MOVED_FROM
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::DELETE
        | WatchFlags::ATTRIB;
    inotify::add_watch(&changes, folder, events)?;
    Ok(changes)
}

/// Returns the key of a right proof, and the users that it is of: all that have the same password.
/// Disabled users count only if all are.
fn verify(
    response: &NtlmResponse,
    mut entries: Vec<Option<UserEntry>>,
) -> Result<(SessionBaseKey, OwnUsers), NtStatus> {
    let hashes: Vec<_> = entries.iter().map(|it| Some(it.as_ref()?.nt_hash.clone())).collect();
    let (index, key) = response.verify(&hashes).map_err(|error| match error {
        AuthError::NoSuchUser => NtStatus::NO_SUCH_USER,
        AuthError::WrongPassword => NtStatus::WRONG_PASSWORD,
        _ => NtStatus::LOGON_FAILURE,
    })?;
    let is_ambiguous = entries.len() > 1;
    let first = entries[index].take().ok_or(NtStatus::LOGON_FAILURE)?;
    let same = entries.into_iter().flatten();
    let same = same.filter(|it| it.nt_hash.as_bytes() == first.nt_hash.as_bytes());
    let mut proven: Vec<UserEntry> = same.collect();
    proven.insert(0, first);
    let is_disabled = proven.iter().all(|it| !it.enabled);
    proven.retain(|it| it.enabled || is_disabled);
    let users = proven.into_iter().map(|it| it.name).collect();
    Ok((key, OwnUsers { users, is_ambiguous, is_disabled }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use auth::{Credentials, Framing, Initiator, NtHash, Randomness, Step};
    use dtyp::{FileTime, NtStatus, ServerId};
    use messaging::{LogonOwner, LogonProof, LogonVerdict, OwnUsers};
    use process::FairQueue;
    use users::{KnownUsers, UserDatabase, UserEntry, UserSource};

    use super::{Database, LineLimit, Published, WAITING_MAX};
    use crate::jobs::Answer;

    fn database(folder: &Path) -> Database {
        Database {
            path: folder.join("users"),
            lock_dir: folder.to_owned(),
            users: None,
            published: Published::Unknown,
            questions: FairQueue::new(WAITING_MAX),
            complaints: LineLimit::default(),
            changes: None,
        }
    }

    fn add(folder: &Path, user: UserEntry) {
        UserDatabase::update(&folder.join("users"), |it| it.add(user)).expect("there is space");
    }

    fn user(name: &str, password: &str) -> UserEntry {
        UserEntry::new(name, NtHash::of_password(password))
    }

    /// The proof of a client that knows a password.
    fn proof(names: &[&str], password: &str) -> LogonProof {
        let settings = auth::AcceptorSettings::default();
        let mut acceptor = auth::Acceptor::new(&settings, [7; 8], FileTime::ZERO);
        let randomness = Randomness { client_challenge: [1; 8], session_key: [2; 16] };
        let credentials = Credentials::password(names[0], "", password);
        let mut initiator = Initiator::new(credentials, randomness, FileTime::ZERO, Framing::Raw);
        let token = initiator.start().expect("it begins");
        let Ok(Step::Continue(challenge)) = acceptor.step(&token) else { panic!("it goes on") };
        let token = initiator.step(&challenge).expect("a challenge").token;
        assert!(matches!(acceptor.step(&token), Ok(Step::Account { .. })));
        let response = acceptor.response().expect("it is next");
        LogonProof::OwnResponse {
            users: names.iter().map(|name| (*name).to_owned()).collect(),
            user: response.user,
            domain: response.domain,
            challenge: response.challenge,
            nt_response: response.nt_response,
        }
    }

    fn owner(verdict: Result<LogonVerdict, NtStatus>) -> Result<OwnUsers, NtStatus> {
        match verdict? {
            LogonVerdict::Accepted(accepted) => match accepted.owner {
                LogonOwner::Own(own) => Ok(own),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn only(name: &str, is_disabled: bool) -> Result<OwnUsers, NtStatus> {
        Ok(OwnUsers { users: vec![name.to_owned()], is_ambiguous: false, is_disabled })
    }

    #[test]
    fn a_user_that_is_added_can_log_on_at_once_and_is_published_before_the_answer() {
        let folder = tempfile::tempdir().expect("there is space");
        let mut database = database(folder.path());
        let source = UserSource::published_in(folder.path());
        let verdict = database.check(proof(&["anna"], "secret"));
        assert_eq!(owner(verdict), Err(NtStatus::NO_SUCH_USER));
        assert!(KnownUsers::open(source.clone()).expect("it is published").users().is_empty());
        add(folder.path(), user("Anna", "secret"));
        assert_eq!(owner(database.check(proof(&["anna"], "secret"))), only("Anna", false));
        assert!(KnownUsers::open(source).expect("it is published").find("anna").is_some());
        let verdict = database.check(proof(&["anna"], "other"));
        assert_eq!(owner(verdict), Err(NtStatus::WRONG_PASSWORD));
    }

    #[test]
    fn a_disabled_user_is_told_apart_only_by_the_right_password() {
        let folder = tempfile::tempdir().expect("there is space");
        let mut database = database(folder.path());
        add(folder.path(), UserEntry { enabled: false, ..user("anna", "secret") });
        assert_eq!(owner(database.check(proof(&["anna"], "secret"))), only("anna", true));
        let verdict = database.check(proof(&["anna"], "other"));
        assert_eq!(owner(verdict), Err(NtStatus::WRONG_PASSWORD));
    }

    #[test]
    fn a_proof_is_of_all_users_with_that_password_and_of_enabled_ones_first() {
        let folder = tempfile::tempdir().expect("there is space");
        let mut database = database(folder.path());
        add(folder.path(), user("a", "other"));
        add(folder.path(), UserEntry { enabled: false, ..user("b", "same") });
        add(folder.path(), user("c", "same"));
        let names = ["a", "nobody", "b", "c"];
        let proven = owner(database.check(proof(&names, "same"))).expect("it is right");
        let want = OwnUsers { users: vec!["c".to_owned()], is_ambiguous: true, is_disabled: false };
        assert_eq!(proven, want);
        let proven = owner(database.check(proof(&["a", "b"], "same"))).expect("it is right");
        assert!(proven.is_disabled, "nobody else has that password");
        assert_eq!(proven.users, ["b"]);
    }

    #[test]
    fn a_database_that_others_can_read_lets_nobody_in_and_publishes_nobody() {
        let folder = tempfile::tempdir().expect("there is space");
        let mut database = database(folder.path());
        add(folder.path(), user("anna", "secret"));
        owner(database.check(proof(&["anna"], "secret"))).expect("it is right");
        let mode = |mode| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            let path = folder.path().join("users");
            std::fs::set_permissions(path, mode).expect("it is ours");
        };
        let source = || KnownUsers::open(UserSource::published_in(folder.path()));
        mode(0o644);
        let verdict = database.check(proof(&["anna"], "secret"));
        assert_eq!(owner(verdict), Err(NtStatus::NO_LOGON_SERVERS));
        source().expect_err("nobody is known");
        mode(0o600);
        owner(database.check(proof(&["anna"], "secret"))).expect("it is right");
        source().expect("users are known again");
    }

    /// The attack: a guest's clients log on without a pause.
    #[test]
    fn many_logons_of_one_worker_delay_the_one_of_another_by_one_check() {
        let folder = tempfile::tempdir().expect("there is space");
        let mut database = database(folder.path());
        add(folder.path(), user("anna", "secret"));
        let worker = |pid| ServerId { pid, unique_id: 1 };
        let wrong = proof(&["anna"], "wrong");
        for number in 0..WAITING_MAX as u64 {
            assert_eq!(database.add(worker(1), number, wrong.clone()), None);
        }
        let last = WAITING_MAX as u64 - 1;
        let status = NtStatus::INSUFF_SERVER_RESOURCES;
        let refused = database.add(worker(2), 7, proof(&["anna"], "secret"));
        assert_eq!(refused, Some(Answer::refused(worker(1), last, status)), "it makes room");
        let answers = database.answer();
        let position = answers.iter().position(|it| it.asker == worker(2));
        assert!(position.is_some_and(|it| it <= 1), "{position:?}");
        assert!(database.has_questions());
    }
}
