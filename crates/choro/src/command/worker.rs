//! `choro worker`: one client's process, where it cannot be forked off. Started by the supervisor, never by
//! people.
//!
//! It has a command line of its own, apart from that of the other commands: taking theirs apart
//! costs a process that lives for one client a tenth of a MiB.

use std::ffi::CStr;
use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use dtyp::ServerId;

use crate::control::WorkerEnd;
use crate::settings::{Settings, Source};
use crate::worker::{self, LogonSlot, WorkerStart};
use crate::{log, process};

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
    /// Our slot in the page of logons.
    #[arg(long)]
    logon_slot: Option<usize>,
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
        worker::serve(self.begin(process::WORKER)?)
    }

    /// Becomes a process of the server that process lists show as `name`: the executable was started
    /// as /proc/self/exe.
    ///
    /// # Errors
    /// The supervisor is gone, or the configuration cannot be read.
    pub(crate) fn begin(self, name: &CStr) -> anyhow::Result<WorkerStart> {
        let control = WorkerEnd::inherited()
            .context("this is started by `choro serve`; its standard input is no socket")?;
        process::begin(name, self.supervisor_pid)?;
        let settings = Settings::load(Source::File(self.config.clone()))?;
        log::start(&settings)?;
        if let Some(log_level) = self.log_level {
            log::set_detail(log_level)?;
        }
        let server_id = ServerId { pid: std::process::id(), unique_id: self.unique_id };
        let join = |slot| LogonSlot::join(&settings.directories.lock, slot);
        let logon_slot = self.logon_slot.map(join).transpose()?;
        let clock = self.clock;
        Ok(WorkerStart { settings, server_id, clock, control, tables: None, logon_slot })
    }
}
