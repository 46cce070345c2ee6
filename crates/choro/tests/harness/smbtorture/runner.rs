//! Runs tests, one process each and some at a time, and shows progress.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::super::{PASSWORD, TestServer, USER};
use super::catalog::{self, DYNAMIC_SHARE};
use super::expectations::Expectations;
use super::program::Program;
use super::verdict::{Outcome, outcome_of};
use super::{progress, suite_of};

/// Tests that run at the same time. They are of different suites then.
const JOBS: usize = 2;

/// Slow tests that run at the same time: they wait for events that must not happen.
const WAITING_JOBS: usize = 6;

/// Tests with an unexpected result that are run again. More are no accident.
const RUN_AGAIN_MAX: usize = 20;

/// Time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// Exit codes of `timeout` after the limit: by SIGTERM, and by SIGKILL.
const TIME_IS_UP: [i32; 2] = [124, 137];

/// Has a program pause for 20 ms after each message that it sends.
const PAUSES: [&str; 7] = [
    "strace",
    "--output=/dev/null",
    "--quiet=all",
    "--trace=write,writev,sendto,sendmsg",
    "--inject=write,writev,sendto,sendmsg:delay_exit=20000",
    "--seccomp-bpf",
    "--follow-forks",
];

/// Seconds for which the share whose folder is named after the time has folders.
const DYNAMIC_SECONDS: u64 = 120;

/// Runs tests against a server; what those said that did not pass goes to files below `logs`.
#[derive(Debug)]
pub struct Runner<'a> {
    pub server: &'a TestServer,
    pub expectations: &'a Expectations,
    pub logs: PathBuf,
}

/// Results of the tests so far.
#[derive(Debug)]
struct Results {
    start: Instant,
    shown: Instant,
    total: usize,
    unexpected: usize,
    outcomes: BTreeMap<String, Outcome>,
    seconds: BTreeMap<String, f64>,
}

