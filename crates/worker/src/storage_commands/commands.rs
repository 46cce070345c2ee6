//! Commands that tell free space and quotas: those of tree connects, and the running one.

use std::time::{Duration, Instant};

use config::ShellCommand;
use object::{FreeSpace, QuotaChange, QuotaSubject, RootId, ToldQuota};
use process::PassedCommand;
use proto::{Reply, RequestId};
use rustc_hash::FxHashMap;
use shares::command_user::CommandUser;
use shares::free_space::{self, FreeSpaceCommand};
use shares::quota_commands::{self, QuotaCommands};

/// Time for which a command that has failed is not run again.
const RETRY_TIME: Duration = Duration::from_secs(10);

/// Time for which a quota is cached that limits the free space of a volume. Clients ask for that
/// much more often than it changes, and each command is a process.
const QUOTA_CACHE_TIME: Duration = Duration::from_secs(1);

/// Answers that are cached for one tree connect: one for each path that clients ask about.
const CACHED_MAX: usize = 64;

/// Commands of tree connects, and the requests that wait for them: no more than are in flight.
#[derive(Debug, Default)]
pub(crate) struct StorageCommands {
    pub(super) of_roots: FxHashMap<RootId, OfRoot>,
    pub(super) waiting: Vec<(Question, RequestId)>,
    pub(super) running: Option<Running>,
    pub(super) last: u32,
}

/// The commands of a tree connect.
#[derive(Debug)]
pub(super) struct OfRoot {
    free_space: Option<FreeSpaceCommand>,
    quotas: Option<QuotaCommands>,
    /// Answers by the question, each with the end of its time; none after a failure.
    cached: FxHashMap<Argument, (Instant, Answer)>,
}

/// A root, and what its command is to tell or to change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Question {
    pub(super) root: RootId,
    pub(super) argument: Argument,
}

/// Content of a question to a command.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Argument {
    /// Free space of a path, as the command gets it.
    FreeSpace(String),
    /// Quota of a user, or the defaults.
    Quota(QuotaSubject),
    /// Change of a quota. Each is of one request, which tells it from others.
    NewQuota(RequestId, QuotaChange),
}

/// What a command has told; nothing after a failure.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    FreeSpace(Option<FreeSpace>),
    Quota(Option<ToldQuota>),
    QuotaChanged(bool),
}

/// A command, ready to run.
#[derive(Debug)]
pub(super) struct Prepared {
    /// Name of the share, for the log.
    pub(super) share: String,
    pub(super) user: CommandUser,
    pub(super) text: ShellCommand,
}

#[derive(Debug)]
pub(super) struct Running {
    /// Number of its completion, unlike those of others.
    pub(super) number: u32,
    pub(super) shell: PassedCommand,
    pub(super) share: String,
    pub(super) question: Question,
    /// End of its time; none once that is over and the shell is killed.
    pub(super) until: Option<Instant>,
}

impl Argument {
    /// Name of the parameter with the command, for the log.
    pub(super) fn parameter(&self) -> &'static str {
        match self {
            Self::FreeSpace(_) => "dfree command",
            Self::Quota(_) => quota_commands::GET,
            Self::NewQuota(..) => quota_commands::SET,
        }
    }

    /// Object of the command, for the log.
    pub(super) fn object(&self) -> String {
        let of_subject = |subject: &QuotaSubject| match subject {
            QuotaSubject::Defaults => "the defaults".to_owned(),
            QuotaSubject::Requester => "its user".to_owned(),
            QuotaSubject::User(uid) => format!("user {uid}"),
        };
        match self {
            Self::FreeSpace(path) => path.clone(),
            Self::Quota(subject) => of_subject(subject),
            Self::NewQuota(_, change) => of_subject(&change.subject),
        }
    }

    /// Reads the output of a command that has succeeded.
    ///
    /// # Errors
    /// Says what the output lacks.
    pub(super) fn read(&self, output: &[u8]) -> Result<Answer, &'static str> {
        match self {
            Self::FreeSpace(_) => free_space::parse(output)
                .map(|figures| Answer::FreeSpace(Some(figures)))
                .ok_or("it tells no two numbers"),
            Self::Quota(_) => quota_commands::parse(output)
                .map(|told| Answer::Quota(Some(told)))
                .ok_or("it tells no seven numbers"),
            Self::NewQuota(..) => match quota_commands::is_done(output) {
                true => Ok(Answer::QuotaChanged(true)),
                false => Err("it prints nothing"),
            },
        }
    }

    /// Returns the answer after a failure.
    pub(super) fn nothing(&self) -> Answer {
        match self {
            Self::FreeSpace(_) => Answer::FreeSpace(None),
            Self::Quota(_) => Answer::Quota(None),
            Self::NewQuota(..) => Answer::QuotaChanged(false),
        }
    }
}

