//! Samba's smbtorture, one test per process, and the list of what is expected of each.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use super::choro::text;
use super::{OTHER_USER, PASSWORD, TestServer, USER};

/// Tests that run at the same time. They are of different suites then, and mostly wait.
const JOBS: usize = 2;

/// Seconds that one test may take; the slowest ones need a tenth of it.
const LIMIT_SECONDS: u32 = 60;

/// Characters of a failure's message that are shown.
const MESSAGE_CHARS: usize = 300;

/// Results between two lines of progress.
const PROGRESS_STEP: usize = 25;

/// What became of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    Fail,
    /// The test says that the server, or the way it was called, lacks what it needs.
    Skip,
}

/// A verdict, and why if it is not [`Verdict::Pass`].
#[derive(Clone, Debug)]
pub struct Result {
    pub verdict: Verdict,
    pub message: String,
}

/// The list of expected results: tab-separated test, verdict, reason.
#[derive(Clone, Debug)]
pub struct Expectations {
    path: PathBuf,
    /// Lines before the first result.
    preamble: String,
    rows: BTreeMap<String, Result>,
}

impl Verdict {
    fn parse(word: &str) -> Option<Self> {
        [Self::Pass, Self::Fail, Self::Skip].into_iter().find(|verdict| verdict.to_string() == word)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Skip => "skip",
        })
    }
}

/// The leaf tests of a suite: those that have no tests below them.
pub fn leaf_tests(suites: &[&str]) -> Vec<String> {
    let output = Command::new("smbtorture")
        .arg("--list")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .expect("Debian's samba-testsuite is installed");
    let list = String::from_utf8(output.stdout).expect("names of tests are ASCII");
    let names = list.lines().map(runnable_name);
    names.filter(|name| suites.contains(&suite_of(name))).map(str::to_owned).collect()
}

/// The suite of a test: the second part of its name.
pub fn suite_of(test: &str) -> &str {
    let mut parts = test.split('.');
    if parts.next() == Some("smb2") { parts.next().unwrap_or_default() } else { "" }
}

/// A leaf is listed as suite.case.test where case and test have one name, and called suite.case.
fn runnable_name(listed: &str) -> &str {
    let dots = listed.rmatch_indices('.');
    let mut halves = dots.map(|(dot, _)| listed.split_at(dot));
    halves.find(|(head, last)| head.ends_with(last)).map_or(listed, |(head, _)| head)
}

/// Runs tests, each on the share that is named like its suite, and shows progress.
pub fn run(server: &TestServer, tests: &[String]) -> BTreeMap<String, Result> {
    // One after the other within a suite: some use the same names.
    let mut suites: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for test in tests {
        suites.entry(suite_of(test)).or_default().push(test);
    }
    let mut longest_first: Vec<_> = suites.into_values().collect();
    longest_first.sort_by_key(|tests| std::cmp::Reverse(tests.len()));
    let queue = Mutex::new(VecDeque::from(longest_first));
    let results = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(|| {
                let next = || queue.lock().expect("nobody panics with it").pop_front();
                while let Some(suite) = next() {
                    for test in suite {
                        let result = run_one(server, test);
                        let mut results = results.lock().expect("nobody panics with it");
                        results.insert(test.clone(), result);
                        if results.len() % PROGRESS_STEP == 0 || results.len() == tests.len() {
                            progress(&format!("smbtorture: {} of {}", results.len(), tests.len()));
                        }
                    }
                }
            });
        }
    });
    results.into_inner().expect("nobody panicked with it")
}

fn run_one(server: &TestServer, test: &str) -> Result {
    // What the test before left behind after a failure must not make this one fail.
    clear_folder(&server.share_path(suite_of(test)));
    let own = server.client_folder("own");
    let output = Command::new("timeout")
        .args(["--kill-after=5", &LIMIT_SECONDS.to_string(), "smbtorture"])
        .arg(format!("//127.0.0.1/{}", suite_of(test)))
        .args(["-p", &server.port().to_string()])
        .args(["-U", &format!("{USER}%{PASSWORD}")])
        .arg(format!("--basedir={}", text(&own)))
        .args(["--target=samba3", "--option=torture:progress=no"])
        .arg(format!("--option=torture:user2name={OTHER_USER}"))
        .arg(format!("--option=torture:user2password={PASSWORD}"))
        .args(
            ["lock", "state", "cache"]
                .map(|kind| format!("--option={kind} directory={}", text(&own))),
        )
        .arg(test)
        .stdin(Stdio::null())
        .output()
        .expect("Debian's samba-testsuite is installed");
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    judge(&said, output.status.code())
}

