//! Permission of users to list directories below those that they watch.
//!
//! Windows reports names to users without SeChangeNotifyPrivilege only if those users may enter
//! every directory on the path; Samba does so with `honor change notify privilege`. Here nobody has
//! that privilege, because the kernel lets no user bypass the permissions of a directory. So a name
//! below a directory is reported only to users who could find it: who may enter every directory on
//! the path, and list those below the watched one: the name has that of each of them in it.

use std::time::Duration;

use object::{ObjectPath, RootId, UserId};
use rustc_hash::FxHashMap;

/// Time for which an answer of the store holds: the kernel does not always report that a local
/// program has revoked a right.
const BELIEVED: Duration = Duration::from_secs(1);

/// Highest number of directories with an answer. Directories with a pending question come on top,
/// at most one for each watch. A client that watches a tree uses few directories at once; the
/// others are asked for again.
const TRAVERSALS_MAX: usize = 1_024;

/// A directory below a watched one, and the user and share through which it is entered.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Traversal {
    /// User whose rights the kernel checks.
    pub user: UserId,
    /// Share that the user is connected to.
    pub root: RootId,
    /// Number of components of the watched directory's path. The user may list that directory, as
    /// its open shows; those below it are asked for.
    pub watched: usize,
    /// Path of the directory in the share.
    pub directory: ObjectPath,
}

impl Traversal {
    /// Returns the directory above; `None` for the watched one.
    fn above(&self) -> Option<Self> {
        let directory = self.directory.parent()?;
        let is_below = directory.components().count() > self.watched;
        is_below.then(|| Self { directory, ..self.clone() })
    }
}

/// Answer to the question whether a user may enter a directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Names in the directory may be reported.
    May,
    /// No name in it may be reported, or the answer is lost with the directory.
    MayNot,
    /// Unknown until the store answers.
    Pending,
}

/// Last answer for one directory, and the state of a pending question.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Path of the directory on the host.
    path: ObjectPath,
    may: Option<bool>,
    /// Time of the answer, or the earlier one of the answer for a directory above.
    since: Duration,
    is_doubted: bool,
    is_asked: bool,
}

impl Known {
    fn is_believed(&self, now: Duration) -> bool {
        !self.is_doubted && now < self.since.saturating_add(BELIEVED)
    }
}

/// Cache of the store's answers.
#[derive(Debug, Default)]
pub struct Traversals {
    known: FxHashMap<Traversal, Known>,
    questions: Vec<Traversal>,
}

impl Traversals {
    /// Returns whether names in a directory of a share in `folder` may be reported: those above it
    /// are looked up first. Without an answer for one of them, notes a question for the store. So
    /// many directories in one are asked for once each, and not with all that are above them.
    pub fn find(&mut self, now: Duration, traversal: &Traversal, folder: &ObjectPath) -> Verdict {
        match self.known.get(traversal) {
            Some(known) if known.is_asked => return Verdict::Pending,
            Some(known) if known.is_believed(now) => match known.may {
                Some(true) => return Verdict::May,
                _ => return Verdict::MayNot,
            },
            _ => {}
        }
        let mut since = Duration::MAX;
        if let Some(above) = traversal.above() {
            match self.find(now, &above, folder) {
                Verdict::May => since = self.known[&above].since,
                other => return other,
            }
        }
        if !self.known.contains_key(traversal) && self.known.len() >= TRAVERSALS_MAX {
            self.known.retain(|_, it| it.is_asked);
        }
        let known = self.known.entry(traversal.clone()).or_default();
        known.path = traversal.directory.below(folder);
        // A doubt that comes before the answer holds beyond it.
        (known.since, known.is_asked, known.is_doubted) = (since, true, false);
        self.questions.push(traversal.clone());
        Verdict::Pending
    }

    /// Takes the pending questions for the store.
    pub fn take_questions(&mut self) -> Vec<Traversal> {
        std::mem::take(&mut self.questions)
    }

    /// Takes an answer: none if the directory is gone. Then the last answer stays valid, so that
    /// the removal of a tree is reported completely; without a last answer, the directory counts as
    /// closed to the user.
    pub fn answer(&mut self, now: Duration, traversal: &Traversal, may: Option<bool>) {
        if let Some(known) = self.known.get_mut(traversal) {
            (known.may, known.since) = (may.or(known.may), known.since.min(now));
            known.is_asked = false;
        }
    }

    /// Makes answers for a directory with this path on the host, and for those below, expire: it
    /// has changed.
    pub fn doubt(&mut self, path: &ObjectPath) {
        let is_within = |known: &&mut Known| known.path.relative_to(path).is_some();
        self.known.values_mut().filter(is_within).for_each(|known| known.is_doubted = true);
    }

    /// Makes all answers expire: a watched directory has moved.
    pub fn doubt_all(&mut self) {
        self.known.values_mut().for_each(|known| known.is_doubted = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str) -> ObjectPath {
        ObjectPath::from_stored(path.to_owned(), None)
    }

    fn traversal(directory: &str) -> Traversal {
        let (user, root) = (UserId(0), RootId(0));
        Traversal { user, root, watched: 0, directory: path(directory) }
    }

    /// Returns the directories that are asked for until the last one has its verdict.
    fn asked(traversals: &mut Traversals, directory: &str) -> Vec<String> {
        let mut asked = Vec::new();
        while traversals.find(Duration::ZERO, &traversal(directory), &path("srv")) != Verdict::May {
            for question in traversals.take_questions() {
                traversals.answer(Duration::ZERO, &question, Some(true));
                asked.push(question.directory.as_str().to_owned());
            }
        }
        asked
    }

    #[test]
    fn a_changed_directory_and_those_below_are_asked_for_again_and_no_others() {
        let mut traversals = Traversals::default();
        assert_eq!(asked(&mut traversals, "a/b/c"), ["a", "a/b", "a/b/c"]);
        assert_eq!(asked(&mut traversals, "a/b/c"), [""; 0]);
        traversals.doubt(&path("srv/a/b/new"));
        traversals.doubt(&path("srv/a/bc"));
        traversals.doubt(&path("elsewhere/a"));
        assert_eq!(asked(&mut traversals, "a/b/c"), [""; 0]);
        assert_eq!(asked(&mut traversals, "a/b/new"), ["a/b/new"]);
        traversals.doubt(&path("srv/a/b"));
        assert_eq!(asked(&mut traversals, "a/b/c"), ["a/b", "a/b/c"]);
        traversals.doubt_all();
        assert_eq!(asked(&mut traversals, "a/b/new"), ["a", "a/b", "a/b/new"]);
    }

    #[test]
    fn a_change_before_the_answer_makes_it_expire() {
        let mut traversals = Traversals::default();
        let find = |it: &mut Traversals| it.find(Duration::ZERO, &traversal("a"), &path("srv"));
        assert_eq!(find(&mut traversals), Verdict::Pending);
        let question = traversals.take_questions().remove(0);
        traversals.doubt(&path("srv/a"));
        traversals.answer(Duration::ZERO, &question, Some(true));
        assert_eq!(find(&mut traversals), Verdict::Pending);
        assert_eq!(traversals.take_questions(), [question]);
    }
}
