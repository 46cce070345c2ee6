//! `choro worker`: one client's process. Started by the supervisor, never by people.
//!
//! It has a command line of its own, apart from that of the other commands: taking theirs apart
//! costs a process that lives for one client a tenth of a MiB.

use std::ffi::CStr;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Parser;
use dtyp::ServerId;
use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};

use crate::control::WorkerEnd;
use crate::log;
use crate::settings::{Settings, Source};
use crate::worker::{Worker, WorkerStart};

/// Serve one client.
#[derive(Debug, Parser)]
#[command(name = "choro worker")]
pub(crate) struct WorkerArguments {
    /// The configuration in effect.
    #[arg(long)]
    config: PathBuf,
    /// Which configuration the file is, counted from 1.
    #[arg(long)]
    config_generation: u64,
    /// The process that must be our parent.
    #[arg(long)]
    supervisor_pid: u32,
    /// Our unique id in the tables, in hexadecimal.
    #[arg(long, value_parser = parse_unique_id)]
    unique_id: u64,
    /// By what all workers measure time.
    #[arg(long)]
    clock: trace::Clock,
    /// The detail of the log, if an administrator wants another than that of the configuration.
    #[arg(long)]
    log_level: Option<u32>,
}

fn parse_unique_id(text: &str) -> Result<u64, std::num::ParseIntError> {
    u64::from_str_radix(text, 16)
}

impl WorkerArguments {
    /// The name by which the supervisor asks for this.
    pub(crate) const NAME: &str = "worker";

    /// Serves one client.
    ///
    /// # Errors
    /// The supervisor is gone, or the server cannot be joined.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let start = self.begin(c"choro-worker")?;
        let mut worker = Worker::prepare(start)?;
        let result = worker.run();
        worker.end();
        result
    }

    /// Becomes a process of the server that process lists show as `name`: the executable was started
    /// as /proc/self/exe.
    ///
    /// # Errors
    /// The supervisor is gone, or the configuration cannot be read.
    pub(crate) fn begin(self, name: &CStr) -> anyhow::Result<WorkerStart> {
        let control = WorkerEnd::inherited()
            .context("this is started by `choro serve`; its standard input is no socket")?;
        self.bind_life_to_supervisor()?;
        rustix::thread::set_name(name).context("cannot name the process")?;
        // Keys of sessions and hashes of passwords must not end in a core dump, nor be read by
        // another process of the user the worker acts as.
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .context("cannot forbid core dumps")?;
        // Acting as a user undoes that where `fs.suid_dumpable` is set. A limit of 1 holds there as
        // well: too small for a file, and the one value that also keeps pipes from getting a dump.
        let limit = Rlimit { current: Some(1), maximum: Some(1) };
        rustix::process::setrlimit(Resource::Core, limit).context("cannot forbid core dumps")?;
        // `create mask` and its relatives decide alone.
        rustix::process::umask(Mode::empty());
        let settings = Settings::load(Source::File(self.config.clone()))?;
        log::start(&settings)?;
        if let Some(log_level) = self.log_level {
            log::set_detail(log_level)?;
        }
        let server_id = ServerId { pid: std::process::id(), unique_id: self.unique_id };
        Ok(WorkerStart { settings, server_id, clock: self.clock, control })
    }

    /// The kernel ends us when the supervisor dies, from now on; before now it may have died
    /// already. It forgets when we first act as another user; from then on the end of the control
    /// socket tells us.
    fn bind_life_to_supervisor(&self) -> anyhow::Result<()> {
        rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
            .context("cannot bind to the supervisor's life")?;
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
        if parent.and_then(|pid| u32::try_from(pid).ok()) != Some(self.supervisor_pid) {
            bail!("the supervisor is gone");
        }
        Ok(())
    }
}