impl Answer {
    pub(super) fn reply(self) -> Reply {
        match self {
            Self::FreeSpace(figures) => Reply::FreeSpace(figures),
            Self::Quota(told) => Reply::Quota(told),
            Self::QuotaChanged(is_done) => Reply::QuotaChanged(is_done),
        }
    }

    fn is_failure(self) -> bool {
        matches!(self, Self::FreeSpace(None) | Self::Quota(None))
    }
}

impl OfRoot {
    /// Returns the command for a question, if there is one.
    pub(super) fn prepare(&self, argument: &Argument) -> Option<Prepared> {
        let of_quotas = |text: Option<ShellCommand>| {
            let QuotaCommands { share, user, .. } = self.quotas.as_ref()?;
            Some((share, user, text?))
        };
        let (share, user, text) = match argument {
            Argument::FreeSpace(path) => {
                let command = self.free_space.as_ref()?;
                let FreeSpaceCommand { share, user, .. } = command;
                (share, user, command.for_argument(path))
            }
            Argument::Quota(subject) => of_quotas(self.quotas.as_ref()?.get(*subject))?,
            Argument::NewQuota(_, change) => of_quotas(self.quotas.as_ref()?.set(*change))?,
        };
        Some(Prepared { share: share.clone(), user: user.clone(), text })
    }

    fn is_of_guest(&self) -> bool {
        let of_free_space = self.free_space.as_ref().map(|it| &it.user);
        let user = of_free_space.or_else(|| self.quotas.as_ref().map(|it| &it.user));
        user.is_some_and(|it| it.is_guest)
    }

    /// Time for which an answer is cached. An administrator who asks for the quota of a user sees
    /// each write.
    fn cache_time(&self, argument: &Argument, answer: Answer) -> Duration {
        match argument {
            _ if answer.is_failure() => RETRY_TIME,
            Argument::Quota(QuotaSubject::Requester | QuotaSubject::Defaults) => QUOTA_CACHE_TIME,
            Argument::Quota(QuotaSubject::User(_)) | Argument::NewQuota(..) => Duration::ZERO,
            Argument::FreeSpace(_) => {
                self.free_space.as_ref().map_or(Duration::ZERO, |it| it.cache_time)
            }
        }
    }
}

impl StorageCommands {
    /// Whether a tree connect is a guest's, or has ended.
    pub(super) fn is_of_guest(&self, root: RootId) -> bool {
        self.of_roots.get(&root).is_none_or(OfRoot::is_of_guest)
    }

    /// Keeps the commands of a tree connect, if there are some.
    pub(crate) fn keep(
        &mut self,
        root: RootId,
        free_space: Option<FreeSpaceCommand>,
        quotas: Option<QuotaCommands>,
    ) {
        if free_space.is_some() || quotas.is_some() {
            let cached = FxHashMap::default();
            self.of_roots.insert(root, OfRoot { free_space, quotas, cached });
        }
    }

    /// Forgets the commands at the end of a tree connect.
    pub(crate) fn forget(&mut self, root: RootId) {
        self.of_roots.remove(&root);
    }

    /// Returns the next call of `Worker::serve_storage_command_timeout`.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.running.as_ref()?.until
    }

    /// Takes the requests with a question out of those that wait.
    pub(super) fn take_waiting(&mut self, question: &Question) -> Vec<RequestId> {
        let asked = self.waiting.extract_if(.., |(other, _)| other == question);
        asked.map(|(_, request)| request).collect()
    }

    /// Returns the answer to a question, if it is cached.
    pub(super) fn cached(&self, question: &Question, now: Instant) -> Option<Answer> {
        let of_root = self.of_roots.get(&question.root)?;
        let (until, answer) = of_root.cached.get(&question.argument)?;
        (now < *until).then_some(*answer)
    }

    /// Keeps an answer for its time. A change forgets the quotas of all tree connects, since the
    /// changed user may have others.
    pub(super) fn cache(&mut self, question: Question, answer: Answer, now: Instant) {
        if matches!(answer, Answer::QuotaChanged(_)) {
            return self.forget_quotas();
        }
        let Some(of_root) = self.of_roots.get_mut(&question.root) else { return };
        let time = of_root.cache_time(&question.argument, answer);
        if of_root.cached.len() >= CACHED_MAX {
            of_root.cached.clear();
        }
        if let Some(until) = now.checked_add(time).filter(|_| !time.is_zero()) {
            of_root.cached.insert(question.argument, (until, answer));
        }
    }

    /// Failures stay: their commands are not run again before the end of that time.
    fn forget_quotas(&mut self) {
        for of_root in self.of_roots.values_mut() {
            of_root.cached.retain(|_, (_, answer)| !matches!(answer, Answer::Quota(Some(_))));
        }
    }
}

