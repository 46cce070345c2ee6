//! Folders that `recycle:repository` stands for.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use config::Substitutions;

use super::faults::Faults;
use super::folders::{folders_of, open_directory};

/// Highest number of a folder beside one of somebody else: `BESIDE_MAX` of the store.
const BESIDE_MAX: u32 = 256;

/// Digits of a number that nobody foresees: `UNFORESEEN_DIGITS` of the store.
const UNFORESEEN_DIGITS: usize = 16;

/// The path of a bin below the share, with variables: each stands for any text of a name.
#[derive(Debug)]
pub(super) struct Repository(Vec<Component>);

/// The text of one component around its variables; the only part of one without variables.
#[derive(Debug)]
struct Component(Vec<String>);

impl Repository {
    pub(super) fn of(text: &str) -> Self {
        let components = text.split('/').filter(|it| !it.is_empty());
        Self(components.map(|it| Component(Substitutions::parts_around_variables(it))).collect())
    }

    /// True if a folder of the bin has text of the repository in its name: otherwise each folder
    /// would be one. A punctuation mark, as hidden folders have, is not enough.
    pub(super) fn has_text(&self) -> bool {
        self.0.iter().any(|Component(parts)| parts.concat().contains(char::is_alphanumeric))
    }

    /// Returns the folders below a share that this stands for. One with a fixed name may be
    /// missing. Below the first one there may be further ones beside a name; in the share's own
    /// folder users could give any folder such a name.
    pub(super) fn paths(&self, root: BorrowedFd<'_>, faults: &mut Faults) -> Vec<PathBuf> {
        let mut paths = vec![PathBuf::new()];
        for (depth, component) in self.0.iter().enumerate() {
            let mut next = Vec::new();
            let or_beside = depth > 0;
            for path in paths {
                let only = component.only_name().map(Path::new);
                next.extend(only.map(|name| path.join(name)));
                if only.is_some() && !or_beside {
                    continue;
                }
                let folders = open_directory(root, &path).and_then(|it| folders_of(it.as_ref()));
                match folders {
                    Ok(folders) => {
                        let mine =
                            |name: &PathBuf| only != Some(name) && component.has(name, or_beside);
                        next.extend(folders.into_iter().filter(mine).map(|name| path.join(name)));
                    }
                    Err(error) => faults.report("read", &path, &error),
                }
            }
            paths = next;
        }
        paths
    }
}

impl Component {
    /// The name, if it has no variable.
    fn only_name(&self) -> Option<&str> {
        match &self.0[..] {
            [name] => Some(name),
            _ => None,
        }
    }

    /// Whether a folder may be meant, or is used instead of one that belongs to somebody else:
    /// `bob-2` for `bob`.
    fn has(&self, folder: &Path, or_beside: bool) -> bool {
        let Some(name) = folder.to_str() else { return false };
        self.matches(name) || or_beside && beside(name).is_some_and(|name| self.matches(name))
    }

    fn matches(&self, name: &str) -> bool {
        let [first, middle @ .., last] = &self.0[..] else {
            return self.only_name() == Some(name);
        };
        let Some(rest) = name.strip_prefix(&**first).and_then(|it| it.strip_suffix(&**last)) else {
            return false;
        };
        let find = |rest: &mut &str, part: &String| match rest.split_once(&**part) {
            Some((_, after)) => {
                *rest = after;
                true
            }
            None => false,
        };
        let mut rest = rest;
        middle.iter().all(|part| find(&mut rest, part))
    }
}

/// Returns the name that a folder stands beside, `bob` for `bob-2`.
fn beside(folder: &str) -> Option<&str> {
    let (name, number) = folder.rsplit_once('-')?;
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if number.len() == UNFORESEEN_DIGITS && number.bytes().all(is_digit) {
        return Some(name);
    }
    let parsed = number.parse().ok().filter(|it: &u32| (2..=BESIDE_MAX).contains(it))?;
    (parsed.to_string() == number).then_some(name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;

    use super::{Faults, Repository, beside};

    /// Returns those of the folders that are bins.
    fn bins(repository: &str, folders: &[&str]) -> Vec<String> {
        let share = tempfile::tempdir().expect("there is space");
        for folder in folders {
            fs::create_dir_all(share.path().join(folder)).expect("there is space");
        }
        let root = fs::File::open(share.path()).expect("it was just made");
        let mut faults = Faults::default();
        let found = Repository::of(repository).paths(root.as_fd(), &mut faults);
        faults.verdict().expect("all can be read");
        let found = found.iter().filter(|it| share.path().join(it).is_dir());
        found.map(|it| it.display().to_string()).collect()
    }

    #[test]
    fn the_text_around_a_variable_tells_bins_from_data() {
        let folders = [".bin-ann", ".bin-bob", "data", "bin-ann", "ann", "x/.bin-ann"];
        assert_eq!(bins(".bin-%U", &folders), [".bin-ann", ".bin-bob"]);
        let folders = ["ann-old-x", "ann-old", "old-x", "data"];
        assert_eq!(bins("%U-old-%m", &folders), ["ann-old-x"]);
        assert_eq!(bins("%Uold", &["ann-old", "older", "old"]), ["ann-old", "old"]);
        assert_eq!(bins("50%% of %U", &["50% of ann", "50 of ann", "50%% of ann"]), ["50% of ann"]);
        let folders = [".bin/of-ann/x", ".bin/ann", "data/of-ann"];
        assert_eq!(bins(".bin/of-%U", &folders), [".bin/of-ann"]);
        assert_eq!(bins("%U/.recycle", &["ann/.recycle", "data/docs"]), ["ann/.recycle"]);
    }

    #[test]
    fn a_repository_without_text_of_its_own_could_be_any_folder() {
        for any in ["%U", ".%U", "%U/%m", "%U-%m", "%$(BIN)"] {
            assert!(!Repository::of(any).has_text(), "{any}");
        }
        for own in [".bin", ".bin-%U", ".bin/%U", "%U/.recycle", "%U-bin"] {
            assert!(Repository::of(own).has_text(), "{own}");
        }
    }

    #[test]
    fn no_folder_of_the_share_is_a_bin_by_a_number() {
        let folders = [".bin/bob", ".bin-2/ann-3", ".bin-00c0ffee00c0ffee/ann", "x/.bin/ann"];
        assert_eq!(bins(".bin/%U", &folders), [".bin/bob"]);
        assert_eq!(bins(".bin", &folders), [".bin"]);
    }

    #[test]
    fn folders_beside_those_of_somebody_else_count_below_the_first_one() {
        let folders = [".bin/bob", ".bin/bob-2", ".bin/bob-1", ".bin/alice", ".bin-2/bob"];
        assert_eq!(bins(".bin/bob", &folders), [".bin/bob", ".bin/bob-2"]);
        assert_eq!(bins(".bin", &folders), [".bin"]);
        assert_eq!(bins(".bin/%U.old", &[".bin/bob.old-3"]), [".bin/bob.old-3"]);
        let unforeseen = ("bob-00c0ffee00c0ffee", "bob");
        for (folder, name) in
            [("bob-2", "bob"), ("bob-256", "bob"), ("bob-3-2", "bob-3"), unforeseen]
        {
            assert_eq!(beside(folder), Some(name), "{folder}");
        }
        let near = ["bob-00c0ffee00c0ffe", "bob-00C0FFEE00C0FFEE", "00c0ffee00c0ffee"];
        for other in
            ["bob", "bob-", "bob-1", "bob-02", "bob-+2", "bob-257", "bob2"].into_iter().chain(near)
        {
            assert_eq!(beside(other), None, "{other}");
        }
    }
}
