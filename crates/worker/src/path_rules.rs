//! The rules for the paths of workers, made once for all workers of a configuration.
//!
//! They are made before a worker is forked, with the directories that are there then. No file
//! system that may wait long is asked: one on the way to a share is reached as a whole, from its
//! mount point on.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use confinement::{Place, ProcessKind, Ruleset};
use rustix::fs::{Mode, OFlags, fstat, open};
use settings::{Settings, replace_file};
use shares::reach::{Reach, ReachedPath, ReachedPaths};
use tracing::{debug, info, warn};

use super::storage_threads::mounts::{KeptMounts, Located};

/// Name of the file in the lock directory with the reason why workers reach all paths; it is empty
/// if they do not.
const FILE_NAME: &str = "path_rules";

/// Permissions of the file: `choro status` runs as any user.
const MODE: u32 = 0o644;

/// Returns the reason why the workers of a running server reach all paths; `None` if they do not.
#[must_use]
pub fn all_paths_reason(lock_directory: &Path) -> Option<String> {
    let text = std::fs::read_to_string(lock_directory.join(FILE_NAME)).ok()?;
    (!text.is_empty()).then_some(text)
}

/// Rules for the paths of workers.
#[derive(Debug, Default)]
pub struct PathRules {
    /// `None` where nothing is restricted.
    ruleset: Option<Ruleset>,
    /// Only some paths are reached.
    restricts_paths: bool,
    /// Paths of the configuration that have a rule.
    reached: Arc<ReachedPaths>,
    /// Paths of the configuration that led nowhere.
    missing: Vec<PathBuf>,
    /// Reason why all paths are reached, in words.
    everything: Option<String>,
    /// Number of the rules, counted from 1 since the start of the server.
    number: u64,
    /// The mounts that they were made with: `KeptMounts::generation`.
    mounts: u64,
}

impl PathRules {
    /// Makes the rules of a configuration, with this number.
    #[must_use]
    pub fn of(settings: &Settings, mounts: &mut KeptMounts, number: u64) -> Self {
        let wanted = || process::ruleset(settings, ProcessKind::Worker, false);
        let Some(ruleset) = wanted().filter(Ruleset::restricts_paths) else {
            return Self { ruleset: wanted(), number, ..Self::default() };
        };
        let Reach { places, everything } = Reach::of(settings, |path| match mounts.locate(path) {
            Located::At(place) => Some(place),
            Located::Waiting { .. } => None,
        });
        let restricts_paths = everything.is_none();
        let (ruleset, mounted) = (Some(ruleset), mounts.generation());
        let mut rules = Self {
            ruleset,
            restricts_paths,
            number,
            everything,
            mounts: mounted,
            ..Self::default()
        };
        let mut reached = ReachedPaths::default();
        let lock = &settings.directories.lock;
        let within_lock = [
            (Place::Messages, messaging::transport::directory(lock)),
            (Place::Traces, lock.join(trace::DIRECTORY)),
        ];
        for (place, path) in places.into_iter().chain(within_lock) {
            if rules.everything.is_none()
                && let Err(why) = rules.reach(place, path, mounts, &mut reached)
            {
                rules.everything = Some(why);
            }
        }
        match rules.everything {
            None => rules.reached = Arc::new(reached),
            Some(_) => {
                rules.ruleset = process::ruleset(settings, ProcessKind::Worker, true);
                rules.restricts_paths = false;
            }
        }
        rules
    }

