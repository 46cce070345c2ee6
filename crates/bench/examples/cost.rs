//! Cost of each operation of a client to a server, in processor time of all threads of its worker.
//!
//! `cost PROGRAM DIRECTORY COUNT [global=LINES] [with=COMMAND] [only=KIND]` starts a server in
//! `DIRECTORY` and executes COUNT operations of each kind, or of KIND only; `global` adds lines to
//! the section `[global]`, and `with` runs a command meanwhile, in which PID stands for the worker.
//! Each line is `KIND<tab>nanoseconds`; the last one, `beside`, is the run time of that command per
//! second. With `-` for COUNT, each line of standard input, `KIND COUNT`, gets its answer.
//!
//! The times are the kernel's account of run time (`/proc/PID/task/TID/schedstat`), user and system
//! time together. In a virtual machine whose clock counts instructions (`qemu -icount`),
//! nanoseconds are instructions: `scripts/tracing_cost.sh`.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::client::requests::{Purpose, close, open, push_query_directory, push_read, push_write};
use bench::client::{Client, Protection, Slot};
use bench::server::{Kind, Server};
use rustix::process::{Pid, Signal, kill_process};
use wire::FileId;

const KINDS: [&str; 5] = ["read", "write", "open", "list", "copy"];

/// Bytes of a READ or WRITE.
const BLOCK: usize = 4_096;

/// Bytes of each small file, as in the copy described in `docs/tracing.md`.
const FILE_BYTES: usize = 10_240;

/// Entries of the directory that is listed.
const ENTRIES: usize = 100;

/// Small files that are written again and again.
const FILES: usize = 100;

/// Number of operations before the measurement.
const WARM_UP: usize = 100;

/// Longest wait for the start of the command beside the work.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, directory, count, options @ ..] = &arguments[..] else {
        anyhow::bail!("cost PROGRAM DIRECTORY COUNT [global=LINES] [with=COMMAND] [only=KIND]");
    };
    let option = |name: &str| {
        options.iter().find_map(|it| it.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default()
    };
    fs::create_dir_all(directory)?;
    let global = format!("{}\n", option("global"));
    let directory = Path::new(directory);
    let server = Server::start_with(Kind::Choro, directory, Path::new(program), &global)?;
    let share = server.share_path().to_owned();
    fs::write(share.join("file"), vec![7; BLOCK])?;
    fs::create_dir_all(share.join("directory"))?;
    for number in 0..ENTRIES {
        fs::write(share.join(format!("directory/File number {number:03}.txt")), b"")?;
    }
    let mut client = server.connect(Protection::Signed)?;
    let file_id = open(&mut client, Purpose::Open, "file")?;
    let processes = server.processes()?;
    let pid = processes.serving(server.destination().address, client.local_port()?);
    let pid = pid.context("nobody serves the client")?;
    let beside = Beside::begin(option("with"), pid)?;
    let mut cost = |kind: &str, count: usize| -> Result<()> {
        ensure!(KINDS.contains(&kind), "{kind} is none of {KINDS:?}");
        (0..WARM_UP.min(count)).try_for_each(|at| work(&mut client, file_id, kind, at))?;
        let before = settled(pid)?;
        (0..count).try_for_each(|at| work(&mut client, file_id, kind, at))?;
        let spent = settled(pid)? - before;
        say(kind, spent / u64::try_from(count)?)
    };
    if count == "-" {
        for line in std::io::stdin().lines() {
            let line = line?;
            let (kind, count) = line.split_once(' ').context("KIND COUNT")?;
            cost(kind, count.parse().context("a count")?)?;
        }
        return Ok(());
    }
    let count: usize = count.parse().context("a count")?;
    let only = option("only");
    for kind in KINDS.into_iter().filter(|kind| only.is_empty() || *kind == only) {
        cost(kind, count)?;
    }
    beside.each_second()?.map_or(Ok(()), |ns| say("beside", ns))
}

fn say(kind: &str, ns: u64) -> Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout(), "{kind}\t{ns}")?;
    Ok(())
}

/// One operation, as its kind is called.
fn work(client: &mut Client, file_id: FileId, kind: &str, at: usize) -> Result<()> {
    match kind {
        "read" => push_read(client, file_id, 0, BLOCK),
        "write" => push_write(client, file_id, 0, &[7; BLOCK]),
        "open" => {
            let file_id = open(client, Purpose::Open, "file")?;
            return close(client, file_id);
        }
        "list" => {
            let directory = open(client, Purpose::List, "directory")?;
            push_query_directory(client, directory, 65_536);
            answered(client)?;
            return close(client, directory);
        }
        "copy" => {
            let file_id = open(client, Purpose::NewFile, &format!("copy{}", at % FILES))?;
            push_write(client, file_id, 0, &[7; FILE_BYTES]);
            answered(client)?;
            return close(client, file_id);
        }
        _ => unreachable!("one of KINDS"),
    }
    answered(client)
}

fn answered(client: &mut Client) -> Result<()> {
    client.flush(Slot(0))?;
    client.receive()?.succeeded()?;
    Ok(())
}

/// Returns the run time of a process in nanoseconds, once it is idle: a client may get its response
/// before its worker has finished all work.
fn settled(pid: u32) -> Result<u64> {
    let mut last = run_time(pid)?;
    loop {
        sleep(Duration::from_millis(5));
        let now = run_time(pid)?;
        if now == last {
            return Ok(now);
        }
        last = now;
    }
}

fn run_time(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(task?.path().join("schedstat"))?;
        let ran = text.split(' ').next().context("three numbers")?;
        sum += ran.parse::<u64>().context("nanoseconds")?;
    }
    Ok(sum)
}

/// A command that runs beside the measured work until its drop.
struct Beside(Option<Running>);

struct Running {
    child: Child,
    since: Instant,
    /// Its run time at the start of the measurement, in nanoseconds.
    before: u64,
}

impl Beside {
    /// Waits until it has said that it has begun: `choro trace` and `tsmbd.bt` do.
    fn begin(command: &str, pid: u32) -> Result<Self> {
        if command.is_empty() {
            return Ok(Self(None));
        }
        let printed = tempfile::NamedTempFile::new()?;
        let output = printed.reopen()?;
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec {}", command.replace("PID", &pid.to_string()))]);
        shell.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let mut child = shell.spawn().context("the command beside it")?;
        let start = Instant::now();
        while !fs::read_to_string(printed.path())?.contains("Collecting") {
            let has_time = start.elapsed() < PATIENCE;
            if !has_time || child.try_wait()?.is_some() {
                // It may be at its end already.
                let _ = child.kill();
                let _ = child.wait();
                ensure!(has_time, "{command}: it does not say that it has begun");
                anyhow::bail!("{command}: it has ended");
            }
            sleep(Duration::from_millis(10));
        }
        let before = run_time(child.id())?;
        Ok(Self(Some(Running { child, since: Instant::now(), before })))
    }

    /// Returns its run time per second since the start, in nanoseconds.
    fn each_second(&self) -> Result<Option<u64>> {
        let Some(Running { child, since, before }) = &self.0 else { return Ok(None) };
        let (ran, ms) = (run_time(child.id())? - before, since.elapsed().as_millis());
        Ok(Some(ran * 1_000 / u64::try_from(ms)?.max(1)))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(Running { child, .. }) = &mut self.0 {
            // An error means that it has ended already.
            let _ = kill_process(Pid::from_child(child), Signal::INT);
            let _ = child.wait();
        }
    }
}
