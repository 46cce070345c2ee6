//! Operations cost as many system calls as docs/system_calls.md states.

use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use bench::options::Options;
use bench::run::{self, Interrupt};
use clap::Parser;

const PAGE: &str = include_str!("../../../docs/system_calls.md");

/// Without io_uring, up to five calls replace the one that sends answers and waits.
const MORE_WITHOUT_RING: f64 = 4.0;

/// The figure that the page gives for a row of the benchmark.
fn documented(row: &str) -> f64 {
    let line = PAGE.lines().find(|line| line.starts_with(&format!("| {row} |")));
    let figure = line.and_then(|line| line.split('|').nth(2)).expect("the page has the row");
    figure.trim().parse().expect("it is a number")
}

/// Whether the kernel has all that the page counts on, and a process may be traced.
fn is_as_the_page_says() -> bool {
    let traced =
        Command::new("strace").args(["-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    // The shares are on tmpfs.
    let shares = std::fs::File::open("/dev/shm");
    let has_fine_times = shares.is_ok_and(|shares| store::has_fine_times(shares.as_fd()));
    traced.is_ok_and(|it| it.success()) && has_fine_times
}

#[test]
fn each_operation_takes_as_many_system_calls_as_the_page_says() {
    if !is_as_the_page_says() {
        // Nobody may be reading.
        let _ = writeln!(std::io::stderr(), "no strace, or an old kernel: not tested");
        return;
    }
    // For each row, the number of descriptors that it closes (a build for tests checks a descriptor
    // before), and the number of waits for the client.
    let rows = [
        ("small-file copy, depth 1", 1.0, 4.0),
        ("stat, depth 1", 1.0, 1.0),
        ("open + close, depth 1", 1.0, 2.0),
    ];
    let has_ring = uring::Backend::available().contains(&uring::Backend::Ring);
    let names = rows.map(|(row, ..)| format!("system calls: {row}"));
    let mut arguments = vec!["choro-bench", "--only", "choro", "--repetitions", "1"];
    arguments.extend(["--choro", env!("CARGO_BIN_EXE_choro")]);
    names.iter().for_each(|name| arguments.extend(["--rows", name.as_str()]));
    let options = Options::try_parse_from(arguments).expect("they are right");
    let mut progress = Vec::new();
    let report = run::run(&options, &Interrupt::default(), &mut progress).expect("it serves");
    for ((row, closed, waits), name) in rows.iter().zip(&names) {
        let of_row = report.rows.iter().find(|it| it.row == *name).expect("it was asked for");
        let figures = of_row.choro.as_ref().unwrap_or_else(|| panic!("{:?}", of_row.failure));
        let (median, documented) = (figures.summary.median, documented(row));
        let median = if cfg!(debug_assertions) { median - closed } else { median };
        let more = if has_ring { 0.0 } else { MORE_WITHOUT_RING * waits };
        // A directory is resolved anew each second; strace makes a second few operations.
        assert!(
            (documented - 0.5..documented + more + 0.5).contains(&median),
            "{row}: {median}, and the page says {documented}"
        );
    }
}
