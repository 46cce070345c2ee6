//! `choro profile`, which draws flame graphs.

mod off_cpu;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use clap::Args;
use inferno::collapse::Collapse;
use inferno::collapse::perf::Folder;
use inferno::flamegraph::{self, Options};
use rustix::fs::OFlags;
use settings::Settings;

use crate::observation::{first_workers, live_workers, no_such_worker};
use crate::report;

/// Draw a flame graph of the server's CPU time, or of its waiting time.
///
/// perf samples the stacks of one worker, or of all, for some seconds. The picture is an SVG for a
/// browser: the wider a function, the more CPU time it took. Waiting is not included. Needs perf,
/// and permission to use it: root, or `kernel.perf_event_paranoid` of 1 or less.
///
/// With --off-cpu the width is the time that a stack waited, in the kernel or for it. Needs
/// bpftrace, and root.
#[derive(Args, Debug)]
pub struct Profile {
    /// The pid of a worker, or `all`.
    #[arg(value_name = "PID", default_value = "all")]
    target: String,
    /// Seconds to collect samples for.
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Draw waiting time instead of CPU time.
    #[arg(long)]
    off_cpu: bool,
    /// Samples per second, without --off-cpu.
    #[arg(long, value_name = "N", default_value_t = 199,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    frequency: u32,
    /// File for the picture, an SVG.
    #[arg(short, long, value_name = "FILE", default_value = "flame.svg")]
    out: PathBuf,
}

/// Creates the picture's file. Others may be able to make links in its directory, and this is
/// mostly root: a symbolic link is refused.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o644);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)
}

impl Profile {
    pub fn run(&self, config: Option<&Path>) -> anyhow::Result<()> {
        let settings = Settings::find(config)?;
        let pids = self.pids(&settings.directories.lock)?;
        // Fail before perf runs in vain.
        let out =
            create(&self.out).with_context(|| format!("cannot write {}", self.out.display()))?;
        let (folded, what) = if self.off_cpu {
            (off_cpu::watch(&pids, self.seconds)?, "waited")
        } else {
            (self.sample(&pids)?, "ran")
        };
        if folded.is_empty() {
            bail!("nothing {what} in {} s: no samples to draw", self.seconds);
        }
        let mut options = Options::default();
        options.title = format!("choro: what {what}: {}, {} s", self.describe(&pids), self.seconds);
        options.count_name = "ns".to_owned();
        flamegraph::from_reader(&mut options, folded.as_slice(), BufWriter::new(out))
            .with_context(|| format!("cannot write {}", self.out.display()))?;
        let ns: u64 = String::from_utf8_lossy(&folded)
            .lines()
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum();
        let ms = ns / 1_000_000;
        let of = if self.off_cpu { "of waiting" } else { "of processors' time" };
        report::print(&format!("{}: {ms} ms {of}\n", self.out.display()))
    }

    /// Samples running code; returns folded stacks with nanoseconds.
    fn sample(&self, pids: &[u32]) -> anyhow::Result<Vec<u8>> {
        let folder = Temporary::make()?;
        let data = folder.0.join("samples");
        self.record(pids, &data)?;
        fold(&data)
    }

    fn describe(&self, pids: &[u32]) -> String {
        match pids {
            [pid] => format!("worker {pid}"),
            pids => format!("{} workers", pids.len()),
        }
    }

    fn pids(&self, lock_dir: &Path) -> anyhow::Result<Vec<u32>> {
        let only_pids =
            |workers: Vec<(u32, u64)>| workers.into_iter().map(|(pid, _)| pid).collect();
        if self.target == "all" {
            return Ok(only_pids(first_workers(lock_dir)?));
        }
        let pids: Vec<u32> = only_pids(live_workers(lock_dir)?);
        let Ok(pid) = self.target.parse() else { bail!("expected a pid or `all`") };
        if !pids.contains(&pid) {
            bail!(no_such_worker(pid));
        }
        Ok(vec![pid])
    }

