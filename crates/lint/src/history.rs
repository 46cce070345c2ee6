//! The history of the repository, asked of git.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;

/// Lines that were added to files, by path.
pub type AddedLines = BTreeMap<String, Vec<RangeInclusive<usize>>>;

/// A commit's short name and subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Abbreviated hash, as git prints it.
    pub name: String,
    /// The first line of its message.
    pub subject: String,
}

/// The commits after one, newest first and without merges. None where there is no history: in an
/// archive of the sources, and in a shallow clone that does not reach so far.
///
/// # Errors
/// If the history is whole and the commit is not in it.
pub fn commits_after(root: &Path, base: &str) -> Result<Vec<Commit>, String> {
    let Some(shallow) = git(root, &["rev-parse", "--is-shallow-repository"]) else {
        return Ok(Vec::new());
    };
    let range = format!("{base}..HEAD");
    let Some(log) = git(root, &["log", "--no-merges", "--format=%h\t%s", &range]) else {
        if shallow.trim() == "true" {
            return Ok(Vec::new());
        }
        return Err(format!("commit {base} is not in the history: name another one as SINCE"));
    };
    let commits = log.lines().filter_map(|line| line.split_once('\t'));
    Ok(commits
        .map(|(name, subject)| Commit { name: name.to_owned(), subject: subject.to_owned() })
        .collect())
}

/// The lines of Rust files and manifests that were added since a file was last committed; none if
/// that cannot be told.
#[must_use]
pub fn lines_added_since(root: &Path, file: &str) -> AddedLines {
    let commit = git(root, &["log", "-1", "--format=%H", "--", file]).unwrap_or_default();
    let commit = commit.trim();
    if commit.is_empty() {
        return AddedLines::new();
    }
    let options =
        ["diff", "-U0", "--no-color", "--no-ext-diff", "--src-prefix=a/", "--dst-prefix=b/"];
    let paths = [commit, "--", "*.rs", "*Cargo.toml"];
    let diff = git(root, &[&options[..], &paths[..]].concat()).unwrap_or_default();
    let mut added = added_lines(&diff);
    let untracked = git(root, &["ls-files", "--others", "--exclude-standard", "--", "*.rs"]);
    for path in untracked.unwrap_or_default().lines() {
        added.insert(path.to_owned(), vec![1..=usize::MAX]);
    }
    added
}

fn added_lines(diff: &str) -> AddedLines {
    let mut added = AddedLines::new();
    let mut path = "";
    for line in diff.lines() {
        if let Some(name) = line.strip_prefix("+++ b/") {
            path = name;
        } else if let Some(range) = line.strip_prefix("@@ ").and_then(added_range) {
            added.entry(path.to_owned()).or_default().push(range);
        }
    }
    added
}

/// The range behind the plus sign of `-1,2 +3,4 @@`; `None` if lines were only removed.
fn added_range(hunk: &str) -> Option<RangeInclusive<usize>> {
    let (_, added) = hunk.split_once('+')?;
    let (range, _) = added.split_once(' ')?;
    let (first, count) = range.split_once(',').unwrap_or((range, "1"));
    let (first, count): (usize, usize) = (first.parse().ok()?, count.parse().ok()?);
    (count > 0).then(|| first..=first + count - 1)
}

/// The output of git; `None` if it fails or is not installed.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_lines_are_read_from_a_diff() {
        let diff = "+++ b/a.rs\n@@ -1,2 +3,2 @@ fn f()\n@@ -9 +9 @@\n+++ b/b.rs\n@@ -4,2 +3,0 @@\n";
        assert_eq!(added_lines(diff), AddedLines::from([("a.rs".to_owned(), vec![3..=4, 9..=9])]));
    }
}
