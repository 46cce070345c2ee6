//! The history as git tells it, of a repository made for the test.

use std::fs;
use std::path::Path;
use std::process::Command;

use lint::history::{Commit, commits_after, lines_added_since};

fn git(root: &Path, arguments: &[&str]) -> String {
    let identity = ["-c", "user.name=Anna", "-c", "user.email=anna@example.com"];
    let output =
        Command::new("git").arg("-C").arg(root).args(identity).args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn commit(root: &Path, subject: &str) -> String {
    git(root, &["add", "--all"]);
    git(root, &["commit", "--quiet", "--allow-empty", "--message", subject]);
    git(root, &["rev-parse", "--short", "HEAD"])
}

fn repository() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["init", "--quiet"]);
    folder
}

#[test]
fn commits_after_the_base_are_listed_with_the_newest_first() {
    let folder = repository();
    let root = folder.path();
    let base = commit(root, "old: it is exempt");
    let first = commit(root, "a: add one");
    let second = commit(root, "a: add two");
    let expected = [(second, "a: add two"), (first, "a: add one")]
        .map(|(name, subject)| Commit { name, subject: subject.to_owned() });
    assert_eq!(commits_after(root, &base), Ok(expected.to_vec()));
}

#[test]
fn a_base_that_is_not_in_a_whole_history_is_an_error() {
    let folder = repository();
    commit(folder.path(), "a: add one");
    commits_after(folder.path(), "0123456789").unwrap_err();
}

#[test]
fn a_shallow_clone_and_a_plain_folder_have_no_commits() {
    let folder = repository();
    let base = commit(folder.path(), "a: add one");
    commit(folder.path(), "a: add two");
    commit(folder.path(), "a: add three");
    let clone = tempfile::tempdir().unwrap();
    let source = format!("file://{}", folder.path().display());
    git(clone.path(), &["clone", "--quiet", "--depth", "1", &source, "."]);
    assert_eq!(commits_after(clone.path(), &base), Ok(Vec::new()));
    let plain = tempfile::tempdir().unwrap();
    assert_eq!(commits_after(plain.path(), &base), Ok(Vec::new()));
}

#[test]
fn lines_are_new_since_the_last_commit_of_the_ceilings() {
    let folder = repository();
    let root = folder.path();
    fs::write(root.join("ceilings"), "1\n").unwrap();
    fs::write(root.join("a.rs"), "// one\n// two\n").unwrap();
    commit(root, "a: add one");
    fs::write(root.join("a.rs"), "// one\n// new\n// two\n").unwrap();
    commit(root, "a: add a line");
    fs::write(root.join("a.rs"), "// one\n// new\n// two\n// newer\n").unwrap();
    fs::write(root.join("b.rs"), "// one\n").unwrap();
    let added = lines_added_since(root, "ceilings");
    assert_eq!(added["a.rs"], [2..=2, 4..=4]);
    assert_eq!(added["b.rs"], [1..=usize::MAX]);
}
