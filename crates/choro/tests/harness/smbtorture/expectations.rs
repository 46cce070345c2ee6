//! The list of expected results, and how Samba's own server does in the same tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::program::Program;
use super::verdict::{Outcome, Verdict};

/// The list of expected results: tab-separated test, verdict, reason, and `Samba passes` where
/// this server is worse.
#[derive(Clone, Debug)]
pub struct Expectations {
    path: PathBuf,
    /// Lines before the first result.
    preamble: String,
    rows: BTreeMap<String, Outcome>,
    /// Tests that Samba does not pass.
    samba: BTreeMap<String, Verdict>,
}

/// A result that is not the expected one.
#[derive(Clone, Debug)]
pub struct Difference {
    pub test: String,
    pub expected: Option<Verdict>,
    pub outcome: Outcome,
    pub samba: Verdict,
}

/// Text of the last column for tests that only Samba passes.
const WORSE: &str = "Samba passes";

impl Expectations {
    /// Reads the lists that are checked in.
    pub fn load() -> Self {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/smbtorture");
        let suffix = Program::chosen().suffix();
        let path = folder.join(format!("expected{suffix}.tsv"));
        let list = fs::read_to_string(&path).expect("the list is checked in");
        let comments = list.split_inclusive('\n').take_while(|line| line.starts_with('#'));
        let preamble = comments.collect();
        let samba = fs::read_to_string(folder.join(format!("samba{suffix}.tsv")))
            .expect("the list is checked in");
        let samba = parse(&samba).into_iter().map(|(test, outcome)| (test, outcome.verdict));
        Self { path, preamble, rows: parse(&list), samba: samba.collect() }
    }

    pub fn rows(&self) -> &BTreeMap<String, Outcome> {
        &self.rows
    }

    /// Returns the verdict of Samba on a test.
    pub fn samba(&self, test: &str) -> Verdict {
        self.samba.get(test).copied().unwrap_or(Verdict::Pass)
    }

    /// Tests that Samba passes and this server is not expected to.
    pub fn worse_than_samba(&self) -> Vec<&str> {
        let worse = self.rows.iter().filter(|(test, expected)| {
            expected.verdict != Verdict::Pass && self.samba(test) == Verdict::Pass
        });
        worse.map(|(test, _)| test.as_str()).collect()
    }

    /// Results that are not the expected ones.
    pub fn differences(&self, results: &BTreeMap<String, Outcome>) -> Vec<Difference> {
        let mut differences = Vec::new();
        for (test, outcome) in results {
            let expected = self.rows.get(test).map(|expected| expected.verdict);
            if expected == Some(outcome.verdict) {
                continue;
            }
            let (test, outcome) = (test.clone(), outcome.clone());
            let samba = self.samba(&test);
            differences.push(Difference { test, expected, outcome, samba });
        }
        differences
    }

    /// Rewrites the list with these results; `all` says that there are no others. Reasons stay
    /// where the verdict does.
    pub fn update(mut self, results: &BTreeMap<String, Outcome>, all: bool) {
        if all {
            self.rows.retain(|test, _| results.contains_key(test));
        }
        for (test, outcome) in results {
            match self.rows.get(test) {
                Some(row) if row.verdict == outcome.verdict && !row.message.starts_with('?') => {}
                _ => {
                    let message = match outcome.verdict {
                        Verdict::Pass => String::new(),
                        _ => format!("?{}", outcome.message),
                    };
                    let verdict = outcome.verdict;
                    self.rows.insert(test.clone(), Outcome { verdict, message });
                }
            }
        }
        let mut list = self.preamble.clone();
        for (test, outcome) in &self.rows {
            list.push_str(&self.line(test, outcome));
            list.push('\n');
        }
        fs::write(&self.path, list).expect("the list can be written");
    }

    /// The line of a test in the list.
    pub fn line(&self, test: &str, outcome: &Outcome) -> String {
        let mut line = format!("{test}\t{}", outcome.verdict);
        if outcome.verdict != Verdict::Pass {
            line.push('\t');
            line.push_str(&outcome.message);
            if self.samba(test) == Verdict::Pass {
                line.push('\t');
                line.push_str(WORSE);
            }
        }
        line
    }
}

/// The rows of a list.
fn parse(list: &str) -> BTreeMap<String, Outcome> {
    let mut rows = BTreeMap::new();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let mut cells = line.split('\t');
        let (test, verdict) = (cells.next().unwrap_or_default(), cells.next());
        let verdict = verdict.and_then(Verdict::parse);
        let verdict = verdict.unwrap_or_else(|| panic!("no verdict in the line '{line}'"));
        let message = cells.next().unwrap_or_default().to_owned();
        let known = rows.insert(test.to_owned(), Outcome { verdict, message });
        assert!(known.is_none(), "{test} is in the list twice");
    }
    rows
}
