//! The command line of an exec'ed process of the server.

use std::ffi::CStr;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use dtyp::ServerId;
use settings::{Settings, Source};

use crate::control::WorkerEnd;
use crate::{log, properties, take_idle_priority};

/// Subcommand of an exec'ed worker.
pub const WORKER_COMMAND: &str = "worker";

/// Subcommand of the process that knows the watchers of directories.
pub const NOTIFYD_COMMAND: &str = "notifyd";

/// Subcommand of the process by which other machines find the server.
pub const DISCOVERYD_COMMAND: &str = "discoveryd";

/// Subcommand of the process that writes the records of audits.
pub const AUDITD_COMMAND: &str = "auditd";

/// Subcommand of the process that runs commands of shares.
pub const COMMANDD_COMMAND: &str = "commandd";

/// Subcommand of the process that checks tickets and asks the domain.
pub const LOGOND_COMMAND: &str = "logond";

/// Arguments that the supervisor gives to each process that it starts.
#[derive(Args, Debug)]
pub struct ProcessArguments {
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
    /// Whether to begin with idle priority.
    #[arg(long)]
    idle_priority: bool,
}

fn parse_unique_id(text: &str) -> Result<u64, std::num::ParseIntError> {
    u64::from_str_radix(text, 16)
}

/// Values that a process of the server starts with.
#[derive(Debug)]
pub struct Start {
    /// Configuration in effect at the start.
    pub settings: Settings,
    /// Our process id in the tables.
    pub server_id: ServerId,
    /// By what it measures time.
    pub clock: trace::Clock,
    /// Our end of the control socket.
    pub control: WorkerEnd,
    /// Our slot in the page of logons, if we serve clients.
    pub logon_slot: Option<usize>,
}

impl ProcessArguments {
    /// Joins the server as a process that process lists show as `name`: the executable was started
    /// as /proc/self/exe.
    ///
    /// # Errors
    /// The supervisor is gone, or the configuration cannot be read.
    pub fn begin(self, name: &CStr) -> anyhow::Result<Start> {
        let control = WorkerEnd::inherited()
            .context("only `choro serve` starts this command; standard input is not a socket")?;
        properties::begin(name, self.supervisor_pid)?;
        if self.idle_priority {
            take_idle_priority().context("idle priority")?;
        }
        let settings = Settings::load(Source::File(self.config.clone()))?;
        log::start(&settings)?;
        if let Some(log_level) = self.log_level {
            log::set_detail(log_level)?;
        }
        let server_id = ServerId { pid: std::process::id(), unique_id: self.unique_id };
        let Self { clock, logon_slot, .. } = self;
        Ok(Start { settings, server_id, clock, control, logon_slot })
    }
}
