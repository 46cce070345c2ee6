//! The program, as `make lint` runs it, in a folder with one crate and no history.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const CEILINGS: &str = "crates/lint/ceilings.tsv";
const FAULT: &str = "/// What was in it before it was with them, of which it is.\npub fn f() {}\n";

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A crate whose library has this text.
fn house(name: &str, text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    add_crate(folder.path(), name, text);
    write(folder.path(), CEILINGS, "");
    folder
}

fn add_crate(root: &Path, name: &str, text: &str) {
    write(root, &format!("crates/{name}/Cargo.toml"), "[package]\n");
    write(root, &format!("crates/{name}/src/lib.rs"), text);
}

fn lint(root: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lint")).current_dir(root).args(arguments).output().unwrap()
}

fn passes(root: &Path, arguments: &[&str]) -> bool {
    lint(root, arguments).status.success()
}

fn ceilings(root: &Path) -> String {
    fs::read_to_string(root.join(CEILINGS)).unwrap()
}

#[test]
fn a_fault_is_shown_with_its_rule_its_place_and_the_way_to_lower_a_ceiling() {
    let folder = house("a", FAULT);
    let output = lint(folder.path(), &[]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(text.contains("broken: relative openers"), "{text}");
    assert!(text.contains("crates/a/src/lib.rs:1: What was in it before"), "{text}");
    assert!(text.contains("make lint KEEP=1"), "{text}");
}

#[test]
fn a_kept_count_passes_and_one_fault_more_fails() {
    let folder = house("a", FAULT);
    assert!(passes(folder.path(), &["--keep"]));
    assert!(passes(folder.path(), &[]));
    add_crate(folder.path(), "a", &FAULT.repeat(2));
    assert!(!passes(folder.path(), &[]));
}

#[test]
fn keeping_never_raises_a_ceiling() {
    let folder = house("a", FAULT);
    assert!(passes(folder.path(), &["--keep"]));
    let before = ceilings(folder.path());
    add_crate(folder.path(), "a", &FAULT.repeat(2));
    assert!(!passes(folder.path(), &["--keep"]));
    assert_eq!(ceilings(folder.path()), before);
}

#[test]
fn code_that_moves_into_a_new_crate_takes_its_ceiling_along() {
    let folder = house("a", FAULT);
    assert!(passes(folder.path(), &["--keep"]));
    add_crate(folder.path(), "a", "");
    add_crate(folder.path(), "b", FAULT);
    assert!(!passes(folder.path(), &[]));
    assert!(passes(folder.path(), &["--keep"]));
    assert!(passes(folder.path(), &[]));
    assert!(ceilings(folder.path()).contains("relative openers\tb\t1\t1\n"));
}

#[test]
fn an_argument_that_is_not_known_is_refused() {
    let folder = house("a", "");
    assert!(!passes(folder.path(), &["--fix"]));
}
