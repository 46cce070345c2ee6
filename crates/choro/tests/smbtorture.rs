//! Samba's smbtorture against the real server: every test of `smb2.` that says something about a
//! server, and those of `vfs.fruit` and its like for Apple's clients, compared with the list of
//! expected results in `tests/smbtorture/expected.tsv`.
//!
//! A result that changes in either direction fails the run. Variables of the environment:
//!
//! - `SMBTORTURE_ALL=1` runs the tests that mostly wait as well, as `make conformance` does;
//! - `SMBTORTURE_ONLY=word` runs those tests whose name contains the word, slow ones too;
//! - `SMBTORTURE_RUNS=10` runs them so often, and fails if one has not the same result each time;
//! - `SMBTORTURE_UPDATE=1` rewrites the list. Reasons that it made up begin with a question mark
//!   and are to be replaced by ones that a reader understands: the section of the specification
//!   that the server follows instead, or what is missing.
//!
//! What the tests that did not pass said is in `smbtorture/` of the target folder's `tmp`.

mod harness;

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use harness::smbtorture::expectations::Expectations;
use harness::smbtorture::runner::Runner;
use harness::smbtorture::verdict::Verdict;
use harness::smbtorture::{catalog, leaf_tests, progress, report};
use harness::{Setup, TestServer};

/// Lowest number of tests in `smb2.`; fewer mean that the list was not understood.
const TESTS_MIN: usize = 500;

/// Tests that Samba passes and that may fail here, each for a reason that is written down.
const EXCEPTIONS_MAX: usize = 10;

/// Hooks for tests with failing channels, three addresses for several channels, and storage of all
/// metadata.
const GLOBAL: &str = "smbd:FSCTL_SMBTORTURE = yes\nfruit:copyfile = yes\nmax open files = 65600\n\
    persistent handles = yes\nmangled names = yes\n\
    vfs objects = acl_xattr streams_xattr\n\
    interfaces = \"127.0.0.1;capability=RSS\" \"127.0.0.2;capability=RSS\" \
    \"127.0.0.3;capability=RSS\"";

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// The tests to run, and whether they are all there are.
fn chosen_tests() -> (Vec<String>, bool) {
    let mut tests = leaf_tests();
    assert!(tests.len() > TESTS_MIN, "smbtorture lists {} tests only: {tests:?}", tests.len());
    tests.retain(|test| catalog::not_run(test).is_none());
    let only = variable("SMBTORTURE_ONLY");
    if !only.is_empty() {
        tests.retain(|test| test.contains(&only));
        return (tests, false);
    }
    let all = !variable("SMBTORTURE_ALL").is_empty();
    if !all {
        tests.retain(|test| catalog::slow_seconds(test).is_none());
    }
    (tests, all)
}

/// Starts the server, and removes tests that this machine has no file system for.
fn start_server(tests: &mut Vec<String>) -> TestServer {
    let mut setup = Setup::with_machine().global(GLOBAL);
    if let Err(reason) = setup.mount_clones(catalog::CLONES_SHARE) {
        progress(&format!("smbtorture: no tests of blocks that files share: {reason}"));
        tests.retain(|test| catalog::share_of(test) != catalog::CLONES_SHARE);
    }
    for (name, lines) in catalog::shares(tests.iter().map(String::as_str)) {
        setup = setup.share(name, lines);
    }
    let server = setup.start();
    let forbidden = server.share_path(catalog::FORBIDDEN_SHARE);
    fs::set_permissions(forbidden, Permissions::from_mode(0o000)).expect("it is ours");
    server
}

#[test]
fn every_result_is_the_expected_one() {
    let (mut tests, all) = chosen_tests();
    let expectations = Expectations::load();
    let logs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("smbtorture");
    let count: usize = variable("SMBTORTURE_RUNS").parse().unwrap_or(1).max(1);
    let mut runs = Vec::new();
    for run in 1..=count {
        if count > 1 {
            progress(&format!("smbtorture: run {run} of {count}"));
        }
        // Some tests leave objects that they themselves cannot use again.
        let server = start_server(&mut tests);
        let runner = Runner { server: &server, expectations: &expectations, logs: logs.clone() };
        let mut results = runner.run(&tests);
        if count == 1 {
            runner.run_again(&mut results);
        }
        progress(&format!("smbtorture: {}", report::summary(&expectations, &results)));
        if count > 1 {
            progress(&report::differences(&expectations.differences(&results)));
        }
        runs.push(results);
        server.stop();
    }

    let flicker = report::flicker(&runs);
    assert!(flicker.is_empty(), "not the same in each run:\n{flicker}");
    let results = runs.pop().expect("there is one run at least");
    if !variable("SMBTORTURE_UPDATE").is_empty() {
        expectations.update(&results, all);
        return;
    }
    let differences = report::differences(&expectations.differences(&results));
    assert!(
        differences.is_empty(),
        "not as expected (SMBTORTURE_UPDATE=1 rewrites the list):\n{differences}"
    );
}

#[test]
fn the_list_names_every_test_that_is_run_and_no_other() {
    let mut tests = leaf_tests();
    tests.retain(|test| catalog::not_run(test).is_none());
    tests.sort_unstable();
    let listed: Vec<String> = Expectations::load().rows().keys().cloned().collect();
    assert_eq!(listed, tests);
}

#[test]
fn tests_that_samba_passes_pass_here_with_ten_exceptions_at_most() {
    let expectations = Expectations::load();
    let worse = expectations.worse_than_samba();
    assert!(worse.len() <= EXCEPTIONS_MAX, "{worse:?}");
}

#[test]
fn each_expected_failure_has_a_reason() {
    let expectations = Expectations::load();
    assert!(!expectations.rows().is_empty());
    for (test, expected) in expectations.rows() {
        if expected.verdict != Verdict::Pass {
            let reason = &expected.message;
            assert!(!reason.is_empty() && !reason.starts_with('?'), "{test}: '{reason}'");
        }
    }
}
