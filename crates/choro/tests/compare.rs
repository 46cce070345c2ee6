//! The same random requests to Choro and to Debian's Samba: a small part of `make compare`.

mod harness;

use std::fs;
use std::io;
use std::path::Path;

use bench::compare::explanation::Explanations;
use bench::compare::{self, Plan};
use harness::choro::built_executable;
use harness::runs_as_root;

/// Needs root, as Samba's server does.
#[test]
fn answers_and_files_are_those_of_samba_but_for_known_differences() {
    if !runs_as_root() {
        return;
    }
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/compare/explanations.tsv");
    let list = fs::read_to_string(list).expect("it is in the tree");
    let explanations = Explanations::parse(&list).expect("it is well-formed");
    let plan = Plan { seed: 1, shares: 10, requests: 1_000, only: None };
    let findings = compare::run(plan, &built_executable(), explanations, &mut io::sink());
    let findings = findings.expect("both serve");
    assert_eq!(findings.unexplained(), 0, "{}", findings.to_text());
}
