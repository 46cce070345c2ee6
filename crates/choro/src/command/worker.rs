//! `choro worker`: one client's process, on systems where it cannot be forked. Started by the
//! supervisor, never by people.
//!
//! It has a command line of its own: parsing that of the other commands costs a tenth of a MiB in a
//! process that lives for one client.

use std::ffi::CStr;
use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use dtyp::ServerId;

use crate::control::WorkerEnd;
use crate::settings::{Settings, Source};
use crate::worker::{self, LogonSlot, WorkerStart};
use crate::{log, process};

/// Serve a single client until it leaves.
#[derive(Debug, Parser)]
#[command(name = "choro worker")]
pub(crate) struct WorkerArguments {
    /// File with the configuration in effect.
    #[arg(long)]
    config: PathBuf,
    /// Generation of the configuration, counted from 1.
    #[arg(long)]
    config_generation: u64,
    /// Pid of the supervisor, which must be our parent.
    #[arg(long)]
    supervisor_pid: u32,
    /// Our unique id in the tables, in hexadecimal.
    #[arg(long, value_parser = parse_unique_id)]
    unique_id: u64,
    /// Clock that all workers measure time by.
    #[arg(long)]
    clock: trace::Clock,
    /// Log level, if an administrator changed that of the configuration.
    #[arg(long)]
    log_level: Option<u32>,
    /// Our slot in the shared page of logons.
    #[arg(long)]
    logon_slot: Option<usize>,
}

fn parse_unique_id(text: &str) -> Result<u64, std::num::ParseIntError> {
    u64::from_str_radix(text, 16)
}

impl WorkerArguments {
    /// Name of the subcommand that the supervisor starts.
    pub(crate) const NAME: &str = "worker";

    /// Serves one client.
    ///
    /// # Errors
    /// The supervisor is gone, or the server cannot be joined.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        worker::serve(self.begin(process::WORKER)?)
    }

    /// Joins the server as a process that process lists show as `name`: the executable was started
    /// as /proc/self/exe.
    ///
    /// # Errors
    /// The supervisor is gone, or the configuration cannot be read.
    pub(crate) fn begin(self, name: &CStr) -> anyhow::Result<WorkerStart> {
        let control = WorkerEnd::inherited()
            .context("only `choro serve` starts this command; standard input is not a socket")?;
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
