//! Every reason of a refusal is expected by some test.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use trace::Reason;

/// Reasons that no test expects, and why.
const NOT_EXPECTED: &[(Reason, &str)] = &[
    (Reason::BindingTooEarly, "a session has no key yet that its client could sign with"),
    (Reason::Disconnect, "such a request has no answer; tests expect the end of the connection"),
    (Reason::Object, "tests expect the status of the store"),
    (Reason::OverwriteOfReadOnly, "the store in memory refuses before the engine is asked"),
    (Reason::PipeDataMissing, "no worker leaves data for a pipe in the kernel"),
    (Reason::ProtectedMeanwhile, "no test changes a session between a READ and its response"),
];

/// Texts of all files with tests of the engine, apart from this one.
fn tests() -> Vec<String> {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = Vec::new();
    let mut folders = vec![crate_folder.join("src"), crate_folder.join("tests")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("readable").path();
            let within = path.strip_prefix(crate_folder).expect("a file of the crate");
            let is_test =
                path.ends_with("tests.rs") || within.iter().any(|folder| folder == "tests");
            // The table of all reasons expects none of a request.
            let is_table = path.ends_with("reject/tests.rs") || path.ends_with("tests/refusals.rs");
            if path.is_dir() {
                folders.push(path);
            } else if is_test && !is_table {
                texts.push(fs::read_to_string(path).expect("it is text"));
            }
        }
    }
    texts
}

/// Number of occurrences of each name behind `Reason::` or `Reject::`.
fn expected(texts: &[String]) -> BTreeMap<&str, usize> {
    let mut expected = BTreeMap::new();
    for text in texts {
        for before in ["Reason::", "Reject::"] {
            for (at, _) in text.match_indices(before) {
                let behind = &text[at + before.len()..];
                let end = behind.find(|c: char| !c.is_alphanumeric()).unwrap_or(behind.len());
                *expected.entry(&behind[..end]).or_default() += 1;
            }
        }
    }
    expected
}

#[test]
fn each_reason_is_expected_by_a_test_or_listed_here() {
    let texts = tests();
    let expected = expected(&texts);
    let is_listed = |reason: &Reason| NOT_EXPECTED.iter().any(|(listed, _)| listed == reason);
    let missing: Vec<&str> = Reason::ALL[1..]
        .iter()
        .filter(|reason| !expected.contains_key(reason.name()) && !is_listed(reason))
        .map(|reason| reason.name())
        .collect();
    assert_eq!(missing, Vec::<&str>::new(), "no test expects these");
    let stale: Vec<_> =
        NOT_EXPECTED.iter().filter(|(it, _)| expected.contains_key(it.name())).collect();
    assert_eq!(stale, Vec::<&(Reason, &str)>::new(), "a test expects these");
}