    /// Adds a rule for a path; none for one that leads nowhere.
    fn reach(
        &mut self,
        place: Place,
        path: PathBuf,
        mounts: &mut KeptMounts,
        reached: &mut ReachedPaths,
    ) -> Result<(), String> {
        let Some(ruleset) = &self.ruleset else { return Ok(()) };
        let located = mounts.locate(&path);
        let to_open = match &located {
            Located::At(_) => &path,
            // Only what is behind the mount point may wait.
            Located::Waiting { point, .. } => point,
        };
        if to_open == Path::new("/") {
            return Err(format!("{} is on a file system that is mounted at `/`", path.display()));
        }
        let at = match open(to_open, FOR_RULE, Mode::empty()) {
            Ok(at) => at,
            Err(error) => {
                debug!("workers do not reach {}: {error}", path.display());
                if self.missing.len() < MISSING_MAX {
                    self.missing.push(path);
                }
                return Ok(());
            }
        };
        let failed = |error| format!("{} cannot have a rule: {error}", path.display());
        let found = match located {
            Located::At(it) => {
                ruleset.reach(place, at.as_fd()).map_err(failed)?;
                let status = fstat(&at).map_err(|error| error.to_string())?;
                ReachedPath::Opened { identity: (status.st_dev, status.st_ino), real: it.path }
            }
            Located::Waiting { point, id } => {
                ruleset.reach_directory(place, at.as_fd()).map_err(failed)?;
                ReachedPath::Mounted { point, id }
            }
        };
        reached.add(path, found);
        Ok(())
    }

    /// Returns true if a path may lead elsewhere than when the rules were made: one is there that
    /// led nowhere, or something was mounted, perhaps on the directory of a share.
    pub fn may_be_outdated(&mut self, mounts: &mut KeptMounts) -> bool {
        let before = std::mem::replace(&mut self.mounts, mounts.generation());
        if self.restricts_paths && before != self.mounts {
            return true;
        }
        let mut missing = self.missing.iter().filter(|_| self.restricts_paths);
        missing.any(|path| match mounts.locate(path) {
            Located::At(_) => open(path, FOR_RULE, Mode::empty()).is_ok(),
            Located::Waiting { .. } => true,
        })
    }

    /// Returns the rules, for the process that keeps to them. It must not have them any longer: who
    /// has them open can add to them.
    pub(crate) fn take(&mut self) -> Option<Ruleset> {
        self.ruleset.take()
    }

    /// The descriptor of the rules, which a fork keeps open.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.ruleset.as_ref().map(AsFd::as_fd)
    }

    /// Number of the rules, higher for later ones.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns true if workers reach some paths only.
    #[must_use]
    pub fn restricts_paths(&self) -> bool {
        self.restricts_paths
    }

    /// Reason why all paths are reached although the kernel could restrict them; `None` if they
    /// are not, or the kernel cannot.
    #[must_use]
    pub fn everything(&self) -> Option<&str> {
        self.everything.as_deref()
    }

    /// Returns true if the same directories are reached.
    #[must_use]
    pub fn are_as(&self, other: &Self) -> bool {
        self.reached == other.reached && self.restricts_paths() == other.restricts_paths()
    }

    /// Returns false if another file system that may wait is mounted now on the way to a path than
    /// when the rules were made.
    pub(crate) fn is_mounted_as_before(&self, path: &Path, mounts: &mut KeptMounts) -> bool {
        let Some((then_point, then_id)) = self.reached.mount_of(path) else { return true };
        match mounts.locate(path) {
            Located::Waiting { point, id } => point == then_point && id == *then_id,
            Located::At(_) => false,
        }
    }

    /// Returns the directories that this process reaches; `None` for all.
    pub(crate) fn reached(&self) -> Option<Arc<ReachedPaths>> {
        self.restricts_paths.then(|| Arc::clone(&self.reached))
    }

    /// Tells the operator of the outcome, in the log and for `choro status`.
    pub fn report(&self, lock_directory: &Path) {
        if let Some(why) = &self.everything {
            info!("workers reach all paths: {why}");
        }
        let text = self.everything().unwrap_or_default();
        if let Err(error) = replace_file(&lock_directory.join(FILE_NAME), text.as_bytes(), MODE) {
            warn!("`choro status` cannot tell which paths workers reach: {error}");
        }
    }
}

/// Highest number of missing paths that are looked for again. Clients find out about others.
const MISSING_MAX: usize = 64;

const FOR_RULE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
