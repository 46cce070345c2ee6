//! One measurement: the processes of all pairs, started, let run and ended.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::histogram::Histogram;
use super::peer::Outcome;
use super::workload::Workload;
use super::{Carrier, PeerProgram};

/// Results of one measurement in a round.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    pub(super) messages_per_second: f64,
    /// Nothing where they are not told of.
    pub(super) round_trips: Histogram,
}

/// One of the processes. Ended when it is dropped.
pub(super) struct Peer {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

/// Measures a workload over a carrier, with processes in the lock directory `directory`.
pub(super) fn measure(
    workload: Workload,
    carrier: Carrier,
    duration: Duration,
    program: &PeerProgram,
    directory: &Path,
) -> Result<Measurement> {
    let start = |role: &str, unique_id: u64, more: &[String]| {
        Peer::start(program, role, carrier, directory, unique_id, more)
    };
    let mut answering = Vec::new();
    let mut asking = Vec::new();
    for pair in 0..u64::try_from(workload.pairs)? {
        answering.push(start("answer", 2 * pair + 1, &[])?);
    }
    answering.iter_mut().try_for_each(Peer::wait_until_ready)?;
    for (pair, other) in (0..).zip(&answering) {
        let mut arguments = vec![
            format!("--outstanding={}", workload.outstanding),
            format!("--milliseconds={}", duration.as_millis()),
            "--to".to_owned(),
            other.pid().to_string(),
            (2 * pair + 1).to_string(),
        ];
        arguments.extend(workload.sizes.iter().map(|size| format!("--size={size}")));
        asking.push(start("ask", 2 * pair + 2, &arguments)?);
    }
    asking.iter_mut().try_for_each(Peer::wait_until_ready)?;
    asking.iter_mut().try_for_each(|peer| writeln!(peer.stdin(), "go"))?;
    let mut measurement =
        Measurement { messages_per_second: 0.0, round_trips: Histogram::default() };
    for peer in &mut asking {
        let line = peer.line()?;
        let outcome: Outcome = serde_json::from_str(&line).context("what a process has seen")?;
        ensure!(outcome.pings > 0, "nothing was sent in {} s", outcome.seconds);
        #[expect(clippy::cast_precision_loss, reason = "fewer than 2^52 in any time")]
        let messages = (2 * outcome.pings) as f64;
        measurement.messages_per_second += messages / outcome.seconds;
        measurement.round_trips.merge(&outcome.round_trips);
    }
    Ok(measurement)
}

impl Peer {
    pub(super) fn start(
        program: &PeerProgram,
        role: &str,
        carrier: Carrier,
        directory: &Path,
        unique_id: u64,
        more: &[String],
    ) -> Result<Self> {
        let mut child = Command::new(&program.program)
            .args(&program.arguments)
            .args(["--role", role, "--carrier", carrier.name(), "--directory"])
            .arg(directory)
            .arg(format!("--unique-id={unique_id}"))
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.program.display()))?;
        let stdin = child.stdin.take().context("it is piped")?;
        let stdout = child.stdout.take().context("it is piped")?;
        Ok(Self { child, stdin, lines: BufReader::new(stdout).lines() })
    }

    pub(super) fn line(&mut self) -> Result<String> {
        self.lines.next().context("a process ended; see above for the reason")?.context("its line")
    }

    pub(super) fn stdin(&mut self) -> &mut ChildStdin {
        &mut self.stdin
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal).context("a process that was started")
    }

    pub(super) fn wait_until_ready(&mut self) -> Result<()> {
        let line = self.line()?;
        ensure!(line == "ready", "a process printed {line:?}");
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // One that has ended is still ours to wait for; one that is stopped ends when it goes on.
        let _ = self.signal(Signal::TERM);
        let _ = self.signal(Signal::CONT);
        let _ = self.child.wait();
    }
}
