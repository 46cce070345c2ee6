//! Number of system calls of a process, counted by perf(1).
//!
//! A tracer would delay each call so much that a server takes its storage for slow.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// A perf that counts the calls of one process.
#[derive(Debug)]
pub struct Counter {
    perf: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    counts: tempfile::NamedTempFile,
}

impl Counter {
    /// Counts from now on, for all threads of `pid` and those that it starts.
    ///
    /// # Errors
    ///
    /// When perf is not there or may not count.
    pub fn attach(pid: u32) -> Result<Self> {
        let counts = tempfile::NamedTempFile::new()?;
        let mut perf = Command::new("perf")
            // It begins when it is told to, and answers once it has begun.
            .args(["stat", "--delay", "-1", "--control", "fd:0,1"])
            .args(["--event", "raw_syscalls:sys_enter", "--field-separator", ","])
            .args(["--pid", &pid.to_string(), "--output"])
            .arg(counts.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("starting perf")?;
        let commands = perf.stdin.take().expect("it is piped");
        let answers = BufReader::new(perf.stdout.take().expect("it is piped"));
        let mut counter = Self { perf, commands, answers, counts };
        counter.command("enable").with_context(|| format!("perf cannot count calls of {pid}"))?;
        Ok(counter)
    }

    /// Ends, and returns the number of calls.
    ///
    /// # Errors
    ///
    /// When perf has ended, or has counted nothing.
    pub fn count(mut self) -> Result<u64> {
        self.command("disable").context("perf has ended")?;
        kill_process(Pid::from_child(&self.perf), Signal::INT)?;
        self.perf.wait()?;
        counted(&fs::read_to_string(self.counts.path())?)
    }

    fn command(&mut self, name: &str) -> Result<()> {
        writeln!(self.commands, "{name}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        // Some versions send a zero byte as well.
        ensure!(answer.trim_matches(['\0', '\n']) == "ack", "it answers {answer:?}");
        Ok(())
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // An error means that it is gone already.
        let _ = self.perf.kill();
        let _ = self.perf.wait();
    }
}

/// Returns the count in the output of perf.
fn counted(text: &str) -> Result<u64> {
    let line = text.lines().find(|line| line.contains("raw_syscalls:sys_enter"));
    let count = line.and_then(|line| line.split(',').next()).context("perf has no count")?;
    count.parse().with_context(|| format!("perf returns {count:?} for a count"))
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn a_count_is_the_first_field_of_its_line() {
        let text = "# started on a day\n\n1531,,raw_syscalls:sys_enter,1910558,100.00,,\n";
        assert_eq!(counted(text).expect("there is one"), 1531);
        for text in ["", "<not counted>,,raw_syscalls:sys_enter,0,100.00,,\n"] {
            assert!(counted(text).is_err(), "{text}");
        }
    }
}