    fn record(&self, pids: &[u32], data: &Path) -> anyhow::Result<()> {
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let mut perf = Command::new("perf");
        // The kernel's software clock exists in virtual machines too; samples are weighed in
        // nanoseconds.
        perf.args(["record", "--quiet", "--event", "cpu-clock", "--call-graph", "fp"]);
        perf.arg("--output").arg(data);
        perf.args(["--freq", &self.frequency.to_string(), "--pid", &pids.join(",")]);
        perf.args(["--", "sleep", &self.seconds.to_string()]);
        let done = perf.stdin(Stdio::null()).output().map_err(no_perf)?;
        if done.status.success() {
            return Ok(());
        }
        let output = String::from_utf8_lossy(&done.stderr).into_owned();
        bail!("{}", why_not(&output, &paranoia()))
    }
}

fn no_perf(error: io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::NotFound => {
            anyhow::anyhow!("perf is not installed; Debian has it in the package linux-perf")
        }
        _ => anyhow::Error::new(error).context("cannot start perf"),
    }
}

/// Returns `kernel.perf_event_paranoid`; empty if unknown.
fn paranoia() -> String {
    fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default().trim().to_owned()
}

/// Explains a failure of perf in a sentence.
fn why_not(output: &str, paranoia: &str) -> String {
    let is_forbidden =
        ["ermission", "perf_event_paranoid", "not permitted", "Access to performance"];
    if is_forbidden.iter().any(|it| output.contains(it)) {
        return format!(
            "the kernel does not let you profile this process; \
             run this as root, or set kernel.perf_event_paranoid to 1 or less (it is {paranoia})"
        );
    }
    let line = output.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing");
    format!("perf failed: {line}")
}

/// Returns perf's samples as folded stacks with their weights.
fn fold(data: &Path) -> anyhow::Result<Vec<u8>> {
    let mut perf = Command::new("perf");
    perf.args(["script", "--input"]).arg(data);
    let mut child = perf
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(no_perf)?;
    let stdout = child.stdout.take().context("perf has no output")?;
    let mut folded = Vec::new();
    let read = Folder::default().collapse(BufReader::new(stdout), &mut folded);
    let has_ended = child.wait().context("cannot wait for perf")?;
    // The parser fails on empty output as well; that is no error.
    if !has_ended.success() || (read.is_err() && !folded.is_empty()) {
        bail!("perf cannot read its own samples");
    }
    Ok(folded)
}

/// A directory that is removed on drop.
struct Temporary(PathBuf);

impl Temporary {
    fn make() -> anyhow::Result<Self> {
        let name = format!("choro-profile-{}-{:x}", std::process::id(), trace::machine_ns());
        let path = std::env::temp_dir().join(name);
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // On failure, the rest stays in the directory for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::why_not;

    #[test]
    fn a_measurement_forbidden_by_the_kernel_has_a_plain_error() {
        let output =
            "Error:\nAccess to performance monitoring and observability operations is limited.";
        let why = why_not(output, "3");
        assert!(why.starts_with("the kernel does not let you"), "{why}");
        assert!(why.contains("(it is 3)"), "{why}");
        let why = why_not("\n  no such event\nmore\n", "3");
        assert_eq!(why, "perf failed: no such event");
    }

    #[test]
    fn a_link_in_place_of_the_picture_leads_to_nothing_that_is_overwritten() {
        let folder = tempfile::tempdir().expect("there is space");
        let (precious, picture) = (folder.path().join("precious"), folder.path().join("flame.svg"));
        std::fs::write(&precious, "data").expect("there is space");
        std::os::unix::fs::symlink(&precious, &picture).expect("it is new");
        super::create(&picture).expect_err("a link may lead to any file");
        assert_eq!(std::fs::read_to_string(&precious).expect("it is there"), "data");
        super::create(&folder.path().join("other.svg")).expect("there is space");
    }
}
