//! Samba's smbtorture, one test per process, and the list of what is expected of each.

pub mod catalog;
pub mod expectations;
pub mod program;
pub mod report;
pub mod runner;
pub mod verdict;

use std::io::Write as _;

use program::Program;

use super::choro::Site;
use super::namespace::Namespace;
use super::{OTHER_USER, PASSWORD, runs_as_root};

/// All tests of `smb2.`, and those of `vfs.` for Apple's clients, that have no tests below them.
pub fn leaf_tests() -> Vec<String> {
    let list = Program::chosen().output("--list");
    let names = list.lines().map(runnable_name);
    names.filter(|name| !suite_of(name).is_empty()).map(str::to_owned).collect()
}

/// The suite of a test: the second part of its name.
pub fn suite_of(test: &str) -> &str {
    let mut parts = test.split('.');
    let (family, suite) = (parts.next(), parts.next().unwrap_or_default());
    let is_ours = family == Some("smb2") || family == Some("vfs") && suite.contains("fruit");
    if is_ours { suite } else { "" }
}

/// A leaf is listed as suite.case.test where case and test have one name, and called suite.case.
fn runnable_name(listed: &str) -> &str {
    let dots = listed.rmatch_indices('.');
    let mut halves = dots.map(|(dot, _)| listed.split_at(dot));
    halves.find(|(head, last)| head.ends_with(last)).map_or(listed, |(head, _)| head)
}

/// A network with a free port 445, and a server's place in it with root as a user. `None` where
/// this machine has none; the test says so.
pub fn site_in_network() -> Option<(Namespace, Site)> {
    if !runs_as_root() {
        progress("left out: it needs root");
        return None;
    }
    let network = Namespace::of_network("")
        .inspect_err(|reason| progress(&format!("left out: no network of its own: {reason}")))
        .ok()?;
    let mut site = Site::new();
    site.launch_with(&network.launcher());
    site.run_with_input(&["user", "add", "root", "--password-stdin"], PASSWORD).succeeds();
    Some((network, site))
}

/// A line that is shown at once, whatever the test runner does with the output of tests.
pub fn progress(line: &str) {
    // Nobody may be reading; the test goes on.
    let _ = writeln!(std::io::stderr(), "{line}");
}