#[cfg(test)]
mod tests {
    use object::{Quota, QuotaLimits, QuotaState};

    use super::*;

    const ROOT: RootId = RootId(1);
    const OTHER_ROOT: RootId = RootId(2);
    const TOLD: Answer =
        Answer::Quota(Some(ToldQuota { state: QuotaState::Enforced, quota: QUOTA }));
    const QUOTA: Quota = Quota {
        used_bytes: 7,
        limits: QuotaLimits { soft_bytes: None, hard_bytes: None },
        is_out_of_files: false,
    };

    /// Two tree connects with nothing cached.
    fn commands() -> StorageCommands {
        let mut commands = StorageCommands::default();
        for root in [ROOT, OTHER_ROOT] {
            let cached = FxHashMap::default();
            commands.of_roots.insert(root, OfRoot { free_space: None, quotas: None, cached });
        }
        commands
    }

    fn question(root: RootId, subject: QuotaSubject) -> Question {
        Question { root, argument: Argument::Quota(subject) }
    }

    fn change() -> Question {
        let (subject, state) = (QuotaSubject::User(7), QuotaState::Enforced);
        let change = QuotaChange { subject, state, limits: QUOTA.limits };
        Question { root: ROOT, argument: Argument::NewQuota(RequestId(1), change) }
    }

    #[test]
    fn the_quota_that_limits_free_space_is_cached_for_a_second() {
        for subject in [QuotaSubject::Requester, QuotaSubject::Defaults] {
            let (mut commands, now) = (commands(), Instant::now());
            let asked = question(ROOT, subject);
            commands.cache(asked.clone(), TOLD, now);
            let almost = now + Duration::from_millis(999);
            for now in [now, almost] {
                let cached = commands.cached(&asked, now);
                assert!(matches!(cached, Some(Answer::Quota(Some(_)))), "{subject:?}: {cached:?}");
            }
            assert!(commands.cached(&asked, now + Duration::from_secs(1)).is_none());
            let of_other = commands.cached(&question(OTHER_ROOT, subject), now);
            assert!(of_other.is_none(), "another tree connect has another user");
        }
    }

    #[test]
    fn the_quota_of_a_named_user_is_not_cached() {
        let (mut commands, now) = (commands(), Instant::now());
        let asked = question(ROOT, QuotaSubject::User(7));
        commands.cache(asked.clone(), TOLD, now);
        assert!(commands.cached(&asked, now).is_none());
    }

    #[test]
    fn a_change_of_a_quota_forgets_those_of_all_tree_connects() {
        for is_done in [false, true] {
            let (mut commands, now) = (commands(), Instant::now());
            let of = [
                question(ROOT, QuotaSubject::Requester),
                question(OTHER_ROOT, QuotaSubject::Requester),
                question(OTHER_ROOT, QuotaSubject::Defaults),
            ];
            for asked in of.clone() {
                commands.cache(asked, TOLD, now);
            }
            assert!(of.iter().all(|asked| commands.cached(asked, now).is_some()));
            // The command may have made the change and failed.
            commands.cache(change(), Answer::QuotaChanged(is_done), now);
            for asked in of {
                assert!(commands.cached(&asked, now).is_none(), "{asked:?}");
            }
        }
    }

    #[test]
    fn a_change_of_a_quota_runs_no_command_again_that_has_failed() {
        let (mut commands, now) = (commands(), Instant::now());
        let asked = question(ROOT, QuotaSubject::Requester);
        commands.cache(asked.clone(), Answer::Quota(None), now);
        commands.cache(change(), Answer::QuotaChanged(true), now);
        let cached = commands.cached(&asked, now + RETRY_TIME - Duration::from_millis(1));
        assert!(matches!(cached, Some(Answer::Quota(None))), "{cached:?}");
    }
}