fn clear_folder(folder: &Path) {
    for entry in fs::read_dir(folder).expect("the share is there").flatten() {
        let path = entry.path();
        // A server that has not noticed yet that its client left may be deleting the same.
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
}

/// The worst verdict that smbtorture printed, in the subunit protocol.
fn judge(said: &str, code: Option<i32>) -> Result {
    let mut worst: Option<Result> = None;
    let mut lines = said.lines();
    while let Some(line) = lines.next() {
        let verdict = match line.split_once(": ").map(|(word, _)| word) {
            Some("success" | "successful") => Verdict::Pass,
            Some("skip") => Verdict::Skip,
            Some("failure" | "error") => Verdict::Fail,
            _ => continue,
        };
        let mut message = String::new();
        if line.ends_with('[') {
            let words = lines.by_ref().take_while(|line| line.trim() != "]");
            message = words.map(str::trim).collect::<Vec<_>>().join(" / ");
        }
        let is_worse = match &worst {
            None => true,
            Some(result) => result.verdict != Verdict::Fail && verdict != Verdict::Pass,
        };
        if is_worse {
            worst = Some(Result { verdict, message });
        }
    }
    let no_verdict = || {
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        let message = match code {
            Some(124 | 137) => format!("no end after {LIMIT_SECONDS} s; its last words: {last}"),
            code => format!("no verdict, exit code {code:?}; its last words: {last}"),
        };
        Result { verdict: Verdict::Fail, message }
    };
    let mut result = worst.unwrap_or_else(no_verdict);
    result.message = result.message.replace('\t', " ").chars().take(MESSAGE_CHARS).collect();
    result
}

impl Expectations {
    /// Reads the list that is checked in.
    pub fn load() -> Self {
        let path =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/smbtorture/expected.tsv");
        let list = fs::read_to_string(&path).expect("the list is checked in");
        let mut preamble = String::new();
        let mut rows = BTreeMap::new();
        for line in list.lines() {
            if line.starts_with('#') {
                preamble.push_str(line);
                preamble.push('\n');
                continue;
            }
            let mut cells = line.split('\t');
            let (test, verdict) = (cells.next().unwrap_or_default(), cells.next());
            let verdict = verdict.and_then(Verdict::parse);
            let verdict = verdict.unwrap_or_else(|| panic!("no verdict in the line '{line}'"));
            let message = cells.next().unwrap_or_default().to_owned();
            let known = rows.insert(test.to_owned(), Result { verdict, message });
            assert!(known.is_none(), "{test} is in the list twice");
        }
        Self { path, preamble, rows }
    }

    pub fn rows(&self) -> &BTreeMap<String, Result> {
        &self.rows
    }

    /// One paragraph per result that is not the expected one, with the line that would make it so.
    pub fn differences(&self, results: &BTreeMap<String, Result>) -> Vec<String> {
        let mut differences = Vec::new();
        for (test, result) in results {
            let expected = self.rows.get(test);
            if expected.is_some_and(|expected| expected.verdict == result.verdict) {
                continue;
            }
            let before =
                expected.map_or_else(|| "not listed".to_owned(), |row| row.verdict.to_string());
            differences.push(format!(
                "{test}: {before} before, {} now: {}\n  line to put: {}",
                result.verdict,
                result.message,
                self.line(test, result)
            ));
        }
        differences
    }

    /// Rewrites the list with these results. Reasons stay where the verdict does.
    pub fn update(mut self, results: &BTreeMap<String, Result>, all: bool) {
        if all {
            self.rows.retain(|test, _| results.contains_key(test));
        }
        let lines: Vec<(String, String)> =
            results.iter().map(|(test, result)| (test.clone(), self.line(test, result))).collect();
        let mut merged: BTreeMap<String, String> =
            self.rows.iter().map(|(test, row)| (test.clone(), self.line(test, row))).collect();
        merged.extend(lines);
        let mut list = self.preamble.clone();
        for line in merged.values() {
            list.push_str(line);
            list.push('\n');
        }
        fs::write(&self.path, list).expect("the list can be written");
    }

    fn line(&self, test: &str, result: &Result) -> String {
        let known = self.rows.get(test).filter(|row| row.verdict == result.verdict);
        let reason = match (result.verdict, known) {
            (Verdict::Pass, _) => return format!("{test}\tpass"),
            (_, Some(row)) if !row.message.starts_with('?') => row.message.clone(),
            _ => format!("?{}", result.message),
        };
        format!("{test}\t{}\t{reason}", result.verdict)
    }
}

/// A line that is shown at once, whatever the test runner does with the output of tests.
pub fn progress(line: &str) {
    // Nobody may be reading; the test goes on.
    let _ = writeln!(std::io::stderr(), "{line}");
}
