//! Number of system calls of a process, counted by strace(1).
//!
//! Its own table (`-c`) leaves out calls without a known name, which is most calls of newer
//! kernels.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// Longest wait for strace to attach or to write its table.
const PATIENCE: Duration = Duration::from_secs(10);

const POLL: Duration = Duration::from_millis(10);

/// A strace that writes down the calls of one process.
#[derive(Debug)]
pub struct Counter {
    strace: Child,
    calls: tempfile::NamedTempFile,
}

impl Counter {
    /// Attaches to all threads of `pid`, and to those that it starts.
    ///
    /// # Errors
    ///
    /// When strace is not there or may not trace.
    pub fn attach(pid: u32) -> Result<Self> {
        let calls = tempfile::NamedTempFile::new()?;
        let mut strace = Command::new("strace")
            .args(["-f", "-e", "raw=all", "-p", &pid.to_string(), "-o"])
            .arg(calls.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting strace")?;
        let start = Instant::now();
        while !is_traced(pid, strace.id()) {
            let ended = strace.try_wait()?.is_some();
            if ended || start.elapsed() > PATIENCE {
                // An error means that it has ended already.
                let _ = strace.kill();
                let _ = strace.wait();
                bail!("strace could not attach to {pid}");
            }
            sleep(POLL);
        }
        Ok(Self { strace, calls })
    }

    /// Detaches and returns the number of calls.
    ///
    /// # Errors
    ///
    /// When strace does not end or writes nothing.
    pub fn count(mut self) -> Result<u64> {
        kill_process(Pid::from_child(&self.strace), Signal::INT)?;
        let start = Instant::now();
        while self.strace.try_wait()?.is_none() {
            ensure!(start.elapsed() < PATIENCE, "strace does not end");
            sleep(POLL);
        }
        Ok(begun(&fs::read_to_string(self.calls.path())?))
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // An error means that it is gone already.
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

/// Counts calls that begin in strace's output: a call that is interrupted by another thread's has
/// two lines.
fn begun(text: &str) -> u64 {
    let is_call = |line: &&str| {
        let call = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        let name = call.split_once('(').map_or("", |(name, _)| name);
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    text.lines().filter(is_call).count().try_into().expect("64 bits")
}

#[cfg(test)]
mod tests {
    use super::begun;

    #[test]
    fn every_call_counts_once_whether_it_has_a_name_or_not() {
        let text = "\
12  statx(0x10, 0x7f, 0x1000, 0xfff, 0x7f) = 0
12  syscall_0x1d1(0x10, 0x7f, 0x100, 0x7f, 0x400, 0) = 0
12  futex(0x7f, 0x80, 0, 0 <unfinished ...>
345 close(0x11)                       = 0
12  <... futex resumed>)              = 0
345 --- SIGCHLD {si_signo=SIGCHLD} ---
345 +++ exited with 0 +++
";
        assert_eq!(begun(text), 4);
        assert_eq!(begun(""), 0);
    }
}
