//! `choro trace`, which reports the time of requests by phase.

mod distribution;
mod interval;
mod report;
mod system_calls;
mod target;
mod watched;

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use settings::Settings;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::report as output;
use report::Report;
use system_calls::DRAIN_INTERVAL;
use target::Target;
use watched::Watched;

/// Interval between checks for workers that started or ended.
const READ_INTERVAL: Duration = Duration::from_millis(100);

/// Show the time that requests take, by phase and by command.
///
/// TARGET is the pid of a worker, the address of a client, or `all`. Tracing ends at ^C, after
/// --seconds, or when the traced workers have ended; then the report is printed. Workers count all
/// the time, so tracing does not slow them down, except with --system-calls.
///
/// Needs permission to read a worker's page: the user that the server runs as, or the group of the
/// directory `trace` in the lock directory.
///
/// Exits with 1 if there is nothing to trace, or if a worker ended before --seconds were over.
#[derive(Args, Debug)]
pub struct Trace {
    #[arg(value_name = "TARGET", default_value = "all")]
    target: Target,
    /// Show system calls by name while tracing, and file system operations by kind.
    ///
    /// Times of system calls include waiting. Counting them takes root, and adds about a
    /// microsecond to each. Otherwise a line gives the reason, and the rest of the report stands.
    #[arg(short, long, alias = "storage")]
    system_calls: bool,
    /// Show histograms of times, in powers of two.
    #[arg(short, long)]
    distributions: bool,
    /// Trace for SECONDS; with 0 and --since-start, report the present counts and exit.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Report counts since the workers started, not since now.
    #[arg(long)]
    since_start: bool,
    /// Print a line every SECONDS while tracing.
    #[arg(long, value_name = "SECONDS", value_parser = interval)]
    interval: Option<Duration>,
    /// Print a JSON object; with --interval, one line for each interval.
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=1e9).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("a number of seconds is expected".to_owned()),
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        interval if interval >= READ_INTERVAL => Ok(interval),
        _ => Err("the shortest interval is 0.1 seconds".to_owned()),
    }
}

/// Reason for the end of tracing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    Asked,
    TimeOver,
    WorkersGone,
}

impl Trace {
    pub fn run(&self, config: Option<&Path>) -> anyhow::Result<()> {
        let settings = Settings::find(config)?;
        let mut watched = Watched::begin(&settings.directories.lock, &self.target)?;
        if self.since_start {
            watched.count_from_the_start();
        }
        if self.system_calls {
            watched.count_system_calls();
        }
        let began = Instant::now();
        let end = self.wait(&mut watched)?;
        let report = Report::of(&mut watched);
        if self.json {
            if self.interval.is_none() {
                output::print(&format!("{:#}\n", report.json()))?;
            }
        } else {
            output::print(&report.text(self.distributions))?;
        }
        if end == End::WorkersGone && self.seconds.is_some() {
            bail!(
                "{} ended after {:.1} s; the report covers that time",
                watched.names(),
                began.elapsed().as_secs_f64()
            );
        }
        Ok(())
    }

    /// Waits for the end of tracing; prints the lines of intervals meanwhile.
    fn wait(&self, watched: &mut Watched) -> anyhow::Result<End> {
        let (mut stopped, stop) = UnixStream::pair().context("cannot create a socket pair")?;
        stopped.set_nonblocking(true).context("cannot create a socket pair")?;
        for signal in [SIGINT, SIGTERM] {
            let stop = stop.try_clone().context("cannot create a socket pair")?;
            signal_hook::low_level::pipe::register(signal, stop)
                .context("cannot receive signals")?;
        }
        if self.seconds != Some(Duration::ZERO) {
            watched.announce();
        }
        let began = Instant::now();
        let mut lines = self.interval.map(|every| (began + every, every));
        loop {
            let now = Instant::now();
            watched.read();
            if let Some((at, every)) = &mut lines
                && *at <= now
            {
                *at += *every;
                let figures = watched.take_interval();
                output::print(&interval::line(&figures, self.json))?;
            }
            if self.seconds.is_some_and(|seconds| now >= began + seconds) {
                return Ok(End::TimeOver);
            }
            if watched.has_ended() {
                return Ok(End::WorkersGone);
            }
            let until = [self.seconds.map(|seconds| began + seconds), lines.map(|(at, _)| at)];
            let until = until.into_iter().flatten().min().unwrap_or(now + READ_INTERVAL);
            if pause(&mut stopped, watched, until.min(now + READ_INTERVAL))? {
                watched.read();
                return Ok(End::Asked);
            }
        }
    }
}

/// Waits until `until` for a signal. Takes the events of system calls meanwhile.
fn pause(stopped: &mut UnixStream, watched: &mut Watched, until: Instant) -> anyhow::Result<bool> {
    loop {
        let rest = until.saturating_duration_since(Instant::now());
        let rest = if watched.drain() { rest.min(DRAIN_INTERVAL) } else { rest };
        let timeout = Timespec::try_from(rest).context("a short pause")?;
        match poll(&mut [PollFd::new(stopped, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) if Instant::now() >= until => return Ok(false),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => {
                let _ = stopped.read(&mut [0; 16]);
                return Ok(true);
            }
            Err(error) => return Err(error).context("cannot wait for events"),
        }
    }
}
