//! `choro worker`: one client's process. Started by the supervisor, never by people.

use std::path::Path;

use anyhow::{Context, bail};
use clap::Args;
use dtyp::ServerId;
use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, Signal};

use crate::control::{Received, ToSupervisor, ToWorker, WorkerEnd};
use crate::log;
use crate::settings::{Settings, Source};

/// Serve one client.
#[derive(Args, Debug)]
pub(super) struct WorkerArguments {
    /// Which configuration the file is, counted from 1.
    #[arg(long)]
    config_generation: u64,
    /// The process that must be our parent.
    #[arg(long)]
    supervisor_pid: u32,
    /// Our unique id in the tables, in hexadecimal.
    #[arg(long, value_parser = parse_unique_id)]
    unique_id: u64,
}

fn parse_unique_id(text: &str) -> Result<u64, std::num::ParseIntError> {
    u64::from_str_radix(text, 16)
}

impl WorkerArguments {
    pub(super) fn run(&self, config: Option<&Path>) -> anyhow::Result<()> {
        let control = WorkerEnd::inherited()
            .context("a worker is started by `choro serve`; its standard input is no socket")?;
        self.bind_life_to_supervisor()?;
        // Keys of sessions and hashes of passwords must not end in a core dump, nor be read by
        // another process of the user the worker acts as.
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .context("cannot forbid core dumps")?;
        // `create mask` and its relatives decide alone.
        rustix::process::umask(Mode::empty());
        let config = config.context("--config is missing")?;
        let settings = Settings::load(Source::File(config.to_owned()))?;
        log::start(&settings)?;
        let server_id = ServerId { pid: std::process::id(), unique_id: self.unique_id };
        control.send(ToSupervisor::Ready { unique_id: server_id.unique_id })?;
        loop {
            control.wait().context("cannot wait for a client")?;
            match control.receive()? {
                Received::Closed | Received::Message(ToWorker::Shutdown) => return Ok(()),
                // An idle worker is replaced when the configuration changes, not told.
                Received::Message(ToWorker::Reload { .. }) | Received::Nothing => {}
                Received::Message(ToWorker::Connection(socket)) => {
                    return serve(&settings, server_id, &control, socket.into());
                }
            }
        }
    }

    /// The kernel ends us when the supervisor dies, from now on; before now it may have died
    /// already.
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

/// Serves a client until it has gone or the supervisor says so.
fn serve(
    _settings: &Settings,
    _server_id: ServerId,
    control: &WorkerEnd,
    socket: std::net::TcpStream,
) -> anyhow::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    loop {
        let mut descriptors =
            [PollFd::new(&socket, PollFlags::RDHUP), PollFd::new(control, PollFlags::IN)];
        poll(&mut descriptors, None)?;
        if !descriptors[0].revents().is_empty() {
            return Ok(());
        }
        match control.receive()? {
            Received::Closed | Received::Message(ToWorker::Shutdown) => return Ok(()),
            Received::Message(_) | Received::Nothing => {}
        }
    }
}
