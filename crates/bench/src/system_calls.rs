//! How many system calls a process makes: strace(1) counts them.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// How long strace may take to attach or to write its table.
const PATIENCE: Duration = Duration::from_secs(10);

const POLL: Duration = Duration::from_millis(10);

/// A strace that counts the calls of one process.
#[derive(Debug)]
pub struct Counter {
    strace: Child,
    table: tempfile::NamedTempFile,
}

impl Counter {
    /// Attaches to all threads of `pid`, and to those that it starts.
    ///
    /// # Errors
    ///
    /// When strace is not there or may not trace.
    pub fn attach(pid: u32) -> Result<Self> {
        let table = tempfile::NamedTempFile::new()?;
        let mut strace = Command::new("strace")
            .args(["-c", "-f", "-p", &pid.to_string(), "-o"])
            .arg(table.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting strace")?;
        let start = Instant::now();
        while !is_traced(pid, strace.id()) {
            let ended = strace.try_wait()?.is_some();
            if ended || start.elapsed() > PATIENCE {
                // It may be at its end already; then there is nothing to kill.
                let _ = strace.kill();
                let _ = strace.wait();
                bail!("strace could not attach to {pid}");
            }
            sleep(POLL);
        }
        Ok(Self { strace, table })
    }

    /// Detaches and returns the number of calls.
    ///
    /// # Errors
    ///
    /// When strace does not end or writes no table.
    pub fn count(mut self) -> Result<u64> {
        kill_process(Pid::from_child(&self.strace), Signal::INT)?;
        let start = Instant::now();
        while self.strace.try_wait()?.is_none() {
            ensure!(start.elapsed() < PATIENCE, "strace does not end");
            sleep(POLL);
        }
        let text = fs::read_to_string(self.table.path())?;
        total(&text).with_context(|| format!("strace wrote:\n{text}"))
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // Not there any more is what is wanted.
        let _ = self.strace.kill();
        let _ = self.strace.wait();
    }
}

/// Whether every thread of `pid` has `tracer` for its tracer.
fn is_traced(pid: u32, tracer: u32) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let wanted = format!("TracerPid:\t{tracer}");
    let traced = |path: &Path| {
        fs::read_to_string(path.join("status"))
            .is_ok_and(|status| status.lines().any(|line| line == wanted))
    };
    tasks.flatten().all(|task| traced(&task.path()))
}

/// The calls of a table of `strace -c`: the column of the line that ends in "total".
fn total(table: &str) -> Option<u64> {
    let line = table.lines().rfind(|line| line.trim_end().ends_with(" total"))?;
    let heading = table.lines().find(|line| line.contains("calls") && line.contains("syscall"))?;
    let column = heading.split_ascii_whitespace().filter(|word| *word != "%");
    // "% time" is one column; its values have no percent sign.
    let at = column.clone().position(|word| word == "calls")?;
    line.split_ascii_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::total;

    #[test]
    fn the_total_is_that_of_the_calls() {
        let table = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.000600           6       100           read
 40.00    0.000400           4       100         3 write
------ ----------- ----------- --------- --------- ----------------
100.00    0.001000           5       200         3 total
";
        assert_eq!(total(table), Some(200));
        assert_eq!(total(""), None);
    }
}
