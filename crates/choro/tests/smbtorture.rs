//! Samba's smbtorture against the real server: every test of the suites that concern what exists
//! so far, compared with the list of expected results in `tests/smbtorture/expected.tsv`.
//!
//! A result that changes in either direction fails the run, which prints the line to put into the
//! list. Two variables of the environment help when many change:
//!
//! - `SMBTORTURE_ONLY=word` runs those tests whose name contains the word;
//! - `SMBTORTURE_UPDATE=1` rewrites the list. Reasons that it made up begin with a question mark
//!   and are to be replaced by ones that a reader understands.

mod harness;

use std::env;

use harness::Setup;
use harness::smbtorture::{self, Expectations, Verdict};

/// What is run. Those for oplocks, leases, locks, durable handles and several channels follow with
/// the features.
const SUITES: [&str; 16] = [
    "charset",
    "compound",
    "compound_find",
    "connect",
    "create",
    "credits",
    "dir",
    "fileid",
    "getinfo",
    "mkdir",
    "read",
    "rw",
    "session",
    "session-id",
    "setinfo",
    "tcon",
];

/// Tests without a verdict on the server.
const NOT_RUN: [&str; 1] = [
    // A benchmark, which runs until it is stopped.
    "smb2.create.bench-path-contention-shared",
];

#[test]
fn every_result_is_the_expected_one() {
    let only = env::var("SMBTORTURE_ONLY").unwrap_or_default();
    let mut tests = smbtorture::leaf_tests(&SUITES);
    tests.retain(|test| !NOT_RUN.contains(&test.as_str()));
    assert!(tests.len() > 100, "smbtorture lists {} tests only: {tests:?}", tests.len());
    tests.retain(|test| test.contains(&only));

    let shares = SUITES.iter().fold(Setup::new(), |setup, suite| setup.share(suite, ""));
    let server = shares.start();
    let results = smbtorture::run(&server, &tests);
    server.stop();

    let expectations = Expectations::load();
    if env::var_os("SMBTORTURE_UPDATE").is_some() {
        expectations.update(&results, only.is_empty());
        return;
    }
    let mut differences = expectations.differences(&results);
    for test in expectations.rows().keys() {
        if only.is_empty() && !results.contains_key(test) {
            differences.push(format!("{test} is in the list and not in smbtorture"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn what_is_not_expected_to_pass_has_a_reason() {
    let expectations = Expectations::load();
    assert!(!expectations.rows().is_empty());
    for (test, expected) in expectations.rows() {
        if expected.verdict != Verdict::Pass {
            let reason = &expected.message;
            assert!(!reason.is_empty() && !reason.starts_with('?'), "{test}: '{reason}'");
        }
    }
}
