//! The directories with rules, as they were when the rules were made.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A directory with a rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ReachedPath {
    /// An existing directory, as the kernel identifies it.
    Opened {
        /// Numbers of its device and inode.
        identity: (u64, u64),
        /// Its path without symbolic links.
        real: PathBuf,
    },
    /// A file system that may wait long, and is reached as a whole.
    Mounted {
        /// Mount point, without symbolic links.
        point: PathBuf,
        /// Number of the mount, as the kernel's list has it.
        id: OsString,
    },
}

/// Paths of the configuration that have rules.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ReachedPaths {
    by_path: BTreeMap<PathBuf, ReachedPath>,
    /// Paths without links of all.
    real: BTreeSet<PathBuf>,
}

impl ReachedPaths {
    /// Adds a directory by its path in the configuration.
    pub fn add(&mut self, path: PathBuf, reached: ReachedPath) {
        let (ReachedPath::Opened { real, .. } | ReachedPath::Mounted { point: real, .. }) =
            &reached;
        self.real.insert(real.clone());
        self.by_path.insert(path, reached);
    }

    /// Returns mount point and number of the file system that may wait on the way of a path of the
    /// configuration; `None` without one.
    #[must_use]
    pub fn mount_of(&self, path: &Path) -> Option<(&Path, &OsStr)> {
        match self.by_path.get(path)? {
            ReachedPath::Mounted { point, id } => Some((point, id)),
            ReachedPath::Opened { .. } => None,
        }
    }

    /// Returns true if there is a rule for a directory that is in one with a rule, by its path.
    pub(crate) fn have_path(&self, path: &Path) -> bool {
        path.ancestors().any(|it| self.real.contains(it) || self.by_path.contains_key(it))
    }

    /// Returns true if rules hold for the directory that is open by this path, which has this
    /// identity. `real` finds its path without links, which is rarely necessary.
    pub(crate) fn have(
        &self,
        path: &Path,
        identity: (u64, u64),
        real: impl FnOnce() -> PathBuf,
    ) -> bool {
        let own = self.by_path.get(path);
        match own {
            Some(ReachedPath::Mounted { .. }) => return true,
            Some(ReachedPath::Opened { identity: of_rule, .. }) if *of_rule == identity => {
                return true;
            }
            _ => {}
        }
        // In the place of the directory with the rule there may be another one by now.
        let real = real();
        real.ancestors().skip(usize::from(own.is_some())).any(|it| self.real.contains(it))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{ReachedPath, ReachedPaths};

    #[test]
    fn a_directory_has_a_rule_by_its_identity_or_by_a_directory_above_it() {
        let mut reached = ReachedPaths::default();
        let opened = ReachedPath::Opened { identity: (1, 2), real: "/data/films".into() };
        reached.add("/srv/films".into(), opened);
        let mounted = ReachedPath::Mounted { point: "/net".into(), id: "7".into() };
        reached.add("/net/a".into(), mounted);
        let has = |path: &str, identity, real: &str| {
            reached.have(Path::new(path), identity, || real.into())
        };
        assert!(has("/srv/films", (1, 2), "none is asked for"));
        assert!(!has("/srv/films", (3, 4), "/data/films"), "another one is mounted there");
        assert!(has("/srv/other", (3, 4), "/data/films/old"), "below one by another path");
        assert!(!has("/srv/films2", (3, 4), "/data/films2"));
        assert!(has("/net/a", (5, 6), "none is asked for"));
        assert!(has("/net/b", (5, 6), "/net/b"));
        assert!(!has("/srv/away", (7, 8), ""), "the kernel names no path");
    }
}