impl Runner<'_> {
    /// One run of all of them.
    pub fn run(&self, tests: &[String]) -> BTreeMap<String, Outcome> {
        let _ = fs::remove_dir_all(&self.logs);
        fs::create_dir_all(&self.logs).expect("there is space");
        let results = Mutex::new(Results::new(tests.len()));
        let (alone, together): (Vec<&String>, Vec<&String>) =
            tests.iter().partition(|test| catalog::runs_alone(test));
        let (waiting, others): (Vec<&String>, Vec<&String>) =
            together.iter().partition(|test| catalog::slow_seconds(test).is_some());
        self.run_suites(&waiting, WAITING_JOBS, &results);
        self.run_suites(&others, JOBS, &results);
        self.run_suites(&alone, 1, &results);
        let results = results.into_inner().expect("nobody panicked with it");
        fs::write(self.logs.join("results.tsv"), results.table()).expect("there is space");
        results.outcomes
    }

    /// Runs those again, alone, that were not as expected: many of them measure time, and another
    /// test beside them may have taken it. What is only then as expected is said, because it
    /// should not be so; `SMBTORTURE_RUNS` finds what flickers and forgives nothing.
    pub fn run_again(&self, outcomes: &mut BTreeMap<String, Outcome>) {
        let unexpected: Vec<String> = outcomes
            .iter()
            .filter(|(test, outcome)| self.is_unexpected(test, outcome))
            .map(|(test, _)| test.clone())
            .collect();
        if unexpected.is_empty() || unexpected.len() > RUN_AGAIN_MAX {
            return;
        }
        let results = Mutex::new(Results::new(unexpected.len()));
        self.run_suites(&unexpected.iter().collect::<Vec<_>>(), 1, &results);
        for (test, outcome) in results.into_inner().expect("nobody panicked with it").outcomes {
            if !self.is_unexpected(&test, &outcome) {
                progress(&format!("smbtorture: {test} is as expected only when it runs alone"));
            }
            outcomes.insert(test, outcome);
        }
    }

    /// Those of a suite one after the other, because some use the same names; suites that take long
    /// begin first.
    fn run_suites(&self, tests: &[&String], jobs: usize, results: &Mutex<Results>) {
        let mut suites: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
        for test in tests {
            suites.entry(suite_of(test)).or_default().push(test);
        }
        let mut queue: Vec<Vec<&String>> = suites.into_values().collect();
        let weight = |test: &&String| catalog::slow_seconds(test).unwrap_or(1);
        queue.sort_by_key(|tests| std::cmp::Reverse(tests.iter().map(weight).sum::<u32>()));
        let queue = Mutex::new(VecDeque::from(queue));
        let next = || queue.lock().expect("nobody panics with it").pop_front();
        thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while let Some(suite) = next() {
                        for test in suite {
                            let start = Instant::now();
                            let outcome = self.run_one(test);
                            let unexpected = self.is_unexpected(test, &outcome);
                            let mut results = results.lock().expect("nobody panics with it");
                            results.add(test, outcome, start.elapsed(), unexpected);
                        }
                    }
                });
            }
        });
    }

    fn is_unexpected(&self, test: &str, outcome: &Outcome) -> bool {
        let expected = self.expectations.rows().get(test);
        expected.is_none_or(|expected| expected.verdict != outcome.verdict)
    }

    fn run_one(&self, test: &str) -> Outcome {
        let share = catalog::share_of(test);
        // Files left by a failed test must not make this one fail.
        clear_folder(&self.server.share_path(share));
        if test == "smb2.lease.dynamic_share" {
            self.make_dynamic_folders();
        }
        let limit = catalog::limit_seconds(test);
        let mut command = self.server.launcher();
        command.extend(["timeout", "--kill-after=5"].map(str::to_owned));
        command.push(limit.to_string());
        if catalog::is_hasty(test) {
            command.extend(PAUSES.map(str::to_owned));
        }
        let program = Program::chosen();
        let (words, local) = program.command_with(&self.server.path_of_share(share));
        command.extend(if catalog::is_local(test) { words } else { program.command() });
        let own = program.own_folder(&self.server.client_folder("own"));
        let output = Command::new(&command[0])
            .args(&command[1..])
            .arg(format!("//127.0.0.1/{share}"))
            .args(["-p", &self.server.port().to_string()])
            .args(["-U", &format!("{USER}%{PASSWORD}")])
            .arg(format!("--basedir={own}"))
            .args(["lock", "state", "cache"].map(|kind| format!("--option={kind} directory={own}")))
            .args(catalog::options(test))
            .arg(format!("--option=torture:localdir={local}"))
            .arg(test)
            .stdin(Stdio::null())
            .output()
            .expect("Debian's samba-testsuite is installed");
        let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
        printed.push_str(&String::from_utf8_lossy(&output.stderr));
        let code = output.status.code();
        let ended = match code {
            Some(code) if TIME_IS_UP.contains(&code) => Err(limit),
            code => Ok(code),
        };
        let outcome = outcome_of(&printed, ended);
        if !outcome.message.is_empty() {
            let name = test.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "_");
            fs::write(self.logs.join(name + ".log"), printed).expect("there is space");
        }
        outcome
    }

    /// A folder for each second of the near future, as this share's path names them.
    fn make_dynamic_folders(&self) {
        let share = self.server.share_path(DYNAMIC_SHARE);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_secs();
        for second in now..now + DYNAMIC_SECONDS {
            let output = Command::new("date")
                .args(["-u", "-d", &format!("@{second}"), "+%Y%m%d_%H%M%S"])
                .output()
                .expect("every system has it");
            let name = String::from_utf8(output.stdout).expect("digits are UTF-8");
            let folder = share.join(name.trim());
            fs::create_dir_all(&folder).expect("there is space");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
            fs::set_permissions(&folder, mode).expect("it is ours");
        }
    }
}

impl Results {
    fn new(total: usize) -> Self {
        let start = Instant::now();
        Self {
            start,
            shown: start,
            total,
            unexpected: 0,
            outcomes: BTreeMap::new(),
            seconds: BTreeMap::new(),
        }
    }

    fn add(&mut self, test: &str, outcome: Outcome, taken: Duration, unexpected: bool) {
        self.unexpected += usize::from(unexpected);
        self.outcomes.insert(test.to_owned(), outcome);
        self.seconds.insert(test.to_owned(), taken.as_secs_f64());
        if self.shown.elapsed() >= PROGRESS_INTERVAL || self.outcomes.len() == self.total {
            self.shown = Instant::now();
            progress(&format!(
                "smbtorture: {} of {}, {} not as expected, {} s",
                self.outcomes.len(),
                self.total,
                self.unexpected,
                self.start.elapsed().as_secs()
            ));
        }
    }

    /// Columns: test, verdict, seconds, message.
    fn table(&self) -> String {
        let rows = self.outcomes.iter().map(|(test, outcome)| {
            let seconds = self.seconds.get(test).copied().unwrap_or_default();
            format!("{test}\t{}\t{seconds:.1}\t{}\n", outcome.verdict, outcome.message)
        });
        rows.collect()
    }
}

fn clear_folder(folder: &Path) {
    for entry in fs::read_dir(folder).expect("the share is there").flatten() {
        let path = entry.path();
        // A server that has not noticed yet that its client left may be deleting the same.
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
}
